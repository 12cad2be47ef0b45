"""exec over SSH on a real sshd: exit codes, exact output, interrupts, host key checks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from fixtures.servers.openssh import OpenSshServer
from fixtures.servers.programs import require_program
from ptyctl import ErrorCode, LocalController, PtyctlError, SessionHandle
from tests.controller.session_calls import PATIENCE_MS

#: Opens an SSH session that is closed after the test.
Start = Callable[..., Awaitable[SessionHandle]]


def target(server: OpenSshServer, **more: Any) -> dict[str, Any]:
    """Return the fields of an open with the server's key, independent of the user's SSH configuration."""
    return {
        "protocol": "ssh",
        "host": server.host,
        "port": server.port,
        "username": server.username,
        "auth": {"method": "private_key", "private_key_path": str(server.key_path)},
        "ssh_options": {"known_hosts_path": str(server.known_hosts), "use_openssh_config": False},
        **more,
    }


@pytest.fixture
async def session(controller: LocalController, sshd: OpenSshServer) -> AsyncIterator[SessionHandle]:
    async with await SessionHandle.open(controller, **target(sshd)) as handle:
        yield handle


async def test_exec_returns_exit_code(session: SessionHandle) -> None:
    for command, code in [("true", 0), ("false", 1), ("(exit 3)", 3), ("no-such-command", 127), ("(exit 255)", 255)]:
        reply = await session.exec(command)
        assert (reply.exit_code, reply.done_reason) == (code, "marks"), command
    assert (await session.exec("sh -c 'kill -9 $$'")).exit_code == 137


@pytest.mark.parametrize(
    "command",
    ["seq 500 | less", "seq 500 | less -X", "seq 500 | more", "seq 500 | less -X -Ptext", "seq 500 | LESS=-M less -X"],
)
async def test_exec_of_pager_reports_that_it_waits_for_a_key(session: SessionHandle, command: str) -> None:
    require_program("less", "less")
    asked = await session.exec(command, timeout_ms=PATIENCE_MS)
    assert (asked.done_reason, asked.waiting_for_input) == ("question", True)
    await session.write("q")
    assert (await session.wait(asked.block_id)).done_reason == "marks"


@pytest.mark.parametrize(
    ("command", "stdout"),
    [
        ("echo hi", "hi\n"),
        ("printf 'no newline'", "no newline"),
        ("true", ""),
        ("echo one; echo two\necho three", "one\ntwo\nthree\n"),
        ('for n in 1 2 3; do\n\techo "line $n"\ndone', "line 1\nline 2\nline 3\n"),
        ("echo 'it'\\''s' \"a \\\"quoted\\\" word\" `echo back`", 'it\'s a "quoted" word back\n'),
        ("echo 'Grüße, 世界 😀'", "Grüße, 世界 😀\n"),
        ("cat <<'END'\n  indented $HOME\n\ttabbed\n\nEND", "  indented $HOME\n\ttabbed\n\n"),
        ("echo '!history' !! # a comment", "!history !!\n"),
        ("seq 1 500", "".join(f"{n}\n" for n in range(1, 501))),
        ("printf 'a\\tb  \\n\\n\\nc\\n'", "a\tb  \n\n\nc\n"),
        ("printf '10%%\\r50%%\\r100%%\\n'", "100%\n"),
        ("echo '" + "x" * 3000 + "'", "x" * 3000 + "\n"),
        ("echo '__PTYCTL_' '7717;begin' '\\033]7717;'", "__PTYCTL_ 7717;begin \\033]7717;\n"),
    ],
)
async def test_exec_returns_exact_output(session: SessionHandle, command: str, stdout: str) -> None:
    assert (await session.exec(command)).stdout == stdout


async def test_printed_marker_text_does_not_end_command(session: SessionHandle) -> None:
    first = await session.exec("echo once")
    block = first.block_id.partition("_")[0]
    reply = await session.exec(f"printf '\\033]7717;%s;{int(block) + 1};end;9\\007' guessed; echo still here; (exit 4)")
    assert (reply.stdout, reply.exit_code) == ("still here\n", 4)


async def test_until_regex_does_not_match_the_echo(session: SessionHandle) -> None:
    reply = await session.exec("sleep 2 && echo done", until_regex="done")
    assert reply.stdout == "done\n"
    assert reply.duration_ms >= 2000


async def test_exited_shell_returns_status_and_ends_session(session: SessionHandle) -> None:
    reply = await session.exec("echo bye; exit 3")
    assert (reply.done_reason, reply.exit_code) == ("eof", 3)
    assert "bye" in reply.stdout
    assert (await session.read(mode="tail")).eof
    with pytest.raises(PtyctlError) as caught:
        await session.exec("echo more")
    assert caught.value.code is ErrorCode.REMOTE_CLOSED


async def test_killed_shell_returns_signal_status(session: SessionHandle) -> None:
    assert (await session.exec("kill -9 $$")).exit_code == 137


async def test_exec_without_pty_returns_output_and_exit_code(controller: LocalController, sshd: OpenSshServer) -> None:
    async with await SessionHandle.open(controller, **target(sshd, pty={"enabled": False})) as session:
        reply = await session.exec("echo plain; (exit 5)")
        assert (reply.stdout, reply.exit_code) == ("plain\n", 5)
        assert not session.opened.pty_enabled


async def test_resize_and_interrupt_reach_remote_shell(session: SessionHandle) -> None:
    await session.resize(91, 17)
    assert (await session.exec("stty size")).stdout == "17 91\n"
    running = await session.exec("sleep 60", timeout_ms=200)
    assert running.timed_out
    await session.key("ctrl_c")
    ended = await session.wait(running.block_id)
    assert (ended.done_reason, ended.exit_code) == ("cancelled", 130)
    assert (await session.exec("echo again")).stdout == "again\n"


async def test_unknown_host_key_is_refused(controller: LocalController, sshd: OpenSshServer) -> None:
    options = {"known_hosts_path": "/dev/null", "use_openssh_config": False}
    with pytest.raises(PtyctlError) as caught:
        await SessionHandle.open(controller, **target(sshd, ssh_options=options))
    assert caught.value.code is ErrorCode.HOSTKEY_MISMATCH
    assert caught.value.details["reason"] == "unknown"


@pytest.mark.waits
@pytest.mark.parametrize("command", [["cat"], "exec cat"])
async def test_exec_at_program_that_shows_nothing_is_refused_and_types_nothing(
    controller: LocalController, sshd: OpenSshServer, command: list[str] | str
) -> None:
    async with await SessionHandle.open(controller, **target(sshd, command=command)) as handle:
        with pytest.raises(PtyctlError) as caught:
            await handle.exec("echo hi")
        assert (caught.value.code, caught.value.details["reason"]) == (ErrorCode.BUSY, "no_prompt")
        await handle.write("x\n")
        reply = await handle.read(cursor="0", until_regex="x\\s+x\\s+", timeout_ms=PATIENCE_MS)
        assert (reply.chunk, reply.timed_out) == ("x\nx\n", False)


async def test_exec_at_program_with_any_prompt_types_only_the_command(controller: LocalController, sshd: OpenSshServer) -> None:
    script = "printf 'Select: '; while read -r line; do echo \"<$line>\"; printf 'Select: '; done"
    async with await SessionHandle.open(controller, **target(sshd, command=script)) as handle:
        for word in ("one", "two"):
            assert (await handle.exec(word, timeout_ms=PATIENCE_MS)).stdout == f"<{word}>\n"
        assert "<>" not in ((await handle.read(cursor="0")).chunk or "")

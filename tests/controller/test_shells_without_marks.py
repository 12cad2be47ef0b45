"""Exec in every installed shell, with the same commands and results."""

from __future__ import annotations

import asyncio
import random
import select
from collections.abc import Iterable
from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api.handle import SessionHandle
from ptyctl.core.control_sequences import PASTE_BEGIN, PASTE_END
from ptyctl.session.device import prompt_guard
from tests.controller.session_calls import PATIENCE_MS, Open, execute, read, write
from transports.local import LocalChannel

SHELLS = {
    "bash": ("bash", "--norc", "--noprofile"),
    "bash without a line editor": ("bash", "--norc", "--noprofile", "--noediting"),
    "bash as sh": ("bash", "--posix", "--norc"),
    "dash": ("dash",),
    "zsh": ("zsh", "-f"),
    "zsh with its own files": ("zsh",),
    "fish": ("fish", "--no-config"),
    "busybox": ("busybox", "sh"),
}
#: These shells send marks, unless shell integration is off; the others never do.
MARKED = {"bash", "bash without a line editor", "zsh with its own files", "fish"}
#: Text with a special meaning for quoting, history, line editors or terminals.
NASTY = [
    *"\"'$`\\!%#*~{}[]()<>|&;= \n\t\r\x01\x03\x04\x1a\x1b\x7f",
    "é",
    "€",
    "😀",
    "a",
    "-n",
    "$(id)",
    "${x",
    "\x1b[201~",
    "x" * 200,
]
POSIX = [name for name in SHELLS if name != "fish"]
WITHOUT = " without marks"


def _with_and_without_marks(names: Iterable[str]) -> list[str]:
    return [*names, *(name + WITHOUT for name in names if name in MARKED)]


@pytest.fixture
async def shell(open_session: Open, request: pytest.FixtureRequest, tmp_path: Path) -> SessionHandle:
    command = SHELLS[request.param.removesuffix(WITHOUT)]
    require_program(command[0], command[0])
    (tmp_path / ".zshrc").touch()  # zsh without one starts its set-up dialog
    off = {"shell_integration": "off"} if request.param.endswith(WITHOUT) else {}
    # fish shows a prompt that is as wide as the screen in a row of its own, and the guard refuses after Ctrl-C there
    env = {"HISTFILE": "/dev/null", "ZDOTDIR": str(tmp_path)}
    return await open_session(command=command, env=env, cwd=str(tmp_path), **off)


@pytest.fixture
def strategy(request: pytest.FixtureRequest) -> str:
    return "marks" if request.node.callspec.params["shell"] in MARKED else "marker"


in_each = pytest.mark.parametrize("shell", _with_and_without_marks(SHELLS), indirect=True)
in_each_posix = pytest.mark.parametrize("shell", _with_and_without_marks(POSIX), indirect=True)


@in_each
async def test_typed_text_is_short(shell: SessionHandle, strategy: str, request: pytest.FixtureRequest) -> None:
    """The function of the marker is defined once; bash and zsh with marks show simple commands as they were given."""
    for _ in range(3):
        assert (await shell.exec("echo 'hi there'", timeout_ms=PATIENCE_MS)).stdout == "hi there\n"
    text = "".join((await shell.screen()).rows or ())
    assert text.count("033]7717") <= 1
    if strategy == "marks" and request.node.callspec.params["shell"] in ("bash", "zsh with its own files"):
        assert text.count("__ptyctl") <= 1  # the terminal echoes what is typed before the shell reads


@in_each
async def test_list_of_jobs_has_the_command_as_given(shell: SessionHandle) -> None:
    await shell.exec("sleep 300 &", timeout_ms=PATIENCE_MS)
    jobs = (await shell.exec("jobs", timeout_ms=PATIENCE_MS)).stdout
    await shell.exec("kill $(jobs -p)", timeout_ms=PATIENCE_MS)
    assert "sleep 300" in jobs
    assert "ptyctl" not in jobs
    assert "eval" not in jobs


@in_each
async def test_exit_code_is_reported(shell: SessionHandle) -> None:
    for code in (0, 1, 3, 127, 255):
        assert (await shell.exec(f"sh -c 'exit {code}'")).exit_code == code
    assert (await shell.exec("true")).exit_code == 0
    assert (await shell.exec("false")).exit_code == 1
    assert (await shell.exec("sh -c 'kill -9 $$'")).exit_code == 137


@in_each
async def test_command_sees_previous_exit_status(shell: SessionHandle, request: pytest.FixtureRequest) -> None:
    status = "$status" if "fish" in request.node.name else "$?"
    await shell.exec("sh -c 'exit 7'")
    assert (await shell.exec(f"echo {status}; sh -c 'exit 5'")).stdout == "7\n"
    assert (await shell.exec(f"printf '%s\t|' {status}; sh -c 'exit 6'")).stdout == "5\t|"  # a tab is typed in another form
    await read(shell, cursor="0", until_idle_ms=300, timeout_ms=PATIENCE_MS)
    before = (await write(shell, data=f"echo [{status}]\n")).next_cursor
    assert (await read(shell, cursor=before, until_regex=r"\[6\]", timeout_ms=PATIENCE_MS)).matched


@in_each_posix
async def test_previous_status_does_not_trigger_set_e(shell: SessionHandle) -> None:
    await shell.exec("trap 'echo trapped' EXIT; (exit 4)")
    assert (await shell.exec("set -e")).exit_code == 0
    reply = await shell.exec("echo alive; if false; then :; fi")
    assert (reply.stdout, reply.exit_code) == ("alive\n", 0)


@in_each
async def test_output_is_exact(shell: SessionHandle, strategy: str) -> None:
    for command, output in (
        ("echo hi", "hi\n"),
        ("printf 'no newline'", "no newline"),
        ("printf ''", ""),
        ("echo 'é € 😀'", "é € 😀\n"),
        ('echo "it\'s" \'a "quote"\'', 'it\'s a "quote"\n'),
        ("echo 'back\\slash' '%s' '#' '!' '~' '*'", "back\\slash %s # ! ~ *\n"),
        ("printf 'a\\nb\\n'", "a\nb\n"),
        ("printf '%s' 'two  blanks '", "two  blanks "),
    ):
        reply = await shell.exec(command)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (output, 0, strategy), command


@in_each
async def test_multi_line_command_runs(shell: SessionHandle) -> None:
    reply = await shell.exec("echo one\necho two\n\necho three\n")
    assert (reply.stdout, reply.exit_code) == ("one\ntwo\nthree\n", 0)
    assert (await shell.exec("false\nsh -c 'exit 5'")).exit_code == 5


@in_each
async def test_tab_in_command_does_not_complete(shell: SessionHandle) -> None:
    reply = await shell.exec("printf '%s|' 'a\tb' '\t\t' '/et\t'")
    assert (reply.stdout, reply.exit_code) == ("a\tb|\t\t|/et\t|", 0)


@in_each
async def test_control_characters_are_literal(shell: SessionHandle) -> None:
    reply = await shell.exec("printf '%s' 'a\x01b\x03c\x04d\x0fe\x15f\x1ag\x1b[Ah\x7fi' | od -An -tx1 | tr -d ' \n'; echo")
    assert (reply.stdout, reply.exit_code) == ("610162036304640f6515661a671b5b41687f69\n", 0)


@in_each
async def test_any_text_reaches_the_command_unchanged(shell: SessionHandle, request: pytest.FixtureRequest) -> None:
    chance = random.Random(5)
    backslash = "\\\\" if "fish" in request.node.name else "\\"  # the only other character that fish quotes inside '...'
    for _ in range(30):
        text = "".join(chance.choice(NASTY) for _ in range(chance.randrange(1, 60))).replace("\r\n", "\n")
        quoted = text.replace("\\", backslash).replace("'", "'\"'\"'")
        reply = await shell.exec(f"printf %s '{quoted}' | od -An -v -tx1 | tr -d ' \n'", timeout_ms=PATIENCE_MS)
        assert bytes.fromhex(reply.stdout).decode() == text
        assert reply.exit_code == 0


@in_each_posix
async def test_here_document_runs(shell: SessionHandle) -> None:
    reply = await shell.exec("x=5; cat <<END\nx is $x\n\ttabbed\nEND\ncat <<'END'\nx is $x\nEND")
    assert (reply.stdout, reply.exit_code) == ("x is 5\n\ttabbed\nx is $x\n", 0)


@in_each
async def test_history_expansion_is_not_applied(shell: SessionHandle) -> None:
    reply = await shell.exec("echo 'wow!' !\necho '!!' '!x' \"a!\"\necho '\t!-1'")
    assert (reply.stdout, reply.exit_code) == ("wow! !\n!! !x a!\n\t!-1\n", 0)


@in_each
async def test_crlf_line_endings_are_accepted(shell: SessionHandle) -> None:
    assert (await shell.exec("echo one\r\necho two\r\n")).stdout == "one\ntwo\n"


@in_each
async def test_syntax_error_is_an_exit_code(shell: SessionHandle) -> None:
    reply = await shell.exec("echo )", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code or 0) > 0
    assert (await shell.exec("echo after")).stdout == "after\n"


@in_each
async def test_long_line_runs(shell: SessionHandle) -> None:
    words = " ".join(f"wörd'{number}'" for number in range(1_500))
    reply = await shell.exec(f"echo {words}", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code) == (words.replace("'", "") + "\n", 0)


@pytest.mark.parametrize("shell", ["zsh", "zsh with its own files"], indirect=True)
async def test_long_line_in_zsh_is_no_paste_that_a_pause_cuts(shell: SessionHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    """zsh ends a paste after 0.4 s without a byte, and takes the rest for keys."""
    await shell.exec("true", timeout_ms=PATIENCE_MS)
    words = " ".join(f"wörd'{number}'" for number in range(1_500))
    write_now, written, rests = LocalChannel.write, bytearray(), [0]

    def write_after_pause(channel: LocalChannel, data: bytes) -> int:
        if written.count(PASTE_BEGIN) > written.count(PASTE_END) and not rests[-1]:
            select.select([], [], [], 0.6)  # as if this process had not been scheduled
        size = write_now(channel, data)
        written.extend(data[:size])
        rests.append(len(data) - size)  # of a write that the terminal's queue had no room for
        return size

    monkeypatch.setattr(LocalChannel, "write", write_after_pause)
    reply = await shell.exec(f"echo {words}", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code) == (words.replace("'", "") + "\n", 0)
    assert written.count(PASTE_BEGIN) == written.count(PASTE_END) > 1


@in_each
async def test_output_is_exact_with_prompt_wider_than_the_screen(
    shell: SessionHandle, tmp_path: Path, strategy: str, request: pytest.FixtureRequest
) -> None:
    folder = tmp_path / ("x" * 150)
    folder.mkdir()
    if "fish" not in request.node.name:
        await shell.exec("PS1='$PWD$ '; setopt promptsubst 2>/dev/null; true", timeout_ms=PATIENCE_MS)
    await shell.exec(f"cd {folder}", timeout_ms=PATIENCE_MS)
    for command, output, code in (("echo hi; sh -c 'exit 3'", "hi\n", 3), (f"echo {'y' * 200}", "y" * 200 + "\n", 0)):
        reply = await shell.exec(command, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (output, code, strategy)


@in_each
async def test_long_script_runs(shell: SessionHandle) -> None:
    reply = await shell.exec("\n".join(f"echo line {number}" for number in range(300)), timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code) == ("".join(f"line {number}\n" for number in range(300)), 0)


@in_each
async def test_ctrl_c_ends_a_run(shell: SessionHandle) -> None:
    running = asyncio.create_task(shell.exec("echo begun; sleep 60; echo never", timeout_ms=PATIENCE_MS))
    begun = await read(shell, cursor="0", until_regex="(?m)^begun\n", timeout_ms=PATIENCE_MS)
    await read(shell, cursor=begun.next_cursor, until_idle_ms=300, timeout_ms=PATIENCE_MS)  # sleep has to be there
    await shell.key("ctrl_c")
    reply = await running
    assert reply.stdout.startswith("begun\n")
    assert "never" not in reply.stdout
    assert reply.done_reason in ("cancelled", "marks", "marker")
    assert reply.exit_code in (None, 130)
    reply = await shell.exec("echo after")
    assert (reply.stdout, reply.exit_code) == ("after\n", 0)


@in_each
async def test_twenty_consecutive_runs_are_exact(shell: SessionHandle) -> None:
    for number in range(20):
        reply = await shell.exec(f"echo {number}; sh -c 'exit {number}'")
        assert (reply.stdout, reply.exit_code) == (f"{number}\n", number)


@in_each
async def test_until_regex_ignores_the_echo(shell: SessionHandle) -> None:
    reply = await shell.exec("sleep 0.3; echo done", until_regex="done", timeout_ms=PATIENCE_MS)
    assert reply.stdout.strip() == "done"
    assert reply.duration_ms >= 300


@in_each
async def test_input_reaches_the_running_command(shell: SessionHandle) -> None:
    reply = await shell.exec(
        'sh -c \'printf "name? "; read x; echo "<$x>"\'',
        responses=[{"match": r"name\? $", "send": "wörld\n"}],
        timeout_ms=PATIENCE_MS,
    )
    assert reply.stdout.endswith("<wörld>\n")
    assert reply.exit_code == 0


@in_each
async def test_exit_ends_the_session(shell: SessionHandle) -> None:
    await shell.exec("true")
    reply = await shell.exec("exit 3", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason) == (3, "eof")


@in_each
async def test_ascii_marker_is_recognized(shell: SessionHandle) -> None:
    mode = {"marker_prefix": "<<<'RC:", "marker_suffix": ":$END>>>"}
    for command, output, code in (
        ("echo hi", "hi\n", 0),
        ("printf x; sh -c 'exit 4'", "x", 4),
        ("echo '<<<RC:'", "<<<RC:\n", 0),
    ):
        reply = await execute(shell, cmd=command, rc_mode=mode, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (output, code, "marker")


@pytest.mark.parametrize("prompt", ["$ ", "日本> ", "日" * 45 + "> "])
@pytest.mark.parametrize("integration", ["auto", "off"])
async def test_wrapped_echo_of_fish_is_no_output_without_exit_code(open_session: Open, integration: str, prompt: str) -> None:
    require_program("fish", "fish")
    handle = await open_session(command=("fish", "--no-config"), shell_integration=integration)
    await handle.exec(f"function fish_prompt; echo -n '{prompt}'; end", timeout_ms=PATIENCE_MS)
    for word in ("hi", "y" * 150, "日" * 150):
        reply = await execute(handle, cmd=f"echo {word}", rc_mode={"enabled": False}, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.done_reason) == (f"{word}\n", "prompt")


@pytest.mark.parametrize("command", ["echo one; sh -c 'exit 3'", "echo one; kill -INT $$; echo never"])
async def test_zsh_without_marks_runs_commands_at_an_empty_prompt(
    open_session: Open, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """No text after the learned prompt is waited for."""
    require_program("zsh", "zsh")
    handle = await open_session(command=("zsh", "-f"), shell_integration="off")
    await handle.exec("PS1=''; unset zle_bracketed_paste", timeout_ms=PATIENCE_MS)
    monkeypatch.setattr(prompt_guard, "CLEAR_WAIT_S", 2 * PATIENCE_MS / 1000)
    reply = await handle.exec(command, timeout_ms=PATIENCE_MS // 5)
    assert (reply.stdout, reply.done_reason) == ("one\n", "marker")
    assert reply.exit_code == (3 if "exit" in command else 130)

"""The Korn shells ksh93 and mksh, which send no marks of their own, as the program of a session and nested in bash."""

from __future__ import annotations

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api.handle import SessionHandle
from ptyctl.session.runs import shell_strategies
from tests.controller.session_calls import PATIENCE_MS, Open, read, write

pytestmark = pytest.mark.parametrize("program", ["ksh", "mksh"])
#: A text of several lines, quotes, a here-document and a loop, its output and its exit code.
SEVERAL_LINES = (
    "for i in 1 2\ndo printf '%s\\n' \"it's $i\"\ndone\ncat <<end\nhere\nend\nsh -c 'exit 3'",
    "it's 1\nit's 2\nhere\n",
    3,
)


async def open_shell(open_session: Open, program: str, **options: str) -> SessionHandle:
    require_program(program, program)
    return await open_session(command=(program,), env={"PS1": "$ ", "ENV": "/dev/null", "HISTFILE": "/dev/null"}, **options)


async def check(handle: SessionHandle) -> None:
    commands = [("echo one; sh -c 'exit 3'", "one\n", 3), SEVERAL_LINES, ("echo $?", "3\n", 0), ("printf abc", "abc", 0)]
    for command, output, exit_code in [*commands, (f"echo {'x' * 3000} 'a\tb'", f"{'x' * 3000} a\tb\n", 0), ("false", "", 1)]:
        reply = await handle.exec(command, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (output, exit_code, "marker")


@pytest.mark.parametrize("named", ["", "posix"])
async def test_ksh_reports_output_and_exit_code(open_session: Open, program: str, named: str) -> None:
    options = {"shell": named} if named else {}
    await check(await open_shell(open_session, program, **options))


async def test_ksh_nested_in_bash_reports_output_and_exit_code(bash: SessionHandle, program: str) -> None:
    require_program(program, program)
    await bash.exec(f"PS1='$ ' ENV=/dev/null HISTFILE=/dev/null {program}", timeout_ms=PATIENCE_MS)
    await check(bash)
    await bash.exec("exit", timeout_ms=PATIENCE_MS)
    reply = await bash.exec("echo outer; sh -c 'exit 4'", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("outer\n", 4, "marks")


async def test_half_typed_text_in_ksh_is_cleared_before_a_command(open_session: Open, program: str) -> None:
    handle = await open_shell(open_session, program)
    await handle.exec("true", timeout_ms=PATIENCE_MS)
    before = (await write(handle, data="echo half")).next_cursor
    await read(handle, cursor=before, until_idle_ms=300, timeout_ms=PATIENCE_MS)
    reply = await handle.exec("echo one; sh -c 'exit 3'", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code) == ("one\n", 3)


async def test_error_in_special_builtin_of_ksh_has_its_output(open_session: Open, program: str) -> None:
    """In mksh the error ends the line before the end mark."""
    handle = await open_shell(open_session, program)
    reply = await handle.exec("echo one; export a-b=1; echo two", timeout_ms=PATIENCE_MS)
    assert reply.stdout.startswith("one\n")
    assert "two\n" not in reply.stdout
    assert (reply.exit_code, reply.done_reason) == (1, "marker")
    assert (await handle.exec("echo $?", timeout_ms=PATIENCE_MS)).stdout == "1\n"


@pytest.mark.parametrize("command", ["if then", "echo 'open", "set -u; echo $unset; echo never", "kill -INT $$; echo never"])
async def test_error_that_ends_the_line_of_ksh_has_its_exit_code(open_session: Open, program: str, command: str) -> None:
    handle = await open_shell(open_session, program)
    reply = await handle.exec(f"PS1='changed> '; {command}", timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, (reply.exit_code or 0) > 0) == ("marker", True)
    assert "changed" not in reply.stdout
    assert "never" not in reply.stdout
    assert (await handle.exec("echo $?", timeout_ms=PATIENCE_MS)).stdout == f"{reply.exit_code}\n"


async def test_line_that_a_command_of_ksh_reads_is_not_consumed_by_the_end_mark(open_session: Open, program: str) -> None:
    handle = await open_shell(open_session, program)
    asked = await handle.exec("read answer?'$ '; echo \"<$answer>\"", timeout_ms=PATIENCE_MS)
    assert asked.done_reason == "question"
    await write(handle, data="mine\n")
    reply = await handle.wait(asked.block_id, timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code) == ("$ mine\n<mine>\n", 0)


async def test_end_of_a_command_of_ksh_waits_for_no_time(
    open_session: Open, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In mksh the end mark arrives before printf has ended: the prompt after it ends the run."""
    monkeypatch.setattr(shell_strategies, "_UNMARKED_TIMES_S", ())
    monkeypatch.setattr(shell_strategies, "MARK_SENDER_S", PATIENCE_MS)
    handle = await open_shell(open_session, program)
    for _ in range(10):
        assert (await handle.exec("true", timeout_ms=PATIENCE_MS)).done_reason == "marker"

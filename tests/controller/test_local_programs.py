"""Exec at local programs that are no shells: with prompts of any form, without a prompt, and started within a shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import PATIENCE_MS, Open, execute, refused, until, write

pytestmark = pytest.mark.waits

#: Greets and prompts in one write. Shows the prompts of its argument in turn, and then repeats the last one.
PROGRAM = """
import sys
prompts = sys.argv[1:]
print(end='Welcome\\n' + prompts[0], flush=True)
for line in sys.stdin:
    prompts = prompts[1:] or prompts
    print(end=f'ran {line}{prompts[0]}', flush=True)
"""


async def prompting(open_session: Open, *prompts: str) -> SessionHandle:
    """Open a session of a program that shows these prompts, and wait for the first one."""
    handle = await open_session(command=(sys.executable, "-I", "-S", "-c", PROGRAM, *prompts))
    assert (await handle.read(until_regex=f"Welcome\n{prompts[0]}$", timeout_ms=PATIENCE_MS)).matched
    return handle


@pytest.mark.parametrize("prompt", ["Select: ", "ftp-like:", "calc: ", "λ ", "calc→"])
async def test_unusual_prompt_shown_again_after_a_command_is_learned(open_session: Open, prompt: str) -> None:
    handle = await prompting(open_session, prompt)
    for word in ("one", "two", "three"):
        reply = await execute(handle, cmd=word, until_idle_ms=PATIENCE_MS // 2, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.done_reason, reply.notices) == (f"ran {word}\n", "prompt", None)


async def test_colon_prompt_of_the_callers_pattern_is_a_prompt_at_once(open_session: Open) -> None:
    handle = await prompting(open_session, "One: ", "Two: ", "Three: ")
    for word in ("one", "two"):
        reply = await execute(handle, cmd=word, expect={"prompt_regex": r"^\w+: $"}, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.done_reason) == (f"ran {word}\n", "prompt")


@pytest.mark.parametrize("question", ["Password: ", "login: ", "Enter PIN: ", "Continue? [y/N] "])
async def test_question_before_the_first_prompt_gets_no_command(open_session: Open, question: str) -> None:
    handle = await open_session(command=(sys.executable, "-I", "-S", "-c", PROGRAM, question))
    await handle.read(until_regex="Welcome\n.", timeout_ms=PATIENCE_MS)
    for _ in range(2):
        with refused(ErrorCode.BUSY, "question") as caught:
            await execute(handle, cmd="one", timeout_ms=PATIENCE_MS)
        assert caught.value.details == {"reason": "question"}


@pytest.mark.parametrize("question", ["Really drop all tables? ", "New name: ", "Are you sure you want to continue "])
async def test_question_that_a_users_line_leads_to_gets_no_command(open_session: Open, question: str) -> None:
    handle = await prompting(open_session, "db=> ", "db=> ", question, "db=> ")
    assert (await execute(handle, cmd="one", task_id="a", timeout_ms=PATIENCE_MS)).stdout == "ran one\n"
    written = await write(handle, data="drop\n", task_id="b", until_regex="ran drop\n.+", timeout_ms=PATIENCE_MS)
    for _ in range(2):
        with refused(ErrorCode.BUSY) as caught:
            await execute(handle, cmd="two", task_id="a", timeout_ms=PATIENCE_MS)
        assert caught.value.details == {"reason": "question" if question.strip()[-1] in ":?" else "no_prompt"}
    read = await handle.read(cursor=written.next_cursor, timeout_ms=0)
    assert "ran" not in (read.chunk or "")
    await write(handle, data="no\n", task_id="b", until_regex="db=> $", timeout_ms=PATIENCE_MS)
    assert (await execute(handle, cmd="two", task_id="a", timeout_ms=PATIENCE_MS)).stdout == "ran two\n"


async def test_line_that_is_not_shown_again_is_no_prompt(open_session: Open) -> None:
    handle = await prompting(open_session, "First name: ", "Last name: ", "Town: ")
    replies = [await execute(handle, cmd="Ada", timeout_ms=PATIENCE_MS) for _ in range(2)]
    assert [reply.done_reason for reply in replies] == ["idle", "idle"]
    assert replies[0].notices == [
        "no prompt has been recognised; commands are typed all the same, and 1 s of silence ends each of them"
    ]
    assert replies[1].notices is None


@pytest.mark.parametrize("options", [(), ("-q",)])
async def test_line_editor_without_a_prompt_ends_each_command(
    open_session: Open, options: tuple[str, ...], tmp_path: Path
) -> None:
    bc = await open_session(command=(require_program("bc", "bc"), *options))
    output = tmp_path / "state" / "sessions" / bc.session_id / "output.raw"

    async def editing() -> bool:
        return b"\x1b[?2004h" in output.read_bytes()

    await until(editing)
    for cmd, stdout in (("1+1", "2\n"), ("2^10", "1024\n"), ("x=1", "")):
        reply = await execute(bc, cmd=cmd, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.done_reason, reply.notices) == (stdout, "prompt", None)


@pytest.mark.parametrize("integration", ["auto", "off"])
@pytest.mark.parametrize(
    ("command", "last_line", "answers"),
    [
        ("bc -q", "", ("6*7", "quit")),
        ("sqlite3", "sqlite> ", ("select 6*7;", ".quit")),
        ("python3 -c \"print(int(input('go> ')) * 2)\"", "go> ", ("21",)),
    ],
)
async def test_program_that_reads_in_a_shell_is_reported_as_waiting(
    open_session: Open, integration: str, command: str, last_line: str, answers: tuple[str, ...]
) -> None:
    require_program(command.split()[0], command.split()[0])
    shell = await open_session(shell_integration=integration)
    reply = await execute(shell, cmd=command, timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.waiting_for_input) == ("question", True)
    assert reply.stdout.split("\n")[-1] == last_line
    for answer in answers:
        await write(shell, data=f"{answer}\n")
    replies = []

    async def ended() -> bool:
        replies.append(await execute(shell, block_id=reply.block_id, timeout_ms=PATIENCE_MS))
        return replies[-1].done_reason != "question"  # it is reported each time while the program's line editor waits

    await until(ended)
    assert ("42\n" in replies[-1].stdout, replies[-1].exit_code) == (True, 0)

"""Questions of programs in shells end a call early; the run continues and ends with its exit code."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api.errors import ErrorCode, NextStep
from ptyctl.api.handle import SessionHandle
from ptyctl.session.runs import shell_strategies
from ptyctl.session.runs.run import FULL_SCREEN
from tests.controller.session_calls import PATIENCE_MS, Open, refused, write

pytestmark = pytest.mark.waits
#: A program that polls the terminal: the kernel does not report that it reads.
_POLL = 'import select; print("Name:", end=" ", flush=True); select.select([0], [], [])'
POLLED = f"python3 -c '{_POLL}'; read a; (exit 3)"


@pytest.fixture(params=["marks", "marker"])
def strategy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_busy_at_a_question_has_the_hint_to_answer_it(bash: SessionHandle) -> None:
    asked = await bash.exec("read -p 'Name? ' name", timeout_ms=PATIENCE_MS)
    with refused(ErrorCode.BUSY, str(asked.block_id), NextStep.ANSWER_OR_INTERRUPT):
        await bash.exec("echo hi", timeout_ms=PATIENCE_MS)
    await write(bash, data="jo\n")
    assert (await bash.wait(asked.block_id)).exit_code == 0


@pytest.mark.parametrize(
    ("command", "answer", "sensitive", "certain"),
    [
        ("read -p 'Continue? [y/N] ' a; (exit 3)", "y", False, True),
        ("read -s -p 'Password: ' a; (exit 3)", "secret-1", True, True),
        ("read -s -p 'PIN> ' a; (exit 3)", "secret-2", True, True),
        ("read -p 'Name: ' a; (exit 3)", "me", False, True),
        ("read a; (exit 3)", "me", False, True),
        ("ask() { read a; }; ask; (exit 3)", "me", False, True),
        ("head -n 1; (exit 3)", "me", False, True),
        ("sh -c 'read a; exit 3'", "me", False, False),
        (POLLED, "me", False, False),
        (
            "sh -c 'printf \"[sudo] password for me: \"; stty -echo; read a; stty echo; exit 3'",
            "secret-3",
            True,
            True,
        ),
    ],
)
async def test_question_ends_the_call_and_answer_continues_it(
    bash: SessionHandle,
    strategy: str,
    command: str,
    answer: str,
    sensitive: bool,
    certain: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Text that is certainly a question is reported before the time after which other text is taken for one."""
    await bash.exec("true")
    if certain:
        monkeypatch.setattr(shell_strategies, "UNMARKED_UNSURE_S", 10 * PATIENCE_MS)
    asked = await bash.exec(command, timeout_ms=PATIENCE_MS)
    assert (asked.done_reason, asked.waiting_for_input, asked.timed_out) == ("question", True, False)
    await write(bash, data=f"{answer}\n", sensitive=sensitive)
    reply = await bash.wait(asked.block_id)
    assert (reply.exit_code, reply.done_reason) == (3, strategy)
    assert (await bash.exec("echo after")).stdout == "after\n"


async def test_program_that_begins_to_read_later_without_output_is_reported(
    bash: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bash.exec("true")
    monkeypatch.setattr(shell_strategies, "_UNMARKED_TIMES_S", ())
    monkeypatch.setattr(shell_strategies, "UNMARKED_UNSURE_S", 0.3)
    assert (await bash.exec("read a", timeout_ms=PATIENCE_MS)).done_reason == "question"


@pytest.mark.parametrize(
    "command",
    [
        "seq 500 | less -X",
        "less -X numbers",
        "seq 500 | more",
        "bash -c 'read -n1 -p \"Press any key \" a; exit 3'",
        "bash -c 'read -rsn1 a'",
        "read -n1 a",
        """python3 -c 'import tty, sys; tty.setcbreak(0); print("working"); sys.stdin.read(1)'""",
        """sh -c 'stty -icanon; echo waiting; (dd bs=1 count=1 2>/dev/null); stty icanon'""",
    ],
)
async def test_local_program_that_waits_for_a_key_is_reported(bash: SessionHandle, command: str, tmp_path: Path) -> None:
    require_program("less", "less")
    await bash.exec(f"cd {tmp_path}; seq 500 > numbers")
    asked = await bash.exec(command, timeout_ms=PATIENCE_MS)
    assert (asked.done_reason, asked.waiting_for_input) == ("question", True)
    await write(bash, data="q")
    assert (await bash.wait(asked.block_id)).done_reason in ("marks", "marker")


@pytest.mark.parametrize("command", ["stty -icanon; sleep 3; stty icanon", "sh -c 'stty -icanon; sleep 3; stty icanon'"])
async def test_silent_program_that_does_not_read_keys_is_not_reported(bash: SessionHandle, command: str) -> None:
    assert (await bash.exec(command, timeout_ms=PATIENCE_MS)).done_reason in ("marks", "marker")


async def test_full_screen_program_that_waits_for_a_key_is_reported(bash: SessionHandle, strategy: str) -> None:
    await bash.exec("true")
    asked = await bash.exec(f"{require_program('less', 'less')} /etc/passwd; (exit 3)", timeout_ms=PATIENCE_MS)
    assert (asked.done_reason, asked.waiting_for_input, asked.message) == ("question", True, FULL_SCREEN)
    await write(bash, data="q")
    reply = await bash.wait(asked.block_id)
    assert (reply.exit_code, reply.done_reason, reply.message) == (3, strategy, None)


async def test_program_that_reads_something_else_asks_nothing(bash: SessionHandle, strategy: str, tmp_path: Path) -> None:
    fifos = [tmp_path / "one", tmp_path / "two"]
    for fifo in fifos:
        os.mkfifo(fifo)
    await bash.exec("true")
    run = asyncio.create_task(bash.exec(f"read -r a < {fifos[0]}; head -n 1 {fifos[1]}", timeout_ms=PATIENCE_MS))
    for fifo in fifos:
        await asyncio.to_thread(fifo.write_text, f"{fifo.name}\n")
    reply = await run
    assert (reply.done_reason, reply.stdout) == (strategy, "two\n")


async def test_two_questions_are_reported_one_after_another(bash: SessionHandle) -> None:
    asked = await bash.exec("read -p 'One? [y/N] ' a; read -p 'Two? [y/N] ' b; echo $a$b", timeout_ms=PATIENCE_MS)
    assert asked.stdout.endswith("One? [y/N] ")
    await write(bash, data="y\n")
    again = await bash.wait(asked.block_id)
    assert (again.done_reason, again.stdout.endswith("Two? [y/N] ")) == ("question", True)
    await write(bash, data="n\n")
    assert (await bash.wait(asked.block_id)).stdout.endswith("yn\n")


async def test_response_answers_before_the_question_is_reported(bash: SessionHandle) -> None:
    rules = [{"match": r"\[y/N\] $", "send": "y\n"}]
    reply = await bash.exec("read -p 'Continue? [y/N] ' a; echo $a", responses=rules, timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason in ("marks", "marker")) == (0, True)


async def answer_password_before_a_slow_prompt(bash: SessionHandle, fifo: Path) -> None:
    """Run a command that asks for a password; the prompt after it waits for a line in the fifo."""
    os.mkfifo(fifo)
    await bash.exec("true")
    slow = f"PROMPT_COMMAND='read -r _ < {fifo}; PROMPT_COMMAND='"
    asked = await bash.exec(f"{slow}; read -s -p 'Password: ' a", timeout_ms=PATIENCE_MS)
    assert asked.done_reason == "question"
    await write(bash, data="secret-1\n", sensitive=True)
    assert (await bash.wait(asked.block_id)).done_reason == "marker"


async def test_command_after_a_password_waits_for_the_prompt_that_follows_its_question(
    open_session: Open, tmp_path: Path
) -> None:
    """Without echo the question and the prompt are in one line, and the command's end is reported before the prompt."""
    bash = await open_session(shell_integration="off")
    await answer_password_before_a_slow_prompt(bash, tmp_path / "fifo")
    run = asyncio.create_task(bash.exec("echo after", timeout_ms=PATIENCE_MS))
    await asyncio.wait({run}, timeout=0.1)  # it is refused at once, or waits
    await asyncio.to_thread((tmp_path / "fifo").write_text, "\n")
    assert (await run).stdout == "after\n"


async def test_command_after_a_password_without_a_prompt_is_refused(open_session: Open, tmp_path: Path) -> None:
    bash = await open_session(shell_integration="off")
    await answer_password_before_a_slow_prompt(bash, tmp_path / "fifo")
    with refused(ErrorCode.BUSY, "a question waits"):
        await bash.exec("echo after", timeout_ms=PATIENCE_MS)
    await asyncio.to_thread((tmp_path / "fifo").write_text, "\n")


@pytest.mark.parametrize(
    ("command", "answers"),
    [
        ("read answer; sh -c 'exit 7'", ["it's\n"]),
        ("sh -c 'read answer; read more; exit 7'", ["it's\n", "more\n"]),
        ("cat; sh -c 'exit 7'", ["it's\n", "\x04"]),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh"])
async def test_answer_with_an_open_quote_or_end_of_input_is_no_incomplete_command(
    open_session: Open, tmp_path: Path, shell: str, command: str, answers: list[str]
) -> None:
    """A Ctrl-C before the next command would change $?."""
    require_program(shell, shell)
    (tmp_path / ".zshrc").write_text("PS1='$ '\n")
    program = ("bash", "--norc") if shell == "bash" else ("zsh",)
    handle = await open_session(command=program, env={"ZDOTDIR": str(tmp_path), "HISTFILE": "/dev/null"})
    await handle.exec("true", timeout_ms=PATIENCE_MS)
    asked = await handle.exec(command, timeout_ms=PATIENCE_MS)
    for number, answer in enumerate(answers):
        if number:
            asked = await handle.wait(asked.block_id, timeout_ms=PATIENCE_MS)
        assert asked.done_reason == "question"
        await write(handle, data=answer)
    assert (await handle.wait(asked.block_id, timeout_ms=PATIENCE_MS)).exit_code == 7
    reply = await handle.exec("echo $?", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.notices) == ("7\n", None)

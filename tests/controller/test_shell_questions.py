"""Questions of programs in shells end a call early; the run continues and ends with its exit code."""

from __future__ import annotations

import pytest

from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import PATIENCE_MS, write


@pytest.fixture(params=["marks", "marker"])
def strategy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    ("command", "answer", "sensitive"),
    [
        ("read -p 'Continue? [y/N] ' a; (exit 3)", "y", False),
        ("read -s -p 'Password: ' a; (exit 3)", "secret-1", True),
        ("read -s -p 'PIN> ' a; (exit 3)", "secret-2", True),
        ("read -p 'Name: ' a; (exit 3)", "me", False),
        ("sh -c 'printf \"[sudo] password for me: \"; stty -echo; read a; stty echo; exit 3'", "secret-3", True),
    ],
)
async def test_question_ends_the_call_and_answer_continues_it(
    bash: SessionHandle, strategy: str, command: str, answer: str, sensitive: bool
) -> None:
    await bash.exec("true")
    asked = await bash.exec(command, timeout_ms=PATIENCE_MS)
    assert (asked.done_reason, asked.waiting_for_input, asked.timed_out) == ("question", True, False)
    assert asked.duration_ms < 3_000
    await write(bash, data=f"{answer}\n", sensitive=sensitive)
    reply = await bash.wait(asked.block_id)
    assert (reply.exit_code, reply.done_reason) == (3, strategy)
    assert (await bash.exec("echo after")).stdout == "after\n"


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

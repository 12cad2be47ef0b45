"""Runs on a slow device: long silences, questions, pagers that are erased late, log lines after the prompt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.virtual_clock import run_virtually
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.session.calls.exec import execute
from tests.session.device.scripted_device import PROMPT, Act, Device, again_for, at_prompt
from tests.session.scripted_session import run_command, write_to

LOG = b"*Mar  1 00:00:00.155: %LINK-3-UPDOWN: Interface Gi1/0/7, changed state to up\r\n"
ERASERS = (b"\b" * 9 + b" " * 8 + b"\b" * 9, b"\r          \r", b"\r\x1b[K", b"\x1b[42D" + b" " * 42 + b"\x1b[42D")


@pytest.fixture
def answers(tmp_path: Path) -> Callable[..., ExecReply]:
    """Run one command on a device on a virtual clock, and repeat the call until the run has ended."""

    async def run(device: Device, fields: dict[str, Any]) -> ExecReply:
        async with at_prompt(tmp_path, device) as session:
            reply = await run_command(session, "show tech", **fields)
            while reply.done_reason == "timeout":
                again = ExecRequest.of({"session_id": "s", "block_id": reply.block_id, "timeout_ms": 55_000, **fields})
                reply = await execute(session, again, None)
            return reply

    return lambda device, **fields: run_virtually(run(device, fields))


def test_half_hour_output_with_gaps_is_complete(answers: Callable[..., ExecReply]) -> None:
    lines = [b"line %d\r\n" % number for number in range(200)]
    acts = [act for line in lines for act in (9.5, line)]
    reply = answers(Device(*acts, PROMPT), max_output_bytes=1_000_000)
    assert reply.stdout == b"".join(lines).decode().replace("\r", "")
    assert reply.done_reason == "prompt"
    assert reply.duration_ms == pytest.approx(1_900_000, abs=1000)


def test_until_idle_and_timeout_are_distinct(tmp_path: Path) -> None:
    async def run() -> tuple[ExecReply, ExecReply]:
        acts = [act for number in range(20) for act in (2.0, b"line %d\r\n" % number)]
        async with at_prompt(tmp_path, Device(*acts, 30.0, PROMPT)) as session:
            first = await run_command(session, "show tech", timeout_ms=10_000, until_idle_ms=3_000)
            again = ExecRequest.of(
                {"session_id": "s", "block_id": first.block_id, "timeout_ms": 55_000, "until_idle_ms": 3_000}
            )
            return first, await execute(session, again, None)

    first, second = run_virtually(run())
    assert (first.done_reason, first.timed_out) == ("timeout", True)  # no silence was as long as until_idle_ms
    assert (second.done_reason, second.timed_out) == ("until_idle", False)
    assert second.stdout.count("\n") == 20


@pytest.mark.parametrize("question", ["Proceed with reload? [confirm]", "Overwrite? [y/n]: ", "Password: "])
def test_question_is_reported_and_left_to_the_caller(tmp_path: Path, question: str) -> None:
    async def run(device: Device) -> tuple[ExecReply, bytes, ExecReply]:
        async with at_prompt(tmp_path, device) as session:
            asked = await run_command(session, "reload")
            typed = bytes(device.typed)
            await write_to(session, data="y\n")
            again = ExecRequest.of({"session_id": "s", "block_id": asked.block_id})
            return asked, typed, await execute(session, again, None)

    asked, typed, ended = run_virtually(run(Device(b"one\r\n" + question.encode(), 2, b"y\r\ndone\r\n" + PROMPT)))
    assert (asked.done_reason, asked.waiting_for_input, asked.stdout) == ("question", True, f"one\n{question}")
    assert asked.exit_code_reason == "it still runs"
    assert typed == b""
    assert (ended.done_reason, ended.waiting_for_input) == ("prompt", None)
    answer = "*" if question == "Password: " else "y"  # what is typed there is a secret, although this device echoes it
    assert ended.stdout == f"one\n{question}{answer}\ndone\n"


@pytest.mark.parametrize("question", ["Repeat count [5]: ", "Source filename []?", "Enter hostname for the tftp server: "])
def test_question_of_unknown_wording_is_reported_after_two_seconds(tmp_path: Path, question: str) -> None:
    async def run(device: Device) -> tuple[ExecReply, float]:
        async with at_prompt(tmp_path, device) as session:
            begun = session.terminal.now()
            return await run_command(session, "copy tftp: flash:", timeout_ms=15_000), session.terminal.now() - begun

    asked, took = run_virtually(run(Device(question.encode(), 1)))
    assert (asked.done_reason, asked.waiting_for_input, asked.stdout) == ("question", True, question)
    assert 2 <= took < 3


def test_output_that_looked_like_a_question_continues(tmp_path: Path) -> None:
    """The possible question is reported, the caller waits again, and nothing is typed."""

    async def run(device: Device) -> tuple[ExecReply, ExecReply]:
        async with at_prompt(tmp_path, device) as session:
            first = await run_command(session, "copy tftp: flash:", timeout_ms=15_000)
            return first, await execute(session, again_for(first), None)

    device = Device(b"Loading x.bin from 192.0.2.1: ", 5.0, b"!!!!\r\n" + PROMPT)
    first, again = run_virtually(run(device))
    assert (first.done_reason, again.done_reason) == ("question", "prompt")
    assert (again.stdout, bytes(device.typed)) == ("Loading x.bin from 192.0.2.1: !!!!\n", b"")


def test_responses_answer_before_question_is_reported(answers: Callable[..., ExecReply]) -> None:
    device = Device(b"Overwrite? [y/n]: ", 2, b"y\r\ndone\r\n" + PROMPT)
    reply = answers(device, responses=[{"match": r"\[y/n\]: $", "send": "y\n"}])
    assert (reply.done_reason, reply.stdout) == ("prompt", "Overwrite? [y/n]: y\ndone\n")
    assert bytes(device.typed) == b"y\r"


@pytest.mark.parametrize("eraser", ERASERS)
def test_slowly_erased_pager_is_answered_once(answers: Callable[..., ExecReply], eraser: bytes) -> None:
    slowly: list[Act] = [act for byte in eraser for act in (0.2, bytes([byte]))]
    device = Device(b"one\r\n --More-- ", 1, *slowly, 0.2, b"two\r\n --More-- ", 1, *slowly, b"three\r\n" + PROMPT)
    reply = answers(device)
    assert (reply.stdout, reply.pages) == ("one\ntwo\nthree\n", 2)
    assert bytes(device.typed) == b"  "


def test_pager_that_looks_like_a_prompt_is_answered(answers: Callable[..., ExecReply]) -> None:
    device = Device(b"one\r\n<--- More --->", 1, b"\r              \rtwo\r\n" + PROMPT)
    reply = answers(device)
    assert (reply.stdout, reply.pages, bytes(device.typed)) == ("one\ntwo\n", 1, b" ")


@pytest.mark.parametrize("lost", [PROMPT + b"\r\n" + LOG, PROMPT + LOG, PROMPT + b"\r\n" + LOG * 3])
def test_buried_prompt_is_requested_by_one_enter(answers: Callable[..., ExecReply], lost: bytes) -> None:
    device = Device(b"one\r\n" + lost, 1, b"\r\n" + PROMPT)
    reply = answers(device)
    assert (reply.stdout, reply.done_reason) == ("one\n", "prompt")
    assert bytes(device.typed) == b"\r"


def test_log_lines_without_prompt_or_before_question_get_no_enter(tmp_path: Path) -> None:
    async def run(*acts: Act) -> bytes:
        device = Device(*acts)
        async with at_prompt(tmp_path / str(len(list(tmp_path.iterdir()))), device) as session:
            assert (await run_command(session, "debug", timeout_ms=5_000)).done_reason in ("timeout", "question")
        return bytes(device.typed)

    assert run_virtually(run(b"one\r\n" + LOG)) == b""
    assert run_virtually(run(PROMPT + b"\r\n" + LOG + b"Sure? [confirm]")) == b""
    assert run_virtually(run(PROMPT + b"\r\n" + LOG, 1)) == b"\r", "once"


def test_prompt_followed_by_output_does_not_end_the_run(answers: Callable[..., ExecReply]) -> None:
    device = Device(b"R1(config)# \r\n" + b"R1> ", 0.1, b"\r\nlast\r\n" + PROMPT)
    assert answers(device).stdout == "R1(config)# \nR1> \nlast\n"

"""Log lines that a line editor prints at its prompt, between and within commands, cut at every byte, on a virtual clock."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fixtures.memory_channel import MemoryChannel
from fixtures.virtual_clock import run_virtually
from ptyctl.platforms import Platforms
from tests.session.device.scripted_device import PROMPT, Device, at_prompt
from tests.session.scripted_session import run_command

FRR = Platforms().get("frr")
LOG = b"\x1b[38;5;247m2026-11-23 04:41:30.133 [WARN] zebra: \x1b[mKernel message (15) R1# show\x1b[K\x1b[m\r\n"
#: readline erases the prompt, prints the line, and shows the prompt again.
ERASED = b"\r\x1b[K\r" + LOG
OUTPUT = b"FRRouting 8.4\r\n" + LOG + b"  zebra\r\n"
STDOUT = "FRRouting 8.4\n2026-11-23 04:41:30.133 [WARN] zebra: Kernel message (15) R1# show\n  zebra\n"


class LoggingDevice(MemoryChannel):
    """Answers each line with `OUTPUT`, then prints log lines at its prompt; it pauses once, at `cut`."""

    def __init__(self, cut: int, pause_s: float) -> None:
        super().__init__(self._hear)
        self._cut, self._pause_s = cut, pause_s
        self._unsent = b""
        self._answering: asyncio.Task[None] | None = None

    def _hear(self, data: bytes) -> bytes:
        self._unsent += data.replace(b"\r", b"\r\n")
        if b"\r" in data:
            self._unsent += OUTPUT + PROMPT + (ERASED + PROMPT) * 2
            if self._answering is None or self._answering.done():
                self._answering = asyncio.create_task(self._answer())
        return b""

    async def _answer(self) -> None:
        while self._unsent:
            sent, self._unsent = self._unsent[: self._cut], self._unsent[self._cut :]
            self.feed(sent)
            await asyncio.sleep(self._pause_s)


SIZE = len(b"show version\r\n" + OUTPUT + PROMPT + (ERASED + PROMPT) * 2)


@pytest.mark.parametrize("pause_s", [0.0, 0.01])
def test_log_lines_at_the_prompt_are_in_no_output_at_any_cut(tmp_path: Path, pause_s: float) -> None:
    async def run(cut: int) -> None:
        async with at_prompt(tmp_path / str(cut), LoggingDevice(cut, pause_s)) as session:
            session.set_platform(FRR)
            for _ in range(2):
                reply = await run_command(session, "show version")
                assert (reply.stdout, reply.done_reason) == (STDOUT, "prompt"), cut

    for cut in range(len(b"show version\r\n"), SIZE + 1):
        run_virtually(run(cut))


def test_log_lines_of_a_command_without_output_are_not_in_its_output(tmp_path: Path) -> None:
    async def run() -> str:
        async with at_prompt(tmp_path, Device(PROMPT + (ERASED + PROMPT) * 3)) as session:
            session.set_platform(FRR)
            return (await run_command(session, "terminal monitor")).stdout

    assert run_virtually(run()) == ""


def test_flood_of_log_lines_at_the_prompt_is_not_in_the_output(tmp_path: Path) -> None:
    async def run() -> str:
        async with at_prompt(tmp_path, Device(b"one\r\n" + PROMPT + (ERASED + PROMPT) * 4000)) as session:
            session.set_platform(FRR)
            return (await run_command(session, "show version")).stdout

    assert run_virtually(run()) == "one\n"


def test_several_log_lines_after_an_erased_prompt_are_not_in_the_output(tmp_path: Path) -> None:
    async def run() -> str:
        device = Device(b"one\r\n" + LOG + PROMPT + ERASED + LOG + PROMPT + ERASED + LOG * 2 + PROMPT)
        async with at_prompt(tmp_path, device) as session:
            session.set_platform(FRR)
            return (await run_command(session, "show logging")).stdout

    assert run_virtually(run()) == f"one\n{STDOUT.splitlines()[1]}\n"


def test_erased_prompt_before_output_that_is_no_log_line_stays_in_the_output(tmp_path: Path) -> None:
    async def run() -> str:
        device = Device(b"one\r\n" + PROMPT + b"\r\x1b[Ktwo\r\n" + PROMPT + ERASED + PROMPT)
        async with at_prompt(tmp_path, device) as session:
            session.set_platform(FRR)
            return (await run_command(session, "show version")).stdout

    assert run_virtually(run()) == "one\ntwo\n"

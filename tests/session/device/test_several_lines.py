"""exec with several lines on a device: settle times, banner texts, and lines without a prompt."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fixtures.memory_channel import MemoryChannel
from fixtures.virtual_clock import run_virtually
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.platforms import Platforms
from ptyctl.session.calls.exec import execute
from tests.session.device.scripted_device import PROMPT, Act, Device, again_for, at_prompt
from tests.session.scripted_session import Console, write_to


class Bannered(MemoryChannel):
    """Reads a banner after `banner motd X`, up to a line with X. Other lines are followed by a prompt."""

    def __init__(self) -> None:
        super().__init__(self._hear)
        self.text: list[str] | None = None
        self.banner: list[str] = []
        self._line = b""
        self._end = ""

    def _hear(self, data: bytes) -> bytes:
        return b"".join(self._key(data[at : at + 1]) for at in range(len(data)))

    def _key(self, key: bytes) -> bytes:
        if key != b"\r":
            self._line += key
            return key
        line, self._line = self._line.decode(), b""
        return b"\r\n" + self._taken(line)

    def _taken(self, line: str) -> bytes:
        if line.startswith("banner motd "):
            self._end, self.text = line[-1], []
            return f"Enter TEXT message.  End with the character '{self._end}'.\r\n".encode()
        if self.text is not None:
            self.text.append(line)
            if self._end not in line:
                return b""
            self.banner, self.text = self.text, None
        return (b"% Invalid input detected\r\n" if line == "bogus" else b"") + PROMPT


SETTLING = {"platform": "cisco_ios", "expect": Platforms().get("cisco_ios").expect()}


def test_prompt_directly_below_echo_needs_no_settle_time(tmp_path: Path) -> None:
    """Otherwise a change of 48 ports takes seconds if the prompt must settle for 0.1 s."""

    async def run() -> ExecReply:
        async with at_prompt(tmp_path, Bannered(), **SETTLING) as session:
            lines = ["description x"] * 200
            return await execute(session, ExecRequest.of({"session_id": "s", "lines": lines, "timeout_ms": 55_000}), None)

    reply = run_virtually(run())
    assert reply.done_reason == "prompt"
    assert reply.duration_ms < 5_000


def test_prompt_in_output_that_pauses_outlasts_the_pause_between_lines(tmp_path: Path) -> None:
    async def script(console: Console) -> None:
        await console.expect_input(b"one\r", b"one\r\n" + PROMPT + b" is said\r\n")
        await asyncio.sleep(0.05)
        console.feed(PROMPT)
        await asyncio.sleep(0.09)
        assert not console.written
        console.feed(b" is said again\r\n" + PROMPT)
        await console.expect_input(b"two\r", b"two\r\n" + PROMPT)

    async def run(console: Console) -> ExecReply:
        async with at_prompt(tmp_path, console, **SETTLING) as session:
            device = asyncio.create_task(script(console))
            request = ExecRequest.of({"session_id": "s", "lines": ["one", "two"], "timeout_ms": 15_000})
            reply = await execute(session, request, None)
            await device
            return reply

    assert run_virtually(run(Console())).done_reason == "prompt"


def test_requested_settle_time_applies_between_lines(tmp_path: Path) -> None:
    async def script(console: Console) -> None:
        await console.expect_input(b"one\r", b"one\r\n" + PROMPT)
        await asyncio.sleep(0.25)
        assert not console.written
        console.feed(b" is what it said\r\n" + PROMPT)
        await console.expect_input(b"two\r", b"two\r\n" + PROMPT)

    async def run(console: Console) -> ExecReply:
        async with at_prompt(tmp_path, console, **SETTLING) as session:
            device = asyncio.create_task(script(console))
            fields = {"session_id": "s", "lines": ["one", "two"], "timeout_ms": 15_000, "expect": {"settle_ms": 300}}
            reply = await execute(session, ExecRequest.of(fields), None)
            await device
            return reply

    reply = run_virtually(run(Console()))
    assert (reply.done_reason, "is what it said" in reply.stdout) == ("prompt", True)


TEXT = ["Authorised use only #", "", "R1# is not a prompt here", "%"]


@pytest.mark.parametrize("how", ["lines", "cmd"])
def test_banner_lines_are_typed_without_prompts_between(tmp_path: Path, how: str) -> None:
    async def run(device: Bannered) -> ExecReply:
        async with at_prompt(tmp_path, device) as session:
            lines = ["banner motd %", *TEXT, "bogus", "hostname x"]
            wanted = {"lines": lines} if how == "lines" else {"cmd": "\n".join(lines)}
            return await execute(session, ExecRequest.of({"session_id": "s", "timeout_ms": 15_000, **wanted}), None)

    device = Bannered()
    reply = run_virtually(run(device))
    assert (device.banner, reply.done_reason) == (TEXT, "prompt")
    assert [(failed.number, failed.line) for failed in reply.failed_lines or []] == ([(6, "bogus")] if how == "lines" else [])
    assert reply.duration_ms < 2_000


def test_text_without_terminator_is_reported_as_question(tmp_path: Path) -> None:
    async def run(device: Bannered) -> tuple[ExecReply, ExecReply]:
        async with at_prompt(tmp_path, device) as session:
            lines = {"session_id": "s", "lines": ["banner motd %", "one", "two"], "timeout_ms": 15_000}
            asked = await execute(session, ExecRequest.of(lines), None)
            await write_to(session, data="%\n")
            return asked, await execute(session, again_for(asked), None)

    device = Bannered()
    asked, ended = run_virtually(run(device))
    assert (asked.done_reason, asked.waiting_for_input) == ("question", True)
    assert "line 3 of 3 ('two') asks a question" in (asked.message or "")
    assert (device.banner, ended.done_reason) == (["one", "two", "%"], "prompt")


@pytest.mark.parametrize(
    ("acts", "reason", "told"),
    [
        ((b"Generating keys...\r\n", 60.0, PROMPT), "timeout", "has brought no prompt yet"),
        ((b"How many bits in the modulus [512]: ", 1), "question", "asks a question"),
    ],
)
def test_line_without_prompt_is_named_in_message(tmp_path: Path, acts: tuple[Act, ...], reason: str, told: str) -> None:
    async def run(device: Device) -> ExecReply:
        async with at_prompt(tmp_path, device) as session:
            request = {"session_id": "s", "lines": ["crypto key generate rsa", "no shutdown"], "timeout_ms": 5_000}
            return await execute(session, ExecRequest.of(request), None)

    reply = run_virtually(run(Device(*acts)))
    assert reply.done_reason == reason
    assert f"line 1 of 2 ('crypto key generate rsa') {told}" in (reply.message or "")

"""Runs on a device that makes one wait: long silences, questions, erasers that come late, a prompt lost among its log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fixtures.virtual_clock import run_virtually
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.platforms import Platforms
from ptyctl.session.calls.execution import execute
from ptyctl.session.session import Session
from tests.session.acting import connected, run_in, write_to
from tests.session.test_login import Console
from transports.memory import MemoryChannel

PROMPT = b"R1# "
LOG = b"*Mar  1 00:00:00.155: %LINK-3-UPDOWN: Interface Gi1/0/7, changed state to up\r\n"
ERASERS = (b"\b" * 9 + b" " * 8 + b"\b" * 9, b"\r          \r", b"\r\x1b[K", b"\x1b[42D" + b" " * 42 + b"\x1b[42D")
#: What an answer tells the device to do: say something, wait so many seconds, or wait for so many bytes typed.
Act = bytes | float | int


class Device(MemoryChannel):
    """Echoes a line, then acts. `typed` is what came in after it."""

    def __init__(self, *acts: Act) -> None:
        super().__init__(self._hear)
        self.typed = bytearray()
        self._acts = acts
        self._acting: asyncio.Task[None] | None = None
        self._heard = asyncio.Event()

    def _hear(self, data: bytes) -> bytes:
        if self._acting is not None:
            self.typed += data
            self._heard.set()
            return b""
        if data.endswith(b"\r"):
            self._acting = asyncio.create_task(self._act())
            return data + b"\n"
        return data

    async def _act(self) -> None:
        wanted = 0
        for act in self._acts:
            match act:
                case bytes():
                    self.feed(act)
                case float():
                    await asyncio.sleep(act)
                case int():
                    wanted += act
                    while len(self.typed) < wanted:
                        self._heard.clear()
                        await self._heard.wait()


@asynccontextmanager
async def at_prompt(folder: Path, device: MemoryChannel, **fields: Any) -> AsyncIterator[Session]:
    session = await connected(folder, device, **fields)
    device.feed(b"\r\n" + PROMPT)
    session.driver.prompt.learn(PROMPT.decode())
    try:
        yield session
    finally:
        await session.close(force=True)


def again_for(reply: ExecReply) -> ExecRequest:
    return ExecRequest.of({"session_id": "s", "block_id": reply.block_id, "timeout_ms": 15_000})


@pytest.fixture
def answers(tmp_path: Path) -> Callable[..., ExecReply]:
    """Runs one command on a device that acts so, on a virtual clock; calls on while the run goes on."""

    async def run(device: Device, fields: dict[str, Any]) -> ExecReply:
        async with at_prompt(tmp_path, device) as session:
            reply = await run_in(session, "show tech", **fields)
            while reply.done_reason == "timeout":
                again = ExecRequest.of({"session_id": "s", "block_id": reply.block_id, "timeout_ms": 55_000, **fields})
                reply = await execute(session, again, None)
            return reply

    return lambda device, **fields: run_virtually(run(device, fields))


def test_half_an_hour_with_gaps_of_seconds(answers: Callable[..., ExecReply]) -> None:
    lines = [b"line %d\r\n" % number for number in range(200)]
    acts = [act for line in lines for act in (9.5, line)]
    reply = answers(Device(*acts, PROMPT), max_output_bytes=1_000_000)
    assert reply.stdout == b"".join(lines).decode().replace("\r", "")
    assert reply.done_reason == "prompt"
    assert reply.duration_ms == pytest.approx(1_900_000, abs=1000)


def test_idle_and_timeout_are_two_things(tmp_path: Path) -> None:
    async def run() -> tuple[ExecReply, ExecReply]:
        acts = [act for number in range(20) for act in (2.0, b"line %d\r\n" % number)]
        async with at_prompt(tmp_path, Device(*acts, 30.0, PROMPT)) as session:
            first = await run_in(session, "show tech", timeout_ms=10_000, until_idle_ms=3_000)
            again = ExecRequest.of(
                {"session_id": "s", "block_id": first.block_id, "timeout_ms": 55_000, "until_idle_ms": 3_000}
            )
            return first, await execute(session, again, None)

    first, second = run_virtually(run())
    assert (first.done_reason, first.timed_out) == ("timeout", True)  # it was never idle for so long
    assert (second.done_reason, second.timed_out) == ("until_idle", False)
    assert second.stdout.count("\n") == 20


@pytest.mark.parametrize("question", ["Proceed with reload? [confirm]", "Overwrite? [y/n]: ", "Password: "])
def test_a_question_is_told_and_left_to_the_caller(tmp_path: Path, question: str) -> None:
    async def run(device: Device) -> tuple[ExecReply, bytes, ExecReply]:
        async with at_prompt(tmp_path, device) as session:
            asked = await run_in(session, "reload")
            typed = bytes(device.typed)
            await write_to(session, data="y\n")
            again = ExecRequest.of({"session_id": "s", "block_id": asked.block_id})
            return asked, typed, await execute(session, again, None)

    asked, typed, ended = run_virtually(run(Device(b"one\r\n" + question.encode(), 2, b"y\r\ndone\r\n" + PROMPT)))
    assert (asked.done_reason, asked.waiting_for_input, asked.stdout) == ("question", True, f"one\n{question}")
    assert asked.exit_code_reason == "it still runs"
    assert typed == b""
    assert (ended.done_reason, ended.waiting_for_input) == ("prompt", None)
    assert ended.stdout == f"one\n{question}y\ndone\n"


@pytest.mark.parametrize("question", ["Repeat count [5]: ", "Source filename []?", "Enter hostname for the tftp server: "])
def test_a_question_in_words_that_are_not_known_is_told_after_two_seconds(tmp_path: Path, question: str) -> None:
    async def run(device: Device) -> tuple[ExecReply, float]:
        async with at_prompt(tmp_path, device) as session:
            begun = session.terminal.now()
            return await run_in(session, "copy tftp: flash:", timeout_ms=15_000), session.terminal.now() - begun

    asked, took = run_virtually(run(Device(question.encode(), 1)))
    assert (asked.done_reason, asked.waiting_for_input, asked.stdout) == ("question", True, question)
    assert 2 <= took < 3


def test_what_only_looked_like_a_question_goes_on(tmp_path: Path) -> None:
    """Its caller hears of it and waits on; nothing was typed."""

    async def run(device: Device) -> tuple[ExecReply, ExecReply]:
        async with at_prompt(tmp_path, device) as session:
            first = await run_in(session, "copy tftp: flash:", timeout_ms=15_000)
            return first, await execute(session, again_for(first), None)

    device = Device(b"Loading x.bin from 192.0.2.1: ", 5.0, b"!!!!\r\n" + PROMPT)
    first, again = run_virtually(run(device))
    assert (first.done_reason, again.done_reason) == ("question", "prompt")
    assert (again.stdout, bytes(device.typed)) == ("Loading x.bin from 192.0.2.1: !!!!\n", b"")


class Bannered(MemoryChannel):
    """Takes a banner's text: `banner motd X`, and lines until there is an X in one. A prompt follows each other line."""

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


def test_lines_to_which_nothing_is_said_need_not_settle(tmp_path: Path) -> None:
    """A change of 48 ports is seconds on a device whose prompt must settle for 0.1 s."""

    async def run() -> ExecReply:
        async with at_prompt(tmp_path, Bannered(), **SETTLING) as session:
            lines = ["description x"] * 200
            return await execute(session, ExecRequest.of({"session_id": "s", "lines": lines, "timeout_ms": 55_000}), None)

    reply = run_virtually(run())
    assert reply.done_reason == "prompt"
    assert reply.duration_ms < 5_000


def test_behind_what_is_said_the_prompt_settles_among_lines_too(tmp_path: Path) -> None:
    async def script(console: Console) -> None:
        await console.hear(b"one\r", b"one\r\n" + PROMPT + b" is said\r\n" + PROMPT)
        await asyncio.sleep(0.09)
        assert not console.written
        console.feed(b" is said again\r\n" + PROMPT)
        await console.hear(b"two\r", b"two\r\n" + PROMPT)

    async def run(console: Console) -> ExecReply:
        async with at_prompt(tmp_path, console, **SETTLING) as session:
            device = asyncio.create_task(script(console))
            request = ExecRequest.of({"session_id": "s", "lines": ["one", "two"], "timeout_ms": 15_000})
            reply = await execute(session, request, None)
            await device
            return reply

    assert run_virtually(run(Console())).done_reason == "prompt"


def test_who_asks_for_a_longer_settle_time_gets_it_among_lines_too(tmp_path: Path) -> None:
    async def script(console: Console) -> None:
        await console.hear(b"one\r", b"one\r\n" + PROMPT)
        await asyncio.sleep(0.25)
        assert not console.written
        console.feed(b" is what it said\r\n" + PROMPT)
        await console.hear(b"two\r", b"two\r\n" + PROMPT)

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
def test_the_lines_of_a_banner_have_no_prompt_between(tmp_path: Path, how: str) -> None:
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


def test_a_text_that_is_not_ended_is_a_question(tmp_path: Path) -> None:
    async def run(device: Bannered) -> tuple[ExecReply, ExecReply]:
        async with at_prompt(tmp_path, device) as session:
            lines = {"session_id": "s", "lines": ["banner motd %", "one", "two"], "timeout_ms": 15_000}
            asked = await execute(session, ExecRequest.of(lines), None)
            await write_to(session, data="%\n")
            return asked, await execute(session, again_for(asked), None)

    device = Bannered()
    asked, ended = run_virtually(run(device))
    assert (asked.done_reason, asked.waiting_for_input) == ("question", True)
    assert "line 3 of 3 ('two') asks something" in (asked.message or "")
    assert (device.banner, ended.done_reason) == (["one", "two", "%"], "prompt")


@pytest.mark.parametrize(
    ("acts", "reason", "told"),
    [
        ((b"Generating keys...\r\n", 60.0, PROMPT), "timeout", "has brought no prompt yet"),
        ((b"How many bits in the modulus [512]: ", 1), "question", "asks something"),
    ],
)
def test_the_line_that_brings_no_prompt_is_named(tmp_path: Path, acts: tuple[Act, ...], reason: str, told: str) -> None:
    async def run(device: Device) -> ExecReply:
        async with at_prompt(tmp_path, device) as session:
            request = {"session_id": "s", "lines": ["crypto key generate rsa", "no shutdown"], "timeout_ms": 5_000}
            return await execute(session, ExecRequest.of(request), None)

    reply = run_virtually(run(Device(*acts)))
    assert reply.done_reason == reason
    assert f"line 1 of 2 ('crypto key generate rsa') {told}" in (reply.message or "")


def test_responses_answer_before_anybody_hears_of_it(answers: Callable[..., ExecReply]) -> None:
    device = Device(b"Overwrite? [y/n]: ", 2, b"y\r\ndone\r\n" + PROMPT)
    reply = answers(device, responses=[{"match": r"\[y/n\]: $", "send": "y\n"}])
    assert (reply.done_reason, reply.stdout) == ("prompt", "Overwrite? [y/n]: y\ndone\n")
    assert bytes(device.typed) == b"y\r"


@pytest.mark.parametrize("eraser", ERASERS)
def test_a_pager_is_answered_once_however_slowly_it_goes(answers: Callable[..., ExecReply], eraser: bytes) -> None:
    slowly: list[Act] = [act for byte in eraser for act in (0.2, bytes([byte]))]
    device = Device(b"one\r\n --More-- ", 1, *slowly, 0.2, b"two\r\n --More-- ", 1, *slowly, b"three\r\n" + PROMPT)
    reply = answers(device)
    assert (reply.stdout, reply.pages) == ("one\ntwo\nthree\n", 2)
    assert bytes(device.typed) == b"  "


@pytest.mark.parametrize("lost", [PROMPT + b"\r\n" + LOG, PROMPT + LOG, PROMPT + b"\r\n" + LOG * 3])
def test_a_prompt_that_the_log_pushed_away_is_brought_back_once(answers: Callable[..., ExecReply], lost: bytes) -> None:
    device = Device(b"one\r\n" + lost, 1, b"\r\n" + PROMPT)
    reply = answers(device)
    assert (reply.stdout, reply.done_reason) == ("one\n", "prompt")
    assert bytes(device.typed) == b"\r"


def test_the_session_types_nothing_where_the_log_stands_alone_or_something_is_asked(tmp_path: Path) -> None:
    async def run(*acts: Act) -> bytes:
        device = Device(*acts)
        async with at_prompt(tmp_path / str(len(list(tmp_path.iterdir()))), device) as session:
            assert (await run_in(session, "debug", timeout_ms=5_000)).done_reason in ("timeout", "question")
        return bytes(device.typed)

    assert run_virtually(run(b"one\r\n" + LOG)) == b""
    assert run_virtually(run(PROMPT + b"\r\n" + LOG + b"Sure? [confirm]")) == b""
    assert run_virtually(run(PROMPT + b"\r\n" + LOG, 1)) == b"\r", "once"


def test_a_prompt_in_the_output_is_none_once_more_follows(answers: Callable[..., ExecReply]) -> None:
    device = Device(b"R1(config)# \r\n" + b"R1> ", 0.1, b"\r\nlast\r\n" + PROMPT)
    assert answers(device).stdout == "R1(config)# \nR1> \nlast\n"

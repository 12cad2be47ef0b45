"""Patterns that take long: other sessions continue, and the call is refused or ends with LIMIT_EXCEEDED."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.blocks import BlocksSearch
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import ExecRequest
from ptyctl.api.io import IoRequest
from ptyctl.api.pty import PtyWaitFor
from ptyctl.session.calls.block_search import blocks_search
from ptyctl.session.calls.expect import ExpectWait, expectation
from ptyctl.session.calls.pty_calls import wait_for
from ptyctl.session.io import pattern_search
from ptyctl.session.session import Session
from tests.session.scripted_session import PATIENCE_MS, connect_session, read_from, run_command, wait_until

#: Text and a pattern for which RE2's cache of states is of no use: each byte is a new state.
HOSTILE_TEXT = b"abb\nab\nbaaba\nb" * 20_000
HOSTILE_PATTERN = r"(?s)a[ab\n]{200}z"


@pytest.fixture
async def session(tmp_path: Path) -> Session:
    channel = MemoryChannel()
    session = await connect_session(tmp_path / "hostile", channel)
    channel.feed(HOSTILE_TEXT)
    return session


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptyctl.session.io.pattern_search.SEARCH_S", 0)


class HeldSearches:
    """Holds the searches in threads before they begin, with the text that they search."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._begun, self._released = threading.Event(), threading.Event()
        self._search = pattern_search._search_unless
        monkeypatch.setattr(pattern_search, "_search_unless", self._hold)

    def _hold(self, *arguments: Any) -> Any:
        self._begun.set()
        assert self._released.wait(PATIENCE_MS / 1000)
        return self._search(*arguments)

    async def meanwhile(self, change: Callable[[], None]) -> None:
        """Make a change during the first search."""
        assert await asyncio.to_thread(self._begun.wait, PATIENCE_MS / 1000)
        change()
        self._released.set()


async def test_output_during_a_long_search_is_searched(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    held, channel = HeldSearches(monkeypatch), session.channel
    assert isinstance(channel, MemoryChannel)
    pattern = HOSTILE_PATTERN + "|found"
    read = asyncio.create_task(read_from(session.stream, cursor="0", until_regex=pattern, timeout_ms=PATIENCE_MS))
    await held.meanwhile(lambda: channel.feed(b"found"))
    async with asyncio.timeout(PATIENCE_MS / 2000):
        assert (await read).matched


async def test_end_during_a_long_search_ends_the_wait(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    held, channel = HeldSearches(monkeypatch), session.channel
    assert isinstance(channel, MemoryChannel)
    read = asyncio.create_task(read_from(session.stream, cursor="0", until_regex=HOSTILE_PATTERN, timeout_ms=PATIENCE_MS))
    await held.meanwhile(channel.end)
    async with asyncio.timeout(PATIENCE_MS / 2000):
        assert (await read).timed_out is False


async def test_output_during_a_long_search_of_an_expectation_is_searched(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, channel = HeldSearches(monkeypatch), session.channel
    assert isinstance(channel, MemoryChannel)
    request = PtyWaitFor(
        session_id="s", from_cursor=0, match=HOSTILE_PATTERN + "|found", match_type="regex", timeout_ms=PATIENCE_MS
    )
    waiting = asyncio.create_task(wait_for(session, request))
    await held.meanwhile(lambda: channel.feed(b"found"))
    async with asyncio.timeout(PATIENCE_MS / 2000):
        assert (await waiting).matched


async def test_wait_that_becomes_hopeless_during_a_long_search_ends(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    held, hopeless = HeldSearches(monkeypatch), threading.Event()
    expected = expectation("regex", HOSTILE_PATTERN, "match")
    waiting = asyncio.create_task(ExpectWait(session, expected, 0, impossible=hopeless.is_set).run(PATIENCE_MS / 1000))
    await held.meanwhile(hopeless.set)
    async with asyncio.timeout(PATIENCE_MS / 2000):
        assert await waiting is None


async def test_other_reads_return_while_a_hostile_pattern_is_searched(session: Session, tmp_path: Path) -> None:
    other = await connect_session(tmp_path / "other", MemoryChannel())
    hostile = asyncio.create_task(read_from(session.stream, cursor="0", until_regex=HOSTILE_PATTERN))
    await asyncio.sleep(0)
    for _ in range(10):
        await read_from(other.stream, cursor="0")
    assert not hostile.done()
    reply = await hostile
    assert (reply.matched, reply.timed_out) == (False, True)


@pytest.mark.usefixtures("no_time")
async def test_search_of_a_hostile_pattern_ends_with_limit_exceeded(session: Session) -> None:
    with pytest.raises(PtyctlError, match="stopped after") as caught:
        await read_from(session.stream, cursor="0", until_regex=HOSTILE_PATTERN)
    assert caught.value.code is ErrorCode.LIMIT_EXCEEDED
    assert "simpler pattern" in str(caught.value.hint)


@pytest.mark.parametrize(
    "pattern", [r"\pL{1,100}zzz", "a?" * 1025, r"[^\pL]" * 100, ".{0,1000}" * 10], ids=lambda text: text[:10]
)
async def test_pattern_that_is_expensive_to_compile_is_refused(session: Session, pattern: str) -> None:
    with pytest.raises(PtyctlError, match="until_regex: the pattern is too complex") as caught:
        await read_from(session.stream, cursor="0", until_regex=pattern)
    assert caught.value.code is ErrorCode.LIMIT_EXCEEDED
    assert "repetitions" in str(caught.value.hint)


@pytest.fixture
async def command(tmp_path: Path) -> Session:
    """A session on a device that printed the hostile text for a command."""

    def answer(data: bytes) -> bytes:
        output = HOSTILE_TEXT + b"\r\n" if b"show" in data else b""
        return data.replace(b"\r", b"\r\n") + output + (b"" if b"endless" in data else b"sw1#")

    channel = MemoryChannel(answer)
    session = await connect_session(tmp_path / "device", channel, platform="cisco_ios")
    channel.feed(b"sw1#")
    return session


@pytest.mark.usefixtures("no_time")
@pytest.mark.parametrize(
    "search",
    [
        lambda session: blocks_search(session, BlocksSearch.of({"session_id": "s", "query": HOSTILE_PATTERN, "regex": True})),
        lambda session: run_command(session, "show b", grep=HOSTILE_PATTERN),
    ],
    ids=["blocks_search", "grep"],
)
async def test_search_of_blocks_ends_with_limit_exceeded(command: Session, search: Callable[[Session], Any]) -> None:
    await run_command(command, "show a", max_output_bytes=1000)
    with pytest.raises(PtyctlError) as caught:
        await search(command)
    assert caught.value.code is ErrorCode.LIMIT_EXCEEDED


async def test_responses_end_with_a_notice_if_other_searches_take_too_long(
    command: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptyctl.session.io.pattern_search.TURN_S", 0)
    notices: list[str] = []

    def noticed() -> bool:
        notices.extend(command.take_notices("t") or ())
        return bool(notices)

    async with command.stream.search_turn:
        await run_command(command, "show endless", responses=[{"match": HOSTILE_PATTERN, "send": "y"}], timeout_ms=0)
        await wait_until(noticed)
    assert "have ended: other searches" in notices[0]


@pytest.mark.parametrize(
    ("request_type", "fields"),
    [
        (IoRequest, {"action": "read", "input_hints": {"wait_for_regexes": ["a"] * 21}}),
        (IoRequest, {"action": "read", "until_any": ["a"] * 21}),
        (ExecRequest, {"cmd": "true", "responses": [{"match": "a", "send": "b"}] * 21}),
        (ExecRequest, {"cmd": "true", "expect": {"pager_regexes": ["a"] * 51}}),
        (ExecRequest, {"cmd": "true", "expect": {"error_regexes": ["a"] * 51}}),
    ],
)
def test_long_list_of_patterns_is_refused(request_type: type[IoRequest | ExecRequest], fields: dict[str, Any]) -> None:
    with pytest.raises(PtyctlError, match="at most") as caught:
        request_type.of({"session_id": "s", **fields})
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT

"""Patterns that take long: other sessions continue, and the call is refused or ends with LIMIT_EXCEEDED."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.blocks import BlocksSearch
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import ExecRequest
from ptyctl.api.io import IoRequest
from ptyctl.session.calls.block_search import blocks_search
from ptyctl.session.session import Session
from tests.session.scripted_session import connect_session, read_from, run_command, wait_until

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

"""pty calls, property tests: waits, expect_send and blocks hold for any output, pieces and order of calls."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.methods import PTY_REQUESTS
from ptyctl.api.pty import PtyExpectSend, PtySend, PtyWaitFor
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.core.normaliser import Normaliser
from ptyctl.session.calls.expect_send import expect_send
from ptyctl.session.calls.pty_calls import send, wait_for
from ptyctl.session.session import Session
from tests.session.scripted_session import PATIENCE_MS, connect_session, split_at

#: Few letters, so that patterns occur; some are several bytes long.
LETTERS = st.sampled_from(["a", "b", "é", "☃", "😀", "\n", "\r\n", "\x1b[1m"])
TEXTS = st.lists(LETTERS, max_size=60).map(lambda letters: "".join(letters).encode())
#: Patterns whose matches all have one length in characters: the end of a match does not depend on the text after it.
ATOMS = st.sampled_from(["a", "b", "é", "☃", "😀", ".", "[a☃]", "[^b]", r"\n"])
PATTERNS = st.lists(ATOMS, min_size=1, max_size=3).map("".join)


@pytest.mark.parametrize("early", [True, False], ids=["while output arrives", "after all output"])
@given(data=TEXTS, pattern=PATTERNS, places=st.lists(st.integers(0, 400), max_size=8))
def test_consecutive_waits_find_same_matches_as_one_search(early: bool, data: bytes, pattern: str, places: list[int]) -> None:
    asyncio.run(_chain(early, data, pattern, places))


async def _chain(early: bool, data: bytes, pattern: str, places: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        channel = MemoryChannel()
        session = await connect_session(Path(folder), channel)
        pieces = split_at(data, places) if data else []
        for piece in pieces if not early else []:
            channel.feed(piece)
        chain = asyncio.create_task(_spans(session, pattern, 0 if not early else PATIENCE_MS))
        for piece in pieces if early else []:
            await asyncio.sleep(0)
            channel.feed(piece)
        channel.end()
        found = await chain
        normaliser = Normaliser()
        spool = normaliser.feed(data) + normaliser.flush()
        assert session.stream.read(0, session.stream.spool_end) == spool
        assert found == [match.span() for match in re2.compile(pattern.encode()).finditer(spool)]
        await session.close(force=True)


async def _spans(session: Session, pattern: str, timeout_ms: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    cursor = 0
    while True:
        request = PtyWaitFor(session_id="s", match=pattern, match_type="regex", from_cursor=cursor, timeout_ms=timeout_ms)
        reply = await wait_for(session, request)
        if not reply.matched:
            assert reply.resume_cursor == session.stream.spool_end
            return spans
        assert reply.match_span is not None
        assert (reply.match_cursor, reply.resume_cursor) == (reply.match_span.start, reply.match_span.end)
        spans.append((reply.match_span.start, reply.match_span.end))
        cursor = reply.match_span.end


async def test_consecutive_waits_search_output_that_left_window(tmp_path: Path) -> None:
    from ptyctl.session.spec import Limits

    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel, limits=Limits(window_bytes=4096))
    data = "".join(f"n☃{number} " for number in range(100_000)).encode()
    for begin in range(0, len(data), 65_536):
        channel.feed(data[begin : begin + 65_536])
    channel.end()
    request = PtyWaitFor(session_id="s", match="n☃50000 ", from_cursor=0, timeout_ms=0)
    reply = await wait_for(session, request)
    assert reply.match_cursor == data.index("n☃50000 ".encode())
    assert await _spans(session, "n☃[0-9]999[0-9][0-9] ", 0) == [
        match.span() for match in re2.compile("n☃[0-9]999[0-9][0-9] ".encode()).finditer(data)
    ]
    await session.close(force=True)


async def test_expect_send_among_20_writers_sends_right_after_match(tmp_path: Path) -> None:
    """The far end asks at any time while 20 tasks write; its next input must be the answer."""
    asked = 0
    after_question: list[bytes] = []

    def answer(data: bytes) -> bytes:
        nonlocal asked
        if asked > len(after_question):
            after_question.append(data)
        return b""

    channel = MemoryChannel(answer)
    session = await connect_session(tmp_path, channel, protocol="local", host=None)

    async def chatter(number: int) -> None:
        for _ in range(30):
            await send(session, PtySend(session_id="s", data=f"w{number};" * 100))
            await asyncio.sleep(0)

    async def ask() -> None:
        nonlocal asked
        for number in range(15):
            waiting = asyncio.create_task(
                expect_send(
                    session,
                    PtyExpectSend(
                        session_id="s", expect=f"question {number}?", send=f"A{number}\n", from_cursor=0, timeout_ms=PATIENCE_MS
                    ),
                )
            )
            for _ in range(5):
                await asyncio.sleep(0)
            channel.feed(f"question {number}".encode())
            await asyncio.sleep(0)
            asked += 1
            channel.feed(b"?\r\n")
            assert (await waiting).sent

    await asyncio.gather(ask(), *(chatter(number) for number in range(20)))
    assert after_question == [b"A%d\r" % number for number in range(15)]
    await session.close(force=True)


CALLS = st.sampled_from(
    [
        ("pty_exec_block", {"cmd": "echo one"}),
        ("pty_exec_block", {"cmd": "sleep 60"}),
        ("pty_exec_block", {"cmd": "if"}),
        ("pty_exec_interactive", {"cmd": "cat"}),
        ("pty_exec_interactive_expect", {"cmd": "read x", "steps": [{"expect": "never", "send": ""}], "timeout_ms": 20}),
        ("pty_exec_block", {"cmd": "exit 3"}),
        ("pty_send", {"data": "echo typed\r"}),
        ("pty_send", {"data": "x"}),
        ("pty_enter", {}),
        ("pty_ctrl_c", {}),
        ("pty_ctrl_d", {}),
        ("pty_wait_prompt", {"from_cursor": 0, "timeout_ms": 30}),
        ("pty_end_session", {"force": True}),
        ("pty_reset", {}),
    ]
)


@settings(max_examples=15)
@given(calls=st.lists(st.tuples(CALLS, st.booleans()), min_size=1, max_size=8))
def test_blocks_after_any_calls_begin_once_and_end_once(calls: list[tuple[tuple[str, dict[str, object]], bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHELL", "/bin/bash")
        asyncio.run(_any_calls(Path(folder) / "state", calls))


async def _any_calls(state: Path, calls: list[tuple[tuple[str, dict[str, object]], bool]]) -> None:
    """Await each call, or start the next one while it is in progress."""
    under_way = []
    async with LocalController(Settings(state_dir=state)) as controller:
        for (tool, fields), patient in [(("pty_exec_block", {"cmd": "true"}), True), *calls]:
            request = PTY_REQUESTS[tool].of({"conversation_id": "c", **fields})
            task = asyncio.create_task(controller.pty(request))
            under_way.append(task)
            if patient:
                await task
        await asyncio.gather(*under_way)
        session = next(iter(controller._registry.known()))
        await controller.pty(PTY_REQUESTS["pty_end_session"].of({"conversation_id": "c", "force": True}))
        kinds = {"agent_block_begin": Counter[str](), "agent_block_end": Counter[str]()}
        await session.close(force=True)
        for event in session.events.since(0)[0]:
            if event["type"] in kinds:
                kinds[event["type"]][event["block"]["block_id"]] += 1
        blocks = session.blocks.all()
        assert kinds["agent_block_begin"] == kinds["agent_block_end"] == Counter(block.block_id for block in blocks)
        assert all(block.ts_end is not None and block.status not in ("running", "interactive") for block in blocks)
        assert session.runs.mode == "idle"
        ends = [(block.spool_begin, block.spool_end) for block in blocks]
        assert ends == sorted(ends)

"""Pages of blocks: rendered piece by piece, in bounded memory, and without holding up other sessions."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.blocks import BlocksRead, BlocksReply
from ptyctl.api.errors import PtyctlError
from ptyctl.api.io import DEFAULT_READ_BYTES
from ptyctl.session.calls import block_read
from ptyctl.session.calls.block_read import BlockReader
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
from tests.session.conftest import Connect
from tests.session.scripted_session import read_from, run_command, wait_until

PROMPT = b"R1# "
LINE = "GigabitEthernet1/0/{:06} is up, line protocol is up (connected), MTU 1500 bytes\n"


class Device(MemoryChannel):
    """Echoes a line and sends `output`."""

    def __init__(self, output: bytes) -> None:
        super().__init__(lambda data: data.replace(b"\r", b"\r\n") + output)


#: Longest callback of the event loop, in seconds of processor time. The aim is 0.02; a slow, busy machine needs more. A garbage
#: collection may be in it, which is short because `tests/conftest.py` excludes the collected tests.
LOOP_LIMIT_S = 0.2


async def connected(connect: Connect, output: bytes, **fields: object) -> tuple[Session, Device]:
    device = Device(output)
    session = await connect(device, platform="generic", **fields)
    device.feed(PROMPT)
    return session, device


async def page(reader: BlockReader, session: Session, block_id: str, **fields: object) -> BlocksReply:
    return await reader.read(session, BlocksRead.of({"session_id": "s", "block_id": block_id, **fields}))


def anonymous_memory() -> int:
    """Return the anonymous memory of this process in bytes (RssAnon, proc(5))."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


@asynccontextmanager
async def processor_time_limit(seconds: float) -> AsyncIterator[None]:
    """Check that no callback of the event loop takes more processor time."""
    longest = [0.0]

    async def tick() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            longest[0] = max(longest[0], time.thread_time() - before)

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0)
    yield
    ticker.cancel()
    assert longest[0] < seconds


async def test_large_block_is_paged_in_bounded_memory(connect: Connect) -> None:
    lines = [LINE.format(number) for number in range(400_000)]
    session, _ = await connected(connect, "".join(lines).replace("\n", "\r\n").encode() + PROMPT)
    reply = await run_command(session, "show interfaces")
    assert reply.done_reason == "prompt"
    reader, offset, complete, at = BlockReader(), 0, False, 0
    before = peak = anonymous_memory()
    async with processor_time_limit(LOOP_LIMIT_S):
        while not complete:
            part = await page(reader, session, reply.block_id, offset=offset, max_bytes=1_000_000)
            shown = (part.data or "").encode()
            first = "".join(lines[at : at + 20_000]).encode()
            at += shown.count(b"\n") if offset == 0 else 0
            assert offset or shown == first[: len(shown)]
            assert part.size in (None, len(lines) * len(lines[0]))
            assert part.resume_offset == offset + len(shown)
            offset, complete = part.resume_offset, bool(part.complete)
            peak = max(peak, anonymous_memory())
    assert offset == part.size == len(lines) * len(lines[0])
    assert (part.data or "").endswith("".join(lines[-10:]))
    assert peak - before < 64_000_000
    again = await page(reader, session, reply.block_id, offset=offset - len(lines[0]))
    assert (again.data, again.complete) == (lines[-1], True)
    earlier = await page(reader, session, reply.block_id, offset=len(lines[0]), max_bytes=len(lines[0]))
    assert earlier.data == lines[1]
    with pytest.raises(PtyctlError, match="past the end"):
        await page(reader, session, reply.block_id, offset=offset + 1)


async def test_page_far_into_a_block_keeps_no_text_before_it(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []

    def add(text: block_read._BlockText, *args: Any, **fields: Any) -> None:
        original(text, *args, **fields)
        kept.append(len(text._text))

    original = block_read._BlockText._add
    monkeypatch.setattr(block_read._BlockText, "_add", add)
    monkeypatch.setattr(block_read, "_KEPT_BYTES", 1 << 16)
    lines = [LINE.format(number) for number in range(20_000)]
    session, _ = await connected(connect, "".join(lines).replace("\n", "\r\n").encode() + PROMPT)
    reply = await run_command(session, "show interfaces")
    offset = 19_000 * len(LINE.format(0))
    far = await page(BlockReader(), session, str(reply.block_id), offset=offset, max_bytes=100)
    assert far.data == "".join(lines)[offset : offset + 100]
    assert max(kept) < 1 << 19


async def test_page_of_random_bytes_does_not_hold_up_the_event_loop(connect: Connect) -> None:
    output = random.Random(1).randbytes(20_000_000).replace(b"#", b"")
    session, _ = await connected(connect, output + b"\r\n\x1b[m\x0f" + PROMPT)
    reply = await run_command(session, "cat random", timeout_ms=20_000)
    async with processor_time_limit(LOOP_LIMIT_S):
        started = time.thread_time()
        part = await page(BlockReader(), session, reply.block_id)
        assert time.thread_time() - started < 10
    assert part.resume_offset
    assert (part.size, part.complete) == (None, False)


async def test_pages_of_a_running_progress_bar_end_before_it(connect: Connect) -> None:
    session, device = await connected(connect, b"begin\r\n 10%")
    run = await run_command(session, "copy", timeout_ms=1)
    assert run.timed_out
    await wait_until(lambda: session.stream.last_line() == b" 10%")
    reader = BlockReader()
    first = await page(reader, session, run.block_id)
    assert (first.data, first.complete) == ("begin\n", False)
    device.feed(b"\r 50%")
    second = await page(reader, session, run.block_id, offset=first.resume_offset)
    assert (second.data, second.complete) == ("", False)
    device.feed(b"\r100%\r\na  0%\r\nb  0%\r\n\x1b[2Aa 50%")
    third = await page(reader, session, run.block_id, offset=second.resume_offset)
    assert third.data == "100%\n"
    device.feed(b"\ra100%\r\nb100%\r\n" + PROMPT)
    while session.runs.current is not None:
        await session.runs.changed.wait()
    last = await page(reader, session, run.block_id, offset=third.resume_offset)
    assert (last.data, last.complete) == ("a100%\nb100%\n", True)
    whole = await page(BlockReader(), session, run.block_id)
    assert whole.data == "begin\n100%\na100%\nb100%\n"


async def test_block_past_quota_is_paged_from_the_spool(connect: Connect) -> None:
    text = "".join(LINE.format(number) for number in range(3000))
    session, _ = await connected(connect, text.replace("\n", "\r\n").encode() + PROMPT, limits=Limits(quota_bytes=65_536))
    reply = await run_command(session, "show interfaces")
    reader, offset, shown = BlockReader(), 0, ""
    while (part := await page(reader, session, reply.block_id, offset=offset, max_bytes=10_000)).data:
        assert "were not kept" in (part.message or "")
        shown, offset = shown + part.data, part.resume_offset or 0
    assert text in shown


@pytest.mark.parametrize("end_of_line", ["\r\n", "\x1b[31m;\x1b[0m\r\n", "\r10%\r20%\r\n"])
async def test_omitted_bytes_are_exact_and_can_be_read(connect: Connect, end_of_line: str) -> None:
    lines = [f"line {number} of a long output é" for number in range(30_000)]
    session, _ = await connected(connect, "".join(f"{line}{end_of_line}" for line in lines).encode() + PROMPT)
    reply = await run_command(session, "show it")
    head, told, tail = re.split(r"\[\.\.\. (.*) \.\.\.]\n", reply.stdout)
    found = re.fullmatch(r"(\d+) bytes left out here; they can be read from cursor (\d+) on", told)
    assert found is not None
    omitted, cursor = int(found[1]), int(found[2])
    assert reply.omitted_bytes == omitted
    assert len(reply.stdout.encode()) <= 32_768
    spool = session.stream.read_spool_file(0, session.stream.spool_end).decode()
    gap = spool.encode()[cursor : cursor + omitted].decode()
    first, last = len(head.splitlines()), len(tail.splitlines())
    assert head.endswith("\n")
    assert lines[first] == gap.split("\n")[0].rstrip(";")
    assert lines[-last] in spool[len(spool.encode()[: cursor + omitted].decode()) :].split("\n")[0]
    assert lines[-last - 1] in gap[-80:]
    read = await read_from(session.stream, mode="history", cursor=str(cursor), max_bytes=omitted)
    assert (read.chunk, read.next_cursor, read.max_bytes_reached) == (gap, str(cursor + omitted), True)


async def test_read_that_max_bytes_ends_says_so(connect: Connect) -> None:
    session, _ = await connected(connect, b"x" * 200 + b"\r\n" + PROMPT)
    await run_command(session, "show it")
    reply = await read_from(session.stream, cursor="0", max_bytes=100, until_regex="never")
    assert (reply.matched, reply.timed_out, reply.max_bytes_reached) == (False, False, True)
    reply = await read_from(session.stream, cursor="0")
    assert reply.max_bytes_reached is None


@pytest.mark.parametrize("end", ["timed_out", "eof"])
async def test_chunk_that_max_bytes_cuts_says_so_however_the_wait_ended(connect: Connect, end: str) -> None:
    session, device = await connected(connect, b"x" * DEFAULT_READ_BYTES + b"\r\n" + PROMPT)
    await run_command(session, "show it")
    if end == "eof":
        device.end()
        await wait_until(lambda: session.stream.ended is not None)
    reply = await read_from(session.stream, cursor="0", until_regex="never", timeout_ms=1)
    assert reply.max_bytes_reached is True
    assert (reply.timed_out, reply.next_cursor) == (end == "timed_out", str(DEFAULT_READ_BYTES))
    rest = await read_from(session.stream, cursor=reply.next_cursor, until_regex="never", timeout_ms=1)
    assert (rest.max_bytes_reached, rest.next_cursor) == (None, str(session.stream.spool_end))
    found = await read_from(session.stream, cursor="0", until_regex="(?m)x$", timeout_ms=1)
    assert (found.matched, found.max_bytes_reached) == (True, None)


async def test_truncated_read_tells_how_to_read_the_older_text(connect: Connect) -> None:
    session, _ = await connected(connect, b"x" * 20_000 + b"\r\n" + PROMPT, limits=Limits(window_bytes=4096))
    await run_command(session, "show it")
    reply = await read_from(session.stream, cursor="7")
    assert reply.truncated
    assert 'from cursor 7 on are not in memory any more: read them with mode "history"' in (reply.message or "")
    older = await read_from(session.stream, mode="history", cursor="7", max_bytes=reply.dropped_bytes)
    assert older.next_cursor == str(7 + (reply.dropped_bytes or 0))
    assert len(older.chunk or "") == reply.dropped_bytes

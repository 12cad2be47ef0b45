"""Watch: the current screen, then every byte, change and event."""

from __future__ import annotations

import asyncio
import time
from base64 import b64decode
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from ptyctl.api import Controller, ErrorCode, WatchItem, WatchRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.core.screen import ScreenModel
from ptyctl.session.clients import Client, serving
from tests.controller.session_calls import PATIENCE_MS, Open, heard, refused, say, scripted_program, session

Watching = AsyncGenerator[WatchItem, None]


def watching(handle: SessionHandle, **fields: object) -> Watching:
    return handle.controller.watch(WatchRequest.of({"session_id": handle.session_id, **fields}))


async def raw_size(handle: SessionHandle) -> int:
    entries = (await session(handle.controller, "list")).sessions
    assert entries is not None
    return entries[0].bytes_received


async def following(watch: Watching, kind: str) -> WatchItem:
    """The next item of that kind."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        async for item in watch:
            if item.kind == kind:
                return item
    raise AssertionError(f"the watch ended without {kind}")


async def output(watch: Watching, size: int) -> bytes:
    """Return the next raw bytes, up to a number."""
    data = b""
    while len(data) < size:
        data += b64decode((await following(watch, "output")).data_b64 or "")
    return data


@pytest.mark.also_remote("items with output")
async def test_watch_starts_with_screen_and_continues_with_every_byte(open_session: Open) -> None:
    handle = await scripted_program(open_session, b"\x1b[2J\x1b[3;5Hhello\x1b]0;a title\x07")
    watch = watching(handle)
    begin = await anext(watch)
    assert (begin.kind, begin.cols, begin.rows, begin.state, begin.mode) == ("begin", 120, 40, "open", "idle")
    late = ScreenModel(120, 40)
    late.feed(b64decode(begin.data_b64 or ""))
    shown = await handle.screen()
    assert list(late.snapshot().rows) == shown.rows
    assert (late.snapshot().title, late.snapshot().cursor) == ("a title", (shown.cursor_row, shown.cursor_col))
    await say(handle, b"\x1b[1mone", b"two\r\n")
    assert await output(watch, 12) == b"\x1b[1monetwo\r\n"
    await watch.aclose()


@pytest.mark.also_remote("flow control")
async def test_watch_from_offset_returns_everything_after_it(bash: SessionHandle) -> None:
    await bash.exec("seq 100000")
    size = (await session(bash.controller, "list")).sessions[0].bytes_received  # type: ignore[index]
    watch = watching(bash, from_offset=0)
    assert b64decode((await anext(watch)).data_b64 or "") == b""
    data = await output(watch, size)  # and the prompt, if it follows the reply
    assert b"".join(b"%d\r\n" % number for number in range(1, 100001)) in data
    await watch.aclose()


@pytest.mark.also_remote("items with fields, and the end")
async def test_size_lock_and_end_are_reported_in_order(bash: SessionHandle) -> None:
    watch = watching(bash)
    await anext(watch)
    await session(bash.controller, "lock", session_id=bash.session_id, task_id="one", lock_ttl_ms=60_000)
    locked = await following(watch, "terminal")
    assert (locked.lock_holder, locked.lock_expires_at is not None) == ("one", True)
    bash.task_id = "one"
    await bash.resize(100, 30)
    resized = await following(watch, "terminal")
    assert (resized.cols, resized.rows) == (100, 30)
    await bash.unlock()
    assert (await following(watch, "terminal")).lock_holder is None
    await bash.close()
    kinds = [item.kind async for item in watch]
    assert kinds[-1] == "end"


async def test_expired_lease_is_reported(bash: SessionHandle) -> None:
    await session(bash.controller, "lock", session_id=bash.session_id, task_id="one")
    watch = watching(bash)
    assert (await anext(watch)).lock_holder == "one"
    await session(bash.controller, "heartbeat", session_id=bash.session_id, task_id="one", lock_ttl_ms=1)
    while (await following(watch, "terminal")).lock_holder is not None:
        pass  # the shorter time is reported first
    await watch.aclose()


@pytest.mark.also_remote("items with events")
async def test_events_contain_their_text(bash: SessionHandle) -> None:
    watch = watching(bash)
    await anext(watch)
    await bash.exec("echo seen")
    kinds = []
    while "agent_block_end" not in kinds:
        event = (await following(watch, "event")).event or {}
        kinds.append(event["type"])
    assert kinds[0] == "agent_block_begin"
    await session(bash.controller, "lock", session_id=bash.session_id, task_id="one")
    await session(bash.controller, "lock", session_id=bash.session_id, task_id="two", force=True, reason="urgent")
    taken = (await following(watch, "event")).event or {}
    assert (taken["type"], taken["task_id"], taken["from_task_id"], taken["reason"]) == (
        "lock_taken_over", "two", "one", "urgent",
    )  # fmt: skip
    await watch.aclose()


async def test_block_deltas_are_its_output(bash: SessionHandle) -> None:
    watch = watching(bash)
    await anext(watch)
    await bash.exec("sleep 0.2; echo one; sleep 0.2; printf 'two'; sleep 0.2; echo")
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] != "agent_block_end":
        events.append((await following(watch, "event")).event or {})
    deltas, block = events[1:-1], events[-1]["block"]
    assert "".join(delta["delta"] for delta in deltas) == "one\ntwo\n"
    ends = [block["raw_begin"], *(delta["raw_to"] for delta in deltas)]
    assert ends == [*(delta["raw_from"] for delta in deltas), block["raw_end"]]
    await watch.aclose()


@pytest.mark.also_remote("flow control of several streams")
async def test_slow_watcher_does_not_delay_the_session(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    slow = watching(handle)
    await anext(slow)
    quick = watching(handle)
    await anext(quick)
    sent = b"x" * 1000 + b"\r\n"
    for _ in range(200):
        await say(handle, sent)
    assert len(await output(quick, len(sent) * 200)) == len(sent) * 200
    assert len(await output(slow, len(sent) * 200)) == len(sent) * 200
    await slow.aclose()
    await quick.aclose()


@pytest.mark.also_remote("error of a stream")
async def test_invalid_watch_is_refused(controller: Controller, bash: SessionHandle) -> None:
    with refused(ErrorCode.NOT_FOUND):
        await anext(controller.watch(WatchRequest.of({"session_id": "nobody"})))
    with refused(ErrorCode.INVALID_ARGUMENT, "past the end"):
        await anext(watching(bash, from_offset=1_000_000_000))
    with pytest.raises(Exception, match="from_offset"):
        watching(bash, from_offset=-1)


@pytest.mark.also_remote("principal of a call")
async def test_lock_of_another_principal_is_shown_with_it(bash: SessionHandle) -> None:
    watch = watching(bash)
    await anext(watch)
    with serving(Client(Principal("ci", Kind.AGENT, Role.OPERATOR))):
        await bash.lock(task_id="t")
    async for item in watch:  # output of the shell's start may come first
        if item.lock_holder is not None:
            break
    assert (item.kind, item.lock_holder, item.lock_principal) == ("terminal", "t", "ci")
    await watch.aclose()


async def test_watchers_are_listed_as_observers(bash: SessionHandle) -> None:
    watch = watching(bash, task_id="looker")
    await anext(watch)
    assert (await bash.status()).observers == ["looker"]
    await watch.aclose()


@pytest.mark.also_remote("a stream that falls behind")
async def test_watch_with_max_behind_paints_again_instead_of_much_output(open_session: Open) -> None:
    handle = await scripted_program(open_session, b"first\r\n")
    watch = watching(handle, max_behind=1000)
    begin = await anext(watch)
    await heard(handle, b"x" * 5000 + b"last")
    item = await following(watch, "begin")
    late = ScreenModel(begin.cols or 0, begin.rows or 0)
    late.feed(b64decode(item.data_b64 or ""))
    while (item.raw_offset or 0) < (begin.raw_offset or 0) + 5004:  # the terminal can deliver the output in two reads
        item = await anext(watch)
        late.feed(b64decode(item.data_b64 or ""))
    assert list(late.snapshot().rows) == (await handle.screen()).rows
    await watch.aclose()


async def test_watch_with_scrollback_paints_the_lines_above_the_screen(open_session: Open) -> None:
    handle = await scripted_program(open_session, b"".join(b"line %d\r\n" % number for number in range(100)))
    watch = watching(handle, scrollback=30)
    begin = await anext(watch)
    late = ScreenModel(begin.cols or 0, begin.rows or 0)
    late.feed(b64decode(begin.data_b64 or ""))
    assert list(late.snapshot().rows) == (await handle.screen()).rows
    lines = [*late.scrollback(1000), late.snapshot().rows[0]]
    first = int(lines[0].removeprefix("line "))
    assert lines == [f"line {number}" for number in range(first, first + 31)]
    await watch.aclose()


async def test_watch_with_max_behind_paints_again_after_resize(open_session: Open) -> None:
    handle = await scripted_program(open_session, b"text")
    watch = watching(handle, max_behind=1 << 20)
    await anext(watch)
    await handle.resize(100, 30)
    again = await following(watch, "begin")
    assert (again.cols, again.rows, bool(again.data_b64)) == (100, 30, True)
    await watch.aclose()


@pytest.mark.parametrize(("back", "is_painted"), [(0, False), (4, False), (2, True), (3, True), (100_000, True), (-1, True)])
async def test_watch_resumes_only_where_a_terminal_can_continue(open_session: Open, back: int, is_painted: bool) -> None:
    """The output ends in a sequence of 4 bytes; an offset within it, too old or past the end is not resumed."""
    handle = await scripted_program(open_session)
    start = await raw_size(handle)
    before = watching(handle, from_offset=start)
    await say(handle, b"x" * 1000 + b"\x1b[1m")
    assert (await output(before, 1004)).endswith(b"x\x1b[1m")
    await before.aclose()
    size = start + 1004
    watch = watching(handle, from_offset=max(size - back, 0), max_behind=500)
    begin = await anext(watch)
    assert bool(begin.data_b64) is is_painted
    assert begin.raw_offset == (size if is_painted else size - back)
    await watch.aclose()


async def test_watch_with_ticks_repeats_the_state_with_the_clock_of_the_server(open_session: Open) -> None:
    bash = await open_session()
    request = WatchRequest(session_id=bash.session_id, tick_ms=100)
    times = list[int]()
    async with asyncio.timeout(PATIENCE_MS / 1000), aclosing(bash.controller.watch(request)) as items:
        async for item in items:
            if item.kind in ("begin", "terminal"):
                assert (item.state, item.cols) == ("open", 120)
                assert item.ts is not None
                times.append(item.ts)
            if len(times) == 4:
                break
    assert times == sorted(times)
    assert abs(times[-1] - time.time() * 1000) < PATIENCE_MS

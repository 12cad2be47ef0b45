"""The data that each kind of subscription sends, and the flow control of a terminal."""

from __future__ import annotations

import asyncio
import struct
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple, Protocol

from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.operator import WatchItem, WatchRequest
from ptyctl.api.pty import decode_error
from ptyctl.api.screen import PtyReadScreen, ScreenReply
from ptyctl.core.sanitizer import TerminalSanitizer

from .feeds import BATCH, Feed, FeedState

#: Size of unacknowledged output at which sending pauses.
WINDOW_BYTES = 256 * 1024
#: A viewer that is further behind gets the screen instead of the output.
MAX_BEHIND_BYTES = 4 * 1024 * 1024
#: Precedes the output in a binary frame: the id of the subscription, and the raw offset after the output.
HEADER = struct.Struct(">IQ")
#: The task of a page's calls, so that two tabs of one person share a lock. Its principal makes it unique.
TASK_ID = "web"
#: Number of lines above the screen that a viewer of a terminal gets with it.
SCROLLBACK_LINES = 1000
#: A pause after each large piece of output (in base64, and seconds), which is a frame of the page: a flood reaches a viewer at
#: about 2 MB/s, more than anyone can read, and takes little time of other sessions. A viewer that falls behind gets the screen.
_FLOOD_B64_BYTES = 64 * 1024
_FLOOD_PAUSE_S = 0.033
#: A screen that is too far behind its output is drawn on after a pause, until the timeout (seconds). A session whose files
#: another process uses is busy, too, and stays so.
_BUSY_PAUSE_S = 0.1
_BUSY_TIMEOUT_S = 120.0
#: Interval at which a terminal repeats its state (ms), so that a page notices that it hears nothing from the session's server.
TICK_MS = 1000
#: Number of entries that are compared before other calls run.
_COMPARED = 20_000
#: The fields of a terminal that snapshots and changes have.
_TERMINAL = ("cols", "rows", "state", "mode", "lock_holder", "lock_principal", "lock_expires_at", "ts")


class MessageSink(Protocol):
    """Sends the messages of a subscription. Each call waits until the connection accepts the message."""

    async def send(self, op: str, **fields: Any) -> None:
        """Send a message."""
        ...

    async def send_frame(self, frame: bytes) -> None:
        """Send a binary frame."""
        ...


class Viewer:
    """One viewer of a terminal: which output it is sent, and when it has to wait. Pure.

    A viewer acknowledges the raw offset up to which its terminal has parsed the output. Every offset that it is sent is one at
    which it can resume later: it is never within a control sequence that the sanitizer holds back.
    """

    def __init__(self, subscription_id: int) -> None:
        self._id = subscription_id
        self._sanitizer = TerminalSanitizer()
        self._begin = self._sent = self._acknowledged = 0

    @property
    def must_wait(self) -> bool:
        """Whether too much output is unacknowledged."""
        return self._sent - self._acknowledged >= WINDOW_BYTES

    def begin(self, offset: int, painted: bytes = b"") -> bytes | None:
        """Start at an offset, and return the frame that paints the screen there; without a painting the viewer resumes."""
        self._sanitizer = TerminalSanitizer()
        self._begin = self._sent = self._acknowledged = offset
        data = self._sanitizer.feed(painted)
        return HEADER.pack(self._id, offset) + data if painted else None

    def output(self, offset: int, data: bytes) -> bytes | None:
        """Return the frame of output that ends at an offset; None if no part of it can be sent yet."""
        passed = self._sanitizer.feed(data)
        if not passed:
            return None
        self._sent = max(offset - self._sanitizer.held, self._begin)
        return HEADER.pack(self._id, self._sent) + passed

    def acknowledge(self, offset: int) -> None:
        """Record the offset that the viewer has parsed. Offsets beyond the sent ones, or below earlier ones, are ignored."""
        self._acknowledged = max(self._acknowledged, min(offset, self._sent))


class TerminalTopic:
    """A live terminal. Output is pulled from the session only when the viewer may get it."""

    def __init__(self, controller: Controller, output: MessageSink, subscription_id: int, session_id: str) -> None:
        self.session_id = session_id
        self._controller = controller
        self._output = output
        self._viewer = Viewer(subscription_id)
        self._acknowledged = asyncio.Event()

    def acknowledge(self, offset: int) -> None:
        """Record that the viewer has processed the output up to a raw offset."""
        self._viewer.acknowledge(offset)
        self._acknowledged.set()

    async def run(self, start: int | None) -> None:
        """Send the terminal until the session is closed. Raises PtyctlError."""
        request = WatchRequest(
            session_id=self.session_id,
            from_offset=start,
            max_behind=MAX_BEHIND_BYTES,
            scrollback=SCROLLBACK_LINES,
            tick_ms=TICK_MS,
            task_id=TASK_ID,
        )
        async with aclosing(self._controller.watch(request)) as items:
            async for item in items:
                await self._deliver(item)
                if len(item.data_b64 or "") > _FLOOD_B64_BYTES:
                    await asyncio.sleep(_FLOOD_PAUSE_S)
                while self._viewer.must_wait:
                    self._acknowledged.clear()
                    await self._acknowledged.wait()

    async def _deliver(self, item: WatchItem) -> None:
        data, offset = b64decode(item.data_b64 or ""), item.raw_offset or 0
        frame = None
        match item.kind:
            case "begin":
                await self._output.send("snapshot" if data else "resume", offset=offset, **_terminal(item))
                frame = self._viewer.begin(offset, data)
            case "output":
                frame = self._viewer.output(offset, data)
            case "terminal":
                await self._output.send("terminal", **_terminal(item))
            case "event":
                await self._output.send("event", event=item.event)
            case "end":
                await self._output.send("end", reason="closed")
        if frame is not None:
            await self._output.send_frame(frame)


async def send_sessions(feed: Feed, output: MessageSink) -> None:
    """Send all sessions of the principal, then changes. Raises PtyctlError.

    Many are sent in several messages; all but the last of these have `more`.
    """
    async for change in _changes(feed):
        is_full, removed = change.is_full, change.removed
        for begin in range(0, max(1, len(change.entries)), BATCH):
            sessions = change.entries[begin : begin + BATCH]
            more = begin + BATCH < len(change.entries)
            await output.send("sessions", sessions=sessions, removed=removed, full=is_full, more=more, **change.fields)
            is_full, removed = False, []
            await asyncio.sleep(0)  # the connection may have taken it at once


async def send_approvals(feed: Feed, output: MessageSink) -> None:
    """Send the approval requests that the principal may answer, then changes. Raises PtyctlError."""
    async for change in _changes(feed):
        await output.send("approvals", approvals=change.entries, full=change.is_full, **change.fields)


class _Change(NamedTuple):
    """Changes of a state: changed entries, and ids of removed ones. `is_full`: whether these are all entries."""

    entries: list[Mapping[str, Any]]
    removed: list[str]
    is_full: bool
    fields: Mapping[str, Any]


async def _changes(feed: Feed) -> AsyncGenerator[_Change, None]:
    """Yield all entries, then the changes in each state since the previous one."""
    before: FeedState | None = None
    async with aclosing(feed.follow()) as states:
        async for state in states:
            known = {} if before is None else before.entries
            changed = []
            for number, (key, entry) in enumerate(state.entries.items(), start=1):
                if known.get(key) is not entry:
                    changed.append(entry)
                if number % _COMPARED == 0:
                    await asyncio.sleep(0)
            removed = []
            for number, key in enumerate(known, start=1):
                if key not in state.entries:
                    removed.append(key)
                if number % _COMPARED == 0:
                    await asyncio.sleep(0)
            yield _Change(changed, removed, before is None, state.fields)
            before = state


async def send_screens(controller: Controller, session_id: str, output: MessageSink, interval_s: Callable[[], float]) -> None:
    """Send the screen of a session, and again after each change. Raises PtyctlError.

    Args:
        interval_s: returns the time between two screens.
    """
    loop = asyncio.get_running_loop()
    sent: dict[str, Any] | None = None
    while True:
        sent_at, reply = loop.time(), await _read_screen(controller, session_id)
        screen = reply.payload()
        fields = {name: screen.get(name) for name in ("rows", "attributes", "cursor", "cols", "rows_count")}
        if fields != sent:
            await output.send("screen", **fields)
            sent = fields
        if not await _wait_for_change(controller, session_id, reply):
            await output.send("end", reason="closed")
            return
        await asyncio.sleep(sent_at + interval_s() - loop.time())


async def _read_screen(controller: Controller, session_id: str) -> ScreenReply:
    """Return the screen with its attributes, or without them if they are too many. Waits until it is drawn.

    Raises:
        PtyctlError: BUSY if it is not drawn in time.
    """
    deadline = asyncio.get_running_loop().time() + _BUSY_TIMEOUT_S
    while not (reply := await controller.pty(PtyReadScreen(session_id=session_id, attributes=True))).ok:
        if (reply := await controller.pty(PtyReadScreen(session_id=session_id))).ok:
            break
        error = decode_error(reply)
        if error.code is not ErrorCode.BUSY or asyncio.get_running_loop().time() >= deadline:
            raise error
        await asyncio.sleep(_BUSY_PAUSE_S)
    assert isinstance(reply, ScreenReply)
    return reply


async def _wait_for_change(controller: Controller, session_id: str, screen: ScreenReply) -> bool:
    """Wait for output or another size after a screen; return False once the session is closed."""
    request = WatchRequest(session_id=session_id, from_offset=screen.raw_offset, task_id=TASK_ID)
    try:
        async with aclosing(controller.watch(request)) as items:
            async for item in items:
                is_resized = item.cols is not None and (item.cols, item.rows) != (screen.cols, screen.rows_count)
                if item.kind == "output" or is_resized:
                    return True
    except PtyctlError as error:
        if error.code is not ErrorCode.ALREADY_CLOSED:
            raise
    return False


def _terminal(item: WatchItem) -> dict[str, Any]:
    return {name: getattr(item, name) for name in _TERMINAL}

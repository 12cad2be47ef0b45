"""What each kind of subscription sends, as long as it runs."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Protocol

from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.operator import WatchItem, WatchRequest
from ptyctl.api.pty import decode_error
from ptyctl.api.screen import PtyReadScreen, ScreenReply

from .feeds import Feed, FeedState
from .viewer import MAX_BEHIND_BYTES, Viewer

#: The task of a page's calls. Its principal makes it unique.
TASK_ID = "web"
#: Number of lines above the screen that a viewer of a terminal gets with it.
SCROLLBACK_LINES = 1000
#: A pause after each large piece of output (in base64, and seconds): a flood reaches a viewer at about 10 MB/s, and takes
#: little time of other sessions. A viewer that falls behind gets the screen.
_FLOOD_B64_BYTES = 64 * 1024
_FLOOD_PAUSE_S = 0.006
#: The fields of a terminal that snapshots and changes have.
_TERMINAL = ("cols", "rows", "state", "mode", "lock_holder", "lock_principal", "lock_expires_at")


class Output(Protocol):
    """Where a subscription's messages go. Waits until the connection takes them."""

    async def send(self, op: str, **fields: Any) -> None:
        """Send a message."""
        ...

    async def send_frame(self, frame: bytes) -> None:
        """Send a binary frame."""
        ...


class TerminalTopic:
    """A live terminal. Output is pulled from the session only when the viewer may get it."""

    def __init__(self, controller: Controller, output: Output, viewer: Viewer) -> None:
        self._controller = controller
        self._output = output
        self._viewer = viewer
        self._acknowledged = asyncio.Event()

    def acknowledge(self, offset: int) -> None:
        """Record what the viewer has parsed."""
        self._viewer.acknowledge(offset)
        self._acknowledged.set()

    async def run(self, session_id: str, start: int | None) -> None:
        """Send the terminal until the session is closed. Raises PtyctlError."""
        request = WatchRequest(
            session_id=session_id,
            from_offset=start,
            max_behind=MAX_BEHIND_BYTES,
            scrollback=SCROLLBACK_LINES,
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


async def send_sessions(feed: Feed, output: Output) -> None:
    """Send the sessions of the principal: all of them, then what changes. Raises PtyctlError."""
    async for state, changed, removed in _changes(feed):
        is_full = changed is state.entries
        await output.send("sessions", sessions=list(changed.values()), removed=removed, full=is_full)


async def send_approvals(feed: Feed, output: Output) -> None:
    """Send the approval requests that the principal may answer, then those that change. Raises PtyctlError."""
    async for state, changed, _ in _changes(feed):
        await output.send("approvals", approvals=list(changed.values()), full=changed is state.entries, **state.fields)


async def _changes(feed: Feed) -> AsyncGenerator[tuple[FeedState, Any, list[str]], None]:
    """Yield each state with its entries that have changed and the ids of those that are gone; first with all entries."""
    before: FeedState | None = None
    async with aclosing(feed.follow()) as states:
        async for state in states:
            if before is None:
                yield state, state.entries, []
            else:
                known = before.entries
                changed = {key: entry for key, entry in state.entries.items() if known.get(key) is not entry}
                yield state, changed, [key for key in known if key not in state.entries]
            before = state


async def send_screens(controller: Controller, session_id: str, output: Output, interval_s: Callable[[], float]) -> None:
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
    """Return the screen with its attributes, or without them if they are too many."""
    reply = await controller.pty(PtyReadScreen(session_id=session_id, attributes=True))
    if not reply.ok:
        reply = await controller.pty(PtyReadScreen(session_id=session_id))
    if not reply.ok:
        raise decode_error(reply)
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

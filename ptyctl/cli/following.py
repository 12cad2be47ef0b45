"""A session's text as it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from ptyctl.api.controller import Controller
from ptyctl.api.io import IoReply, IoRequest
from ptyctl.daemon.client import DaemonGone

from .next_daemon import next_daemon

_WAIT_MS = 50_000


async def last_lines(controller: Controller, session_id: str, lines: int) -> IoReply:
    """The last lines of what is held in memory, and where they end."""
    fields = {"session_id": session_id, "action": "read", "mode": "tail", "max_bytes": 4 << 20}
    reply = await controller.io(IoRequest.of({**fields, "max_lines": max(lines, 1)}))
    return reply if lines else reply.model_copy(update={"chunk": ""})


async def follow_text(controller: Controller, session_id: str, cursor: str) -> AsyncIterator[str]:
    """What comes from a cursor on, until the far end has ended; also from the next daemon, should this one be killed."""
    async with AsyncExitStack() as connections:
        while True:
            fields = {"session_id": session_id, "action": "read", "cursor": cursor, "timeout_ms": _WAIT_MS}
            try:
                reply = await controller.io(IoRequest.of(fields))
            except DaemonGone:
                following = await next_daemon(session_id)
                if following is None:
                    return
                controller = await connections.enter_async_context(following)
                continue
            if reply.chunk:
                yield reply.chunk
            if reply.eof:
                return
            cursor = reply.next_cursor or cursor

"""A session's text as it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ptyctl.api.controller import Controller
from ptyctl.api.io import IoReply, IoRequest

_WAIT_MS = 50_000


async def last_lines(controller: Controller, session_id: str, lines: int) -> IoReply:
    """The last lines of what is held in memory, and where they end."""
    fields = {"session_id": session_id, "action": "read", "mode": "tail", "max_bytes": 4 << 20}
    reply = await controller.io(IoRequest.of({**fields, "max_lines": max(lines, 1)}))
    return reply if lines else reply.model_copy(update={"chunk": ""})


async def follow_text(controller: Controller, session_id: str, cursor: str) -> AsyncIterator[str]:
    """What comes from a cursor on, until the far end has ended."""
    while True:
        fields = {"session_id": session_id, "action": "read", "cursor": cursor, "timeout_ms": _WAIT_MS}
        reply = await controller.io(IoRequest.of(fields))
        if reply.chunk:
            yield reply.chunk
        if reply.eof:
            return
        cursor = reply.next_cursor or cursor

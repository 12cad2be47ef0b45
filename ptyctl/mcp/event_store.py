"""The events of one HTTP session, for a client of the 2025 revisions that reconnects with Last-Event-ID."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCMessage

#: The most recent events are kept: their number.
MAX_EVENTS = 100


class _Event(NamedTuple):
    event_id: str
    stream_id: str
    message: JSONRPCMessage | None


class RecentEvents(EventStore):
    """The last events of one session. Ids count from 1."""

    def __init__(self) -> None:
        self._events: deque[_Event] = deque(maxlen=MAX_EVENTS)
        self._last_id = 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Store an event, None for the first of a stream, and return its id."""
        self._last_id += 1
        self._events.append(_Event(str(self._last_id), stream_id, message))
        return str(self._last_id)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send the later events of the same stream; return the stream, or None if the event is not kept any more."""
        events = list(self._events)
        position = next((at for at, event in enumerate(events) if event.event_id == last_event_id), None)
        if position is None:
            return None
        stream_id = events[position].stream_id
        for event in events[position + 1 :]:
            if event.stream_id == stream_id and event.message is not None:
                await send_callback(EventMessage(event.message, event.event_id))
        return stream_id

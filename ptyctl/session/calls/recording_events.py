"""Events of a session's recording: its raw output with the times, sizes and incarnations of the timeline."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path

from ptyctl.api.errors import invalid
from ptyctl.api.history import RecordingEvent, RecordingReply
from ptyctl.session.session import Session
from ptyctl.session.transcript.timeline import TimelineRow, read_times

#: Largest number of events in one reply.
MAX_EVENTS = 5_000


async def read_recording_events(session: Session, from_offset: int, max_bytes: int) -> RecordingReply:
    """Return the events from a raw offset on, without output that was not stored.

    Raises:
        PtyctlError: INVALID_ARGUMENT for an offset past the end.
    """
    source = session.display.source
    if from_offset > source.end:
        raise invalid(f"from_offset {from_offset} is past the end, {source.end}", field="from_offset")
    begin, end = from_offset, source.end
    data = source.read(begin, min(end, begin + max_bytes))
    if not data:
        begin = min(source.next_readable(begin), end)
        data = source.read(begin, min(end, begin + max_bytes))
    timeline = session.stream.folder / "timeline.jsonl"
    is_last = begin + len(data) == end
    events, resume = await asyncio.to_thread(_events, timeline, begin, data, is_last=is_last)
    return RecordingReply(
        session_id=session.session_id, events=events, resume_offset=resume, complete=is_last and resume == end
    )


def _events(timeline: Path, begin: int, data: bytes, *, is_last: bool) -> tuple[list[RecordingEvent], int]:
    """Return the events of the output from an offset on, and the offset up to which they go.

    A change of the terminal at the end belongs to the next reply, unless there is no more output.
    """
    end, at, ts = begin + len(data), begin, 0
    events: list[RecordingEvent] = []

    def add_output(until: int) -> None:
        if until > at:
            events.append(RecordingEvent(offset=until, ts=ts, data_b64=b64encode(data[at - begin : until - begin]).decode()))

    for row in read_times(timeline, begin):
        if row.raw > end or len(events) >= MAX_EVENTS:
            break
        add_output(row.raw)
        at, ts = max(at, row.raw), max(ts, row.ts)
        if row.raw >= begin and (row.raw < end or is_last) and (step := _step(row, ts)) is not None:
            events.append(step)
    if len(events) >= MAX_EVENTS:
        return events, at
    add_output(end)
    return events, end


def _step(row: TimelineRow, ts: int) -> RecordingEvent | None:
    if row.size is not None:
        return RecordingEvent(offset=row.raw, ts=ts, cols=row.size[0], rows=row.size[1])
    return RecordingEvent(offset=row.raw, ts=ts, incarnation=row.incarnation) if row.incarnation is not None else None

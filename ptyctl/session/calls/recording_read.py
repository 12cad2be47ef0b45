"""Reads of a session's recording, its raw output with the times of timeline.jsonl: as a log of lines, and as events."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path

from ptyctl.api.errors import invalid
from ptyctl.api.history import RecordingEvent, RecordingReply
from ptyctl.api.operator import LogLine, LogReply
from ptyctl.core.renderer import WidthHistory, render
from ptyctl.session.session import Session
from ptyctl.session.transcript.timeline import TimelineRow, read_times

#: Bytes read for one reply of the log; a longer line is returned in parts.
_LOG_BYTES = 256 * 1024
#: Largest number of events in one reply.
_MAX_EVENTS = 5_000


async def read_console_log(session: Session, from_offset: int, limit: int) -> LogReply:
    """Return lines from a raw offset on, at most `limit`, and at most _LOG_BYTES of output."""
    source = session.display.source
    begin = from_offset if source.read(from_offset, from_offset + 1) else source.next_readable(from_offset)
    end = min(source.end, begin + _LOG_BYTES)
    data = source.read(begin, end)
    timeline = session.stream.folder / "timeline.jsonl"
    pieces = source.shown_pieces(begin, data)
    log = _Log(pieces, end if data else begin, session.stream.widths, at_end=end == source.end)
    lines, resume = await asyncio.to_thread(log.lines, timeline, limit)
    return LogReply(session_id=session.session_id, lines=lines, resume_offset=resume, complete=resume + log.open == source.end)


@dataclass
class _Log:
    """One reply: the shown output in pieces with their raw offsets, up to the raw offset `end`.

    `open` is the raw size of an incomplete last line.
    """

    pieces: list[tuple[int, bytes]]
    end: int
    widths: WidthHistory
    at_end: bool
    open: int = 0
    data: bytes = field(init=False)
    _at: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.data = b"".join(piece for _, piece in self.pieces)
        self._at = [0, *accumulate(len(piece) for _, piece in self.pieces)]

    def _raw(self, at: int) -> int:
        """Return the raw offset of a position in `data`, or of its end."""
        if at >= len(self.data):
            return self.end
        number = bisect_right(self._at, at) - 1
        begin, limit = self.pieces[number][0], self.pieces[number + 1][0] if number + 1 < len(self.pieces) else self.end
        return min(begin + at - self._at[number], limit - 1)

    def lines(self, timeline: Path, limit: int) -> tuple[list[LogLine], int]:
        """Return the lines, and the offset after the last complete one."""
        begin = self._raw(0)
        times = _Times(read_times(timeline, begin), begin)
        found: list[LogLine] = []
        cuts = [0, *(match.end() for match in re.finditer(b"\n", self.data))]
        if len(cuts) == 1 and self.data and self.end - self.pieces[0][0] >= _LOG_BYTES:  # a part of a long line
            cuts.append(len(self.data))
        for at, end in pairwise(cuts):
            if len(found) >= limit:
                return found + times.incarnations(self._raw(at) - 1), self._raw(at)
            found += times.incarnations(self._raw(at))
            found.append(LogLine(kind="line", ts=times.at(self._raw(end - 1)), text=self._shown(at, end)))
        rest, size = cuts[-1], len(self.data)
        found += times.incarnations(self._raw(rest) - 1)
        if self.at_end and rest < size:
            self.open = self.end - self._raw(rest)
            found.append(LogLine(kind="open", ts=times.at(self._raw(size - 1)), text=self._shown(rest, size)))
        return found, self._raw(rest)

    def _shown(self, begin: int, end: int) -> str:
        return render(self.data[begin:end], self.widths.width_at(self._raw(begin))).rstrip("\n").rpartition("\n")[2]


class _Times:
    """Reads a timeline in step with the lines.

    An incarnation is part of the reply that reaches its offset.
    """

    def __init__(self, rows: Iterator[TimelineRow], begin: int) -> None:
        self._rows = rows
        self._begin = begin
        self._next = next(rows, None)
        self._ts = self._next.ts if self._next is not None else 0
        self._begun: list[LogLine] = []

    def at(self, raw: int) -> int:
        """Return when the byte at a raw offset arrived (epoch ms)."""
        while self._next is not None and self._next.raw <= raw:
            self._ts = self._next.ts
            if self._next.incarnation is not None and self._next.incarnation > 1 and self._next.raw >= self._begin:
                text = f"incarnation {self._next.incarnation} begins"
                self._begun.append(LogLine(kind="incarnation", ts=self._next.ts, text=text))
            self._next = next(self._rows, None)
        return self._ts

    def incarnations(self, raw: int) -> list[LogLine]:
        """Return the incarnations up to an offset that were not returned before."""
        self.at(raw)
        begun, self._begun = self._begun, []
        return begun


async def read_recording_events(session: Session, from_offset: int, max_bytes: int) -> RecordingReply:
    """Return the events from a raw offset on, without output that was not stored.

    Raises:
        PtyctlError: INVALID_ARGUMENT for an offset past the end.
    """
    source = session.display.source
    if from_offset > source.size:
        raise invalid(f"from_offset {from_offset} is past the end, {source.size}", field="from_offset")
    begin, end = from_offset, source.end
    data = source.read(begin, min(end, begin + max_bytes))
    if not data:
        begin = min(source.next_readable(begin), end)
        data = source.read(begin, min(end, begin + max_bytes))
    timeline = session.stream.folder / "timeline.jsonl"
    is_last = begin + len(data) == end
    events, resume = await asyncio.to_thread(_events, timeline, begin, data, source.shown, is_last=is_last)
    return RecordingReply(
        session_id=session.session_id, events=events, resume_offset=resume, complete=is_last and resume == end
    )


def _events(
    timeline: Path, begin: int, data: bytes, shown: Callable[[int, bytes], bytes], *, is_last: bool
) -> tuple[list[RecordingEvent], int]:
    """Return the events of the output from an offset on, and the offset up to which they go.

    A change of the terminal at the end belongs to the next reply, unless there is no more output.
    """
    end, at, ts = begin + len(data), begin, 0
    events: list[RecordingEvent] = []

    def add_output(until: int) -> None:
        if until > at:
            output = shown(at, data[at - begin : until - begin])
            events.append(RecordingEvent(offset=until, ts=ts, data_b64=b64encode(output).decode()))

    for row in read_times(timeline, begin):
        if row.raw > end or len(events) >= _MAX_EVENTS:
            break
        add_output(row.raw)
        at, ts = max(at, row.raw), max(ts, row.ts)
        if row.raw >= begin and (row.raw < end or is_last) and (change := _terminal_change(row, ts)) is not None:
            events.append(change)
    if len(events) >= _MAX_EVENTS:
        return events, at
    add_output(end)
    return events, end


def _terminal_change(row: TimelineRow, ts: int) -> RecordingEvent | None:
    """Return the event of a row with a new size or incarnation; None for other rows."""
    if row.size is not None:
        return RecordingEvent(offset=row.raw, ts=ts, cols=row.size[0], rows=row.size[1])
    return RecordingEvent(offset=row.raw, ts=ts, incarnation=row.incarnation) if row.incarnation is not None else None

"""Events of a session, in memory and in events.jsonl: the start, output and end of blocks, and session changes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ptyctl.api.blocks import Block
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.io.signal import Signal
from ptyctl.session.io.time_slice import TimeSlice
from ptyctl.session.transcript.append_file import AppendFile, json_line
from ptyctl.session.transcript.stored_blocks import BlockRow, EventLogPosition, is_discarded

from .run import Run

#: Output of a block is collected into one delta for this long (seconds).
DELTA_S = 0.05
#: Text in one delta; more is read by its offsets.
DELTA_BYTES = 64 * 1024
#: Number of events in memory.
KEPT_EVENTS = 1024


class Events:
    """Numbered events. In the file a delta has only its offsets; readers get its text from the spool."""

    def __init__(
        self,
        folder: Path,
        stream: OutputStream,
        session_id: str,
        conversation_id: str,
        signal: Signal,
        position: EventLogPosition,
        max_bytes: int,
    ) -> None:
        """Open the file.

        Args:
            signal: notified of each event.
            position: the last event that an earlier process published.
            max_bytes: largest size of events.jsonl.
        """
        self._ids = {"conversation_id": conversation_id, "session_id": session_id}
        self._signal = signal
        self._stream = stream
        self._file = AppendFile(folder / "events.jsonl", max_bytes)
        #: Each event with the range of its text in the spool: deltas of a flood hold no text in memory.
        self._kept: deque[tuple[dict[str, Any], range]] = deque(maxlen=KEPT_EVENTS)
        self._position = position
        self._count = position.events
        self._unwritten: list[dict[str, Any]] = []
        self._block: BlockRow | None = None
        self._run: Run | None = None  # until its output begins
        self._raw = 0
        self._spool = 0
        self._timer: asyncio.TimerHandle | None = None
        stream.subscribe_output(self._output_received)

    @property
    def growing(self) -> bool:
        """Whether new events are stored."""
        return self._file.growing

    @property
    def cursor(self) -> int:
        """Number of the next event."""
        return self._count

    def since(self, cursor: int) -> tuple[list[dict[str, Any]], int]:
        """Return the events in memory with this number or a later one, and the number of the next event."""
        first = self._count - len(self._kept)
        events = [self._with_text(*kept) for number, kept in enumerate(self._kept, first) if number >= cursor]
        return events, self._count

    def begin(self, block: BlockRow, run: Run | None = None) -> None:
        """Publish the start of a block. The offset of its output comes from `run`, or from the block without a run."""
        self._publish_delta()
        self._block, self._run, self._raw, self._spool = block, run, block["raw_begin"], block["spool_begin"]
        self._publish_block("agent_block_begin", block)

    def end(self, block: BlockRow) -> None:
        """Publish the rest of a block's output and its end."""
        self._run = None
        self._raw, self._spool = max(self._raw, block["raw_begin"]), max(self._spool, block["spool_begin"])
        self._publish_delta(block["raw_end"], block["spool_end"])
        self._block = None
        self._publish_block("agent_block_end", block)

    async def catch_up(self, blocks: Iterable[Block]) -> None:
        """Publish the events that a killed server did not: each typed block has exactly one begin and one end event.

        `blocks`: the last block in the log, and the blocks after it. If cancelled, the next server publishes the rest.
        """
        position, time_slice = self._position, TimeSlice()
        for block in blocks:
            if self._block is None:
                await time_slice.yield_if_over()
            begun = block.block_id == position.block_id
            if (begun and position.ended) or (not begun and is_discarded(block)):
                continue
            row = block.payload()
            if not begun:
                self.begin(row)
            raw = position.raw_to if begun and position.raw_to is not None else block.raw_begin
            self._block, self._raw, self._spool = row, raw, self._stream.spool_end
            if block.ts_end is not None:
                self.end(row)
            self._append_rows()
        self.flush()

    def note(self, kind: str, **fields: Any) -> None:
        """Publish an event that belongs to no block, such as a reset, a reconnect or a take-over of the lock."""
        self._publish({"type": kind, **self._ids, **fields})

    def flush(self) -> None:
        """Write the buffered rows."""
        self._append_rows()
        self._file.flush()

    def _append_rows(self) -> None:
        for event in self._unwritten:
            self._file.append(json_line(event))
        self._unwritten.clear()

    def close(self) -> None:
        """Write everything and close the file."""
        if self._timer is not None:
            self._timer.cancel()
        self.flush()
        self._file.close()

    def _output_received(self, raw: int, data: bytes) -> None:
        if self._block is not None and self._timer is None:
            self._publish_soon()

    def _publish_soon(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(DELTA_S, self._publish_collected)

    def _publish_collected(self) -> None:
        self._timer = None
        self._publish_delta()
        self.flush()

    def _publish_delta(self, raw_to: int | None = None, spool_to: int | None = None) -> None:
        """Publish the output since the last delta, up to the given offsets or the end of the output."""
        if self._block is None:
            return
        raw = self._stream.raw_size if raw_to is None else raw_to
        spool = self._stream.spool_end if spool_to is None else spool_to
        if not self._output_began() or raw <= self._raw:
            return
        text = range(self._spool, min(spool, self._spool + DELTA_BYTES))
        offsets = {"block_id": self._block["block_id"], "raw_from": self._raw, "raw_to": raw}
        self._raw, self._spool = raw, spool
        self._publish({"type": "agent_block_delta", **self._ids, **offsets}, text)

    def _output_began(self) -> bool:
        """Return whether the output has begun; the echo of the command precedes it."""
        if self._run is not None and self._run.spool_begin is not None:
            self._raw = self._raw if self._run.raw_begin is None else self._run.raw_begin
            self._spool, self._run = self._run.spool_begin, None
        return self._run is None

    def _publish_block(self, kind: str, block: BlockRow) -> None:
        """Publish a block without the path of its output file, which is written only when a call names it."""
        fields = {name: value for name, value in block.items() if name != "output_path"}
        self._publish({"type": kind, **self._ids, "block": fields})

    def _publish(self, event: dict[str, Any], text: range = range(0)) -> None:
        """Publish an event now and write it later. After a crash it is restored from the rows of the blocks."""
        self._unwritten.append(event)
        self._kept.append((event, text))
        self._count += 1
        if self._timer is None:
            self._publish_soon()
        self._signal.notify()

    def _with_text(self, event: dict[str, Any], text: range) -> dict[str, Any]:
        """Return an event with the text of its delta."""
        if event["type"] != "agent_block_delta":
            return event
        return {**event, "delta": self._stream.read(text.start, text.stop).decode("utf-8", "replace")}

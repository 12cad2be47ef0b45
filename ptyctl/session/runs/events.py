"""events.jsonl, and the same as a stream in the process: what begins, goes on and ends in a session (CONTRACTS, blocks)."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from ptyctl.api.blocks import Block
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.io.signal import Signal
from ptyctl.session.transcript.append_file import AppendFile
from ptyctl.session.transcript.block_recovery import EventLogPosition

from .run import Run

#: Deltas of one block are gathered for so long: a flood makes a few large ones.
DELTA_S = 0.05
#: A delta carries at most so much text; the rest is read by its offsets.
DELTA_BYTES = 64 * 1024
#: Events that a reader may still be behind.
KEPT_EVENTS = 1024


class Events:
    """Each event has a number; a reader asks for what came `since` one. In the file a delta keeps its offsets only. `pulse`
    beats with each."""

    def __init__(
        self, folder: Path, stream: OutputStream, session_id: str, conversation_id: str, signal: Signal, told: EventLogPosition
    ) -> None:
        """`told` is what an earlier process has told."""
        self.signal = signal
        self.conversation_id = conversation_id
        self._session_id = session_id
        self._stream = stream
        self._file = AppendFile(folder / "events.jsonl")
        #: With each where its text is in the spool: a flood of deltas takes no memory, and only who asks has them read.
        self._kept: deque[tuple[dict[str, Any], range]] = deque(maxlen=KEPT_EVENTS)
        self._told = told
        self._count = told.events
        self._unwritten: list[dict[str, Any]] = []
        self._block: Block | None = None
        self._run: Run | None = None  # until its output begins
        self._raw = 0
        self._spool = 0
        self._timer: asyncio.TimerHandle | None = None
        stream.subscribe_output(self._text_came)

    @property
    def cursor(self) -> int:
        """The number of the next event."""
        return self._count

    def since(self, cursor: int) -> tuple[list[dict[str, Any]], int]:
        """The events from a number on, as far as they are kept, and the number behind them."""
        first = self._count - len(self._kept)
        events = [self._shown(*kept) for number, kept in enumerate(self._kept, first) if number >= cursor]
        return events, self._count

    def begin(self, block: Block, run: Run | None = None) -> None:
        """`run` tells where its output begins; without one the block does."""
        self._flush_delta()
        self._block, self._run, self._raw, self._spool = block, run, block.raw_begin, block.spool_begin
        self._block_event("agent_block_begin", block)

    def end(self, block: Block) -> None:
        self._run = None
        self._raw, self._spool = max(self._raw, block.raw_begin), max(self._spool, block.spool_begin)
        self._flush_delta(block.raw_end, block.spool_end)
        self._block = None
        self._block_event("agent_block_end", block)

    def catch_up(self, blocks: list[Block]) -> None:
        """Tells what a killed server had no time to tell: each block has one begin and one end, as its rows say."""
        told, ids = self._told, [block.block_id for block in blocks]
        first = 0 if told.block_id is None else ids.index(told.block_id) if told.block_id in ids else len(ids)
        for block in blocks[first:]:
            half = block.block_id == told.block_id
            if half and told.ended:
                continue
            if not half:
                self.begin(block)
            so_far = told.raw_to if half and told.raw_to is not None else block.raw_begin
            self._block, self._raw, self._spool = block, so_far, self._stream.spool_end
            if block.ts_end is not None:
                self.end(block)
        self.flush()

    def note(self, kind: str, **more: Any) -> None:
        """Something else happened to the session: a reset, a reconnect."""
        self._emit({"type": kind, **self._who(), **more})

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.flush()
        self._file.close()

    def disk_bytes(self) -> int:
        return self._file.size

    def _text_came(self, raw: int, data: bytes) -> None:
        if self._block is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELTA_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._flush_delta()
        self.flush()

    def _flush_delta(self, raw_to: int | None = None, spool_to: int | None = None) -> None:
        """Tells what came since the last delta, up to the block's end where that is known."""
        if self._block is None:
            return
        raw = self._stream.raw_size if raw_to is None else raw_to
        spool = self._stream.spool_end if spool_to is None else spool_to
        if not self._output_began() or raw <= self._raw:
            return
        text = range(self._spool, min(spool, self._spool + DELTA_BYTES))
        where = {"block_id": self._block.block_id, "raw_from": self._raw, "raw_to": raw}
        self._raw, self._spool = raw, spool
        self._emit({"type": "agent_block_delta", **self._who(), **where}, text)

    def _output_began(self) -> bool:
        """What comes before is the echo of the command."""
        if self._run is not None and self._run.spool_begin is not None:
            self._raw = self._raw if self._run.raw_begin is None else self._run.raw_begin
            self._spool, self._run = self._run.spool_begin, None
        return self._run is None

    def _block_event(self, kind: str, block: Block) -> None:
        self._emit({"type": kind, **self._who(), "block": block})

    def _emit(self, event: dict[str, Any], text: range = range(0)) -> None:
        """Tells it at once; the file hears of it with the next tick, and after a crash from the blocks' rows."""
        self._unwritten.append(event)
        self._kept.append((event, text))
        self._count += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELTA_S, self._tick)
        self.signal.notify()

    def flush(self) -> None:
        """Writes the rows that wait."""
        for event in self._unwritten:
            self._file.append(to_json(event, exclude_none=True) + b"\n")
        self._unwritten.clear()
        self._file.flush()

    def _shown(self, event: dict[str, Any], text: range) -> dict[str, Any]:
        """As a reader gets it: in the file a delta has no text."""
        if isinstance(block := event.get("block"), Block):
            return {**event, "block": block.payload()}
        if event["type"] != "agent_block_delta":
            return event
        return {**event, "delta": self._stream.read(text.start, text.stop).decode("utf-8", "replace")}

    def _who(self) -> dict[str, str]:
        return {"conversation_id": self.conversation_id, "session_id": self._session_id}

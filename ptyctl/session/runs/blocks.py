"""blocks.jsonl: every run of a session on disk, from its start; blocks/*.out: copies of outputs, written on request.

A block has two rows, one when it begins and one when it ends; the later one applies. A block without an end was interrupted by
a crash, and the next start closes it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice, takewhile
from pathlib import Path

from ptyctl.api.blocks import Block, BlockRefusal
from ptyctl.api.errors import ErrorCode
from ptyctl.api.model import MAX_LIST_BYTES
from ptyctl.api.session import BlockStatus
from ptyctl.session.io.output_stream import MarksHandled, OutputStream
from ptyctl.session.io.time_slice import TimeSlice
from ptyctl.session.transcript.append_file import AppendFile, json_line
from ptyctl.session.transcript.stored_blocks import BlockRow, StoredBlocks, is_discarded, output_size, write_outputs

from .run import Run

#: Larger outputs are written in a thread.
_THREAD_BYTES = 1 << 20
#: Number of blocks in memory as objects (about 3.6 KB each). Older ones are in memory as rows, or dropped if not on disk.
RECENT_BLOCKS = 16_384


class Blocks:
    """All blocks of a session, oldest first."""

    def __init__(self, session_id: str, folder: Path, stream: OutputStream, stored: StoredBlocks, max_bytes: int) -> None:
        """Open the file. `stored` are the blocks of an earlier process; `max_bytes` is the largest size of blocks.jsonl."""
        self._session_id = session_id
        self._output_prefix = f"{folder}/blocks/"
        self._stream = stream
        self._file = AppendFile(folder / "blocks.jsonl", max_bytes)
        self._blocks, self._rows = stored.blocks, stored.rows
        #: The ids of the blocks that are stored as objects or rows instead of bytes, and of the blocks whose command was typed.
        self._recent, self._typed = deque(stored.unfinished), stored.typed()
        self._last_seq = stored.last_seq
        self._held: dict[str, Block] = {}
        self._unwritten: list[BlockRow] = []
        stream.subscribe(MarksHandled, lambda event: self.flush())
        Path(self._output_prefix).mkdir(mode=0o700, exist_ok=True)

    @property
    def growing(self) -> bool:
        """Whether new rows are stored."""
        return self._file.growing

    @property
    def rows(self) -> int:
        """Number of rows in the file: the end of the cursor space of `since`."""
        return len(self._rows)

    def last_seq(self) -> int:
        """Return the number of the last block, or 0."""
        return self._last_seq

    def all(self) -> list[Block]:
        """Return all blocks. Parsing many older ones blocks the event loop: `iterate` and yield to it instead."""
        return list(self.iterate())

    def begun_since(self, block_id: str | None) -> Iterator[Block]:
        """Iterate over a block and the blocks that began after it. None iterates over all; an unknown id over none."""
        if block_id is None:
            return self.iterate()
        if block_id not in self._blocks:
            return iter(())
        later = list(takewhile(lambda each: each != block_id, reversed(self._blocks)))
        return map(self._block, (block_id, *reversed(later)))

    def iterate(self) -> Iterator[Block]:
        """Return an iterator over the current blocks. An older block is parsed when it is reached, in about 10 µs."""
        return map(self._parse, list(self._blocks.values()))

    def changed_since(self, cursor: int) -> Iterator[Block]:
        """Yield the blocks with a row at or after a cursor, last changed first. Blocks may change during the iteration."""
        seen = set[str]()
        for at in range(len(self._rows) - 1, cursor - 1, -1):
            if (block_id := self._rows[at]) not in seen and block_id in self._blocks:
                seen.add(block_id)
                yield self._block(block_id)

    def of_row(self, cursor: int) -> Block | None:
        """Return the block that has the row at a cursor, or None if it was dropped."""
        return self._block(block_id) if (block_id := self._rows[cursor]) in self._blocks else None

    def latest(self) -> Block | None:
        """Return the last block whose command was typed."""
        while self._typed:
            block_id = self._typed[-1]
            if block_id in self._blocks and not is_discarded(block := self._block(block_id)):
                return block
            self._typed.pop()
        return None

    def get(self, block_id: str) -> Block | None:
        """Return the block with this id, including the block of a run that waits for an approval."""
        return self._block(block_id) if block_id in self._blocks else self._held.get(block_id)

    async def since(self, cursor: int, limit: int) -> tuple[list[Block], int]:
        """Return the blocks with a row at or after a cursor, each once and in its current form, and the cursor after them.

        Yields to the event loop. Rows that are added meanwhile are after the cursor.
        """
        blocks: dict[str, Block | None] = {}
        at, end, room = max(cursor, 0), len(self._rows), MAX_LIST_BYTES
        time_slice = TimeSlice()
        while at < end:
            if (block_id := self._rows[at]) not in blocks:
                if len(blocks) >= limit or room <= 0:
                    break
                blocks[block_id] = block = self._block(block_id) if block_id in self._blocks else None
                room -= 0 if block is None else len(block.cmd)
                await time_slice.yield_if_over()
            at += 1
        return [block for block in blocks.values() if block is not None], at

    async def last(self, count: int) -> list[Block]:
        """Return the last blocks as they are now: at most `count`, and fewer if their commands are long. Yields to the loop."""
        blocks: list[Block] = []
        room, time_slice = MAX_LIST_BYTES, TimeSlice()
        for stored in [self._blocks[block_id] for block_id in islice(reversed(self._blocks), count)]:
            if room <= 0:
                break
            blocks.append(self._parse(stored))
            room -= len(blocks[-1].cmd)
            await time_slice.yield_if_over()
        return blocks[::-1]

    def discard(self, run: Run) -> BlockRow:
        """Add the block of a run whose command was refused and not typed. Return its row."""
        self.begin(run)
        return self.end(run, _refusal(run))

    def hold(self, run: Run) -> None:
        """Keep the block of a run that waits for an approval, in memory only."""
        self._held[run.block_id] = Block(**{**self._row(run), "status": "awaiting_approval"})

    def begin(self, run: Run) -> BlockRow:
        """Add the block of a run that has begun; return its row. `flush` writes it: typing the command comes first."""
        self._held.pop(run.block_id, None)
        return self._store(self._row(run))

    def _row(self, run: Run) -> BlockRow:
        stream = self._stream
        return {
            "block_id": run.block_id,
            "seq": run.seq,
            "session_id": self._session_id,
            "origin": run.origin,
            "cmd": run.command if run.submitted is None else run.submitted,
            "cwd": self._cwd() if run.cwd is None else run.cwd,
            "ts_begin": run.started_ms,
            "status": "interactive" if run.origin == "interactive" else "running",
            "output_path": f"{self._output_prefix}{run.block_id}.out",
            "raw_begin": stream.raw_size if run.raw_begin is None else run.raw_begin,
            "spool_begin": stream.spool_end if run.spool_begin is None else run.spool_begin,
            "task_id": run.task_id,
        }

    def end(self, run: Run, refused: BlockRefusal | None = None) -> BlockRow:
        """Complete the block of a run that has ended, also on disk; return its row."""
        result = run.result
        assert result is not None
        status, reason = _outcome(run)
        begun = self._blocks[run.block_id]
        row = begun if isinstance(begun, dict) else self._block(run.block_id).__dict__
        ended = {
            "ts_end": int(time.time() * 1000),
            "status": status,
            "reason": reason,
            "refused": refused,
            "exit_code": result.exit_code,
            "error_hints": result.error_hints or None,
            "prompt_before": run.prompt_before if run.echoed else None,
            "device": run.on_device or None,
            "prompt_after": result.prompt_after or None,
            "raw_begin": row["raw_begin"] if run.raw_begin is None else run.raw_begin,
            "raw_end": result.raw_end,
            "spool_begin": row["spool_begin"] if run.spool_begin is None else run.spool_begin,
            "spool_end": result.spool_end,
        }
        row = self._store({**row, **ended})
        if status == "cancelled" or refused is not None:
            self.latest()  # drops the block if it is the last one, before many accumulate
        self.flush()
        return row

    def close(self) -> None:
        """Write everything and close the file."""
        self.flush()
        self._file.close()

    async def write_outputs(self, blocks: list[Block], max_bytes: int | None = None) -> None:
        """Write the output files of ended blocks, as far as they are missing and not larger than `max_bytes`."""
        kept = self._stream.raw_kept
        sizes = {block.block_id: output_size(block, kept) for block in blocks if block.ts_end is not None}
        wanted = [block for block in blocks if block.block_id in sizes]
        wanted = [block for block in wanted if max_bytes is None or sizes[block.block_id] <= max_bytes]
        if len(wanted) > 1 or any(sizes[block.block_id] > _THREAD_BYTES for block in wanted):
            await asyncio.to_thread(write_outputs, wanted, self._stream.raw_path, kept)
        else:
            write_outputs(wanted, self._stream.raw_path, kept)

    def flush(self) -> None:
        """Write the buffered rows. Rows of marks that arrive together are written at once, after the last mark."""
        if self._stream.handling_marks:
            return
        for row in self._unwritten:
            self._file.append(json_line(row))
        self._unwritten.clear()
        self._file.flush()

    def _cwd(self) -> str | None:
        """Return the directory that the last prompt mark reported."""
        last = self._stream.last_prompt
        return None if last is None else last.directory

    def _block(self, block_id: str) -> Block:
        return self._parse(self._blocks[block_id])

    def _parse(self, stored: Block | BlockRow | bytes) -> Block:
        """Return a stored block. Most blocks are never read, so rows are converted only here."""
        if isinstance(stored, Block):
            return stored
        if isinstance(stored, bytes):
            return Block.model_validate_json(stored)
        block = Block(**stored)
        if self._blocks.get(block.block_id) is stored:  # it has not changed since
            self._blocks[block.block_id] = block
        return block

    def _store(self, fields: BlockRow) -> BlockRow:
        """Add a row with the fields that are not None; `flush` writes it."""
        row = {name: value for name, value in fields.items() if value is not None}
        self._add(row["block_id"], row["seq"], row)
        self._unwritten.append(row)
        return row

    def _add(self, block_id: str, seq: int, stored: Block | BlockRow) -> None:
        """Add a block or its new form, and compact or drop the oldest."""
        if block_id not in self._blocks:
            self._recent.append(block_id)
            self._typed.append(block_id)
        self._blocks[block_id] = stored
        self._last_seq = max(self._last_seq, seq)
        self._rows.append(block_id)
        if len(self._recent) > RECENT_BLOCKS:
            self._compact(self._recent.popleft())

    def _compact(self, block_id: str) -> None:
        block = self._block(block_id)
        if block.ts_end is None:
            self._recent.append(block_id)
        elif self._file.growing:
            self._blocks[block_id] = block.json_bytes()
        else:
            del self._blocks[block_id]


def _outcome(run: Run) -> tuple[BlockStatus, str | None]:
    """Return the block's status and the reason of a failure or cancellation."""
    result = run.result
    assert result is not None
    if result.done_reason == "eof":
        return ("completed", None) if result.exit_code is not None else ("failed", "the far end closed")
    if result.failure is not None and result.cancel_reason is None:
        return "failed", result.failure.message
    if result.done_reason == "cancelled":
        return "cancelled", result.cancel_reason or "interrupted"
    return "completed", None


def _refusal(run: Run) -> BlockRefusal:
    """Return why nothing was typed for a run."""
    result = run.result
    assert result is not None
    if result.failure is None or result.failure.code is ErrorCode.POLICY_DENIED:
        return "denied"
    reason: BlockRefusal = result.failure.details.get("reason", "withdrawn")
    return reason

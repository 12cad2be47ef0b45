"""blocks.jsonl: every run of a session on disk, from its start; blocks/*.out: copies of outputs, written on request.

A block has two rows, one when it begins and one when it ends; the later one applies. A block without an end was interrupted by
a crash, and the next start closes it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from pathlib import Path

from ptyctl.api.blocks import Block, BlockStatus
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.transcript.append_file import AppendFile
from ptyctl.session.transcript.block_recovery import has_output, output_size, write_outputs

from .run import Run

#: Number of blocks in memory as objects (about 3.6 KB each). Older ones are in memory as rows, or dropped if not on disk.
RECENT_BLOCKS = 16_384
#: Larger outputs are written in a thread.
_THREAD_BYTES = 1 << 20


class Blocks:
    """All blocks of a session, oldest first."""

    def __init__(self, session_id: str, folder: Path, stream: OutputStream, rows: list[Block], max_bytes: int) -> None:
        """Open the file. `rows` are the rows of an earlier process; `max_bytes` is the largest size of blocks.jsonl."""
        self._session_id = session_id
        self._output_folder = folder / "blocks"
        self._stream = stream
        self._file = AppendFile(folder / "blocks.jsonl", max_bytes)
        self._blocks: dict[str, Block | bytes] = {}
        self._recent: deque[str] = deque()
        self._last_seq = 0
        self._rows: list[str] = []
        for block in rows:
            self._add(block)
        self._unwritten: list[Block] = []
        self._output_folder.mkdir(mode=0o700, exist_ok=True)

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
        """Return all blocks."""
        return [_decoded(stored) for stored in self._blocks.values()]

    def latest(self) -> Block | None:
        """Return the last block."""
        stored = next(reversed(self._blocks.values()), None)
        return None if stored is None else _decoded(stored)

    def get(self, block_id: str) -> Block | None:
        """Return the block with this id."""
        stored = self._blocks.get(block_id)
        return None if stored is None else _decoded(stored)

    def since(self, cursor: int, limit: int) -> tuple[list[Block], int]:
        """Return the blocks with a row at or after a cursor, each once and in its current form, and the cursor after them."""
        ids: dict[str, None] = {}
        at = max(cursor, 0)
        while at < len(self._rows) and (len(ids) < limit or self._rows[at] in ids):
            ids[self._rows[at]] = None
            at += 1
        return [_decoded(self._blocks[block_id]) for block_id in ids if block_id in self._blocks], at

    def begin(self, run: Run) -> Block:
        """Add the block of a run that has begun."""
        stream = self._stream
        block = Block(
            block_id=run.block_id,
            seq=run.seq,
            session_id=self._session_id,
            origin=run.origin,
            cmd=run.command if run.submitted is None else run.submitted,
            cwd=self._cwd() if run.cwd is None else run.cwd,
            ts_begin=run.started_ms,
            status="interactive" if run.origin == "interactive" else "running",
            output_path=f"{self._output_folder}/{run.block_id}.out",
            raw_begin=stream.raw_size if run.raw_begin is None else run.raw_begin,
            spool_begin=stream.spool_end if run.spool_begin is None else run.spool_begin,
            task_id=run.task_id,
        )
        self._write(block)
        return block

    def end(self, run: Run) -> Block:
        """Complete the block of a run that has ended."""
        result = run.result
        assert result is not None
        status, reason = _outcome(run)
        begun = _decoded(self._blocks[run.block_id])
        block = Block(
            **{
                **begun.__dict__,
                "ts_end": int(time.time() * 1000),
                "status": status,
                "reason": reason,
                "exit_code": result.exit_code,
                "prompt_before": run.prompt_before if run.echoed else None,
                "device": run.on_device or None,
                "prompt_after": result.prompt_after or None,
                "raw_begin": begun.raw_begin if run.raw_begin is None else run.raw_begin,
                "raw_end": result.raw_end,
                "spool_begin": begun.spool_begin if run.spool_begin is None else run.spool_begin,
                "spool_end": result.spool_end,
            }
        )
        self._write(block)
        return block

    def close(self) -> None:
        """Write everything and close the file."""
        self.flush()
        self._file.close()

    async def write_outputs(self, blocks: list[Block], max_bytes: int | None = None) -> None:
        """Write the output files of ended blocks, as far as they are missing and not larger than `max_bytes`."""
        kept = self._stream.raw_kept
        sizes = {block.block_id: output_size(block, kept) for block in blocks if block.ts_end is not None}
        wanted = [block for block in blocks if block.block_id in sizes and not has_output(block, sizes[block.block_id])]
        wanted = [block for block in wanted if max_bytes is None or sizes[block.block_id] <= max_bytes]
        if len(wanted) > 1 or any(sizes[block.block_id] > _THREAD_BYTES for block in wanted):
            await asyncio.to_thread(write_outputs, wanted, self._stream.raw_path, kept)
        else:
            write_outputs(wanted, self._stream.raw_path, kept)

    def flush(self) -> None:
        """Write the waiting rows."""
        for block in self._unwritten:
            self._file.append(block.json_bytes() + b"\n")
        self._unwritten.clear()
        self._file.flush()

    def _cwd(self) -> str | None:
        """Return the directory that the last prompt mark reported."""
        last = self._stream.last_prompt
        return None if last is None or last.cwd is None else os.fsdecode(last.cwd)

    def _write(self, block: Block) -> None:
        """Write the row after the callbacks that are ready now: typing the command comes first."""
        self._add(block)
        self._unwritten.append(block)
        if len(self._unwritten) == 1:
            asyncio.get_running_loop().call_soon(self.flush)

    def _add(self, block: Block) -> None:
        """Add a block or its new form, and compact or drop the oldest."""
        if block.block_id not in self._blocks:
            self._recent.append(block.block_id)
        self._blocks[block.block_id] = block
        self._last_seq = max(self._last_seq, block.seq)
        self._rows.append(block.block_id)
        if len(self._recent) > RECENT_BLOCKS:
            self._compact(self._recent.popleft())

    def _compact(self, block_id: str) -> None:
        block = _decoded(self._blocks[block_id])
        if block.ts_end is None:
            self._recent.append(block_id)
        elif self._file.growing:
            self._blocks[block_id] = block.json_bytes()
        else:
            del self._blocks[block_id]


def _decoded(stored: Block | bytes) -> Block:
    return Block.model_validate_json(stored) if isinstance(stored, bytes) else stored


def _outcome(run: Run) -> tuple[BlockStatus, str | None]:
    """Return the block's status and the reason of a failure or cancellation."""
    result = run.result
    assert result is not None
    if result.done_reason == "eof":
        return ("completed", None) if result.exit_code is not None else ("failed", "the far end closed")
    if result.failure is not None:
        return "failed", result.failure.message
    if result.done_reason == "cancelled":
        return "cancelled", result.cancel_reason or "interrupted"
    return "completed", None

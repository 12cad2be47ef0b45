"""blocks.jsonl and blocks/*.out: every run of a session on disk, from its start.

A block has two rows, one when it begins and one when it ends; the later one applies. A block without an end was interrupted by
a crash, and the next start closes it.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from ptyctl.api.blocks import Block, BlockStatus
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.transcript.append_file import AppendFile
from ptyctl.session.transcript.block_recovery import output_size, write_output

from .run import Run

#: Creating a file takes as long as a short command. Output files are written when no run has begun for this long (seconds), or
#: when this many are waiting.
OUTPUT_DELAY_S = 0.05
MAX_WAITING = 4096
#: Number of output files written in one event-loop callback.
FILES_PER_CALLBACK = 16
#: Larger outputs are written in a thread.
THREAD_BYTES = 1 << 20


class Blocks:
    """All blocks of a session, oldest first."""

    def __init__(self, session_id: str, folder: Path, stream: OutputStream, rows: list[Block]) -> None:
        """`rows` are the rows of an earlier process."""
        self._session_id = session_id
        self._output_folder = folder / "blocks"
        self._stream = stream
        self._file = AppendFile(folder / "blocks.jsonl")
        self._blocks: dict[str, Block] = {block.block_id: block for block in rows}
        self._rows: list[str] = [block.block_id for block in rows]
        self._unwritten: list[Block] = []
        self._without_output: list[Block] = []
        self._timer: asyncio.TimerHandle | None = None
        self._last_begin = 0.0  # on the loop's clock
        self._output_folder.mkdir(mode=0o700, exist_ok=True)

    @property
    def rows(self) -> int:
        """Number of rows in the file: the end of the cursor space of `since`."""
        return len(self._rows)

    def last_seq(self) -> int:
        """Return the number of the last block, or 0."""
        return max((block.seq for block in self._blocks.values()), default=0)

    def all(self) -> list[Block]:
        """Return all blocks."""
        return list(self._blocks.values())

    def latest(self) -> Block | None:
        """Return the last block."""
        return next(reversed(self._blocks.values()), None)

    def get(self, block_id: str) -> Block | None:
        """Return the block with this id."""
        return self._blocks.get(block_id)

    def since(self, cursor: int, limit: int) -> tuple[list[Block], int]:
        """Return the blocks with a row at or after a cursor, each once and in its current form, and the cursor after them."""
        ids: dict[str, None] = {}
        at = max(cursor, 0)
        while at < len(self._rows) and (len(ids) < limit or self._rows[at] in ids):
            ids[self._rows[at]] = None
            at += 1
        return [self._blocks[block_id] for block_id in ids], at

    def begin(self, run: Run) -> Block:
        """Add the block of a run that has begun."""
        self._last_begin = asyncio.get_running_loop().time()
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
        """Complete the block of a run that has ended; its output is written to a file soon."""
        result = run.result
        assert result is not None
        status, reason = _outcome(run)
        begun = self._blocks[run.block_id]
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
        self._without_output.append(block)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(OUTPUT_DELAY_S, self._write_outputs_when_idle)
        return block

    def close(self) -> None:
        """Write everything and close the file."""
        if self._timer is not None:
            self._timer.cancel()
        self.write_all()
        self._file.close()

    def write_all(self) -> None:
        """Write all rows and outputs; a large output is written soon, in a thread."""
        self.flush()
        self._write_outputs(len(self._without_output))

    def flush(self) -> None:
        """Write the waiting rows."""
        for block in self._unwritten:
            self._file.append(block.json_bytes() + b"\n")
        self._unwritten.clear()
        self._file.flush()

    def _write_outputs_when_idle(self) -> None:
        loop = asyncio.get_running_loop()
        due = self._last_begin + OUTPUT_DELAY_S
        if loop.time() < due and len(self._without_output) < MAX_WAITING:
            self._timer = loop.call_at(due, self._write_outputs_when_idle)
            return
        self._write_outputs(FILES_PER_CALLBACK)
        self._timer = loop.call_later(0, self._write_outputs_when_idle) if self._without_output else None

    def _write_outputs(self, count: int) -> None:
        """Write outputs of ended blocks to their files. After a crash the next start does it."""
        path, kept = self._stream.raw_path, self._stream.raw_kept
        for block in self._without_output[:count]:
            if output_size(block, kept) > THREAD_BYTES:
                asyncio.get_running_loop().run_in_executor(None, write_output, block, path, kept)
            else:
                write_output(block, path, kept)
        del self._without_output[:count]

    def _cwd(self) -> str | None:
        """Return the directory that the last prompt mark reported."""
        last = self._stream.last_prompt
        return None if last is None or last.cwd is None else os.fsdecode(last.cwd)

    def _write(self, block: Block) -> None:
        """Write the row after the callbacks that are ready now: typing the command comes first."""
        self._blocks[block.block_id] = block
        self._rows.append(block.block_id)
        self._unwritten.append(block)
        if len(self._unwritten) == 1:
            asyncio.get_running_loop().call_soon(self.flush)


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

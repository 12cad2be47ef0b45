"""blocks.jsonl and blocks/*.out: every run of a session, on disk from its begin (design, section 9).

A block has two rows, one when it begins and one when it ends; the later one holds. A block without an end was cut off by a
crash, and the next start closes it.
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

#: Making a file takes as long as a whole command: it is done when no other has begun for so long, or so many wait for it.
OUTPUT_S = 0.05
MOST_WAITING = 4096
#: So many are made before others get their turn.
AT_ONCE = 16
IN_A_THREAD_BYTES = 1 << 20


class Blocks:
    """All blocks of a session, oldest first. `rows` counts the rows of the file: the cursor of `since`."""

    def __init__(self, session_id: str, folder: Path, stream: OutputStream, left: list[Block]) -> None:
        """`left` are the rows of an earlier process."""
        self._session_id = session_id
        self._outputs = folder / "blocks"
        self._stream = stream
        self._file = AppendFile(folder / "blocks.jsonl")
        self._blocks: dict[str, Block] = {block.block_id: block for block in left}
        self._rows: list[str] = [block.block_id for block in left]
        self._unwritten: list[Block] = []
        self._without_output: list[Block] = []
        self._timer: asyncio.TimerHandle | None = None
        self._last_begun = 0.0  # on the loop's clock
        self._outputs.mkdir(mode=0o700, exist_ok=True)

    @property
    def rows(self) -> int:
        return len(self._rows)

    def last_seq(self) -> int:
        return max((block.seq for block in self._blocks.values()), default=0)

    def all(self) -> list[Block]:
        return list(self._blocks.values())

    def latest(self) -> Block | None:
        return next(reversed(self._blocks.values()), None)

    def get(self, block_id: str) -> Block | None:
        return self._blocks.get(block_id)

    def since(self, cursor: int, limit: int) -> tuple[list[Block], int]:
        """The blocks that began or ended at or behind a cursor, each once and as it is now; and the cursor behind them."""
        ids: dict[str, None] = {}
        at = max(cursor, 0)
        while at < len(self._rows) and (len(ids) < limit or self._rows[at] in ids):
            ids[self._rows[at]] = None
            at += 1
        return [self._blocks[block_id] for block_id in ids], at

    def begin(self, run: Run) -> Block:
        """A run has begun."""
        self._last_begun = asyncio.get_running_loop().time()
        stream = self._stream
        block = Block(
            block_id=run.block_id,
            seq=run.seq,
            session_id=self._session_id,
            origin=run.origin,
            cmd=run.command if run.submitted is None else run.submitted,
            cwd=self._cwd() if run.cwd is None else run.cwd,
            ts_begin=run.begun_ms,
            status="interactive" if run.origin == "interactive" else "running",
            output_path=self._output_path(run.block_id),
            raw_begin=stream.raw_size if run.raw_begin is None else run.raw_begin,
            spool_begin=stream.spool_end if run.spool_begin is None else run.spool_begin,
            task_id=run.task_id,
        )
        self._write(block)
        return block

    def end(self, run: Run) -> Block:
        """A run has ended; its output is put into a file of its own."""
        status, reason = _outcome(run)
        begun = self._blocks[run.block_id]
        block = Block(
            **{
                **begun.__dict__,
                "ts_end": int(time.time() * 1000),
                "status": status,
                "reason": reason,
                "exit_code": run.exit_code,
                "prompt_before": run.prompt_before if run.echoed else None,
                "device": run.device or None,
                "prompt_after": run.prompt_after or None,
                "raw_begin": begun.raw_begin if run.raw_begin is None else run.raw_begin,
                "raw_end": run.raw_end,
                "spool_begin": begun.spool_begin if run.spool_begin is None else run.spool_begin,
                "spool_end": run.spool_end,
            }
        )
        self._write(block)
        self._without_output.append(block)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(OUTPUT_S, self._write_some_outputs)
        return block

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.write_down()
        self._file.close()

    def write_down(self) -> None:
        """Rows and outputs are in their files from now on; an output that is large, soon."""
        self.flush()
        self._write_outputs(len(self._without_output))

    def _write_some_outputs(self) -> None:
        loop = asyncio.get_running_loop()
        due = self._last_begun + OUTPUT_S
        if loop.time() < due and len(self._without_output) < MOST_WAITING:
            self._timer = loop.call_at(due, self._write_some_outputs)
            return
        self._write_outputs(AT_ONCE)
        self._timer = loop.call_later(0, self._write_some_outputs) if self._without_output else None

    def _write_outputs(self, count: int) -> None:
        """Puts the output of ended blocks into files of their own; after a crash the next start does."""
        for block in self._without_output[:count]:
            if output_size(block, self._stream.raw_kept) > IN_A_THREAD_BYTES:
                asyncio.get_running_loop().run_in_executor(
                    None, write_output, block, self._stream.raw_path, self._stream.raw_kept
                )
            else:
                write_output(block, self._stream.raw_path, self._stream.raw_kept)
        del self._without_output[:count]

    def disk_bytes(self) -> int:
        return self._file.size

    def _output_path(self, block_id: str) -> str:
        return f"{self._outputs}/{block_id}.out"

    def _cwd(self) -> str | None:
        """Where the last prompt was shown."""
        last = self._stream.last_prompt
        return None if last is None or last.cwd is None else os.fsdecode(last.cwd)

    def _write(self, block: Block) -> None:
        """The file has the row before the loop next waits, and after what is ready now: a command is typed first."""
        self._blocks[block.block_id] = block
        self._rows.append(block.block_id)
        self._unwritten.append(block)
        if len(self._unwritten) == 1:
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Writes the rows that wait."""
        for block in self._unwritten:
            self._file.append(block.json_bytes() + b"\n")
        self._unwritten.clear()
        self._file.flush()


def _outcome(run: Run) -> tuple[BlockStatus, str | None]:
    if run.done_reason == "eof":
        return ("completed", None) if run.exit_code is not None else ("failed", "the far end closed")
    if run.failure is not None:
        return "failed", run.failure.message
    if run.done_reason == "cancelled":
        return "cancelled", run.reason or "interrupted"
    return "completed", None

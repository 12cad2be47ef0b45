"""The blocks of a session on disk: reads their rows, ends them after a crash, and writes their output files on request.

Also finds the block that still runs, and how far events.jsonl reports the blocks.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from ptyctl.api.blocks import Block
from ptyctl.core.marks import PlacedMark
from ptyctl.files import open_for_reading, open_for_writing

from .block_marks import BlockMarksReader
from .jsonl import MAX_ROW_BYTES, PAUSE_S, count_rows, read_rows_backwards
from .raw_log import MAX_OFFSET, RawLog

#: A row of blocks.jsonl: the fields of a `Block` that are not None.
BlockRow = dict[str, Any]
#: Bytes copied per system call, which then takes a few milliseconds.
_COPY_BYTES = 8 * 1024 * 1024
#: Rows of blocks.jsonl that are read at once, in about 3 ms.
_PIECE_ROWS = 256
_SERVER_ENDED = "the server ended while it ran"
_NOT_TYPED = "the server ended before it was typed"


@dataclass(slots=True)
class StoredBlocks:
    """Blocks, oldest first.

    One that has ended is in memory as the bytes of its row: 100,000 objects would take 360 MB, and the garbage collector would
    stop the event loop for 0.2 s each time it visits them.

    Attributes:
        blocks: each block by its id: the bytes of its row, or an object if it has not ended. A session adds rows.
        unfinished: the blocks without an end.
        rows: the block id of each row in blocks.jsonl.
        last_seq: the number of the last block, or 0.
        raw_end, spool_end: the largest offsets in the rows.
    """

    blocks: dict[str, Block | BlockRow | bytes] = field(default_factory=dict)
    unfinished: dict[str, Block] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)
    last_seq: int = 0
    raw_end: int = 0
    spool_end: int = 0
    _discarded: set[str] = field(default_factory=set)

    def add(self, block: Block) -> None:
        """Add a row of blocks.jsonl, which replaces the previous row of the block."""
        block_id = sys.intern(block.block_id)  # one object in all collections
        self.rows.append(block_id)
        self.last_seq = max(self.last_seq, block.seq)
        self.raw_end = max(self.raw_end, block.raw_begin, block.raw_end or 0)
        self.spool_end = max(self.spool_end, block.spool_begin, block.spool_end or 0)
        if block.ts_end is None:
            self.blocks[block_id] = self.unfinished[block_id] = block
        else:
            self.blocks[block_id] = block.json_bytes()
            self.unfinished.pop(block_id, None)
        if is_discarded(block):
            self._discarded.add(block_id)
        else:
            self._discarded.discard(block_id)

    def typed(self) -> list[str]:
        """Return the ids of the blocks whose command was typed. Refused ones may follow the last one."""
        return [block_id for block_id in self.blocks if block_id not in self._discarded]


def index_blocks(rows: Iterable[Block]) -> StoredBlocks:
    """Return the blocks of rows. 100,000 blocks take some seconds: call it in a thread."""
    stored = StoredBlocks()
    for block in rows:
        stored.add(block)
    return stored


@dataclass(frozen=True, slots=True)
class EventLogPosition:
    """How far events.jsonl reports the session's blocks.

    Attributes:
        events: number of events.
        block_id: the last block in the log.
        raw_to: end of that block's last output event in output.raw.
        ended: whether that block's end is in the log.
    """

    events: int = 0
    block_id: str | None = None
    raw_to: int | None = None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class OpenBlock:
    """A block without an end, whose command still runs.

    Attributes:
        raw_begin, spool_begin: offsets of its output, or None if no output was received before the crash.
        ending: how its end is found, as `CompletionStrategy.ending` describes it; None for the marks of the shell.
        end: its end mark, if that was received before the crash.
    """

    block: Block
    raw_begin: int | None
    spool_begin: int | None
    ending: Mapping[str, Any] | None = None
    end: PlacedMark | None = None


@dataclass(frozen=True, slots=True)
class UnfinishedBlock:
    """A block without an end.

    Attributes:
        block: the block; its output begins where its first line was typed, if that is known.
        ending: the last row about its end; None without one, as for a command that was typed at once in a shell with marks.
        is_untyped: whether its command, or the Enter after it, was not typed.
    """

    block: Block
    ending: Mapping[str, Any] | None = None
    is_untyped: bool = False

    @classmethod
    def of(cls, block: Block, rows: Sequence[Mapping[str, Any]]) -> Self:
        """Return a block with the rows that tell how its end is found, oldest first."""
        typed = next((row for row in rows if row.get("strategy") != "untyped" and "spool" in row), None)
        if typed is not None:
            block = block.model_copy(update={"raw_begin": typed["raw"], "spool_begin": typed["spool"]})
        ending = rows[-1] if rows else None
        return cls(block, ending, ending is not None and ending.get("strategy") == "untyped")


def output_path(folder: Path, block_id: str) -> str:
    """Return the path of a block's output file."""
    return f"{folder}/blocks/{block_id.rpartition('/')[2]}.out"


def read_blocks(folder: Path) -> Iterator[Block]:
    """Yield the rows of blocks.jsonl: one for the start of a block and one for its end. Unreadable rows are skipped.

    Pauses between pieces, so that the event loop can run.
    """
    path = folder / "blocks.jsonl"
    if not path.exists():
        return
    with open_for_reading(path) as file:
        for number, line in enumerate(iter(partial(file.readline, MAX_ROW_BYTES), b"")):
            if number % _PIECE_ROWS == 0:
                time.sleep(PAUSE_S)
            try:
                block = Block.model_validate_json(line)
            except ValueError:
                continue
            if not _has_plausible_offsets(block):
                continue
            block.output_path = output_path(folder, block.block_id)  # the folder may have been moved
            yield block


def _has_plausible_offsets(block: Block) -> bool:
    offsets = (block.seq, block.raw_begin, block.raw_end or 0, block.spool_begin, block.spool_end or 0)
    return all(0 <= offset <= MAX_OFFSET for offset in offsets)


def end_blocks(
    folder: Path,
    unfinished: list[UnfinishedBlock],
    raw: RawLog,
    spool_end: int,
    marks: BlockMarksReader,
    running: Block | None = None,
) -> list[Block]:
    """Append a row for the end of each of these blocks, except `running`, to blocks.jsonl. Return the rows.

    A block is `completed` if its end mark is in output.raw: the server died before it wrote the row. Otherwise it is
    `cancelled`. `marks` reads the marks of the last incarnation.
    """
    ended = [
        _not_typed(each.block)
        if each.is_untyped
        else _completed(each.block, marks) or _cancelled(each.block, raw, spool_end, marks)
        for each in unfinished
        if each.block is not running
    ]
    if ended:
        with open_for_writing(folder / "blocks.jsonl", os.O_APPEND) as file:
            file.writelines(block.json_bytes() + b"\n" for block in ended)
    return ended


def find_running_block(unfinished: list[UnfinishedBlock], marks: BlockMarksReader) -> OpenBlock | None:
    """Return the last of the blocks without an end if its command still runs in a program that outlived its server.

    Runs that were declined meanwhile may follow it. Without an end in blocks.jsonl, a block has ended if a prompt mark of
    the shell follows its start in output.raw. The prompt that a new shell shows before it begins the command does not count.
    """
    if not unfinished or unfinished[-1].is_untyped:
        return None
    block, ending = unfinished[-1].block, unfinished[-1].ending
    found = marks.of_shell(block)
    if found.prompt is not None or (found.begin is None and found.shown):
        return None
    if ending is not None and ending.get("strategy") != "marks":
        of_marker = marks.of_block(block)
        begin, end = of_marker.output_begin, of_marker.end
    else:
        begin, end, ending = found.output_begin, None, None
    raw_begin, spool_begin = (begin.raw_end, begin.spool_end) if begin is not None else (None, None)
    return OpenBlock(block, raw_begin, spool_begin, ending, end)


def is_discarded(block: Block) -> bool:
    """Return whether a block's command was refused and not typed: the block has no output and no events.

    Rows of earlier versions do not have `refused`.
    """
    if block.refused is not None:
        return True
    is_empty = block.raw_end == block.raw_begin
    return block.status == "cancelled" and is_empty and block.reason not in (_SERVER_ENDED, _NOT_TYPED)


def has_output(block: Block, size: int) -> bool:
    """Return whether a block's output file is complete. `size` is its `output_size`."""
    try:
        return Path(block.output_path).stat().st_size == size
    except OSError:
        return False


def output_size(block: Block, raw_size: int) -> int:
    """Return the number of bytes of an ended block's output that output.raw holds."""
    assert block.raw_end is not None
    return max(min(block.raw_end, raw_size) - block.raw_begin, 0)


def write_outputs(blocks: list[Block], raw: Path, raw_size: int) -> None:
    """Write the output files of ended blocks that are missing. Needs no lock, as this part of output.raw no longer changes."""
    for block in blocks:
        if not has_output(block, output_size(block, raw_size)):
            _write_output(block, raw, raw_size)


def _write_output(block: Block, raw: Path, raw_size: int) -> None:
    """Copy a block's output from output.raw into its own file. On a full disk the file is missing or incomplete."""
    try:
        with (
            open_for_reading(raw) as source,
            open_for_writing(Path(block.output_path), os.O_TRUNC) as file,
        ):
            at, end = block.raw_begin, block.raw_begin + output_size(block, raw_size)
            while at < end and (copied := os.sendfile(file.fileno(), source.fileno(), at, min(end - at, _COPY_BYTES))):
                at += copied
    except OSError:
        return


def read_event_log_position(folder: Path) -> EventLogPosition:
    """Return the position of the last event in events.jsonl. Events are written in order: only the last can be missing."""
    path, raw_to = folder / "events.jsonl", None
    count = count_rows(path)
    for _, row in read_rows_backwards(path, is_row=_is_event):
        if row["type"] == "agent_block_delta" and raw_to is None:
            raw_to = row["raw_to"]
        elif row["type"] in ("agent_block_begin", "agent_block_end"):
            return EventLogPosition(count, row["block"]["block_id"], raw_to, row["type"] == "agent_block_end")
    return EventLogPosition(count)


def _is_event(row: dict[str, Any]) -> bool:
    """Return whether a row has the fields that the position is read from."""
    if row.get("type") == "agent_block_delta":
        return type(row.get("raw_to")) is int and 0 <= row["raw_to"] <= MAX_OFFSET
    block = row.get("block")
    names_block = isinstance(block, dict) and isinstance(block.get("block_id"), str)
    return isinstance(row.get("type"), str) and (names_block or row["type"] not in ("agent_block_begin", "agent_block_end"))


def _completed(block: Block, marks: BlockMarksReader) -> Block | None:
    """Return the block with its end from a mark in output.raw (end mark or next prompt); None without such a mark."""
    found = marks.of_block(block)
    begin, end, prompt = found.begin, found.end, found.prompt
    if begin is None and found.shown:
        # A command may be typed before the shell shows its prompt, which then is not the end of the command.
        after = found.shown if marks.follows_prompt(block) else found.shown[1:]
        prompt = after[0] if after else None
    last = end or prompt
    if last is None:
        return None
    return block.model_copy(
        update={
            "ts_end": int(time.time() * 1000),
            "status": "completed",
            "exit_code": (prompt or last).mark.status,  # a shell's hooks may have changed the end mark's status
            "raw_begin": begin.raw_end if begin else block.raw_begin,
            "spool_begin": begin.spool_end if begin else block.spool_begin,
            "raw_end": last.raw_begin,
            "spool_end": last.spool_begin,
        }
    )


def _not_typed(block: Block) -> Block:
    return block.model_copy(
        update={
            "ts_end": int(time.time() * 1000),
            "status": "cancelled",
            "reason": _NOT_TYPED,
            "raw_end": block.raw_begin,
            "spool_end": block.spool_begin,
        }
    )


def _cancelled(block: Block, raw: RawLog, spool_end: int, marks: BlockMarksReader) -> Block:
    if (begin := marks.of_block(block).output_begin) is not None:
        block = block.model_copy(update={"raw_begin": begin.raw_end, "spool_begin": begin.spool_end})
    return block.model_copy(
        update={
            "ts_end": int(time.time() * 1000),
            "status": "cancelled",
            "reason": _SERVER_ENDED,
            "raw_end": max(raw.size, block.raw_begin),
            "spool_end": max(spool_end, block.spool_begin),
        }
    )

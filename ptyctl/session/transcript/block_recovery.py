"""The blocks that a killed server left: one that still ran is cancelled, missing files of their output are written."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ptyctl.api.blocks import Block
from ptyctl.core.marks import MarkReader
from ptyctl.core.normaliser import Normaliser

from .jsonl import count_rows, rows_backwards
from .raw_log import RawLog

_FILE_MODE = 0o600
#: So much in one system call: it returns in a few ms.
_COPY_BYTES = 8 * 1024 * 1024
#: A command's begin is looked for so far behind where its typing began: its echo is in between.
_ECHO_BYTES = 1 << 20
#: A prompt's line, with what a line editor paints, is not longer than this.
_LINE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class EventLogPosition:
    """What events.jsonl says: how many events, and of the last block how far its output was told, and whether its end was."""

    events: int = 0
    block_id: str | None = None
    raw_to: int | None = None
    ended: bool = False


def output_path(folder: Path, block_id: str) -> str:
    return f"{folder}/blocks/{block_id.rpartition('/')[2]}.out"


def read_blocks(folder: Path) -> list[Block]:
    """The rows of blocks.jsonl: one when a block begins and one when it ends."""
    path, found = folder / "blocks.jsonl", []
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            block = Block.model_validate_json(line)
        except ValueError:
            continue
        block.output_path = output_path(folder, block.block_id)  # the folder may have been moved
        found.append(block)
    return found


def close_open(
    folder: Path, found: list[Block], raw: RawLog, spool_end: int, nonces: Iterable[str], but: Block | None = None
) -> list[Block]:
    """The rows, with one more for each block that has no end; `but` one goes on. `nonces` are those of the last marks."""
    latest = {block.block_id: block for block in found}
    left = [block for block in latest.values() if block.ts_end is None and block is not but]
    closed = [_cancelled(block, raw, spool_end, nonces) for block in left]
    if closed:
        with (folder / "blocks.jsonl").open("ab") as file:
            file.writelines(block.json_bytes() + b"\n" for block in closed)
    return found + closed


def output_begin(block: Block, raw: RawLog, nonces: Iterable[str]) -> tuple[int, int] | tuple[None, None]:
    """Where the output of a block without an end begins, in output.raw and in the spool: behind the last mark of a begin, as
    what is there may be asked before. Where no mark tells it, it is not known.

    The line in which the command was typed is read from its start: a CR may have been held back there."""
    line = raw.read(max(block.raw_begin - _LINE_BYTES, 0), block.raw_begin).rpartition(b"\n")[2]
    reader = Normaliser(block.raw_begin - len(line), 0, MarkReader(*nonces))
    reader.feed(line)
    reader.spool = block.spool_begin
    reader.feed(raw.read(block.raw_begin, min(raw.kept, block.raw_begin + _ECHO_BYTES)))
    begins = [placed for placed in reader.marks if placed.mark.kind == "begin" and placed.raw_begin >= block.raw_begin]
    return (begins[-1].raw_end, begins[-1].spool_end) if begins else (None, None)


def without_output(folder: Path, found: list[Block], kept: int) -> list[Block]:
    """The blocks whose file is not there or not whole: a server may have been killed while it wrote it. `kept` is how much of
    output.raw there is."""
    (folder / "blocks").mkdir(mode=0o700, exist_ok=True)
    with os.scandir(folder / "blocks") as entries:
        sizes = {entry.name: entry.stat().st_size for entry in entries}
    latest = {block.block_id: block for block in found}
    ended = (block for block in latest.values() if block.ts_end is not None)
    return [block for block in ended if sizes.get(block.output_path.rpartition("/")[2]) != output_size(block, kept)]


def output_size(block: Block, kept: int) -> int:
    assert block.raw_end is not None
    return max(min(block.raw_end, kept) - block.raw_begin, 0)


def write_outputs(blocks: list[Block], raw: Path, kept: int) -> None:
    """Puts the output of blocks into files of their own. It needs no lock: what they show never changes."""
    for block in blocks:
        write_output(block, raw, kept)


def write_output(block: Block, raw: Path, kept: int) -> None:
    """On a full disk there is none, or a part; the bytes are in output.raw as far as they were kept."""
    try:
        with raw.open("rb") as source, open(block.output_path, "wb", opener=_private) as file:
            at, end = block.raw_begin, block.raw_begin + output_size(block, kept)
            while at < end and (copied := os.sendfile(file.fileno(), source.fileno(), at, min(end - at, _COPY_BYTES))):
                at += copied
    except OSError:
        return


def told_events(folder: Path) -> EventLogPosition:
    """Events are told in order: what is missing is missing at the end."""
    path, raw_to = folder / "events.jsonl", None
    count = count_rows(path)
    for _, row in rows_backwards(path):
        if row["type"] == "agent_block_delta" and raw_to is None:
            raw_to = row["raw_to"]
        elif row["type"] in ("agent_block_begin", "agent_block_end"):
            return EventLogPosition(count, row["block"]["block_id"], raw_to, row["type"] == "agent_block_end")
    return EventLogPosition(count)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, _FILE_MODE)


def _cancelled(block: Block, raw: RawLog, spool_end: int, nonces: Iterable[str]) -> Block:
    raw_begin, spool_begin = output_begin(block, raw, nonces)
    if raw_begin is not None and spool_begin is not None:
        block = block.model_copy(update={"raw_begin": raw_begin, "spool_begin": spool_begin})
    return block.model_copy(
        update={
            "ts_end": int(time.time() * 1000),
            "status": "cancelled",
            "reason": "the server ended while it ran",
            "raw_end": max(raw.size, block.raw_begin),
            "spool_end": max(spool_end, block.spool_begin),
        }
    )

"""A session's folder as a killed server left it, made whole again (design, section 9).

output.raw is the truth. Its end is what output.end counts; the spool and the prompts are what it becomes with the times and the
incarnations of the timeline; the last line of a .jsonl file may be torn, and is cut. All this is done in a thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptyctl.api.blocks import Block
from ptyctl.core.marks import Mark
from ptyctl.core.normaliser import Normaliser

from .block_recovery import EventLogPosition, close_open, output_size, read_blocks, told_events, without_output, write_outputs
from .jsonl import PIECE_BYTES, cut_torn_line, rows_backwards, rows_with
from .open_block import OpenBlock, open_block
from .prompt_lines import PromptLines
from .raw_log import RawLog
from .spool_replay import SpoolReplay

#: Missing files of blocks are written before the session is served, unless they are larger in all.
AT_ONCE_BYTES = 16 * 1024 * 1024
_DIRECTORY_MODE = 0o700
_LINE_FILES = ("timeline.jsonl", "blocks.jsonl", "events.jsonl", "input.jsonl", "screen.jsonl", "screen.checkpoints.jsonl")


@dataclass(slots=True)
class TranscriptState:
    """What a session's folder holds. `gap_at` is the spool's size on disk where some of what was received is not there;
    `resizes` are offsets into output.raw and columns; `blocks` the rows of blocks.jsonl, `told` what events.jsonl says of them;
    `without_output` those whose files are so large that nobody should wait for them. Where the program lives on, `normaliser`
    is in the middle of its output, and `running` is the block that has not ended.
    """

    raw: RawLog
    spool: int = 0
    gap_at: int | None = None
    incarnation: int = 0
    prompts: PromptLines = field(default_factory=PromptLines)
    last_prompt: Mark | None = None
    resizes: list[tuple[int, int]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    without_output: list[Block] = field(default_factory=list)
    told: EventLogPosition = field(default_factory=EventLogPosition)
    nonces: tuple[str, ...] = ()
    normaliser: Normaliser | None = None
    running: OpenBlock | None = None


def new_folder(folder: Path, quota_bytes: int) -> TranscriptState:
    """A folder for a new session: nothing is in it."""
    folder.mkdir(mode=_DIRECTORY_MODE, parents=True)
    return TranscriptState(RawLog(folder / "output.raw", quota_bytes))


def recover(folder: Path, meta: dict[str, Any], quota_bytes: int, *, lives_on: bool = False) -> TranscriptState:
    """Mends a folder; one that was closed in order is left as it is. `meta` is the content of its meta.json. `lives_on` says
    that its terminal is still open, and more will come.

    Raises:
        BlockingIOError: the session is alive in another server; nothing was touched.
        OSError: the folder cannot be read.
    """
    raw = RawLog(folder / "output.raw", quota_bytes)
    try:
        for name in _LINE_FILES:
            cut_torn_line(folder / name)
        blocks = read_blocks(folder)
        received, told = _received(folder, meta, blocks)
        raw.cut(_real_end(raw, min(max(received, raw.counted), raw.kept)))
        kept = _replayed(folder, raw, received, told, lives_on=lives_on)
        kept.resizes = [(row["raw"], row["cols"]) for row in rows_with(folder / "timeline.jsonl", b'"kind":"resize"')]
        if lives_on and kept.nonces:
            kept.running = open_block(blocks, raw, kept.nonces[-1])
        kept.blocks = close_open(folder, blocks, raw, kept.spool, kept.nonces, but=kept.running.block if kept.running else None)
        kept.without_output = without_output(folder, kept.blocks, raw.kept)
        if sum(output_size(block, raw.kept) for block in kept.without_output) <= AT_ONCE_BYTES:
            write_outputs(kept.without_output, raw.path, raw.kept)
            kept.without_output = []
        kept.told = told_events(folder)
    except BaseException:
        raw.close()
        raise
    return kept


def _replayed(folder: Path, raw: RawLog, received: int, told: int, *, lives_on: bool) -> TranscriptState:
    whole = received <= raw.kept
    replay = SpoolReplay(folder)
    try:
        replay.run(raw, ended=whole and not lives_on)
    finally:
        replay.close()
    spool = replay.normaliser.spool if whole else max(told, replay.normaliser.spool)
    if not whole:
        raw.lost_until(received)
        replay.normaliser.skip_to(received, spool)
    gap_at = None if whole and replay.writing else replay.on_disk
    kept = TranscriptState(raw, spool, gap_at, replay.incarnation, replay.prompts, replay.last_prompt)
    kept.nonces = tuple(replay.normaliser.reader.counters()) if replay.normaliser.reader is not None else ()
    kept.normaliser = replay.normaliser if lives_on else None
    return kept


def _received(folder: Path, meta: dict[str, Any], blocks: list[Block]) -> tuple[int, int]:
    """How much there was at least, of raw bytes and of the spool: nobody may get an older cursor for newer text."""
    raw, spool = meta.get("bytes_received", 0), meta.get("spool_size", 0)
    for _, row in rows_backwards(folder / "timeline.jsonl"):
        raw, spool = max(raw, row["raw"]), max(spool, row["spool"])
        break
    for block in blocks:
        raw = max(raw, block.raw_begin, block.raw_end or 0)
        spool = max(spool, block.spool_begin, block.spool_end or 0)
    return raw, spool


def _real_end(raw: RawLog, least: int) -> int:
    """Behind the last byte that is not zero, as the server may have been killed before it counted; not before `least`."""
    end = raw.kept
    while end > least:
        begin = max(end - PIECE_BYTES, least)
        size = len(raw.read(begin, end).rstrip(b"\0"))
        if size:
            return begin + size
        end = begin
    return least

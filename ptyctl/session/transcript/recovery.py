"""Recovery: repairs a session's folder after its process was killed, and returns the state to continue from.

output.raw is the source of truth and output.end holds its size. The spool and the prompt lines are rebuilt from it, with the
times and incarnations of the timeline. A torn last line of a .jsonl file is cut. Recovery blocks and runs in a worker thread.

A file that cannot be used is set aside under another name, and the session is recovered as if it were missing: what is in one
file of a folder never makes the others unreadable. `TranscriptState.damage` reports each.
"""

from __future__ import annotations

import logging
import os
import time
from array import array
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from ptyctl.api.blocks import Block
from ptyctl.clock import boot_time
from ptyctl.core.hidden_ranges import HiddenRange, read_hidden
from ptyctl.core.marks import Mark, MarkReader, read_sentinel, with_line
from ptyctl.core.normaliser import Normaliser
from ptyctl.core.spool import PACKED_BYTES, PromptLines
from ptyctl.files import (
    SET_ASIDE_SUFFIX,
    make_usable,
    open_file,
    open_for_reading,
    open_for_writing,
    read_file,
    set_aside,
)

from .block_marks import BlockMarksReader
from .input_rows import repair_rows
from .jsonl import PAUSE_S, PIECE_BYTES, cut_torn_line, read_rows, read_rows_backwards, read_rows_containing
from .raw_log import MAX_OFFSET, RawLog
from .stored_blocks import (
    EventLogPosition,
    OpenBlock,
    StoredBlocks,
    UnfinishedBlock,
    end_blocks,
    find_running_block,
    index_blocks,
    read_blocks,
    read_event_log_position,
)
from .timeline import is_timeline_row

_LOG = logging.getLogger(__name__)

_DIRECTORY_MODE = 0o700
#: A file of rows is not too large below this size: the quota may have been larger when it was written (bytes).
_MIN_QUOTA = 256 * 1024 * 1024
#: The most last rows of input that are kept. Each key of a person may be a row.
MAX_LAST_INPUTS = 4096
_LINE_FILES = ("timeline.jsonl", "blocks.jsonl", "events.jsonl", "input.jsonl", "screen.jsonl", "screen.checkpoints.jsonl")
#: The kernel has written data older than this (Linux: dirty_expire_centisecs, 30 s, plus the writeback interval).
_WRITEBACK_S = 60.0


@dataclass(slots=True)
class TranscriptState:
    """State of a session's folder.

    Attributes:
        raw: output.raw, open and locked.
        spool_size: size of the spool, including text that was not persisted.
        gap_at: size of the spool on disk if text is missing there, or None.
        resizes: offset in output.raw and number of columns of each resize.
        hidden: the ranges of output.raw that viewers do not see as received.
        blocks: the blocks of blocks.jsonl.
        event_log: how far events.jsonl reports the blocks.
        nonces: the nonces of the last incarnation's marks.
        normaliser: its state at the end of output.raw, if the program still runs.
        running_block: the block whose command still runs.
        last_inputs: the last rows in input.jsonl that changed the typed line, if the program still runs; see `LastInputs`.
        returned_raw, begun_raw: the raw offsets of the last mark of a shell that returned from a command, and of one that
            begins a command; -1 if none was received, or if it is not known.
        damage: what was wrong with the files, one text per file.
    """

    raw: RawLog
    spool_size: int = 0
    gap_at: int | None = None
    incarnation: int = 0
    prompts: PromptLines = field(default_factory=PromptLines)
    last_prompt: Mark | None = None
    resizes: list[tuple[int, int]] = field(default_factory=list)
    hidden: list[HiddenRange] = field(default_factory=list)
    blocks: StoredBlocks = field(default_factory=StoredBlocks)
    event_log: EventLogPosition = field(default_factory=EventLogPosition)
    nonces: tuple[str, ...] = ()
    normaliser: Normaliser | None = None
    running_block: OpenBlock | None = None
    last_inputs: list[dict[str, Any]] = field(default_factory=list)
    returned_raw: int = -1
    begun_raw: int = -1
    damage: list[str] = field(default_factory=list)


class _DamagedFileError(Exception):
    """A file has a content that recovery cannot use."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.name)
        self.path = path


def new_folder(folder: Path, quota_bytes: int) -> TranscriptState:
    """Create the folder of a new session."""
    folder.mkdir(mode=_DIRECTORY_MODE, parents=True)
    return TranscriptState(RawLog(folder / "output.raw", quota_bytes))


def recover(
    folder: Path, meta: dict[str, Any], quota_bytes: int, *, read_only: bool = False, still_running: bool = False
) -> TranscriptState:
    """Repair a folder. A folder that was closed cleanly does not change.

    Args:
        meta: the content of its meta.json.
        read_only: whether no output will follow, so that a full disk does not matter.
        still_running: whether the session's program still runs, so that more output will follow.

    Raises:
        BlockingIOError: another process owns the session; nothing was changed.
        OSError: the folder cannot be read.
    """
    damage: list[str] = []
    raw = _open_raw(folder, quota_bytes, damage, read_only=read_only)
    try:
        _set_aside_unusable(folder, quota_bytes, damage)
        if raw.position_damaged:
            damage.append("output.end is damaged: output.raw ends at its last byte that is not zero")
        while True:
            try:
                state = _recover(folder, meta, raw, still_running=still_running)
                break
            except _DamagedFileError as error:
                damage.append(f"{error.path.name} is damaged, and was kept as {set_aside(error.path)}")
    except BaseException:
        raw.close(recovered=False)
        raise
    _report_missing_timeline(meta, state, damage)
    state.damage = damage
    for text in damage:
        _LOG.warning("a file of a session is damaged", extra={"session_id": folder.name, "why": text})
    return state


def read_hidden_ranges(folder: Path) -> list[HiddenRange]:
    """Return the ranges of a session's output that viewers do not see as received, as its timeline has them."""
    rows = read_rows_containing(folder / "timeline.jsonl", b'"kind":"hidden"', is_timeline_row)
    return [found for row in rows if (found := read_hidden(row)) is not None]


def _recover(folder: Path, meta: dict[str, Any], raw: RawLog, *, still_running: bool) -> TranscriptState:
    """Raises _DamagedFileError for a file that must be set aside first."""
    for name in _LINE_FILES:
        cut_torn_line(folder / name)
    repair_rows(folder / "input.jsonl")
    with _reading(folder / "blocks.jsonl"):
        blocks = index_blocks(read_blocks(folder))
    timeline = folder / "timeline.jsonl"
    with _reading(timeline):
        received, spool_size = _least_sizes(folder, meta, blocks, raw)
        raw.truncate(_find_end(raw, received))
        state = _replay(folder, raw, received, spool_size, still_running=still_running)
        resizes = read_rows_containing(timeline, b'"kind":"resize"', is_timeline_row)
        state.resizes = [(row["raw"], row["cols"]) for row in resizes if row["kind"] == "resize"]
        state.hidden = read_hidden_ranges(folder)
    if still_running:
        with _reading(folder / "input.jsonl"):
            state.last_inputs = _read_last_inputs(folder / "input.jsonl")
    with _reading(folder / "blocks.jsonl"):
        _recover_blocks(folder, blocks, state, still_running=still_running)
    with _reading(folder / "events.jsonl"):
        state.event_log = read_event_log_position(folder)
    return state


def _read_last_inputs(path: Path) -> list[dict[str, Any]]:
    """Read the last rows that changed the typed line, back to one after which it was empty and no line had been entered."""
    rows: list[dict[str, Any]] = []
    for _, row in read_rows_backwards(path):
        if row.get("by") == "system" and "line" not in row:
            continue
        rows.append(row if _has_plausible_line(row) else {})
        if row.get("line") == {} or len(rows) == MAX_LAST_INPUTS:
            break
    return rows[::-1]


def _has_plausible_line(row: dict[str, Any]) -> bool:
    """Return whether the state of the typed line in a row, and its data, have the right types."""
    line = row.get("line")
    if line is not None:
        if not isinstance(line, dict) or not all(type(value) is int for value in line.values()):
            return False
        if line and not {"raw", "entered_raw", "lines", "characters"} <= line.keys():
            return False
    return all(isinstance(row[name], str) for name in ("data", "data_b64", "principal") if name in row)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn the exceptions that the content of a file can cause into _DamagedFileError. OSError is none of them."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError, RecursionError) as error:
        if not path.exists():
            raise
        _LOG.warning("a file of a session cannot be read", exc_info=error)
        raise _DamagedFileError(path) from error


def _open_raw(folder: Path, quota_bytes: int, damage: list[str], *, read_only: bool) -> RawLog:
    """Open and lock output.raw. Another server can have locked only a regular file."""
    for name in ("output.raw", "output.end"):
        if (why := make_usable(folder / name)) is not None:
            damage.append(why)
    return RawLog(folder / "output.raw", quota_bytes, read_only=read_only)


def _set_aside_unusable(folder: Path, quota_bytes: int, damage: list[str]) -> None:
    """Set aside each entry that is no regular file, and rows that take more than all files of a session together may."""
    for path in list(folder.iterdir()):
        if SET_ASIDE_SUFFIX in path.name or path.name in ("output.raw", "output.end", "blocks"):
            continue
        max_bytes = max(quota_bytes, _MIN_QUOTA) if path.name in _LINE_FILES else None
        if (why := make_usable(path, max_bytes)) is not None:
            damage.append(why)
    blocks = folder / "blocks"
    if os.path.lexists(blocks) and not blocks.is_dir():
        damage.append(f"blocks is no folder, and was kept as {set_aside(blocks)}")


def _report_missing_timeline(meta: dict[str, Any], state: TranscriptState, damage: list[str]) -> None:
    """Report a timeline that does not describe the last incarnation. Its marks are not known then."""
    stored = meta.get("incarnation", 0)
    if state.incarnation >= stored and (state.incarnation or not state.raw.size):
        return
    state.incarnation, state.nonces = max(state.incarnation, stored, 1), ()
    if not any(text.startswith("timeline.jsonl") for text in damage):
        damage.append("timeline.jsonl is damaged or missing: times and sizes of the output are not known")


def _lacks_enter(inputs: list[dict[str, Any]], block: Block) -> bool:
    """Return whether the input since a block began is a line without its end. `inputs` are the last rows; see `LastInputs`."""
    lines = [row.get("line") for row in inputs if type(ts := row.get("ts")) is int and ts >= block.ts_begin]
    is_ended = any(not line or line["entered_raw"] >= 0 for line in lines)
    return block.origin == "exec" and bool(lines) and not is_ended


def _endings(timeline: Path, unfinished: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows that tell how the ends of these blocks are found, one for each typed line; see `CompletionStrategy`."""
    found: dict[str, list[dict[str, Any]]] = {block_id: [] for block_id in unfinished}
    for row in read_rows_containing(timeline, b'"kind":"run"', is_timeline_row):
        if row["kind"] == "run" and row.get("block_id") in found:
            found[row["block_id"]].append(row)
    return found


def _recover_blocks(folder: Path, blocks: StoredBlocks, state: TranscriptState, *, still_running: bool) -> None:
    marks = BlockMarksReader(state.raw, state.nonces)
    endings = _endings(folder / "timeline.jsonl", blocks.unfinished) if blocks.unfinished else {}
    unfinished = [UnfinishedBlock.of(block, endings[block_id]) for block_id, block in blocks.unfinished.items()]
    if unfinished and _lacks_enter(state.last_inputs, unfinished[-1].block):
        unfinished[-1] = replace(unfinished[-1], is_untyped=True)
    if still_running and state.nonces:
        state.running_block = find_running_block(unfinished, marks)
    running = state.running_block.block if state.running_block else None
    for block in end_blocks(folder, unfinished, state.raw, state.spool_size, marks, running):
        blocks.add(block)
    state.blocks = blocks


def _replay(folder: Path, raw: RawLog, received: int, spool_size: int, *, still_running: bool) -> TranscriptState:
    """Rebuild the spool and the prompt lines. `received` and `spool_size` are the least sizes before the crash."""
    complete = received <= raw.persisted_size
    ended = complete and not still_running
    with closing(SpoolReplay(folder)) as replay:
        is_consistent = replay.run(raw, ended=ended)
    if not is_consistent:
        with closing(SpoolReplay(folder)) as replay:
            replay.run(raw, ended=ended, from_start=True)
    end = replay.normaliser.spool if complete else max(spool_size, replay.normaliser.spool)
    if not complete:
        raw.set_received_size(received)
        replay.normaliser.skip_to(received, end)
    gap_at = None if complete and replay.writing else replay.on_disk
    state = TranscriptState(raw, end, gap_at, replay.incarnation, replay.prompts, replay.last_prompt)
    reader = replay.normaliser.reader
    state.nonces = tuple(reader.counters()) if reader is not None else ()
    state.returned_raw, state.begun_raw = replay.returned_raw, replay.begun_raw
    state.normaliser = replay.normaliser if still_running else None
    return state


def _least_sizes(folder: Path, meta: dict[str, Any], blocks: StoredBlocks, log: RawLog) -> tuple[int, int]:
    """Return lower bounds of the raw and the spool size, from all stored rows, so that new text never reuses an offset."""
    raw, spool = log.stored_sizes
    raw = max(raw, _offset(meta.get("bytes_received")), blocks.raw_end)
    spool = max(spool, _offset(meta.get("spool_size")), blocks.spool_end)
    for _, row in read_rows_backwards(folder / "timeline.jsonl", is_row=_has_sizes):
        raw, spool = max(raw, row["raw"]), max(spool, row["spool"])
        break
    return raw, spool


def _has_sizes(row: dict[str, Any]) -> bool:
    return is_timeline_row(row) and "spool" in row


def _offset(value: object) -> int:
    """Return a stored offset; 0 if it can be none."""
    return value if type(value) is int and 0 <= value <= MAX_OFFSET else 0


def _find_end(raw: RawLog, received: int) -> int:
    """Return the end of the output in output.raw. At least `received` bytes of it were received.

    The process may have been killed after it received bytes and before it stored the new size, so the output ends after the
    last byte that is not zero. If some output was not persisted, the size is exact, and what follows was allocated only.
    """
    end = raw.persisted_size
    if raw.stored_sizes[0] > raw.stored_position:
        return min(raw.stored_position, end)
    least = min(max(received, raw.stored_position), end)
    while end > least:
        begin = max(end - PIECE_BYTES, least)
        size = len(raw.read(begin, end).rstrip(b"\0"))
        if size:
            return begin + size
        end = begin
    return least


class SpoolReplay:
    """Normalises output.raw again and repairs the derived files, usually a few bytes at their end.

    A timeline row can hold the state to resume the replay from (`resume`). The last such row that the files reach is used:
    text is appended in order, so the files are correct up to there. Only a power failure can have lost part of it; then the
    replay starts from the start. So it does if the text in the file after that row is not that of output.raw.

    Attributes:
        writing: False once the disk was full.
        on_disk: bytes of the spool that are on disk.
        returned_raw, begun_raw: see `TranscriptState`.
    """

    def __init__(self, folder: Path) -> None:
        self.incarnation = 0
        self.normaliser = Normaliser()
        self.prompts = PromptLines()
        self.last_prompt: Mark | None = None
        self.returned_raw = self.begun_raw = -1
        self.writing = True
        self.on_disk = 0
        self._folder = folder
        self._ts = 0
        self._is_resumed = self._is_inconsistent = False
        self._file = open_file(folder / "output.spool", os.O_RDWR | os.O_CREAT)

    def run(self, raw: RawLog, *, ended: bool, from_start: bool = False) -> bool:
        """Replay the persisted bytes. Return False if the spool is not that of output.raw: repeat it from the start then.

        Args:
            ended: no output follows them, so incomplete sequences are flushed.
            from_start: do not resume from a row.
        """
        begin, row = (0, None) if from_start else _find_resume_point(self._folder, raw.persisted_size)
        if row is not None:
            self._resume(row)
        self._is_resumed = row is not None
        for row in read_rows(self._folder / "timeline.jsonl", begin, is_timeline_row):
            if self._is_inconsistent:
                return False
            self._feed(raw, min(row["raw"], raw.persisted_size))
            self._ts = row["ts"]
            if row["kind"] == "incarnation":
                self.incarnation = row["incarnation"]
                if row["raw"] <= raw.persisted_size:
                    self._begin_incarnation(row["nonces"])
        self._feed(raw, raw.persisted_size)
        if self._is_inconsistent:
            return False
        if ended:
            self._write(self.normaliser.flush())
        self._finish()
        return True

    def close(self) -> None:
        """Close the spool."""
        os.close(self._file)

    def _resume(self, row: dict[str, Any]) -> None:
        state = row["resume"]
        reader = MarkReader.resume(state["marks"], line_follows="line_follows" in state)
        self.incarnation = state["incarnation"]
        in_line, blanks = state["in_line"], state.get("blanks", 0)
        modes = state["modes"]
        self.normaliser = Normaliser(row["raw"], row["spool"], reader, in_line=in_line, blanks=blanks, modes=modes)
        self.on_disk = row["spool"]
        self.returned_raw, self.begun_raw = state.get("returned_raw", -1), state.get("begun_raw", -1)
        with open_for_reading(self._folder / "output.prompts") as file:
            self.prompts = PromptLines.unpacked(file.read(PACKED_BYTES * state["prompts"]))
        if (last := self.prompts.last()) is not None:
            line = state["line"].encode("latin-1") if "line" in state else None
            prompt = read_sentinel(os.pread(self._file, last[1] - last[0], last[0]))
            self.last_prompt = prompt._replace(line=line, line_follows="line_follows" in state)

    def _begin_incarnation(self, nonces: list[str]) -> None:
        self._write(self.normaliser.flush())
        old = self.normaliser
        self.normaliser = Normaliser(old.raw, old.spool, MarkReader(*nonces), in_line=old.in_line)

    def _feed(self, raw: RawLog, end: int) -> None:
        for begin in range(self.normaliser.raw, end, PIECE_BYTES):
            self._write(self.normaliser.feed(raw.read(begin, min(begin + PIECE_BYTES, end)), self._ts))
            reader = self.normaliser.reader
            for mark in self.normaliser.take_marks():
                is_of_shell = reader is not None and reader.is_of_shell(mark.mark)
                if mark.mark.kind == "begin":
                    if is_of_shell:
                        self.begun_raw = mark.raw_begin
                elif mark.mark.kind == "line":
                    self.last_prompt = with_line(self.last_prompt, mark.mark)
                elif is_of_shell or self.last_prompt is None:
                    self.returned_raw = mark.raw_begin
                if mark.mark.kind == "prompt":
                    self.prompts.add(mark.spool_begin, mark.spool_end)
                    self.last_prompt = mark.mark
            time.sleep(PAUSE_S)

    def _write(self, text: bytes) -> None:
        """Append text to the replayed spool; write it only if the file does not hold it already."""
        if not self.writing:
            return
        if text and (stored := os.pread(self._file, len(text), self.on_disk)) != text:
            if self._is_resumed and not text.startswith(stored):
                self._is_inconsistent = True
                return
            try:
                _write_at(self._file, text, self.on_disk)
            except OSError:
                self.writing = False
                return
        self.on_disk += len(text)

    def _finish(self) -> None:
        try:
            os.ftruncate(self._file, self.on_disk)
            packed, path = self.prompts.packed(), self._folder / "output.prompts"
            if not _has_content(path, packed):
                with open_for_writing(path, os.O_TRUNC) as file:
                    file.write(packed)
        except OSError:
            self.writing = False


def _find_resume_point(folder: Path, raw_size: int) -> tuple[int, dict[str, Any] | None]:
    """Return the offset and the content of a timeline row that the replay can resume from, or (0, None).

    It is the last one before some text, by which the replay sees whether the spool is that of output.raw.
    """
    timeline, spool, prompts = folder / "timeline.jsonl", folder / "output.spool", folder / "output.prompts"
    if not prompts.exists() or _lost_in_power_failure(spool) or _lost_in_power_failure(prompts):
        return 0, None
    spool_size, prompts_size, newest = spool.stat().st_size, prompts.stat().st_size, -1
    for begin, row in read_rows_backwards(timeline, is_row=_has_sizes):
        state = row.get("resume")
        newest = max(newest, row["spool"])
        if state is None or row["raw"] > raw_size or row["spool"] == newest > 0:  # some text is compared
            continue
        if row["spool"] <= spool_size and state["prompts"] * PACKED_BYTES <= prompts_size:
            is_usable = _are_ascending(prompts, state["prompts"], row["spool"]) and row["spool"] <= row["raw"]
            return (begin, row) if is_usable else (0, None)
    return 0, None


def _are_ascending(path: Path, count: int, end: int) -> bool:
    """Return whether the first ranges in output.prompts are in order and end before an offset."""
    with open_for_reading(path) as file:
        offsets = array("Q", file.read(PACKED_BYTES * count))
    return all(one <= other for one, other in pairwise(offsets)) and (not offsets or offsets[-1] <= end)


def _has_content(path: Path, content: bytes) -> bool:
    try:
        return path.stat().st_size == len(content) and read_file(path, len(content)) == content
    except FileNotFoundError:
        return False


def _lost_in_power_failure(path: Path) -> bool:
    """Return whether a power failure may have lost the last write: it was made shortly before this machine was started."""
    started = time.time() - boot_time()
    return -_WRITEBACK_S <= path.stat().st_mtime - started <= 0


def _write_at(file: int, data: bytes, at: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(file, data[done:], at + done)

"""Rebuilds the spool and the prompt lines from output.raw.

A timeline row can hold the state to resume the replay from (`resume`). The last such row that the files reach is used: text is
appended in order, so the files are correct up to there. Only a power failure can have lost part of it; then the replay starts
from the start.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from ptyctl.core.marks import Mark, MarkReader, read_sentinel, with_line
from ptyctl.core.normaliser import Normaliser
from ptyctl.files import FILE_MODE

from .jsonl import PAUSE_S, PIECE_BYTES, read_rows, read_rows_backwards
from .prompt_lines import PACKED_BYTES, PromptLines
from .raw_log import RawLog

#: The kernel has written data older than this (Linux: dirty_expire_centisecs, 30 s, plus the writeback interval).
_WRITEBACK_S = 60.0


class SpoolReplay:
    """Normalises output.raw again and repairs the derived files, usually a few bytes at their end.

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
        self._file = os.open(folder / "output.spool", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)

    def run(self, raw: RawLog, *, ended: bool) -> None:
        """Replay the persisted bytes. `ended`: no output follows them, so incomplete sequences are flushed."""
        begin, row = _find_resume_point(self._folder, raw.persisted_size)
        if row is not None:
            self._resume(row)
        for row in read_rows(self._folder / "timeline.jsonl", begin):
            self._feed(raw, min(row["raw"], raw.persisted_size))
            self._ts = row["ts"]
            if row["kind"] == "incarnation":
                self.incarnation = row["incarnation"]
                if row["raw"] <= raw.persisted_size:
                    self._begin_incarnation(row["nonces"])
        self._feed(raw, raw.persisted_size)
        if ended:
            self._write(self.normaliser.flush())
        self._finish()

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
        with (self._folder / "output.prompts").open("rb") as file:
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
        if text and os.pread(self._file, len(text), self.on_disk) != text:
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
            if not path.exists() or path.read_bytes() != packed:
                path.touch(FILE_MODE)
                path.write_bytes(packed)
        except OSError:
            self.writing = False


def _find_resume_point(folder: Path, raw_size: int) -> tuple[int, dict[str, Any] | None]:
    """Return the offset and the content of the last timeline row that the replay can resume from, or (0, None)."""
    timeline, spool, prompts = folder / "timeline.jsonl", folder / "output.spool", folder / "output.prompts"
    if not prompts.exists() or _lost_in_power_failure(spool) or _lost_in_power_failure(prompts):
        return 0, None
    spool_size, prompts_size = spool.stat().st_size, prompts.stat().st_size
    for begin, row in read_rows_backwards(timeline):
        state = row.get("resume")
        if state is None or row["raw"] > raw_size:
            continue
        if row["spool"] <= spool_size and state["prompts"] * PACKED_BYTES <= prompts_size:
            return begin, row
    return 0, None


def _lost_in_power_failure(path: Path) -> bool:
    """Return whether a power failure may have lost the last write: it was made shortly before this machine was started."""
    started = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return -_WRITEBACK_S <= path.stat().st_mtime - started <= 0


def _write_at(file: int, data: bytes, at: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(file, data[done:], at + done)

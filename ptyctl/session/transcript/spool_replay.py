"""The spool and the prompts, made again from output.raw: from the last place on that is known to be right.

A row of the timeline may say what is needed to go on from it (`resume`). Where the files reach that far they are right so far,
as what was written before it was written whole; only a power cut could have taken some of it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from ptyctl.core.marks import Mark, MarkReader, read_sentinel
from ptyctl.core.normaliser import Normaliser

from .jsonl import PIECE_BYTES, rows, rows_backwards
from .prompt_lines import PACKED_BYTES, PromptLines
from .raw_log import RawLog

#: The kernel has written what is older than this (Linux: dirty_expire_centisecs, 30 s, and the writeback's own interval).
_WRITEBACK_S = 60.0
_FILE_MODE = 0o600
#: Between two pieces: a thread that never rests lets the event loop run only every 5 ms (sys.getswitchinterval).
_PAUSE_S = 0.0001


class SpoolReplay:
    """Feeds on the raw bytes, and writes what differs from the files: most often a few bytes at their end.

    `writing` is false once the disk is full; `on_disk` is how much of the spool is there.
    """

    def __init__(self, folder: Path) -> None:
        self.incarnation = 0
        self.normaliser = Normaliser()
        self.prompts = PromptLines()
        self.last_prompt: Mark | None = None
        self.writing = True
        self.on_disk = 0
        self._folder = folder
        self._ts = 0
        self._file = os.open(folder / "output.spool", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)

    def run(self, raw: RawLog, *, ended: bool) -> None:
        """Takes in what was kept. `ended` says that it is all there was, and not only the begin."""
        begin, row = _resume_point(self._folder, raw.kept)
        if row is not None:
            self._resume(row)
        for row in rows(self._folder / "timeline.jsonl", begin):
            self._feed(raw, min(row["raw"], raw.kept))
            self._ts = row["ts"]
            if row["kind"] == "incarnation":
                self.incarnation = row["incarnation"]
                if row["raw"] <= raw.kept:
                    self._begin_incarnation(row["nonces"])
        self._feed(raw, raw.kept)
        if ended:
            self._keep(self.normaliser.flush())
        self._finish()

    def close(self) -> None:
        os.close(self._file)

    def _resume(self, row: dict[str, Any]) -> None:
        state = row["resume"]
        reader = MarkReader.resume(state["marks"])
        self.incarnation = state["incarnation"]
        self.normaliser = Normaliser(row["raw"], row["spool"], reader, in_line=state["in_line"])
        self.normaliser.modes = set(state["modes"])
        self.on_disk = row["spool"]
        with (self._folder / "output.prompts").open("rb") as file:
            self.prompts = PromptLines.unpacked(file.read(PACKED_BYTES * state["prompts"]))
        if (last := self.prompts.last()) is not None:
            self.last_prompt = read_sentinel(os.pread(self._file, last[1] - last[0], last[0]))

    def _begin_incarnation(self, nonces: list[str]) -> None:
        self._keep(self.normaliser.flush())
        old = self.normaliser
        self.normaliser = Normaliser(old.raw, old.spool, MarkReader(*nonces), in_line=old.in_line)

    def _feed(self, raw: RawLog, end: int) -> None:
        for begin in range(self.normaliser.raw, end, PIECE_BYTES):
            self._keep(self.normaliser.feed(raw.read(begin, min(begin + PIECE_BYTES, end)), self._ts))
            placed, self.normaliser.marks = self.normaliser.marks, []
            for mark in placed:
                if mark.mark.kind == "prompt":
                    self.prompts.add(mark.spool_begin, mark.spool_end)
                    self.last_prompt = mark.mark
            time.sleep(_PAUSE_S)

    def _keep(self, text: bytes) -> None:
        if not self.writing:
            return
        if text and os.pread(self._file, len(text), self.on_disk) != text:
            try:
                _write(self._file, text, self.on_disk)
            except OSError:
                self.writing = False
                return
        self.on_disk += len(text)

    def _finish(self) -> None:
        try:
            os.ftruncate(self._file, self.on_disk)
            packed, path = self.prompts.packed(), self._folder / "output.prompts"
            if not path.exists() or path.read_bytes() != packed:
                path.touch(_FILE_MODE)
                path.write_bytes(packed)
        except OSError:
            self.writing = False


def _resume_point(folder: Path, kept: int) -> tuple[int, dict[str, Any] | None]:
    """The last row that can be gone on from, and its offset in the timeline."""
    timeline, spool, prompts = folder / "timeline.jsonl", folder / "output.spool", folder / "output.prompts"
    if not prompts.exists() or _may_be_cut(spool) or _may_be_cut(prompts):
        return 0, None
    spool_size, prompts_size = spool.stat().st_size, prompts.stat().st_size
    for begin, row in rows_backwards(timeline):
        state = row.get("resume")
        if state is None or row["raw"] > kept:
            continue
        if row["spool"] <= spool_size and state["prompts"] * PACKED_BYTES <= prompts_size:
            return begin, row
    return 0, None


def _may_be_cut(path: Path) -> bool:
    """Whether a power cut can have taken what was written last: it was written shortly before this machine was started."""
    started = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return -_WRITEBACK_S <= path.stat().st_mtime - started <= 0


def _write(file: int, data: bytes, at: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(file, data[done:], at + done)

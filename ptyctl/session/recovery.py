"""A session's folder as a killed server left it, made whole again (design, section 9).

output.raw is the truth. Its end is where the zeros of its preallocated last extent begin; the spool and the prompts are what
it becomes with the times and the incarnations of the timeline; the last line of a .jsonl file may be torn, and is cut.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptyctl.core.marks import Mark, MarkReader
from ptyctl.core.normalise import Normaliser

from .prompt_lines import PromptLines
from .raw_log import RawLog

_DIRECTORY_MODE = 0o700
_PIECE_BYTES = 1 << 20
_LINE_FILES = ("timeline.jsonl", "blocks.jsonl", "events.jsonl", "input.jsonl", "screen.jsonl", "screen.checkpoints.jsonl")


@dataclass(slots=True)
class Kept:
    """What a session's folder holds. `gap_at` is the spool's size on disk where some of what was received is not there."""

    raw: RawLog
    spool: int = 0
    gap_at: int | None = None
    incarnation: int = 0
    prompts: PromptLines = field(default_factory=PromptLines)
    last_prompt: Mark | None = None


def new_folder(folder: Path, quota_bytes: int) -> Kept:
    """A folder for a new session: nothing is in it."""
    folder.mkdir(mode=_DIRECTORY_MODE, parents=True)
    return Kept(RawLog(folder / "output.raw", quota_bytes))


def recover(folder: Path, meta: dict[str, Any], quota_bytes: int) -> Kept:
    """Mends a folder; one that was closed in order is left as it is. `meta` is the content of its meta.json.

    Raises:
        BlockingIOError: the session is alive in another server; nothing was touched.
        OSError: the folder cannot be read.
    """
    raw = RawLog(folder / "output.raw", quota_bytes)
    try:
        for name in _LINE_FILES:
            _cut_torn_line(folder / name)
        received, told = _received(folder, meta)
        raw.cut(_real_end(raw, min(received, raw.kept)))
        return _replayed(folder, raw, received, told)
    except BaseException:
        raw.close()
        raise


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a .jsonl file; what is no JSON was not written by us whole."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                yield row


class _Replay:
    """Makes the spool again, and writes what differs from the file: most often a few bytes at its end."""

    def __init__(self, file: int) -> None:
        self.normaliser = Normaliser()
        self.prompts = PromptLines()
        self.last_prompt: Mark | None = None
        self.writing = True
        self._file = file
        self._size = 0
        self._in_line = False

    def feed(self, data: bytes, ts: int) -> None:
        self._keep(self.normaliser.feed(data, ts))
        placed, self.normaliser.marks = self.normaliser.marks, []
        for mark in placed:
            if mark.mark.kind == "prompt":
                self.prompts.add(mark.spool_begin, mark.spool_end)
                self.last_prompt = mark.mark

    def channel_ended(self) -> None:
        self._keep(self.normaliser.flush())

    def begin_incarnation(self, nonces: list[str]) -> None:
        self.channel_ended()
        self.normaliser = Normaliser(self.normaliser.raw, self.normaliser.spool, MarkReader(*nonces), in_line=self._in_line)

    def finish(self) -> int:
        """The size of the file, which is less than that of the spool where the disk is full."""
        if self.writing:
            os.ftruncate(self._file, self._size)
        return self._size

    def _keep(self, text: bytes) -> None:
        if text:
            self._in_line = text[-1] != 10
        if text and self.writing and os.pread(self._file, len(text), self._size) != text:
            try:
                self._write(text)
            except OSError:
                self.writing = False
                return
        self._size += len(text) if self.writing else 0

    def _write(self, text: bytes) -> None:
        done = 0
        while done < len(text):
            done += os.pwrite(self._file, text[done:], self._size + done)


def _replayed(folder: Path, raw: RawLog, received: int, told: int) -> Kept:
    fd = os.open(folder / "output.spool", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        replay = _Replay(fd)
        ts = incarnation = 0
        for row in rows(folder / "timeline.jsonl"):
            _feed(replay, raw, min(row["raw"], raw.kept), ts)
            ts = row["ts"]
            if row["kind"] == "incarnation":
                incarnation = row["incarnation"]
                if row["raw"] <= raw.kept:
                    replay.begin_incarnation(row["nonces"])
        _feed(replay, raw, raw.kept, ts)
        whole = received <= raw.kept
        if whole:
            replay.channel_ended()
        on_disk = replay.finish()
    finally:
        os.close(fd)
    spool = replay.normaliser.spool if whole else max(told, replay.normaliser.spool)
    if not whole:
        raw.lost_until(received)
    gap_at = None if whole and on_disk == spool else on_disk
    return Kept(raw, spool, gap_at, incarnation, replay.prompts, replay.last_prompt)


def _feed(replay: _Replay, raw: RawLog, end: int, ts: int) -> None:
    for begin in range(replay.normaliser.raw, end, _PIECE_BYTES):
        replay.feed(raw.read(begin, min(begin + _PIECE_BYTES, end)), ts)


def _received(folder: Path, meta: dict[str, Any]) -> tuple[int, int]:
    """How much there was at least, of raw bytes and of the spool: nobody may get an older cursor for newer text."""
    raw, spool = meta.get("bytes_received", 0), meta.get("spool_size", 0)
    for row in rows(folder / "timeline.jsonl"):
        raw, spool = max(raw, row["raw"]), max(spool, row["spool"])
    for row in rows(folder / "blocks.jsonl"):
        raw = max(raw, row["raw_begin"], row.get("raw_end") or 0)
        spool = max(spool, row["spool_begin"], row.get("spool_end") or 0)
    return raw, spool


def _real_end(raw: RawLog, least: int) -> int:
    """Behind the last byte that is not zero; not before `least`, for a program may have printed zeros."""
    end = raw.kept
    while end > least:
        begin = max(end - _PIECE_BYTES, least)
        size = len(raw.read(begin, end).rstrip(b"\0"))
        if size:
            return begin + size
        end = begin
    return least


def _cut_torn_line(path: Path) -> None:
    if not path.exists():
        return
    with path.open("r+b") as file:
        end = size = file.seek(0, os.SEEK_END)
        while end:
            begin = max(end - _PIECE_BYTES, 0)
            file.seek(begin)
            newline = file.read(end - begin).rfind(b"\n")
            end = begin + newline + 1
            if newline >= 0 or not begin:
                break
            end = begin
        if end < size:
            file.truncate(end)

"""A session on disk (design, section 9): output.raw is the truth, output.spool and timeline.jsonl are derived from it.

The spool is written in batches: a crash costs nothing that could not be made again from output.raw.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .appender import Appender, json_line
from .recovery import Kept
from .steps import Step, step_of

#: At most 20 data rows a second in the timeline (design, section 3).
ROW_INTERVAL_MS = 50


class Transcript:
    """The files of one session. Nothing here raises when a disk is full: `keeping` tells, and a gap is noted once.

    `resumable` gives what a row of data has besides: what a replay needs that goes on from it.
    """

    def __init__(self, folder: Path, kept: Kept, on_gap: Callable[[], None]) -> None:
        self.folder = folder
        with ExitStack() as undo:  # should one of them not open, none stays open
            self.raw = kept.raw
            undo.callback(self.raw.close)
            self._spool = Appender(folder / "output.spool")
            undo.callback(self._spool.close)
            self._prompts = Appender(folder / "output.prompts")
            undo.callback(self._prompts.close)
            self._timeline = Appender(folder / "timeline.jsonl")
            undo.pop_all()
        self.spool_size = kept.spool
        self.gap_at = kept.gap_at
        #: The resizes and incarnations of this process; those of earlier ones stand in so many bytes of the timeline.
        self.steps: list[Step] = []
        self.steps_from = self._timeline.size
        self.row_ts = 0
        self.row_interval_ms = ROW_INTERVAL_MS
        self.resumable: Callable[[], dict[str, Any]] = dict
        self._on_gap = on_gap
        self._row_due_ms = 0

    def arrived(self, raw: int, spool: int, ts: int) -> None:
        """Bytes came at `ts` (epoch ms) and begin at these offsets; at most one row each 50 ms is kept. `row_ts` is the time of
        the last one, so that the same is known after a crash."""
        if ts >= self._row_due_ms:
            self._row_due_ms = ts + self.row_interval_ms
            self._row(raw, spool, ts, "data", **(self.resumable() if self.gap_at is None else {}))
        if self.gap_at is None and not self._growing():
            self.gap_at = min(spool, self.spool_kept)
            self._row(raw, spool, ts, "gap")
            self._on_gap()

    def note(self, kind: str, ts: int, **more: object) -> None:
        """A row that is no data: an incarnation or a resize, at the present end."""
        self._row(self.raw.size, self.spool_size, ts, kind, **more)

    def append(self, text: bytes) -> None:
        self.spool_size += len(text)
        if self.gap_at is None:
            self._spool.append(text)

    def add_prompt(self, line: bytes) -> None:
        """One more of the prompts' lines, as PromptLines packs it."""
        if self.gap_at is None:
            self._prompts.append(line)

    @property
    def spool_kept(self) -> int:
        """How many bytes of the spool are on disk, or on the way there."""
        return self._spool.size + len(self._spool.batch)

    def read_spool(self, begin: int, end: int) -> bytes:
        """Text between two offsets, as far as it was kept."""
        return self._spool.read(begin, end)

    @property
    def dirty(self) -> bool:
        return self._spool.waiting

    def flush(self) -> None:
        self._spool.flush()
        self._prompts.flush()

    def disk_bytes(self) -> int:
        return self.raw.kept + self._spool.size + self._timeline.size

    def close(self) -> None:
        """Ends the writing; what was kept can still be read."""
        self._spool.close()
        self._prompts.close()
        self._timeline.close()
        self.raw.close()

    def _growing(self) -> bool:
        return self.raw.keeping and self._spool.growing and self._prompts.growing and self._timeline.growing

    def _row(self, raw: int, spool: int, ts: int, kind: str, **more: object) -> None:
        self.row_ts = ts
        row = {"raw": raw, "spool": spool, "ts": ts, "kind": kind, **more}
        if kind != "data" and (step := step_of(row)) is not None:
            self.steps.append(step)
        self._timeline.append(json_line(row))
        self._timeline.flush()  # at once, as it cannot be made again; the spool can, with its times and nonces

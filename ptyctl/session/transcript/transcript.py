"""A session's output files: output.raw, the source of truth, and output.spool, output.prompts and timeline.jsonl.

The spool is written in batches. After a crash it is rebuilt from output.raw and the timeline.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ptyctl.core.hidden_ranges import HiddenRange, HiddenRanges, row_fields

from .append_file import AppendFile, json_line
from .recovery import TranscriptState
from .timeline import TimelineStep, parse_step

#: At most 20 data rows per second in timeline.jsonl.
ROW_INTERVAL_MS = 50


class Transcript:
    """The output files of one session. No method raises on a full disk: the files stop growing and a gap is noted once.

    Attributes:
        raw: output.raw.
        spool_size: size of the spool, whether on disk or not.
        gap_at: size of the spool on disk when persisting stopped, or None.
        steps: resizes and incarnations of this process.
        hidden: the ranges that viewers do not see as received.
        held_from: raw offset from which viewers see nothing yet, or None: it is not known yet what is shown for the output.
        steps_from: size of the timeline when it was opened; it holds the steps of earlier processes.
        row_ts: time of the last timeline row (epoch ms); recovery finds the same time.
    """

    def __init__(
        self,
        folder: Path,
        state: TranscriptState,
        *,
        on_gap: Callable[[], None],
        resume_state: Callable[[], dict[str, Any]],
    ) -> None:
        """Open the files.

        Args:
            state: what recovery found, or the state of a new folder.
            on_gap: called once when output is no longer persisted.
            resume_state: returns the fields that let a replay continue from a data row.
        """
        self.folder = folder
        with ExitStack() as undo:  # if one file cannot be opened, the others are closed
            self.raw = state.raw
            undo.callback(self.raw.close)
            self._spool = AppendFile(folder / "output.spool")
            undo.callback(self._spool.close)
            self._prompts = AppendFile(folder / "output.prompts")
            undo.callback(self._prompts.close)
            self._timeline = AppendFile(folder / "timeline.jsonl")
            undo.pop_all()
        self.spool_size = state.spool_size
        self.gap_at = state.gap_at
        self.steps: list[TimelineStep] = []
        self.hidden = HiddenRanges(state.hidden)
        self.held_from: int | None = None
        self.steps_from = self._timeline.size
        self.row_ts = 0
        self.row_interval_ms = ROW_INTERVAL_MS
        self._on_gap = on_gap
        self._resume_state = resume_state
        self._next_row_ms = 0

    def received(self, raw: int, spool: int, ts: int) -> None:
        """Record that bytes arrived at `ts` (epoch ms) and begin at these offsets; writes at most one row per interval."""
        if ts >= self._next_row_ms or ts < self.row_ts:  # the clock may have been set back
            self._next_row_ms = ts + self.row_interval_ms
            self._write_row(raw, spool, ts, "data", **(self._resume_state() if self.gap_at is None else {}))
        if self.gap_at is None and not self._growing():
            self.gap_at = min(spool, self.spool_persisted)
            self._write_row(raw, spool, ts, "gap")
            self._on_gap()

    def note(self, kind: str, ts: int, **fields: object) -> None:
        """Write a timeline row of a kind other than data (incarnation, resize) at the current offsets."""
        self._write_row(self.raw.size, self.spool_size, ts, kind, **fields)

    def hide(self, hidden: HiddenRange, ts: int) -> None:
        """Record a range that viewers do not see as received."""
        self.hidden.add(hidden)
        self.note("hidden", ts, **row_fields(hidden))

    def append(self, text: bytes) -> None:
        """Append spool text."""
        self.spool_size += len(text)
        if self.gap_at is None:
            self._spool.append(text)
        elif not self.raw.persisting:
            self.raw.not_persisted(self.spool_size)

    def add_prompt(self, line: bytes) -> None:
        """Append a prompt line's range as `PromptLines` packs it."""
        if self.gap_at is None:
            self._prompts.append(line)

    @property
    def spool_persisted(self) -> int:
        """Bytes of the spool that are on disk or in its write batch."""
        return self._spool.size_with_batch

    def read_spool(self, begin: int, end: int) -> bytes:
        """Return persisted text between two offsets."""
        return self._spool.read(begin, end)

    def flush(self) -> None:
        """Write buffered text and prompt lines to disk."""
        self._spool.flush()
        self._prompts.flush()

    def disk_bytes(self) -> int:
        """Return the size of the session's files, without the room that is allocated ahead in output.raw."""
        return self.raw.persisted_size + self.raw.other_files_bytes()

    def close(self) -> None:
        """Close the files for writing; persisted data can still be read."""
        self._spool.close()
        self._prompts.close()
        self._timeline.close()
        self.raw.close()

    def _growing(self) -> bool:
        return self.raw.persisting and self._spool.growing and self._prompts.growing and self._timeline.growing

    def _write_row(self, raw: int, spool: int, ts: int, kind: str, **fields: object) -> None:
        self.row_ts = ts
        row = {"raw": raw, "spool": spool, "ts": ts, "kind": kind, **fields}
        if kind != "data" and (step := parse_step(row)) is not None:
            self.steps.append(step)
        self._timeline.append(json_line(row))
        self._timeline.flush()  # the timeline cannot be rebuilt; the spool can, from its times and nonces

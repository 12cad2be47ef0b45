"""Readers of timeline.jsonl, which relates offsets in output.raw to times, resizes and incarnations.

The functions block: a timeline may be large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .jsonl import end_of_rows, read_rows, read_rows_backwards, read_rows_without

#: Nearly all rows have this kind; a search for steps does not parse them.
_DATA = b'"kind":"data"'


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """A change of the terminal after `raw` bytes: a resize to `size` (columns, rows), or, without a size, a new incarnation."""

    raw: int
    size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """A time: bytes at or after the offset `raw` arrived at `ts` (epoch ms) or later.

    Attributes:
        incarnation: the incarnation that begins here, or None.
        size: the new size of the terminal (columns, rows), or None.
    """

    raw: int
    ts: int
    incarnation: int | None = None
    size: tuple[int, int] | None = None


def parse_step(row: dict[str, Any]) -> TimelineStep | None:
    """Return the step in a row of kind `resize` or `incarnation`, or None."""
    if row["kind"] == "resize":
        return TimelineStep(row["raw"], (row["cols"], row["rows"]))
    return TimelineStep(row["raw"]) if row["kind"] == "incarnation" else None


def read_steps(timeline: Path, size: int) -> list[TimelineStep]:
    """Return the steps in the first `size` bytes of a timeline."""
    return [step for row in read_rows_without(timeline, _DATA, size) if (step := parse_step(row)) is not None]


def read_times(timeline: Path, raw: int) -> Iterator[TimelineRow]:
    """Yield the rows from the last one that applies to an offset."""
    last = _last_row(timeline, lambda row: row["raw"] < raw)
    for row in read_rows(timeline, last[0] if last is not None else 0):
        incarnation = row.get("incarnation") if row["kind"] == "incarnation" else None
        size = (row["cols"], row["rows"]) if row["kind"] == "resize" else None
        yield TimelineRow(row["raw"], row["ts"], incarnation, size)


def time_at(timeline: Path, raw: int) -> int:
    """Return when the last byte before `raw` arrived (epoch ms); 0 before the first row."""
    last = _last_row(timeline, lambda row: row["raw"] < raw or not row["raw"])
    return last[1]["ts"] if last is not None else 0


def _last_row(timeline: Path, applies: Callable[[dict[str, Any]], bool]) -> tuple[int, dict[str, Any]] | None:
    """Return the last row for which `applies` is true, with its offset; None without one."""
    timeline.stat()  # a missing file is an error, not a timeline without rows
    return next(read_rows_backwards(timeline, end_of_rows(timeline, applies)), None)

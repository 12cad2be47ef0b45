"""Readers of timeline.jsonl, which relates offsets in output.raw to times, resizes and incarnations.

The functions block: a timeline may be large.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Nearly all rows have this kind; a search for steps does not parse them.
_DATA = b'"kind":"data"'
#: Read size of the backward search for the begin of a row; most rows are shorter.
_ROW_BYTES = 512


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
    """

    raw: int
    ts: int
    incarnation: int | None = None


def parse_step(row: dict[str, Any]) -> TimelineStep | None:
    """Return the step in a row of kind `resize` or `incarnation`, or None."""
    if row["kind"] == "resize":
        return TimelineStep(row["raw"], (row["cols"], row["rows"]))
    return TimelineStep(row["raw"]) if row["kind"] == "incarnation" else None


def read_steps(timeline: Path, size: int) -> list[TimelineStep]:
    """Return the steps in the first `size` bytes of a timeline."""
    found = []
    with timeline.open("rb") as file:
        while file.tell() < size and (line := file.readline()):
            if _DATA not in line and (step := parse_step(json.loads(line))) is not None:
                found.append(step)
    return found


def read_times(timeline: Path, raw: int) -> Iterator[TimelineRow]:
    """Yield the rows from the last one that applies to an offset."""
    with timeline.open("rb") as file:
        file.seek(_find_row_before(file, raw))
        for line in file:
            if line.endswith(b"\n"):
                row = json.loads(line)
                yield TimelineRow(row["raw"], row["ts"], row.get("incarnation") if row["kind"] == "incarnation" else None)


def time_at(timeline: Path, raw: int) -> int:
    """Return when the last byte before `raw` arrived (epoch ms), by binary search; 0 before the first row."""
    ts = 0
    with timeline.open("rb") as file:
        low, high = 0, file.seek(0, 2)
        while low < high:  # the row begins at or after `low` and before `high`
            middle = (low + high) // 2
            row, end = _read_row_at(file, middle, low)
            if row is None:
                high = middle
            elif row["raw"] < raw or not row["raw"]:
                ts, low = row["ts"], end
            else:
                high = middle
    return ts


def _find_row_before(file: Any, raw: int) -> int:
    """Return the offset of the last row whose `raw` is less than the given one."""
    found, low, high = 0, 0, file.seek(0, 2)
    while low < high:
        middle = (low + high) // 2
        row, end = _read_row_at(file, middle, low)
        if row is not None and row["raw"] < raw:
            found = low = end
        else:
            high = middle
    return _find_row_begin(file, found)


def _find_row_begin(file: Any, end: int) -> int:
    """Return the begin of the row that ends at an offset."""
    begin = max(end - 1, 0)
    while begin > 0:
        size = min(_ROW_BYTES, begin)
        file.seek(begin - size)
        at = file.read(size).rfind(b"\n")
        if at >= 0:
            return int(begin - size + at + 1)
        begin -= size
    return 0


def _read_row_at(file: Any, offset: int, low: int) -> tuple[dict[str, Any] | None, int]:
    """Return the first complete row at or after an offset, and its end. `low` is the begin of some row before it."""
    file.seek(max(offset - 1, low))
    if offset > low:
        file.readline()
    line = file.readline()
    return (json.loads(line), file.tell()) if line.endswith(b"\n") else (None, 0)

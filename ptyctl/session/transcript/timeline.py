"""What happened to a terminal between two bytes: another size, or another terminal in its place (an incarnation)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Nearly all rows of a timeline are of data: they are passed over by their looks.
_DATA = b'"kind":"data"'
#: Most rows are shorter.
_ROW_BYTES = 512


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """It came behind `raw` bytes: a resize to `size` (columns, rows), or without one a fresh terminal of the same size."""

    raw: int
    size: tuple[int, int] | None = None


def step_of(row: dict[str, Any]) -> TimelineStep | None:
    """The step that a row of the timeline tells of, if it does."""
    if row["kind"] == "resize":
        return TimelineStep(row["raw"], (row["cols"], row["rows"]))
    return TimelineStep(row["raw"]) if row["kind"] == "incarnation" else None


def steps_in(timeline: Path, size: int) -> list[TimelineStep]:
    """All steps of a timeline, as far as its first `size` bytes tell. It may be large: not for the event loop's thread."""
    found = []
    with timeline.open("rb") as file:
        while file.tell() < size and (line := file.readline()):
            if _DATA not in line and (step := step_of(json.loads(line))) is not None:
                found.append(step)
    return found


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """What came at or behind the offset `raw` came at `ts` (epoch ms) or later; `incarnation` begins there, if one does."""

    raw: int
    ts: int
    incarnation: int | None = None


def moments(timeline: Path, raw: int) -> Iterator[TimelineRow]:
    """The rows of a timeline in order, from the last one at or before an offset on. Not for the event loop's thread."""
    with timeline.open("rb") as file:
        file.seek(_row_before(file, raw))
        for line in file:
            if line.endswith(b"\n"):
                row = json.loads(line)
                yield TimelineRow(row["raw"], row["ts"], row.get("incarnation") if row["kind"] == "incarnation" else None)


def _row_before(file: Any, raw: int) -> int:
    """Where the last row begins whose bytes begin before an offset; rows of the offset itself are behind it."""
    found, low, high = 0, 0, file.seek(0, 2)
    while low < high:
        middle = (low + high) // 2
        row, end = _row_at(file, middle, low)
        if row is not None and row["raw"] < raw:
            found = low = end
        else:
            high = middle
    return _row_begin(file, found)


def _row_begin(file: Any, end: int) -> int:
    """Where the row begins that ends at a place."""
    begin = max(end - 1, 0)
    while begin > 0:
        step = min(_ROW_BYTES, begin)
        file.seek(begin - step)
        at = file.read(step).rfind(b"\n")
        if at >= 0:
            return int(begin - step + at + 1)
        begin -= step
    return 0


def time_at(timeline: Path, raw: int) -> int:
    """When the last byte before `raw` came (epoch ms, as well as the timeline knows); 0 before the first. Rows are in the order
    of their bytes, so a few looks into the file are enough."""
    ts = 0
    with timeline.open("rb") as file:
        low, high = 0, file.seek(0, 2)
        while low < high:  # the row wanted begins at or behind `low` and before `high`
            middle = (low + high) // 2
            row, end = _row_at(file, middle, low)
            if row is None:
                high = middle
            elif row["raw"] < raw or not row["raw"]:
                ts, low = row["ts"], end
            else:
                high = middle
    return ts


def _row_at(file: Any, place: int, low: int) -> tuple[dict[str, Any] | None, int]:
    """The first whole row at or behind a place, and where it ends; `low` is known to be where a row begins."""
    file.seek(max(place - 1, low))
    if place > low:
        file.readline()
    line = file.readline()
    return (json.loads(line), file.tell()) if line.endswith(b"\n") else (None, 0)

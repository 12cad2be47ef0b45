"""Readers of timeline.jsonl, which relates offsets in output.raw to times, resizes and incarnations.

The functions block: a timeline may be large.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

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
    found = []
    with timeline.open("rb") as file:
        while file.tell() < size and (line := file.readline()):
            if _DATA not in line and (step := parse_step(json.loads(line))) is not None:
                found.append(step)
    return found


def read_times(timeline: Path, raw: int) -> Iterator[TimelineRow]:
    """Yield the rows from the last one that applies to an offset."""
    with timeline.open("rb") as file:
        file.seek(_last_row(file, lambda row: row["raw"] < raw)[1])
        for line in file:
            if line.endswith(b"\n"):
                row = json.loads(line)
                incarnation = row.get("incarnation") if row["kind"] == "incarnation" else None
                size = (row["cols"], row["rows"]) if row["kind"] == "resize" else None
                yield TimelineRow(row["raw"], row["ts"], incarnation, size)


def time_at(timeline: Path, raw: int) -> int:
    """Return when the last byte before `raw` arrived (epoch ms); 0 before the first row."""
    with timeline.open("rb") as file:
        row, _ = _last_row(file, lambda row: row["raw"] < raw or not row["raw"])
    return row["ts"] if row is not None else 0


def _last_row(file: BinaryIO, applies: Callable[[dict[str, Any]], bool]) -> tuple[dict[str, Any] | None, int]:
    """Return the last complete row for which `applies` is true, and its offset, by binary search; (None, 0) without one."""
    found, at, low, high = None, 0, 0, file.seek(0, 2)
    while low < high:  # a row begins at `low`, and the one after the last that applies begins before `high`
        middle = (low + high) // 2
        file.seek(max(middle - 1, low))
        if middle > low:
            file.readline()
        begin, line = file.tell(), file.readline()
        row = json.loads(line) if line.endswith(b"\n") else None
        if row is not None and applies(row):
            found, at, low = row, begin, file.tell()
        else:
            high = middle
    return found, at

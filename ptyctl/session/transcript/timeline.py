"""Readers of timeline.jsonl, which relates offsets in output.raw to times, resizes and incarnations.

The functions block: a timeline may be large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .jsonl import end_of_rows, read_rows, read_rows_backwards, read_rows_without
from .raw_log import MAX_OFFSET

#: Nearly all rows have this kind; a search for steps does not parse them.
_DATA = b'"kind":"data"'
_MAX_CELLS = 100_000


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


def is_timeline_row(row: dict[str, Any]) -> bool:
    """Return whether an object has the fields of a row of timeline.jsonl. All readers skip others."""
    if not all(_is_int(row.get(name, 0), MAX_OFFSET) for name in ("raw", "spool", "ts")) or not {"raw", "ts"} <= row.keys():
        return False
    kind = row.get("kind")
    if kind == "resize":
        return _is_int(row.get("cols"), _MAX_CELLS) and _is_int(row.get("rows"), _MAX_CELLS)
    if kind == "incarnation":
        nonces = row.get("nonces", ())
        is_known = isinstance(nonces, list | tuple) and all(isinstance(nonce, str) for nonce in nonces)
        return is_known and _is_int(row.get("incarnation", 0), MAX_OFFSET)
    return isinstance(kind, str) and ("resume" not in row or _is_resume(row["resume"]))


def _is_resume(state: object) -> bool:
    """Return whether a value is the state that a data row holds."""
    if (
        not isinstance(state, dict)
        or not isinstance(state.get("marks"), dict)
        or "in_line" not in state
        or "modes" not in state
    ):
        return False
    numbers = [state.get("incarnation"), state.get("prompts"), state.get("blanks", 0), *state["marks"].values()]
    offsets = [state.get("returned_raw", 0), state.get("begun_raw", 0)]
    is_text = isinstance(state.get("line", ""), str)
    return is_text and all(_is_int(number, MAX_OFFSET) for number in numbers) and all(type(at) is int for at in offsets)


def _is_int(value: object, maximum: int) -> bool:
    return type(value) is int and 0 <= value <= maximum


def parse_step(row: dict[str, Any]) -> TimelineStep | None:
    """Return the step in a row of kind `resize` or `incarnation`, or None."""
    if row["kind"] == "resize":
        return TimelineStep(row["raw"], (row["cols"], row["rows"]))
    return TimelineStep(row["raw"]) if row["kind"] == "incarnation" else None


def read_steps(timeline: Path, size: int) -> list[TimelineStep]:
    """Return the steps in the first `size` bytes of a timeline."""
    return [step for row in read_rows_without(timeline, _DATA, size, is_timeline_row) if (step := parse_step(row)) is not None]


def read_times(timeline: Path, raw: int) -> Iterator[TimelineRow]:
    """Yield the rows from the last one that applies to an offset."""
    last = _last_row(timeline, lambda row: row["raw"] < raw)
    for row in read_rows(timeline, last[0] if last is not None else 0, is_timeline_row):
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
    return next(read_rows_backwards(timeline, end_of_rows(timeline, applies, is_timeline_row), is_timeline_row), None)

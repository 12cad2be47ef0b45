"""How commands show what they found: JSON for programs, tables and times for people."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any


def as_json(value: Any) -> None:
    """One JSON value, on one line."""
    print(json.dumps(value, ensure_ascii=False))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as they need to be: an id that is cut is none."""
    lines = [tuple(heads), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def size(count: int) -> str:
    """Bytes, as people read them."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError


def ago(epoch_ms: int) -> str:
    """How long ago that was, in its largest unit."""
    seconds = max(time.time() - epoch_ms / 1000, 0)
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"

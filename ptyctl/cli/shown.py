"""How commands show what they found: JSON for programs, tables and times for people."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.status import Status

#: Controls, also those of eight bits, by which a text could act on the terminal that shows it (ECMA-48 C0, C1); not BS, HT, LF.
_ACTING = re.compile(r"[\x00-\x07\x0b-\x1f\x7f-\x9f]")
_LONGEST_CELL = 200


def harmless(text: str) -> str:
    """Nothing of it acts."""
    return _ACTING.sub("\ufffd", text)


def text(data: str) -> None:
    """What a far end has printed: on a terminal nothing of it acts, and programs get it as it is."""
    sys.stdout.write(harmless(data) if sys.stdout.isatty() else data)
    sys.stdout.flush()


def progress(doing: str = "") -> AbstractContextManager[Status | None]:
    """On stderr, where that is a terminal: something goes on."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(doing)


def as_json(value: Any) -> None:
    """One JSON value, on one line."""
    print(json.dumps(value, ensure_ascii=False))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as they need to be: an id that is cut is none. Only what is very long is."""
    lines = [tuple(heads), *(tuple(map(_cell, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _cell(value: str) -> str:
    shown = harmless(value).replace("\n", "⏎").replace("\t", " ")
    return shown if len(shown) <= _LONGEST_CELL else f"{shown[:_LONGEST_CELL]}…"


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

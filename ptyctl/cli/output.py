"""Output of the commands: JSON for programs; tables, sizes and times for people."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pathlib import Path

    from rich.status import Status

#: Bidirectional controls (Unicode, UAX #9), which make a terminal show text in another order, and line separators.
_INVISIBLE = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
#: C0 and C1 control characters (ECMA-48) except BS, HT and LF.
_CONTROLS = re.compile(rf"[\x00-\x07\x0b-\x1f\x7f-\x9f{_INVISIBLE}]")
#: Control characters that JSON does not escape.
_JSON_CONTROLS = re.compile(rf"[\x7f-\x9f{_INVISIBLE}]")
_MAX_CELL_LENGTH = 200


def replace_controls(text: str) -> str:
    """Replace control characters by U+FFFD, so that `text` cannot control the terminal that shows it."""
    return _CONTROLS.sub("\ufffd", text)


def print_text(text: str) -> None:
    """Write output of a session to stdout: without control characters on a terminal, unchanged otherwise."""
    sys.stdout.write(replace_controls(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def print_json(value: Any) -> None:
    """Print one JSON value on one line, with all control characters escaped."""
    text = json.dumps(value, ensure_ascii=False)
    print(_JSON_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def open_private(path: Path) -> TextIO:
    """Open a new or existing file for writing, readable by this user only.

    Raises:
        OSError: it cannot be written, or is a symbolic link.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "w", encoding="utf-8")


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print columns as wide as their widest cell. Cells of more than 200 characters are cut."""
    lines = [tuple(heads), *(tuple(map(_format_cell, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def progress(message: str = "") -> AbstractContextManager[Status | None]:
    """Show a spinner with `message` on stderr; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(message)


def format_size(count: int) -> str:
    """Return a number of bytes with a binary unit, for example `1.5 KiB`."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError


def format_age(epoch_ms: int) -> str:
    """Return the time since `epoch_ms` in its largest unit, for example `3 min`."""
    seconds = max(time.time() - epoch_ms / 1000, 0)
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def strip_empty_rows(rows: Sequence[str]) -> Sequence[str]:
    """Return the rows of a screen without the empty ones at its bottom."""
    return rows[: max((number for number, row in enumerate(rows, 1) if row), default=0)]


def _format_cell(value: str) -> str:
    text = replace_controls(value).replace("\n", "⏎").replace("\t", " ")
    return text if len(text) <= _MAX_CELL_LENGTH else f"{text[:_MAX_CELL_LENGTH]}…"

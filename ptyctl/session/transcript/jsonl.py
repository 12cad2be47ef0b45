"""Files of JSON rows as a killed server left them: read from either end, a torn last line cut."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Small enough that others get their turn in between, should this run in a thread.
PIECE_BYTES = 1 << 16


def rows(path: Path, begin: int = 0) -> Iterator[dict[str, Any]]:
    """The rows from an offset on; what is no JSON was not written by us whole."""
    if not path.exists():
        return
    with path.open("rb") as file:
        file.seek(begin)
        for line in file:
            if (row := row_of(line)) is not None:
                yield row


def rows_with(path: Path, part: bytes) -> Iterator[dict[str, Any]]:
    """The rows whose line holds `part`, without parsing the others."""
    for block in _whole_lines(path):
        at = block.find(part)
        while at >= 0:
            begin, end = block.rfind(b"\n", 0, at) + 1, block.index(b"\n", at) + 1
            if (row := row_of(block[begin:end])) is not None:
                yield row
            at = block.find(part, end)


def count_rows(path: Path) -> int:
    return sum(block.count(b"\n") for block in _whole_lines(path))


def rows_backwards(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows from the last one on, each with its offset."""
    if not path.exists():
        return
    with path.open("rb") as file:
        end, rest = file.seek(0, os.SEEK_END), b""
        while end:
            begin = max(end - PIECE_BYTES, 0)
            file.seek(begin)
            data = file.read(end - begin) + rest
            first = 0 if not begin else data.find(b"\n") + 1 or len(data)  # the first line may begin further before
            end, rest = begin, data[:first]
            stop = len(data)
            while stop > first:
                at = max(data.rfind(b"\n", first, stop - 1) + 1, first)
                if (row := row_of(data[at:stop])) is not None:
                    yield begin + at, row
                stop = at


def cut_torn_line(path: Path) -> None:
    """Cuts what stands behind the last newline."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        end = size = file.seek(0, os.SEEK_END)
        while end:
            begin = max(end - PIECE_BYTES, 0)
            file.seek(begin)
            newline = file.read(end - begin).rfind(b"\n")
            end = begin + newline + 1
            if newline >= 0:
                break
        if end < size:
            file.truncate(end)


def row_of(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _whole_lines(path: Path) -> Iterator[bytes]:
    """The file in pieces that end with a newline."""
    if not path.exists():
        return
    with path.open("rb") as file:
        rest = b""
        while piece := file.read(PIECE_BYTES):
            lines, newline, tail = piece.rpartition(b"\n")
            if newline:
                yield rest + lines + newline
                rest = tail
            else:
                rest += tail

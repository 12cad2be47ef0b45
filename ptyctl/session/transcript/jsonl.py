"""Readers of JSON Lines files, forwards and backwards. Rows that are not JSON objects are skipped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ptyctl.files import open_for_reading, open_for_update, parse_json

#: Bytes read at once. Small, so that a reading thread does not hold up the event loop.
PIECE_BYTES = 1 << 16
#: Pause of a thread between two pieces (seconds). Without it the event loop's thread gets the GIL only every 5 ms
#: (`sys.getswitchinterval`).
PAUSE_S = 0.0001
#: A longer line is no row: rows with a command of 1 MiB, the longest that is accepted, are shorter.
MAX_ROW_BYTES = 16 * 1024 * 1024
#: Returns whether an object is a row of a file; others are skipped.
RowCheck = Callable[[dict[str, Any]], bool]


def read_rows(path: Path, begin: int = 0, is_row: RowCheck | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows from an offset."""
    if not path.exists():
        return
    with open_for_reading(path) as file:
        file.seek(begin)
        while line := file.readline(MAX_ROW_BYTES):
            if (row := _parse_row(line, is_row)) is not None:
                yield row


def read_rows_containing(path: Path, text: bytes, is_row: RowCheck | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows whose line contains `text`. Other rows are not parsed."""
    for lines in _read_whole_lines(path):
        at = lines.find(text)
        while at >= 0:
            begin, end = lines.rfind(b"\n", 0, at) + 1, lines.index(b"\n", at) + 1
            if (row := _parse_row(lines[begin:end], is_row)) is not None:
                yield row
            at = lines.find(text, end)


def read_rows_without(path: Path, text: bytes, end: int, is_row: RowCheck | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows that begin before the offset `end` and whose line does not contain `text`. Other rows are not parsed.

    Raises:
        OSError: the file cannot be read, or is missing.
    """
    with open_for_reading(path) as file:
        while file.tell() < end and (line := file.readline(MAX_ROW_BYTES)):
            if text not in line and (row := _parse_row(line, is_row)) is not None:
                yield row


def count_rows(path: Path) -> int:
    """Return the number of lines that end with a newline."""
    return sum(lines.count(b"\n") for lines in _read_whole_lines(path))


def end_of_rows(path: Path, precedes: Callable[[dict[str, Any]], bool], is_row: RowCheck | None = None) -> int:
    """Return the offset at which the rows end for which `precedes` is true. In the file these come before all others.

    Reads few rows, by bisection. Those that cannot be read count as preceding ones, but not a torn last line.
    """
    if not path.exists():
        return 0
    with open_for_reading(path) as file:
        low, high = 0, file.seek(0, os.SEEK_END)
        while low < high:
            middle = (low + high) // 2
            file.seek(max(middle - 1, 0))
            if middle:
                file.readline()  # the rest of a row that begins before, or its newline alone
            if (begin := file.tell()) >= high:
                high = middle
                continue
            line = file.readline()
            row = _parse_row(line, is_row)
            if line.endswith(b"\n") and (row is None or precedes(row)):
                low = file.tell()
            else:
                high = min(middle, begin)
    return low


def read_rows_backwards(
    path: Path, end: int | None = None, is_row: RowCheck | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each row with its offset, the last row first; by default from the end of the file."""
    if not path.exists():
        return
    with open_for_reading(path) as file:
        size, rest = file.seek(0, os.SEEK_END), _LinePieces()
        end = size if end is None else min(end, size)
        while end:
            begin = max(end - PIECE_BYTES, 0)
            file.seek(begin)
            piece = file.read(end - begin)
            if begin and b"\n" not in piece:
                rest.add(piece)
                end = begin
                continue
            data = piece[: piece.rfind(b"\n") + 1] if rest.is_too_long else piece + rest.joined(backwards=True)
            rest = _LinePieces()
            first = 0 if not begin else data.find(b"\n") + 1 or len(data)  # the first line may begin in the previous piece
            end = begin
            rest.add(data[:first])
            stop = len(data)
            while stop > first:
                at = max(data.rfind(b"\n", first, stop - 1) + 1, first)
                if (row := _parse_row(data[at:stop], is_row)) is not None:
                    yield begin + at, row
                stop = at


def cut_torn_line(path: Path) -> None:
    """Truncate the file after its last newline."""
    if not path.exists():
        return
    with open_for_update(path) as file:
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


def _parse_row(line: bytes, is_row: RowCheck | None = None) -> dict[str, Any] | None:
    if len(line) > MAX_ROW_BYTES:
        return None
    try:
        row = parse_json(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and (is_row is None or is_row(row)) else None


def _read_whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the file in pieces that end with a newline."""
    if not path.exists():
        return
    with open_for_reading(path) as file:
        rest = _LinePieces()
        while piece := file.read(PIECE_BYTES):
            lines, newline, tail = piece.rpartition(b"\n")
            if newline:
                whole = lines + newline
                yield whole[whole.find(b"\n") :] if rest.is_too_long else rest.joined() + whole
                rest = _LinePieces()
            rest.add(tail)


class _LinePieces:
    """The pieces of a line that were read so far. Those of a line that is too long to be a row are dropped."""

    def __init__(self) -> None:
        self.is_too_long = False
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        self._size += len(piece)
        self._pieces.append(piece)
        if self._size > MAX_ROW_BYTES:
            self.is_too_long = True
            self._pieces.clear()

    def joined(self, *, backwards: bool = False) -> bytes:
        return b"".join(reversed(self._pieces) if backwards else self._pieces)

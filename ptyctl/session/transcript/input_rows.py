"""Rows of input.jsonl whose text is added later, in place: only the end of the row changes, and its size never does.

Such a row has the length of the text first. A server that dies while it adds the text may leave a mixture of both ends: no
JSON, or without either field. Recovery gives such a row the length only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ptyctl.files import open_for_update, parse_json

from .append_file import json_line

#: Largest size of a row of input.jsonl.
MAX_INPUT_ROW_BYTES = 128 * 1024
#: Room for the names of fields, and for the padding of Base64.
_ROOM_BYTES = 20
#: The part of a row that never changes. Quotes in texts are escaped, so no text contains the name of the last field.
_FIXED = re.compile(rb'\{"ts":[^\n]*?"line":\{[^{}\n]*\}(?=,)')


def hidden_end(size: int) -> bytes:
    """Return the end of a row with the length of text of this size. The number of bytes says nothing about the text."""
    return _padded({"sensitive": True}, 4 * size // 3 + 2 * _ROOM_BYTES)


def shown_end(fields: Mapping[str, str], size: int) -> bytes | None:
    """Return the end of a row with these fields in `size` bytes, or None if it is too small for them."""
    end = _padded(fields, size)
    return end if len(end) == size else None


def _padded(fields: Mapping[str, object], size: int) -> bytes:
    end = b"," + json_line(fields)[1:-2]
    return end.ljust(size - 2) + b"}\n"


def repair_rows(path: Path) -> None:
    """Give the length only to rows at the end of the file that are damaged because text was being added to them."""
    if not path.exists():
        return
    with open_for_update(path) as file:
        size = file.seek(0, os.SEEK_END)
        at = max(size - 2 * MAX_INPUT_ROW_BYTES, 0)
        file.seek(at)
        for line in file.read(size - at).splitlines(keepends=True):
            fixed = _FIXED.match(line)
            if fixed is not None and not _is_whole(line):
                end = _padded({"sensitive": True}, len(line) - fixed.end())
                if fixed.end() + len(end) == len(line):
                    file.seek(at + fixed.end())
                    file.write(end)
            at += len(line)


def _is_whole(line: bytes) -> bool:
    try:
        row = parse_json(line)
    except ValueError:
        return False
    return isinstance(row, dict) and not row.keys().isdisjoint(("data", "data_b64", "sensitive"))

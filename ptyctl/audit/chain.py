"""Rows of the audit log, each with the hash of the row before it, so that a changed, removed or inserted row is found.

A row is one line of JSON; its hash is the SHA-256 of that line without the line break. The head names the number of rows and
the hash of the last one. A process that can write the files can also write a new chain: compare the head with a copy that is
kept elsewhere. Imports nothing of ptyctl.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

#: The `prev` of the first row.
FIRST = "0" * 64
#: The event that is recorded after rows which do not match the recorded head, or after a missing head.
BROKEN = "chain_broken"


class Head(NamedTuple):
    """The end of the chain.

    Attributes:
        rows: number of rows.
        hash: SHA-256 of the last row, in hexadecimal digits.
    """

    rows: int = 0
    hash: str = FIRST

    def after(self, line: bytes) -> Head:
        """Return the head after the line of one more row."""
        return Head(self.rows + 1, hash_of(line))


class ChainFault(NamedTuple):
    """The first row that does not fit.

    Attributes:
        file: the file's name.
        line: the row's line in it, from 1; one more than there are if rows are missing at the end.
        why: what does not fit.
    """

    file: str
    line: int
    why: str


class Verification(NamedTuple):
    """The result of a verification.

    Attributes:
        head: the end of the valid part of the chain.
        fault: the first row that does not fit; None if all do.
    """

    head: Head
    fault: ChainFault | None = None


def encode(row: Mapping[str, object]) -> bytes:
    """Return a row as JSON without its field `prev`. Lone surrogates, which UTF-8 cannot encode, are escaped."""
    try:
        return to_json(row)
    except ValueError:
        return to_json({name: _without_surrogates(value) for name, value in row.items()})


def _without_surrogates(value: object) -> object:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else str(value)


def append(rows: Iterable[bytes], head: Head) -> tuple[bytes, Head]:
    """Return the lines of new rows after `head`, and the new head. The rows are encoded and not empty."""
    lines = bytearray()
    for row in rows:
        line = row[:-1] + f',"prev":"{head.hash}"}}'.encode()
        lines += line + b"\n"
        head = head.after(line)
    return bytes(lines), head


def verify(files: Iterable[tuple[str, Iterable[bytes]]], head: Head | None) -> Verification:
    """Verify the chain.

    Args:
        files: names and lines of all files, in order of time.
        head: the recorded head; None if there is none.
    """
    at, recorded = Head(), head or Head()
    file, number = "", 0
    for file, lines in files:
        number = 0
        for line in lines:
            number += 1
            why = _misfit(line, at)
            if why is None and head is not None and at.rows >= recorded.rows:
                why = "the recorded head is before this row: the row was added, or the server was killed as it wrote it"
            if why is not None:
                return Verification(at, ChainFault(file, number, why))
            at = at.after(line)
            if at.rows == recorded.rows and at.hash != recorded.hash:
                return Verification(at, ChainFault(file, number, "its hash is not that of the recorded head"))
    if head is None and at.rows:
        return Verification(at, ChainFault(file, number + 1, "the head is missing"))
    if at.rows < recorded.rows:
        return Verification(at, ChainFault(file, number + 1, f"{recorded.rows - at.rows} rows are missing at the end"))
    return Verification(at)


def parse(line: bytes) -> dict[str, Any] | None:
    """Return the row of a line; None if it has none."""
    try:
        row = from_json(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def end_of(lines: Iterable[bytes]) -> Head:
    """Return the head after all lines, whether they fit or not."""
    head = Head()
    for line in lines:
        head = head.after(line)
    return head


def extend(head: Head, lines: Iterable[bytes]) -> tuple[Head, int]:
    """Return the head after the lines that continue the chain, and the size of these lines in bytes."""
    size = 0
    for line in lines:
        if _misfit(line, head) is not None:
            break
        head, size = head.after(line), size + len(line)
    return head, size


def _misfit(line: bytes, at: Head) -> str | None:
    row = parse(line)
    if row is None or not line.endswith(b"\n"):
        return "it is no complete row"
    if row.get("prev") != at.hash:
        return "its prev is not the hash of the row before it"
    if row.get("event") == BROKEN:
        return "the rows before it did not fit the recorded head when it was written"
    return None


def hash_of(line: bytes) -> str:
    """Return the hash of the line of a row. A line break at its end does not count."""
    return hashlib.sha256(line.removesuffix(b"\n")).hexdigest()

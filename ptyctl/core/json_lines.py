"""Newline-delimited JSON: one UTF-8 encoded value per line, as in MCP's stdio transport and the daemon's protocol."""

from __future__ import annotations

import json
from typing import Any

#: Longest line accepted from a client: room for a long paste in base64, and a bound on what one client can use.
MAX_LINE_BYTES = 16 * 1024 * 1024


def encode(value: Any) -> bytes:
    """Return the value as one line, with its newline."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Any:
    """Return the value of a line.

    Raises:
        ValueError: the line is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def decode_object(line: bytes) -> dict[str, Any]:
    """Return the object of a line; an empty one if the line holds anything else."""
    try:
        value = decode(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class LineBuffer:
    """Splits a byte stream, received in pieces, into lines."""

    def __init__(self) -> None:
        self._partial: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines completed by this piece, each with its newline."""
        self._partial.append(piece)
        if b"\n" not in piece:
            return []
        *lines, rest = b"".join(self._partial).split(b"\n")
        self._partial = [rest]
        return [line + b"\n" for line in lines]

    def finish(self) -> list[bytes]:
        """Return the last line, with a newline added, if the stream ended without one."""
        return self.feed(b"\n") if any(self._partial) else []

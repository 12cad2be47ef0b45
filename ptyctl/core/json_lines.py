"""Newline-delimited JSON: one UTF-8 encoded value per line, as in MCP's stdio transport and the daemon's protocol."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

#: Longest line accepted from a client: room for a long paste, and a bound on the time that its decoding blocks the event loop.
MAX_LINE_BYTES = 1024 * 1024
#: Longest line accepted from a daemon.
MAX_REPLY_LINE_BYTES = 64 * 1024 * 1024
#: Largest number of bytes of a request outside its strings. They become objects, and decoding more would block the event loop.
MAX_STRUCTURE_BYTES = 64 * 1024
#: Longer integers, which Python's int() rejects, become an infinite float: validation reports the field.
_MAX_DIGITS = 4300
#: The id of a JSON-RPC request.
CallId = int | str
#: Size of the start and of the end of a JSON-RPC message in which its id is searched.
ID_SEARCH_BYTES = 4096
_ID = rb'"id"\s*:\s*(-?[0-9]{1,40}|"(?:[^"\\]|\\.){0,1000}+")\s*'
_SHORT_MEMBER = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*'
_ID_AT_BEGIN = re.compile(rb"\s*\{\s*(?:" + _SHORT_MEMBER + rb",\s*)*+" + _ID + rb"[,}]")
_ID_AT_END = re.compile(rb"(?<!\\)" + _ID + rb"(?:,\s*" + _SHORT_MEMBER + rb")*+\}\s*\Z")


def encode(value: Any) -> bytes:
    """Return the value as one line, with its newline.

    `to_json` encodes long text in a third of the time of `json`. `json` encodes lone surrogates, which `to_json` rejects.
    U+2028 and U+2029 are escaped, because some clients end lines there.
    """
    try:
        line = to_json(value)
        if b"\xe2" in line:  # a search for one byte is fast
            line = line.replace(b"\xe2\x80\xa8", rb"\u2028").replace(b"\xe2\x80\xa9", rb"\u2029")
        return line + b"\n"
    except PydanticSerializationError:
        return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Any:
    """Return the value of a line.

    Raises:
        ValueError: the line is not JSON, or is nested too deeply.
    """
    try:
        return _DECODER.decode(line.decode("utf-8", "surrogatepass"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


class LongStructureError(ValueError):
    """A request has too many bytes outside its strings."""

    def __init__(self) -> None:
        super().__init__(f"the request has more than {MAX_STRUCTURE_BYTES} bytes outside its strings")


def check_structure(text: bytes) -> None:
    """Raise LongStructureError if a JSON text has more than MAX_STRUCTURE_BYTES outside its strings, quotes included."""
    if len(text) <= MAX_STRUCTURE_BYTES:
        return
    if b"\\" in text:
        text = text.replace(rb"\\", b"").replace(rb"\"", b"")
    parts = text.split(b'"', MAX_STRUCTURE_BYTES + 1)
    if sum(map(len, parts[::2])) + len(parts) - 1 > MAX_STRUCTURE_BYTES:
        raise LongStructureError


def decode_request(line: bytes) -> Any:
    """Return the value of a line that a client has sent.

    Raises:
        ValueError: as `decode`; LongStructureError.
    """
    check_structure(line)
    return decode(line)


def decode_object(line: bytes) -> dict[str, Any]:
    """Return the object of a line; an empty one if the line holds anything else."""
    try:
        value = decode(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits)


_DECODER = json.JSONDecoder(parse_int=_integer)


def find_id(line: bytes) -> int | str | None:
    """Return the id of a JSON-RPC message that cannot be decoded; None if it is not found.

    The id is found as the first or last member, next to `jsonrpc` and `method`. The rest, which may be invalid, is not parsed.
    """
    found = _ID_AT_BEGIN.match(line, 0, ID_SEARCH_BYTES) or _ID_AT_END.search(line, max(len(line) - ID_SEARCH_BYTES, 0))
    try:
        return json.loads(found[1]) if found else None
    except ValueError:
        return None


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

"""The least that a reader must do: read until the wanted bytes stand at the end."""

from __future__ import annotations

from typing import Protocol


class Reader(Protocol):
    """The reading half of asyncssh's and telnetlib3's streams, both in bytes."""

    async def read(self, n: int = -1, /) -> bytes: ...


async def read_until_ends(reader: Reader, end: bytes) -> bytes:
    """Everything up to and with `end`, at the end of what has arrived."""
    seen = b""
    while not seen.endswith(end):
        data = await reader.read(65536)
        if not data:
            raise EOFError(f"ended before {end!r}: {seen[-200:]!r}")
        seen += data
    return seen


async def count_to_eof(reader: Reader) -> int:
    """How many bytes come until the end."""
    size = 0
    while data := await reader.read(65536):
        size += len(data)
    return size

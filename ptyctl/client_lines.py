"""Lines that clients send to a server."""

from __future__ import annotations

import asyncio

from ptyctl.core import json_lines


class LongLineError(Exception):
    """A line is longer than json_lines.MAX_LINE_BYTES. `call_id` is the id of its JSON-RPC message, if it can be found."""

    def __init__(self, call_id: int | str | None) -> None:
        super().__init__(f"the message is longer than {json_lines.MAX_LINE_BYTES} bytes")
        self.call_id = call_id


async def read_line(source: asyncio.StreamReader) -> bytes:
    """Return the next line, the last one possibly without a newline; empty at the end of the stream.

    Args:
        source: its limit must be json_lines.MAX_LINE_BYTES.

    Raises:
        LongLineError: the line was skipped.
        OSError: the connection is lost.
    """
    begin = end = b""
    while True:
        try:
            line = await source.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            line = error.partial
        except asyncio.LimitOverrunError as error:
            part = await source.readexactly(error.consumed)
            begin, end = begin or part[: json_lines.ID_SEARCH_BYTES], part[-json_lines.ID_SEARCH_BYTES :]
            continue
        if begin:
            raise LongLineError(json_lines.find_id(begin + (end + line)[-json_lines.ID_SEARCH_BYTES :]))
        return line

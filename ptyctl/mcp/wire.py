"""MCP's stdio framing (one JSON-RPC message a line, UTF-8) over asyncio streams, as the SDK's server reads and writes.

The SDK's own stdio transport reads, writes and flushes in worker threads: that costs three changes of thread a call, and a
SIGTERM has to wait for the thread that reads stdin. Here one event loop does it all.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Protocol, Self

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

#: The longest message taken, on every transport: room for a long paste in base64, and a bound for what one client can use.
MAX_MESSAGE_BYTES = 16 * 1024 * 1024


class Sink(Protocol):
    """What of asyncio.StreamWriter is needed to write."""

    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    def is_closing(self) -> bool: ...
    def close(self) -> None: ...


class _Closing:
    """`async with` and `aclose` as both of the SDK's stream protocols want them."""

    async def aclose(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await self.aclose()
        return None


class LineWriter(_Closing):
    """The SDK's WriteStream: each message is one line."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    async def send(self, item: SessionMessage, /) -> None:
        """Writes a message and waits while the client is slow.

        Raises:
            anyio.BrokenResourceError: the client is gone.
        """
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if self._sink.is_closing():
            raise anyio.BrokenResourceError
        try:
            self._sink.write(line)
            await self._sink.drain()
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        self._sink.close()


class LineReader(_Closing):
    """The SDK's ReadStream. A line that is no message is answered with an error, and the next one is read.

    Args:
        source: its limit must be MAX_MESSAGE_BYTES.
        answers: where errors about such lines go.
    """

    def __init__(self, source: asyncio.StreamReader, answers: LineWriter) -> None:
        self._source = source
        self._answers = answers

    async def receive(self) -> SessionMessage | Exception:
        """The next message.

        Raises:
            anyio.EndOfStream: the client closed its side.
        """
        while True:
            try:
                line = await self._source.readline()
            except ValueError:  # StreamReader.readline's word for a line beyond the limit; it has thrown it away
                await self._refuse(types.INVALID_REQUEST, f"Message longer than {MAX_MESSAGE_BYTES} bytes")
                continue
            except OSError:
                line = b""
            if not line:
                raise anyio.EndOfStream
            if line.isspace():
                continue
            try:
                return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValidationError as error:
                broken = any(fault["type"] == "json_invalid" for fault in error.errors(include_input=False))
                await self._refuse(types.PARSE_ERROR if broken else types.INVALID_REQUEST, "Not a JSON-RPC message")

    async def _refuse(self, code: int, message: str) -> None:
        """The id is null, since it could not be read (JSON-RPC 2.0, section 5). What was sent is not repeated."""
        error = types.JSONRPCError(jsonrpc="2.0", id=None, error=types.ErrorData(code=code, message=message))
        try:
            await self._answers.send(SessionMessage(error))
        except anyio.BrokenResourceError:
            return

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """Nothing to do: who made the source ends it."""

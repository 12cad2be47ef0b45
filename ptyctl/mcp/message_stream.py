"""MCP messages as JSON lines over asyncio streams, for standard input and output and for the daemon's socket.

The SDK's stdio transport uses worker threads: three thread switches per call, and a SIGTERM waits for the thread that reads
stdin. These classes implement the SDK's stream protocols in the event loop instead.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from ptyctl.client_lines import LongLineError, read_line
from ptyctl.core import json_lines
from ptyctl.core.principal import Principal
from ptyctl.session.clients import serving_connection


class Sink(Protocol):
    """The writing methods of asyncio.StreamWriter."""

    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    def is_closing(self) -> bool: ...
    def close(self) -> None: ...


class _AsyncClosing:
    """`async with` and `aclose`, which both of the SDK's stream protocols require."""

    async def aclose(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await self.aclose()
        return None


class MessageWriter(_AsyncClosing):
    """The SDK's WriteStream: writes each message as one line."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message, and wait while the client is slow.

        Raises:
            anyio.BrokenResourceError: the client has disconnected.
        """
        try:
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        except PydanticSerializationError:  # it repeats a lone surrogate of the request, such as its id
            line = json_lines.encode(item.message.model_dump(by_alias=True, exclude_unset=True))
        if self._sink.is_closing():
            raise anyio.BrokenResourceError
        try:
            self._sink.write(line)
            await self._sink.drain()
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        self._sink.close()


class MessageReader(_AsyncClosing):
    """The SDK's ReadStream. Answers a line that is not a message with an error, and reads the next one.

    Args:
        source: its limit must be json_lines.MAX_LINE_BYTES.
        errors: receives the errors about invalid lines.
    """

    def __init__(self, source: asyncio.StreamReader, errors: MessageWriter) -> None:
        self._source = source
        self._errors = errors

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            anyio.EndOfStream: the client closed its side.
        """
        await asyncio.sleep(0)  # calls that arrive together begin in separate iterations of the event loop
        while True:
            try:
                line = await read_line(self._source)
            except LongLineError as error:
                await self._reject(_error(error.call_id, types.INVALID_REQUEST, str(error)))
                continue
            except OSError:
                line = b""
            if not line:
                raise anyio.EndOfStream
            if line.isspace():
                continue
            try:
                return SessionMessage(_parse_leniently(line))
            except InvalidMessageError as error:
                await self._reject(error.reply)

    async def _reject(self, error: types.JSONRPCError) -> None:
        try:
            await self._errors.send(SessionMessage(error))
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
        """Do nothing: the source's creator closes it."""


class InvalidMessageError(Exception):
    """The data is not a JSON-RPC message. `reply` has the id of the request, if found, and no other part of the input."""

    def __init__(self, data: bytes, error: ValidationError | json_lines.LongStructureError) -> None:
        code, message = types.INVALID_REQUEST, "Not a JSON-RPC message"
        if isinstance(error, json_lines.LongStructureError):
            message = str(error)
        elif (fault := error.errors(include_url=False, include_input=False)[0])["type"] == "json_invalid":
            code, message = types.PARSE_ERROR, f"{message}: {fault['ctx']['error']}"
        self.reply = _error(json_lines.find_id(data), code, message)
        super().__init__(message)

    @property
    def is_syntax_error(self) -> bool:
        return self.reply.error.code == types.PARSE_ERROR


def parse_message(data: bytes) -> types.JSONRPCMessage:
    """Return the message of a line or a body. Raises InvalidMessageError."""
    try:
        json_lines.check_structure(data)
        return types.jsonrpc_message_adapter.validate_json(data, by_name=False)
    except (ValidationError, json_lines.LongStructureError) as error:
        raise InvalidMessageError(data, error) from None


def _error(call_id: int | str | None, code: int, message: str) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=call_id, error=types.ErrorData(code=code, message=message))


def _parse_leniently(line: bytes) -> types.JSONRPCMessage:
    """Parse a line that may contain values which pydantic's JSON parser rejects.

    It rejects a lone surrogate, which JSON can hold (RFC 8259, section 8.2), an integer of more than 4300 digits, and nesting
    deeper than 200. The request's own check then reports the field. Raises InvalidMessageError.
    """
    try:
        return parse_message(line)
    except InvalidMessageError as error:
        if not error.is_syntax_error:
            raise
        try:
            value = json_lines.decode(line)
        except ValueError:
            raise error from None
    try:
        return types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError as error:
        raise InvalidMessageError(line, error) from None


async def serve_streams(server: Server[Any], principal: Principal, source: asyncio.StreamReader, sink: Sink) -> None:
    """Serve until the client closes its side; calls that are still running are cancelled."""
    writer = MessageWriter(sink)
    with serving_connection(principal, elicits=True):
        await server.run(MessageReader(source, writer), writer, server.create_initialization_options())

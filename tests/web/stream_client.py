"""The stream of the web console over a real WebSocket: a server for a controller, and a client that keeps what it gets."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect

from ptyctl.api import Controller, PtyctlError
from ptyctl.core.limits import LIMITS, Limit
from ptyctl.core.principal import Principal
from ptyctl.core.screen import ScreenModel
from ptyctl.http.server import serve
from ptyctl.session.clients import serving_connection, user
from ptyctl.web.stream.endpoint import serve_stream
from ptyctl.web.stream.topics import HEADER
from tests.controller.session_calls import PATIENCE_MS

Message = dict[str, Any]


@asynccontextmanager
async def stream_server(
    controller: Controller,
    *,
    principal: Principal | None = None,
    limit: Limit = LIMITS["max_socket_subscriptions"],
    routes: tuple[Route, ...] = (),
    on_error: Callable[[Request, Exception], Awaitable[Response]] | None = None,
) -> AsyncIterator[str]:
    """Serve the stream, as `principal`, and yield the address without scheme."""

    async def endpoint(websocket: WebSocket) -> None:
        with serving_connection(principal or user()):
            await serve_stream(websocket, controller, limit)

    handlers: dict[Any, Any] = {} if on_error is None else {PtyctlError: on_error}
    app = Starlette(routes=[WebSocketRoute("/api/stream", endpoint), *routes], exception_handlers=handlers)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(serve(app, listener, websockets=True))
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


@asynccontextmanager
async def stream_client(address: str) -> AsyncIterator[StreamClient]:
    """Connect a client."""
    async with connect(f"ws://{address}/api/stream", compression=None, max_size=None) as connection:
        yield StreamClient(connection)


class StreamClient:
    """A client that feeds the output of its terminals into emulators, and acknowledges it.

    Attributes:
        terminals: by the number of the subscription.
        acknowledges: whether output is acknowledged.
        ticks: number of the messages that show that the connection delivers.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.terminals: dict[int, Terminal] = {}
        self.acknowledges = True
        self.ticks = 0

    async def send(self, op: str, **fields: Any) -> None:
        await self._connection.send(json.dumps({"op": op, **fields}))

    async def subscribe(self, number: int, topic: str, start: int | str | None = None) -> None:
        if topic.startswith("terminal:"):
            self.terminals.setdefault(number, Terminal())
        await self.send("subscribe", id=number, topic=topic, **({} if start is None else {"from": start}))

    async def until(self, is_done: Callable[[Message], bool]) -> Message:
        """Read until a message, and return that; a frame is a message with the op `output`."""
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while not is_done(message := await self.receive()):
                pass
        return message

    async def message(self, number: int, *ops: str) -> Message:
        """Read until a message of a subscription."""
        return await self.until(lambda message: message.get("id") == number and message["op"] in ops)

    async def screen(self, number: int, text: str) -> Terminal:
        """Read until a terminal shows a text."""
        terminal = self.terminals[number]
        if text not in terminal.text():
            await self.until(lambda message: message.get("id") == number and text in terminal.text())
        return terminal

    async def receive(self) -> Message:
        received = await self._connection.recv()
        if isinstance(received, bytes):
            number, offset = HEADER.unpack_from(received)
            data = received[HEADER.size :]
            self.terminals[number].feed(offset, data)
            if self.acknowledges:
                await self.send("ack", id=number, offset=offset)
            return {"op": "output", "id": number, "offset": offset, "data": data}
        message: Message = json.loads(received)
        if message["op"] == "tick":
            self.ticks += 1
            return await self.receive()
        if message["op"] in ("snapshot", "resume"):
            self.terminals[message["id"]].begin(message)
        return message

    async def close(self) -> None:
        await self._connection.close()

    def abort(self) -> None:
        """End the connection without a close handshake, as a lost network does."""
        linger = struct.pack("ii", 1, 0)
        transport = self._connection.transport
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        transport.abort()


class Terminal:
    """What a viewer's terminal has: its emulator, the raw offset and all bytes since the last snapshot."""

    def __init__(self) -> None:
        self.model = ScreenModel(80, 24)
        self.offset = 0
        self.data = b""
        self.snapshots = 0

    def begin(self, message: Message) -> None:
        self.offset = message["offset"]
        if message["op"] == "snapshot":
            self.model = ScreenModel(message["cols"], message["rows"])
            self.snapshots += 1
            self.data = b""

    def feed(self, offset: int, data: bytes) -> None:
        assert offset >= self.offset
        self.offset = offset
        self.data += data
        self.model.feed(data)
        assert not self.model.responses

    def text(self) -> str:
        return "\n".join(self.model.snapshot().rows)

"""The ASGI application behind the guard: `/mcp`, and an end to its requests when the server ends."""

from __future__ import annotations

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

PATH = "/mcp"


class Endpoint:
    """A request of the 2025 revisions may stay open for as long as its client lives (the GET stream): `close` ends them all."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager
        self._open: set[anyio.CancelScope] = set()
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != PATH:
            await PlainTextResponse(f"There is only {PATH} here\n", 404)(scope, receive, send)
        elif self._closed:
            await _ending(scope, receive, send)
        else:
            await self._handle(scope, receive, send)

    def close(self) -> None:
        """Answers what is under way and refuses what comes: the server is ending."""
        self._closed = True
        for request in self._open:
            request.cancel()

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = _Sent(send)
        with anyio.CancelScope() as request:
            self._open.add(request)
            try:
                await self._manager.handle_request(scope, receive, sent)
            finally:
                self._open.discard(request)
        if not request.cancelled_caught:
            return
        if not sent.started:
            await _ending(scope, receive, send)
        elif not sent.finished:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Sent:
    """A `Send` that knows how far its response is."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self.finished = False

    async def __call__(self, message: Message) -> None:
        self.started = True
        self.finished = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)


async def _ending(scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse({"error": "unavailable", "message": "The server is ending; connect again when it is back"}, 503)(
        scope, receive, send
    )

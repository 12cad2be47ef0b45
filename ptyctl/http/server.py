"""Runs uvicorn on a listening socket: with one application, or with the MCP endpoint and another one; reverse proxies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from .access import BACKLOG, NOT_EXPOSED, Exposure, Ip, Network, parse_ip
from .connection_limits import ConnectionLimits, LimitedProtocol, LimitedTls, LimitedWebSocket

MCP_PATH = "/mcp"
#: Longest message of a WebSocket client. uvicorn closes the connection of a larger one with 1009.
MAX_FRAME_BYTES = 64 * 1024
#: How long a client that does not read has at shutdown to receive its last response.
_SHUTDOWN_TIMEOUT_S = 2
#: Interval at which the Date header is updated (seconds).
_DATE_S = 1.0
#: Interval at which a shutdown checks for open connections and requests (seconds): uvicorn has no event for their end.
_POLL_S = 0.01

_LOG = logging.getLogger(__name__)


def with_mcp(mcp: ASGIApp, other: ASGIApp) -> ASGIApp:
    """Return an application that passes the requests for `/mcp` to one application, and all others to another one."""

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        await (mcp if scope["type"] == "http" and scope["path"] == MCP_PATH else other)(scope, receive, send)

    return route


async def serve(
    app: ASGIApp,
    listener: socket.socket,
    *,
    websockets: bool = False,
    limits: ConnectionLimits | None = None,
    exposure: Exposure = NOT_EXPOSED,
    on_stop: Callable[[], None] = lambda: None,
) -> None:
    """Serve on a listening socket until cancelled; then close the connections and the socket.

    Args:
        on_stop: ends the application's open requests.
    """
    limits = limits or ConnectionLimits()
    if exposure.proxies:
        app = behind_proxies(app, exposure.proxies)
    config = uvicorn.Config(
        app,
        http=partial(LimitedProtocol, limits=limits),  # type: ignore[arg-type]  # called, never subclassed
        lifespan="off",
        ws=partial(LimitedWebSocket, limits=limits) if websockets else "none",  # type: ignore[arg-type]
        ws_max_size=MAX_FRAME_BYTES,
        ws_per_message_deflate=False,  # compression would take the time of all sessions in the loop
        log_config=None,
        access_log=False,
        backlog=BACKLOG,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
        ssl_context_factory=None if (tls := exposure.tls) is None else lambda *_: tls,
    )
    server = _Uvicorn(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    finally:
        on_stop()
        server.stop()
        await serving


class _Uvicorn(uvicorn.Server):
    """uvicorn without its polling: it looks ten times a second for a reason to stop, and stops up to 0.3 s later."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopped.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the command, which has more to shut down than this server."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen as uvicorn does, which does not count a connection before the end of its TLS handshake."""
        await self.lifespan.startup()
        config = self.config
        protocol: Any = config.http_protocol_class

        def create_protocol() -> asyncio.BaseProtocol:
            http = protocol(config=config, server_state=self.server_state, app_state=self.lifespan.state)
            return http if config.ssl is None else LimitedTls(config.ssl, http)

        create = partial(asyncio.get_running_loop().create_server, create_protocol, backlog=config.backlog)
        self.servers = [await create(sock=listener) for listener in sockets or ()]
        self.started = True

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # updates the Date header
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), _DATE_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the sockets and connections; cancel the requests that do not end before the timeout."""
        for listening in [*self.servers, *(sockets or ())]:
            listening.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while state.connections or state.tasks:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_S)
                for server in self.servers:
                    await server.wait_closed()
        except TimeoutError:
            _LOG.error("%d requests are cancelled: they have not ended before the timeout", len(state.tasks))
            for task in state.tasks:
                task.cancel()


def behind_proxies(app: ASGIApp, proxies: Sequence[Network]) -> ASGIApp:
    """Return an application that serves the proxies and this machine only. The client of a request is the proxy's client.

    A connection from elsewhere may be unencrypted, and is refused.
    """

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        peer = parse_ip(scope["client"][0])
        if peer is not None and _is_in(peer, proxies):
            client = _forwarded_for(Headers(scope=scope), proxies) or peer
            await app({**scope, "client": (str(client), 0)}, receive, send)
        elif peer is not None and peer.is_loopback:
            await app(scope, receive, send)
        else:
            await PlainTextResponse("Connect through the proxy\n", 403, {"Connection": "close"})(scope, receive, send)

    return serve


def _forwarded_for(headers: Headers, proxies: Sequence[Network]) -> Ip | None:
    """Return the last address of X-Forwarded-For that is not one of the proxies: each of them appends its client."""
    for text in reversed(",".join(headers.getlist("x-forwarded-for")).split(",")):
        address = parse_ip(text.strip())
        if address is None or not _is_in(address, proxies):
            return address
    return None


def _is_in(address: Ip, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)

"""The daemon's web console: it begins to listen when a user asks for it.

The console and uvicorn are imported at the first use, in a thread: most daemons never need them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.api.model import Reply, Request, SystemText
from ptyctl.cancellation import cancel_and_wait
from ptyctl.controller.tokens import TokenFile, Tokens
from ptyctl.core.limits import LIMITS, Limit
from ptyctl.core.principal import Kind, Role
from ptyctl.http.access import NOT_EXPOSED, AccessError, Address, Exposure, open_listener, parse_listen
from ptyctl.session.clients import current_principal

from .control import WEB_LISTEN

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from ptyctl.http.bearer import BearerTokens
    from ptyctl.http.connection_limits import ConnectionLimits
    from ptyctl.mcp.http import McpEndpoint
    from ptyctl.web.app import WebApp

_LOG = logging.getLogger(__name__)


class WebOpenRequest(Request):
    """Opens the web console. `listen`: the address, if it is not open yet."""

    listen: SystemText = WEB_LISTEN


class WebOpenReply(Reply):
    """Where the web console is, and a ticket that logs in once. `opened`: whether this request has opened it."""

    url: str
    ticket: str
    opened: bool


@dataclass(slots=True)
class _OpenConsole:
    """What a listening console consists of. `endpoint`: that of `/mcp`, if it is served too."""

    app: WebApp
    url: str
    bearer: BearerTokens
    connections: ConnectionLimits
    endpoint: McpEndpoint | None = None

    def limits_in_use(self) -> dict[str, int]:
        in_use = {**self.app.limits_in_use(), "max_http_connections": self.connections.in_use}
        return in_use if self.endpoint is None else {**in_use, "max_mcp_sessions": self.endpoint.sessions}


class WebService:
    """The web console of a daemon, which listens at one address at most."""

    def __init__(
        self, controller: Controller, state_dir: Path, record: Callable[..., None], limits: Mapping[str, Limit] = LIMITS
    ) -> None:
        """Create the service, which does not listen yet. `record` adds rows to the audit log."""
        self._controller = controller
        self._state_dir = state_dir
        self._record = record
        self._limits = limits
        self._opening = asyncio.Lock()
        self._serving: asyncio.Task[None] | None = None
        self._console: _OpenConsole | None = None

    def is_used(self) -> bool:
        """Return whether it has connections."""
        return self._console is not None and self._console.connections.in_use > 0

    def limits_in_use(self) -> dict[str, int]:
        """Return the use of the limits, by name; empty unless the service listens."""
        return {} if self._console is None else self._console.limits_in_use()

    async def open(self, request: WebOpenRequest) -> WebOpenReply:
        """Listen, unless the console listens already, and return a ticket for the caller.

        Raises:
            PtyctlError: FORBIDDEN unless the caller is a person with the role admin; INVALID_ARGUMENT if the address cannot be
                used; as `TokenFile.load`.
        """
        principal = current_principal()
        if principal.kind is not Kind.PERSON or principal.role is not Role.ADMIN:
            raise PtyctlError(
                ErrorCode.FORBIDDEN,
                f"{principal.name} may not open the web console: only a person with the role admin may",
                {"role": principal.role, "needed_role": Role.ADMIN},
                hint="log in to it with a token, or ask the administrator of this server",
            )
        async with self._opening:
            opened = self._console is None
            console = self._console or await self._listen(request.listen)
            return WebOpenReply(url=console.url, ticket=console.app.mint_ticket(principal), opened=opened)

    async def serve(
        self, listener: socket.socket, url: str, tokens: Tokens, exposure: Exposure, build_mcp: Callable[[], Server[Any]]
    ) -> None:
        """Serve the console and `/mcp` on a listening socket until cancelled. `build_mcp` is called in a thread."""
        async with self._opening:
            console = await self._prepare(url, tokens, exposure)
        await self._run(console, listener, exposure, await asyncio.to_thread(build_mcp))

    async def close(self) -> None:
        """Stop a console that `open` has started."""
        await cancel_and_wait(self._serving)

    async def _listen(self, listen: str) -> _OpenConsole:
        try:
            address = parse_listen(listen)
            tokens = await asyncio.to_thread(Tokens, TokenFile(self._state_dir), None)
            listener = open_listener(address)
        except AccessError as error:
            raise invalid(error.message, hint=error.hint, field="listen") from None
        url = NOT_EXPOSED.url(Address(address.host, listener.getsockname()[1]))
        console = await self._prepare(url, tokens, NOT_EXPOSED)
        # Requests inherit the context of the server's task: it must not be that of the client who opens the console.
        self._serving = asyncio.create_task(self._run(console, listener, NOT_EXPOSED), context=Context())
        self._serving.add_done_callback(_log_failure)
        return console

    async def _prepare(self, url: str, tokens: Tokens, exposure: Exposure) -> _OpenConsole:
        await asyncio.to_thread(_import_servers)
        from ptyctl.http.bearer import BearerTokens, GuessLimit
        from ptyctl.http.connection_limits import ConnectionLimits
        from ptyctl.http.origins import Origins
        from ptyctl.web.app import WebApp

        guesses = GuessLimit()  # wrong tokens of the console and of `/mcp` count together
        app = WebApp(self._controller, tokens, self._record, Origins(exposure.public), self._limits, guesses=guesses)
        bearer = BearerTokens(tokens, self._record, guesses)
        self._console = _OpenConsole(app, url, bearer, ConnectionLimits(self._limits["max_http_connections"]))
        return self._console

    async def _run(
        self, console: _OpenConsole, listener: socket.socket, exposure: Exposure, mcp_server: Server[Any] | None = None
    ) -> None:
        from ptyctl.http.origins import Origins
        from ptyctl.http.server import serve, with_mcp

        run = partial(serve, listener=listener, websockets=True, limits=console.connections, exposure=exposure)
        try:
            if mcp_server is None:
                await run(console.app)
                return
            from ptyctl.mcp.http import open_endpoint

            limit = self._limits["max_mcp_sessions"]
            async with open_endpoint(mcp_server, console.bearer, Origins(exposure.public), limit) as (mcp, endpoint):
                console.endpoint = endpoint
                await run(with_mcp(mcp, console.app), on_stop=endpoint.close)
        finally:
            self._console = None
            console.app.close()
            console.bearer.close()


def _import_servers() -> None:
    import ptyctl.http.server
    import ptyctl.web.app  # noqa: F401


def _log_failure(serving: asyncio.Task[None]) -> None:
    if not serving.cancelled() and (error := serving.exception()) is not None:
        _LOG.error("the web console failed", exc_info=error)

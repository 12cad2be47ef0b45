"""Serves a controller to MCP clients over stdio, HTTP or both, until stdin ends or a signal arrives.

The MCP SDK takes half a second to import. Options are checked before that import.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ptyctl.api.errors import PtyctlError
from ptyctl.cancellation import cancel_and_wait
from ptyctl.daemon.connection import TOKEN_VARIABLE
from ptyctl.daemon.errors import EXIT_INTERRUPTED
from transports.process import forbid_dumps, forget_variables, raise_open_file_limit

from .errors import EXIT_USAGE, format_error, print_message

if TYPE_CHECKING:
    from ptyctl.api import Controller
    from ptyctl.audit.audit_log import AuditLog
    from ptyctl.controller.tokens import Tokens
    from ptyctl.core.limits import Limit
    from ptyctl.daemon.main import JoinFleet
    from ptyctl.daemon.web_service import WebService
    from ptyctl.http.access import AccessError, Exposure
    from ptyctl.mcp.toolsets import Tool

DEFAULT_LISTEN = "127.0.0.1:8765"

#: Opens the controller that all clients share; it is closed on exit of the context manager.
OpenController = Callable[[], AbstractAsyncContextManager["Controller"]]


class McpTransport(StrEnum):
    """How MCP clients connect to the server."""

    STDIO = "stdio"
    HTTP = "http"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class _HttpPlan:
    """Listening socket, tokens, limits and audit log for HTTP clients; `generated` is a new token that has to be shown."""

    listener: socket.socket
    audit_log: AuditLog
    url: str
    tokens: Tokens
    generated: str | None
    exposure: Exposure
    limits: Mapping[str, Limit]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.listener.close()
        self.audit_log.close()


def run(
    transport: McpTransport = McpTransport.STDIO,
    listen: str = DEFAULT_LISTEN,
    toolsets: str = "core",
    token_file: Path | None = None,
    open_controller: OpenController | None = None,
    *,
    standalone: bool = False,
    full_text: bool | None = None,
) -> int:
    """Serve until stdin ends (stdio, both), or until SIGTERM or SIGINT. Errors are printed on stderr in one line.

    Args:
        listen: HOST:PORT on loopback; port 0 selects a free one.
        toolsets: names separated by commas, or `all`.
        token_file: holds the bearer token `default`. Without it, that is PTYCTL_TOKEN, or without that and named tokens a
            new token that is printed.
        open_controller: opens the controller to serve; by default the daemon's.
        standalone: serve sessions of this process by default.
        full_text: as in `build_server`.

    Returns:
        The exit code: 0 after a clean end, 2 for invalid options, 130 after a second SIGINT.
    """
    from ptyctl.http.access import AccessError

    raise_open_file_limit()
    try:
        tools, http = _choose_and_listen(transport, listen, toolsets, token_file)
        with http or nullcontext():
            default = _open_local_controller if standalone else _open_daemon_controller
            stdio = transport is not McpTransport.HTTP
            asyncio.run(_serve(tools, stdio, http, open_controller or default, full_text=full_text))
    except (AccessError, PtyctlError) as error:
        return _refuse(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


def run_with_daemon(
    listen: str,
    toolsets: str,
    token_file: Path | None,
    *,
    exposure: Callable[[], Exposure],
    full_text: bool | None = None,
    system: bool = False,
    fleet: JoinFleet | None = None,
) -> int:
    """Run the daemon in this process, and serve MCP and the web console over HTTP. Returns the exit code as `run` does.

    For a system daemon no token is generated: its output is a log that others may read.
    """
    from ptyctl.daemon.main import run as run_daemon
    from ptyctl.http.access import AccessError
    from ptyctl.mcp.server import build_server
    from ptyctl.mcp.terminal_tool import close_runtimes

    try:
        options = McpTransport.HTTP, listen, toolsets, token_file
        tools, http = _choose_and_listen(*options, exposure=exposure(), generate=not system)
    except (AccessError, PtyctlError) as error:
        return _refuse(error)
    assert http is not None

    async def serve_clients(controller: Controller, web: WebService) -> None:
        _announce(http)
        print_message(f"serving the web console at {http.url}/")
        build_mcp = partial(build_server, controller, tools, full_text=full_text)
        try:
            await web.serve(http.listener, http.url, http.tokens, http.exposure, build_mcp)
        finally:
            await close_runtimes(controller)

    with http:
        return run_daemon(serve_clients, system=system, fleet=fleet)


def _refuse(error: AccessError | PtyctlError) -> int:
    print_message(f"{error.code}: {format_error(error)}" if isinstance(error, PtyctlError) else str(error))
    return EXIT_USAGE


def _choose_and_listen(
    transport: McpTransport,
    listen: str,
    toolsets: str,
    token_file: Path | None,
    *,
    exposure: Exposure | None = None,
    generate: bool = True,
) -> tuple[Sequence[Tool], _HttpPlan | None]:
    """Return the tools, and for HTTP the open listening socket. Without a token, one is made if `generate` is set.

    Raises:
        AccessError: an option is invalid, or the port is in use.
        PtyctlError: the settings or the file of tokens cannot be used.
    """
    from ptyctl.audit.audit_files import AuditFiles
    from ptyctl.audit.audit_log import AuditLog
    from ptyctl.controller.settings import load_settings
    from ptyctl.controller.tokens import TokenFile, Tokens, make_token
    from ptyctl.http import access
    from ptyctl.mcp.toolsets import choose

    # Sessions opened here inherit the environment, and any process of the user could read it.
    environment_token = os.environ.get(TOKEN_VARIABLE)
    forget_variables([TOKEN_VARIABLE])
    forbid_dumps()
    try:
        tools = choose(toolsets)
    except ValueError as error:
        raise access.AccessError(str(error)) from None
    if transport is McpTransport.STDIO:
        return tools, None
    exposure = exposure or access.NOT_EXPOSED
    address, token = access.parse_listen(listen, exposure), access.find_token(token_file, environment_token)
    settings = load_settings()
    state_dir = settings.state_dir
    named = TokenFile(state_dir)
    generated = make_token() if generate and token is None and not named.load() else None
    tokens = Tokens(named, token or generated)
    listener = access.open_listener(address)
    url = exposure.url(access.Address(address.host, listener.getsockname()[1]))
    audit_log, limits = AuditLog(AuditFiles(state_dir / "audit")), settings.limits.use
    return tools, _HttpPlan(listener, audit_log, url, tokens, generated, exposure, limits)


@asynccontextmanager
async def _open_local_controller() -> AsyncIterator[Controller]:
    from ptyctl.controller.access import AccessController
    from ptyctl.controller.local import LocalController

    async with LocalController(persistent=True) as controller:
        yield AccessController(controller)


@asynccontextmanager
async def _open_daemon_controller() -> AsyncIterator[Controller]:
    from ptyctl.daemon.client import RemoteController

    async with await RemoteController.connect(reconnect=True) as controller:
        yield controller


async def _serve(
    tools: Sequence[Tool],
    stdio: bool,
    http: _HttpPlan | None,
    open_controller: OpenController,
    *,
    full_text: bool | None,
) -> None:
    """Serve until a signal arrives, stdin ends or a transport fails, then close the controller."""
    from ptyctl.mcp.server import build_server
    from ptyctl.mcp.terminal_tool import close_runtimes
    from ptyctl.stderr_log import log_to_stderr

    log_to_stderr()
    with _stop_signals() as stopped:
        async with open_controller() as controller:
            server = build_server(controller, tools, full_text=full_text)
            services: list[Coroutine[Any, Any, object]] = [stopped.wait()]
            if http is not None:
                from ptyctl.mcp.http import serve_http

                _announce(http)
                services.append(serve_http(server, http.listener, http.tokens, http.audit_log.record, http.limits))
            if stdio:
                from ptyctl.mcp.stdio import serve_stdio

                services.append(serve_stdio(server))
            try:
                await _run_until_first_ends(services)
            finally:
                await close_runtimes(controller)


def _announce(http: _HttpPlan) -> None:
    print_message(f"serving MCP at {http.url}/mcp")
    if http.generated is not None:
        print_message(f"bearer token, shown only now: {http.generated}")


async def _run_until_first_ends(services: Sequence[Coroutine[Any, Any, object]]) -> None:
    """Run all services until one ends, then cancel the others.

    Raises:
        Exception: the exception of the service that ended.
    """
    tasks = [asyncio.create_task(service) for service in services]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await cancel_and_wait(*others)
    for task in done:
        task.result()


@contextmanager
def _stop_signals() -> Iterator[asyncio.Event]:
    """Yield an event that the first SIGTERM or SIGINT sets. A second one ends the process at once."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    handled = (signal.SIGTERM, signal.SIGINT)

    def restore() -> None:
        for number in handled:
            loop.remove_signal_handler(number)

    def on_signal() -> None:
        event.set()
        restore()

    for number in handled:
        loop.add_signal_handler(number, on_signal)
    try:
        yield event
    finally:
        restore()

"""`ptyctl mcp`: serves one controller over stdio, HTTP or both, until its client or a signal ends it.

The SDK takes half a second to import: what can go wrong with the options is told before that.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ptyctl.api import Controller
    from ptyctl.mcp.tool import Tool

Transport = Literal["stdio", "http", "both"]

DEFAULT_LISTEN = "127.0.0.1:8765"
TOKEN_VARIABLE = "PTYCTL_TOKEN"

EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT

#: Opens the controller that all clients share; leaving it is its `aclose`.
OpenController = Callable[[], AbstractAsyncContextManager["Controller"]]


@dataclass(frozen=True, slots=True)
class _Http:
    """Where HTTP clients are served, and the token they must show; `made` is whether they can only know it from us."""

    listener: socket.socket
    url: str
    token: str
    made: bool


@dataclass(frozen=True, slots=True)
class _Plan:
    """Options that were understood."""

    tools: Sequence[Tool]
    stdio: bool
    http: _Http | None


def run(
    transport: Transport = "stdio",
    listen: str = DEFAULT_LISTEN,
    toolsets: str = "core",
    token_file: Path | None = None,
    open_controller: OpenController | None = None,
) -> int:
    """Serves until stdin ends (stdio, both), SIGTERM or SIGINT; says on stderr in one line why it cannot.

    Args:
        listen: HOST:PORT on loopback; port 0 is any free one.
        toolsets: names with commas between them, or `all`.
        token_file: holds the bearer token; without it PTYCTL_TOKEN does, and without both one is made and shown.
        open_controller: what to serve; a LocalController of this process by default.

    Returns:
        The exit code: 0 after a clean end, 2 for options that cannot be followed, 130 after a second SIGINT.
    """
    from ptyctl.api import PtyctlError
    from ptyctl.mcp.access import AccessError
    from transports.process import raise_open_file_limit

    raise_open_file_limit()
    try:
        plan = _plan(transport, listen, toolsets, token_file)
        with plan.http.listener if plan.http else nullcontext():
            asyncio.run(_serve(plan, open_controller or _local_controller))
    except AccessError as error:
        return _refuse(str(error))
    except PtyctlError as error:
        return _refuse(f"{error.code}: {error.message}")
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


def run_with_daemon(listen: str, toolsets: str, token_file: Path | None) -> int:
    """Serves the daemon's sessions over HTTP too, in this process, which is the daemon. Returns as `run`."""
    from ptyctl.daemon.main import run as run_daemon
    from ptyctl.mcp.access import AccessError
    from ptyctl.mcp.http import serve_http
    from ptyctl.mcp.server import build_server

    try:
        plan = _plan("http", listen, toolsets, token_file)
    except AccessError as error:
        return _refuse(str(error))
    http = plan.http
    assert http is not None

    async def beside(controller: Controller) -> None:
        _announce(http)
        await serve_http(build_server(controller, plan.tools), http.listener, http.token)

    with http.listener:
        return run_daemon(beside)


def _say(text: str) -> None:
    print(f"ptyctl: {text}", file=sys.stderr, flush=True)


def _refuse(why: str) -> int:
    _say(why)
    return EXIT_USAGE


def _plan(transport: Transport, listen: str, toolsets: str, token_file: Path | None) -> _Plan:
    """Holds the options against what is possible, and takes the port."""
    from ptyctl.mcp import access
    from ptyctl.mcp.toolsets import choose

    # The shells that are opened here inherit the environment, and an agent may print it.
    environment = os.environ.pop(TOKEN_VARIABLE, None)
    try:
        tools = choose(toolsets)
    except ValueError as error:
        raise access.AccessError(str(error)) from None
    if transport == "stdio":
        return _Plan(tools, stdio=True, http=None)
    address, token = access.parse_listen(listen), access.find_token(token_file, environment)
    listener = access.open_listener(address)
    url = f"http://{access.Address(address.host, listener.getsockname()[1])}/mcp"
    http = _Http(listener, url, token or access.make_token(), made=token is None)
    return _Plan(tools, stdio=transport == "both", http=http)


def _local_controller() -> AbstractAsyncContextManager[Controller]:
    from ptyctl.controller import LocalController

    return LocalController(lasting=True)


async def _serve(plan: _Plan, open_controller: OpenController) -> None:
    """Ends at the first of: a signal, the end of stdin, a transport that broke. The controller is closed last."""
    from ptyctl.mcp.logs import log_to_stderr
    from ptyctl.mcp.server import build_server

    log_to_stderr()
    with _signalled() as signalled:
        async with open_controller() as controller:
            server = build_server(controller, plan.tools)
            ends: list[Coroutine[Any, Any, object]] = [signalled.wait()]
            if plan.http is not None:
                from ptyctl.mcp.http import serve_http

                _announce(plan.http)
                ends.append(serve_http(server, plan.http.listener, plan.http.token))
            if plan.stdio:
                from ptyctl.mcp.stdio import serve_stdio

                ends.append(serve_stdio(server))
            await _first_of(ends)


def _announce(http: _Http) -> None:
    _say(f"serving MCP at {http.url}")
    if http.made:
        _say(f"bearer token, shown only now: {http.token}")


async def _first_of(ends: Sequence[Coroutine[Any, Any, object]]) -> None:
    """Runs all until one ends, then cancels the others and waits for them.

    Raises:
        Exception: what the first one raised.
    """
    tasks = [asyncio.create_task(end) for end in ends]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for task in done:
        task.result()


@contextmanager
def _signalled() -> Iterator[asyncio.Event]:
    """An event that the first SIGTERM or SIGINT sets. A second one ends the process at once, should the first take too long."""
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

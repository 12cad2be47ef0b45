"""`ptyctl demo`: two agents, each an MCP client, share one console.

`scenario.py` is the sequence of steps, `practice.py` the endless work for the web console, `agent.py` the agents; the MCP
server, the web console and the simulated switch are started here. May import all of ptyctl. Start reading in `scenario.py`.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from ptyctl.api.errors import PtyctlError
from ptyctl.cli.errors import EXIT_FAILED, EXIT_USAGE, format_error
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.controller.tokens import TokenFile, Tokens
from ptyctl.daemon.web_service import WebOpenRequest, WebService
from ptyctl.http.access import Address, open_listener
from ptyctl.mcp.http import serve_http
from ptyctl.mcp.server import build_server
from ptyctl.mcp.toolsets import choose
from ptyctl.simulator import SimulatedSwitch

from .agent import DemoFailed, DemoServer, DemoTarget, parse_target
from .practice import run_agents
from .scenario import run_scenario

_SWITCH_INSTRUCTIONS = """\
A simulated switch, switch-001, until Ctrl-C. Try it in another terminal:

  ptyctl open telnet {host}:{port} --attach
  ptyctl open ssh admin@{host}:{ssh_port} --accept-new --password --attach

username admin, password {password}, enable secret {enable}

With this in devices.toml, `ptyctl open device switch-001` logs in automatically:

  [devices.switch-001]
  host = "{host}"
  port = {port}
  protocol = "telnet"
  session_type = "console"
  platform = "cisco_ios"
  username = "admin"
  password = {{ command = ["echo", "{password}"] }}
  enable_secret = {{ command = ["echo", "{enable}"] }}"""


def run(telnet: str | None, username: str | None, password: str | None, enable: str | None) -> int:
    """Run the demo on the simulated switch, or on the device at `telnet` (HOST:PORT).

    Returns:
        The exit code: 0 on success, 1 if the demo failed, 2 for invalid options.
    """
    console = Console(highlight=False, soft_wrap=True)
    try:
        target = parse_target(telnet, username, password, enable)
    except ValueError as error:
        print(f"ptyctl: {error}", file=sys.stderr)
        return EXIT_USAGE
    failures: list[DemoFailed] = []
    try:
        asyncio.run(_run(target, console))
    except* DemoFailed as group:  # the clients' task groups wrap exceptions
        failures = list(_leaves(group))
    for failure in failures:
        console.print("\n[bold red]The demo failed:[/]", escape(str(failure)))
    return EXIT_FAILED if failures else 0


def serve_switch() -> int:
    """Run a simulated switch and print how to reach it, until SIGINT or SIGTERM."""
    asyncio.run(_run_switch())
    return 0


def run_web(listen: str) -> int:
    """Run a simulated switch with two agents at work, and the web console, until SIGINT or SIGTERM.

    Returns:
        The exit code: 0, or 1 if the console cannot listen.
    """
    console = Console(highlight=False, soft_wrap=True)
    try:
        asyncio.run(_run_web(listen, console))
    except PtyctlError as error:
        print(f"ptyctl: {format_error(error)}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _leaves(group: BaseExceptionGroup[DemoFailed]) -> Iterator[DemoFailed]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def _run(target: DemoTarget | None, console: Console) -> None:
    place = _simulated_switch() if target is None else nullcontext((target, None))
    async with place as (device, switch), _running_controller() as controller, _running_server(controller) as server:
        await run_scenario(device, server, console, switch)


async def _run_web(listen: str, console: Console) -> None:
    async with (
        _simulated_switch() as (target, switch),
        _running_controller() as controller,
        _running_server(controller) as server,
    ):
        web = WebService(AccessController(controller), controller.settings.state_dir, controller.audit_log.record)
        try:
            await _print_address(web, listen)
            async with asyncio.TaskGroup() as tasks:
                work = tasks.create_task(run_agents(target, switch, server, console))
                ended = _end_signal()
                answer = tasks.create_task(_answer_enter(lambda: _print_address(web, listen)))
                await ended.wait()
                work.cancel()
                answer.cancel()
        finally:
            await web.close()


async def _print_address(web: WebService, listen: str) -> None:
    reply = await web.open(WebOpenRequest(listen=listen))
    print("The web console. This address logs in once, within a minute; Enter prints another one, Ctrl-C ends:", flush=True)
    print(f"{reply.url}/#ticket={reply.ticket}\n", flush=True)


async def _answer_enter(action: Callable[[], Awaitable[None]]) -> None:
    """Perform an action for each line on a terminal's standard input."""
    if not sys.stdin.isatty():
        return
    lines: asyncio.Queue[str] = asyncio.Queue()
    asyncio.get_running_loop().add_reader(sys.stdin, lambda: lines.put_nowait(sys.stdin.readline()))
    while await lines.get():
        await action()


def _end_signal() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    return ended


@asynccontextmanager
async def _running_controller() -> AsyncIterator[LocalController]:
    """Run a controller with separate sessions; their transcripts are deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="ptyctl-demo-") as folder:
        async with LocalController(Settings(state_dir=Path(folder))) as controller:
            yield controller


@asynccontextmanager
async def _running_server(controller: LocalController) -> AsyncIterator[DemoServer]:
    """Run an MCP server."""
    listener = open_listener(Address("127.0.0.1", 0))
    tokens = TokenFile(controller.settings.state_dir)
    server = build_server(AccessController(controller), choose("core"))
    serving = asyncio.create_task(serve_http(server, listener, Tokens(tokens, None)))
    try:
        yield DemoServer(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", tokens)
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


@asynccontextmanager
async def _simulated_switch() -> AsyncIterator[tuple[DemoTarget, SimulatedSwitch]]:
    """Run a switch with random passwords."""
    password, enable = secrets.token_hex(4), secrets.token_hex(4)
    async with SimulatedSwitch(password=password, enable_secret=enable) as switch:
        commands = ("show version", "show interfaces status")
        yield DemoTarget("switch-001", switch.host, switch.telnet_port, "admin", password, enable, commands), switch


async def _run_switch() -> None:
    ended = _end_signal()
    async with _simulated_switch() as (target, switch):
        text = _SWITCH_INSTRUCTIONS.format(
            host=target.host, port=target.port, ssh_port=switch.ssh_port, password=target.password, enable=target.enable
        )
        print(text, flush=True)
        await ended.wait()

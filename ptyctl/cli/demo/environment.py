"""Environment of the demo: an MCP server that the agents reach over HTTP, and a simulated switch."""

from __future__ import annotations

import asyncio
import secrets
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from ptyctl.controller import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.mcp.access import Address, make_token, open_listener
from ptyctl.mcp.http import serve_http
from ptyctl.mcp.server import build_server
from ptyctl.mcp.toolsets import choose
from ptyctl.simulator import SimulatedSwitch

from .agent import DemoServer, DemoTarget

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


@asynccontextmanager
async def running_server() -> AsyncIterator[DemoServer]:
    """Run an MCP server with separate sessions; their transcripts are deleted at the end."""
    listener = open_listener(Address("127.0.0.1", 0))
    token = make_token()
    with tempfile.TemporaryDirectory(prefix="ptyctl-demo-") as folder:
        async with LocalController(Settings(state_dir=Path(folder))) as controller:
            serving = asyncio.create_task(serve_http(build_server(controller, choose("core")), listener, token))
            try:
                yield DemoServer(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", token)
            finally:
                serving.cancel()
                with suppress(asyncio.CancelledError):
                    await serving


@asynccontextmanager
async def simulated_switch() -> AsyncIterator[tuple[DemoTarget, SimulatedSwitch]]:
    """Run a switch with random passwords."""
    password, enable = secrets.token_hex(4), secrets.token_hex(4)
    async with SimulatedSwitch(password=password, enable_secret=enable) as switch:
        commands = ("show version", "show interfaces status")
        yield DemoTarget("switch-001", switch.host, switch.telnet_port, "admin", password, enable, commands), switch


async def run_switch() -> None:
    """Run a simulated switch and print how to reach it, until SIGINT or SIGTERM."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with simulated_switch() as (target, switch):
        text = _SWITCH_INSTRUCTIONS.format(
            host=target.host, port=target.port, ssh_port=switch.ssh_port, password=target.password, enable=target.enable
        )
        print(text, flush=True)
        await ended.wait()

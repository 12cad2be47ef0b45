"""A secret of the inventory is in no file, reply or log, as text or base64, also where the device echoes it in pieces."""

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
from ptyctl.controller.doctor import Doctor
from ptyctl.simulator import Quirks, SimulatedSwitch
from tests.controller.session_calls import PATIENCE_MS
from tests.integration.devices.switch_inventory import ENABLE, PASSWORD, SwitchInventory

#: The password of the console server.
PORTS = "Ein-Port-weiter-rechts"
SECRETS = (PASSWORD.encode(), ENABLE.encode(), PORTS.encode())


class Cutting(Relay):
    """What the device says comes in pieces of `size` bytes, each read by itself."""

    def __init__(self, port: int, size: int) -> None:
        super().__init__(port)
        self._size = size

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, limited: bool) -> None:
        try:
            while data := await source.read(self._size if limited else 65536):
                target.write(data)
                await target.drain()
                if limited:
                    await asyncio.sleep(0.0005)
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
    async with Cutting(switch.telnet_port, request.param) as between:
        yield between


def forms(secret: bytes) -> Iterator[bytes]:
    """The text, and its base64 behind 0, 1 or 2 bytes of something else: what of it does not depend on its neighbours."""
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


def nowhere(where: str, data: bytes) -> None:
    for secret in SECRETS:
        for form in forms(secret):
            assert form not in data, f"{form!r} is in {where}"


class Heard:
    """All that was ever told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def note(self, reply: Any) -> Any:
        self.told.append(reply.payload())
        return reply

    def text(self) -> bytes:
        return json.dumps(self.told, ensure_ascii=False).encode()

    def decoded(self) -> bytes:
        """All base64 that was told, decoded and joined: pieces of a stream are a stream again."""
        found = []
        for text in strings(self.told):
            try:
                found.append(b64decode(text, validate=True))
            except ValueError:
                continue
        return b"".join(found)


async def watched(controller: LocalController, session_id: str, heard: Heard) -> None:
    async for item in controller.watch(WatchRequest(session_id=session_id, from_offset=0)):
        heard.note(item)


async def full_run(controller: LocalController, device: str, heard: Heard) -> None:
    opened = heard.note(await controller.session(SessionRequest(action="open", device=device, acquire_lock=True, task_id="t")))
    where = {"session_id": opened.session_id, "task_id": "t"}
    watching = asyncio.create_task(watched(controller, opened.session_id, heard))
    for cmd in ("show version", "show running-config", "show history"):
        heard.note(await controller.exec(ExecRequest(cmd=cmd, timeout_ms=PATIENCE_MS, **where)))
    for mode in ("user", "config", "privileged"):  # from user on the enable secret is typed again
        heard.note(await controller.config(ConfigRequest(action="mode", mode=mode, **where)))
    heard.note(await controller.config(ConfigRequest(action="save", **where)))
    for encoding in ("utf-8", "base64"):
        heard.note(await controller.io(IoRequest(action="read", cursor="0", encoding=encoding, timeout_ms=0, **where)))
    heard.note(await controller.io(IoRequest(action="read", mode="screen", timeout_ms=0, **where)))
    heard.note(await controller.log(LogRequest(session_id=opened.session_id)))
    for tool, more in [
        ("pty_read_raw", {"from_offset": 0, "max_bytes": 65536}),
        ("pty_read_screen", {}),
        ("pty_read_scrollback", {"limit": 1000}),
        ("pty_read_spool", {"from_cursor": 0, "max_bytes": 65536}),
        ("blocks_since", {}),
    ]:
        heard.note(await controller.pty(PTY_REQUESTS[tool].of({"session_id": opened.session_id, **more})))
    heard.note(await controller.session(SessionRequest(action="list")))
    heard.note(await controller.session(SessionRequest(action="status", session_id=opened.session_id)))
    heard.note(await controller.session(SessionRequest(action="close", session_id=opened.session_id, force=True)))
    await watching


@pytest.fixture
def device(inventory: SwitchInventory, switch: SimulatedSwitch) -> str:
    if not switch.quirks.console_server:
        return "sw-console"
    inventory.keep("ports", PORTS)
    inventory.write(
        telnet=inventory.relay.port,
        more=f'[console_servers.cs]\nhost = "127.0.0.1"\nprotocol = "telnet"\nbase_port = {inventory.relay.port - 1}\n'
        'username = "ports"\npassword = "file:secrets/ports"\n[devices.behind]\nconsole = { server = "cs", port = 1 }\n',
    )
    return "behind"


async def test_a_full_run_leaves_no_trace(inventory: SwitchInventory, device: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    heard = Heard()
    async with LocalController(inventory.settings()) as controller:
        await full_run(controller, device, heard)
    nowhere("a reply", heard.text())
    nowhere("what was told in base64", heard.decoded())
    nowhere("a log", caplog.text.encode())
    files = [path for path in (inventory.folder / "state").rglob("*") if path.is_file()]
    assert {"output.raw", "output.spool", "input.jsonl", "meta.json", "events.jsonl"} <= {path.name for path in files}
    for path in files:
        nowhere(str(path), path.read_bytes())
    assert b"switch-001" in heard.text()  # it was a run


async def test_a_refused_login_and_the_doctor_leave_none(
    inventory: SwitchInventory, device: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    inventory.keep("enable", PASSWORD)  # not the one that the device wants
    steps = [f"{check.result} {check.hint}" async for check in Doctor(inventory.settings(), device).checks()]
    inventory.keep("password", ENABLE)
    async with LocalController(inventory.settings()) as controller:
        with pytest.raises(PtyctlError) as caught:
            await controller.session(SessionRequest(action="open", device=device))
    nowhere("the doctor's steps", "\n".join(steps).encode())
    nowhere("the error", json.dumps(caught.value.payload()).encode())
    nowhere("a log", caplog.text.encode())
    for path in Path(inventory.folder / "state").rglob("*"):
        if path.is_file():
            nowhere(str(path), path.read_bytes())

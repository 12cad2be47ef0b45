"""The devices of the inventory for clients, without credentials, and the check of one of them."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.devices import DevicesRequest
from ptyctl.api.operator import AuditRequest
from ptyctl.api.session import SessionRequest
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.session.clients import serving_connection
from tests.controller.session_calls import MakeController, refused

_INVENTORY = """
[devices.core-1]
protocol = "ssh"
host = "127.0.0.1"
port = 1
username = "admin"
password = "env:CORE_PASSWORD"
platform = "frr"

[devices.edge-1]
protocol = "telnet"
host = "192.0.2.1"
device_id = "rack-7"
session_type = "console"
"""


@pytest.fixture
def devices_file(tmp_path: Path) -> Path:
    path = tmp_path / "devices.toml"
    path.write_text(_INVENTORY)
    path.chmod(0o600)
    return path


@pytest.mark.also_remote("entries")
async def test_devices_are_listed_without_credentials(make_controller: MakeController, devices_file: Path) -> None:
    controller = await make_controller(devices_file=devices_file)
    reply = await controller.devices(DevicesRequest())
    assert [entry.payload() for entry in reply.devices or ()] == [
        {
            "device": "core-1",
            "protocol": "ssh",
            "host": "127.0.0.1",
            "port": 1,
            "username": "admin",
            "platform": "frr",
        },
        {"device": "edge-1", "protocol": "telnet", "host": "192.0.2.1", "device_id": "rack-7", "session_type": "console"},
    ]
    assert "CORE_PASSWORD" not in str(reply)


async def test_devices_check_ends_with_failure_and_next_step(
    make_controller: MakeController, devices_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORE_PASSWORD", "secret-of-core")
    controller = await make_controller(devices_file=devices_file)
    reply = await controller.devices(DevicesRequest(action="doctor", device="core-1"))
    checks = reply.checks or []
    assert [(check.name, check.ok) for check in checks] == [
        ("storage", True), ("policy", True), ("name", True), ("credentials", True), ("network", False),
    ]  # fmt: skip
    assert checks[-1].hint
    assert "secret-of-core" not in str(reply)


async def test_check_fails_while_the_state_directory_cannot_be_written(
    make_controller: MakeController, devices_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allocate(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    controller = await make_controller(devices_file=devices_file)
    monkeypatch.setattr(os, "posix_fallocate", allocate)
    reply = await controller.devices(DevicesRequest(action="doctor", device="core-1"))
    (check,) = reply.checks or []
    assert (check.name, check.ok) == ("storage", False)
    assert "No space left on device" in check.result
    assert check.hint


async def test_principal_sees_and_checks_only_its_devices(make_controller: MakeController, devices_file: Path) -> None:
    local = await make_controller(devices_file=devices_file)
    assert isinstance(local, LocalController)
    controller = AccessController(local)
    with serving_connection(Principal("contractor", Kind.PERSON, Role.OPERATOR, ("edge-*",))):
        reply = await controller.devices(DevicesRequest())
        assert [entry.device for entry in reply.devices or ()] == ["edge-1"]
        with refused(ErrorCode.NOT_FOUND):
            await controller.devices(DevicesRequest(action="doctor", device="core-1"))
    with serving_connection(Principal("reader", Kind.PERSON, Role.VIEWER)), refused(ErrorCode.FORBIDDEN):
        await controller.devices(DevicesRequest(action="doctor", device="core-1"))


async def test_principal_with_devices_gets_no_name_of_another_device(
    make_controller: MakeController, devices_file: Path
) -> None:
    hosts = (
        '[jump_hosts.core-jump]\nhost = "192.0.2.2"\n'
        '[console_servers.core-console]\nprotocol = "telnet"\nhost = "127.0.0.1"\nbase_port = 1\n'
    )
    devices = (
        '[devices.edge-2]\nprotocol = "ssh"\nhost = "192.0.2.3"\njump = ["core-jump"]\n'
        '[devices.edge-3]\nprotocol = "telnet"\nconsole = { server = "core-console", port = 1 }\n'
    )
    devices_file.write_text(_INVENTORY + hosts + devices)
    local = await make_controller(devices_file=devices_file)
    assert isinstance(local, LocalController)
    controller = AccessController(local)
    with serving_connection(Principal("contractor", Kind.PERSON, Role.OPERATOR, ("edge-*",))):
        reply = await controller.devices(DevicesRequest())
        assert [entry.device for entry in reply.devices or ()] == ["edge-1", "edge-2", "edge-3"]
        checked = await controller.devices(DevicesRequest(action="doctor", device="edge-3"))
        assert "core" not in str(reply) + str(checked)
        assert (checked.checks or [])[-1].name == "network"
        assert "127.0.0.1" not in str(checked)
        with refused(ErrorCode.NOT_FOUND) as unknown:
            await controller.devices(DevicesRequest(action="doctor", device="edge-9"))
        devices_file.write_text(_INVENTORY + "[devices.core-2]\nport = 0\n")
        for request in (DevicesRequest(), DevicesRequest(action="doctor", device="edge-1")):
            with refused(ErrorCode.INVALID_ARGUMENT, "the inventory has errors") as invalid:
                await controller.devices(request)
            assert "core" not in str(invalid.value.payload())
        assert "core" not in str(unknown.value.payload())


@pytest.mark.parametrize("config", ["ProxyJump core-jump", "ProxyCommand echo core-jump >&2"])
async def test_principal_with_devices_gets_no_name_of_a_host_on_the_route_of_the_ssh_configuration(
    make_controller: MakeController, devices_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(f"Host 127.0.0.1\n {config}\nHost core-jump\n HostName 127.0.0.9\n Port 1\n")
    devices_file.write_text('[devices.edge-1]\nprotocol = "ssh"\nhost = "127.0.0.1"\nport = 1\nusername = "ops"\n')
    local = await make_controller(devices_file=devices_file)
    assert isinstance(local, LocalController)
    controller = AccessController(local)
    check, opening = DevicesRequest(action="doctor", device="edge-1"), SessionRequest(action="open", device="edge-1")
    with serving_connection(Principal("contractor", Kind.PERSON, Role.OPERATOR, ("edge-*",))):
        checks = (await controller.devices(check)).checks or []
        assert (checks[-1].name in ("network", "connection"), checks[-1].result) == (True, "failed on the way to the device")
        with pytest.raises(PtyctlError, match="on the way to the device") as failed:
            await controller.session(opening)
    assert "core-jump" not in str(checks) + str(failed.value.payload())
    assert "127.0.0.9" not in str(checks) + str(failed.value.payload())
    (tmp_path / ".ssh" / "config").write_text(
        "Host 127.0.0.1\n ProxyJump edge-jump\nHost edge-jump\n HostName 127.0.0.9\n Port 1\n"
    )
    with serving_connection(Principal("contractor", Kind.PERSON, Role.OPERATOR, ("edge-*",))):
        assert "127.0.0.9:1" in str((await controller.devices(check)).checks)
        with pytest.raises(PtyctlError, match=r"127\.0\.0\.9:1"):
            await controller.session(opening)


async def test_checks_of_a_principal_are_limited_and_audited(make_controller: MakeController, devices_file: Path) -> None:
    async with answering_host() as (port, connected):
        devices_file.write_text(f'[devices.slow-1]\nprotocol = "ssh"\nhost = "127.0.0.1"\nport = {port}\n')
        controller = await make_controller(devices_file=devices_file, max_principal_checks=1)
        assert isinstance(controller, LocalController)
        request = DevicesRequest(action="doctor", device="slow-1", task_id="t")
        with serving_connection(Principal("ada", Kind.PERSON, Role.OPERATOR)):
            running = asyncio.create_task(controller.devices(request))
        await connected.wait()
        assert controller.limits_in_use()["max_principal_checks"] == 1
        with (
            serving_connection(Principal("ada", Kind.PERSON, Role.OPERATOR)),
            refused(ErrorCode.LIMIT_EXCEEDED, "max_principal_checks"),
        ):
            await controller.devices(request)
        with serving_connection(Principal("ben", Kind.PERSON, Role.OPERATOR)):
            other = asyncio.create_task(controller.devices(DevicesRequest(action="doctor", device="unknown")))
        assert [check.ok for check in (await other).checks or ()][-1] is False
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert controller.limits_in_use()["max_principal_checks"] == 0
        await asyncio.to_thread(controller.audit_log.close)
        rows = (await controller.audit(AuditRequest(event="check"))).rows
        assert [(row["principal"], row["device"]) for row in rows or ()] == [("ada", "slow-1"), ("ben", "unknown")]


@asynccontextmanager
async def answering_host() -> AsyncIterator[tuple[int, asyncio.Event]]:
    """A host that accepts connections and sends nothing; yield its port, and an event for the first connection."""
    connected = asyncio.Event()

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        try:
            await reader.read()
        finally:
            writer.close()

    async with await asyncio.start_server(keep, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], connected

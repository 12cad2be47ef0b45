"""FRR's zebra as an inventory device: opened by name, output parsed from JSON, passwords not stored."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fixtures.servers.frr import Zebra
from ptyctl import LocalController, SessionHandle
from ptyctl.controller.settings import Settings


@pytest.fixture
async def device(tmp_path: Path, zebra: Zebra, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SessionHandle]:
    monkeypatch.setenv("ZEBRA_LOGIN", zebra.password)
    monkeypatch.setenv("ZEBRA_ENABLE", zebra.enable_password)
    (tmp_path / "devices.toml").write_text(
        f'[devices.r1]\nhost = "{zebra.host}"\nport = {zebra.port}\nprotocol = "telnet"\nplatform = "frr"\n'
        'session_type = "console"\npassword = "env:ZEBRA_LOGIN"\nenable_secret = "env:ZEBRA_ENABLE"\n'
    )
    settings = Settings(state_dir=tmp_path / "state", devices_file=tmp_path / "devices.toml")
    async with (
        LocalController(settings) as controller,
        await SessionHandle.open(controller, device="r1", acquire_lock=True, task_id="t") as handle,
    ):
        yield handle


async def test_command_with_json_is_parsed(device: SessionHandle) -> None:
    reply = await device.exec("show interface", parse=True)
    assert reply.message is None
    assert reply.parsed
    assert "lo" in reply.parsed[0]


async def test_command_without_json_is_reported_as_not_parsed(device: SessionHandle) -> None:
    reply = await device.exec("show version", parse=True)
    assert reply.parsed is None
    assert "not parsed" in (reply.message or "")


async def test_passwords_are_not_in_state_directory(device: SessionHandle, tmp_path: Path, zebra: Zebra) -> None:
    await device.exec("show running-config")
    stored = b"".join(path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file())
    for secret in (zebra.password.encode(), zebra.enable_password.encode()):
        assert secret not in stored
        assert b64encode(secret) not in stored

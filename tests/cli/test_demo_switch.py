"""`ptyctl demo --switch`: the inventory entry that it prints works as printed."""

from __future__ import annotations

import signal
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.cli.command_line import ptyctl, start


@pytest.fixture(scope="module")
def printed() -> Iterator[str]:
    """Output of a running `demo --switch`, which uses no daemon; Ctrl-C ends it with exit code 0."""
    switch = start("demo", "--switch")
    yield "".join(_until_last_line(switch.stdout))
    switch.send_signal(signal.SIGINT)
    switch.communicate()
    assert switch.returncode == 0


@pytest.fixture
def devices(runtime_dir: RuntimeDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "devices.toml"
    monkeypatch.setenv("PTYCTL_DEVICES_FILE", str(path))
    return path


def _until_last_line(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if "enable_secret" in line:
            return


def inventory_of(printed: str) -> str:
    return textwrap.dedent(printed[printed.index("  [devices.") :])


def test_printed_inventory_opens_simulated_switch(printed: str, devices: Path) -> None:
    devices.write_text(inventory_of(printed))
    opened = ptyctl("open", "device", "switch-001")
    assert opened.code == 0, opened.err
    refused = ptyctl("exec", "switch-001", "--", "show clock")
    assert (refused.code, "ptyctl lock switch-001" in refused.err) == (104, True)
    again = ptyctl("open", "device", "switch-001", "--lock")
    assert again.out == opened.out
    assert ptyctl("exec", "switch-001", "--", "show clock").code == 0
    assert "switch-001 (telnet" in ptyctl("sessions").out


def test_device_session_is_found_by_device_name(printed: str, devices: Path) -> None:
    inventory = inventory_of(printed).replace("session_type", "# session_type")
    devices.write_text(inventory.replace("switch-001", "edge"))
    first = ptyctl("open", "device", "edge").out.strip()
    assert "edge (telnet" in ptyctl("sessions").out
    assert ptyctl("exec", "edge", "--", "show clock").code == 0
    assert ptyctl("export", "edge", "--text").code == 0
    second = ptyctl("open", "device", "edge").out.strip()
    ambiguous = ptyctl("tail", "edge")
    assert ambiguous.code == 2
    assert first in ambiguous.err
    assert second in ambiguous.err

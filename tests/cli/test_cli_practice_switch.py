"""`ptyctl demo --switch`: what it tells a newcomer to do works as it is written."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from ptyctl.daemon.place import Place
from tests.cli.command_line import ptyctl


@pytest.fixture
def told(place: Place) -> Iterator[str]:
    """What it prints; it ends at Ctrl-C."""
    program = "import sys; from ptyctl.cli import run; sys.exit(run(['demo', '--switch']))"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as switch:
        assert switch.stdout is not None
        yield "".join(_until_the_end(switch.stdout))
        switch.send_signal(signal.SIGINT)
    assert switch.returncode == 0


def _until_the_end(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if "enable_secret" in line:
            return


def test_the_inventory_that_it_prints_leads_to_it(told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = tmp_path / "devices.toml"
    devices.write_text(textwrap.dedent(told[told.index("  [devices.") :]))
    monkeypatch.setenv("PTYCTL_DEVICES_FILE", str(devices))
    opened = ptyctl("open", "device", "switch-001")
    assert opened.code == 0, opened.err
    refused = ptyctl("exec", "switch-001", "--", "show clock")
    assert (refused.code, "ptyctl lock" in refused.err) == (104, True)
    again = ptyctl("open", "device", "switch-001", "--lock")
    assert again.out == opened.out
    assert ptyctl("exec", "switch-001", "--", "show clock").code == 0
    assert "switch-001 (telnet" in ptyctl("sessions").out


def test_a_device_is_found_by_its_name(told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = tmp_path / "devices.toml"
    inventory = textwrap.dedent(told[told.index("  [devices.") :]).replace("session_type", "# session_type")
    devices.write_text(inventory.replace("switch-001", "edge"))
    monkeypatch.setenv("PTYCTL_DEVICES_FILE", str(devices))
    first = ptyctl("open", "device", "edge").out.strip()
    assert "edge (telnet" in ptyctl("sessions").out
    assert ptyctl("exec", "edge", "--", "show clock").code == 0
    assert ptyctl("export", "edge", "--text").code == 0
    second = ptyctl("open", "device", "edge").out.strip()
    several = ptyctl("tail", "edge")
    assert several.code == 2
    assert first in several.err
    assert second in several.err

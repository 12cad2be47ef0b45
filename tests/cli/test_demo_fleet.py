"""`ptyctl demo --fleet`: three servers, three nodes, and a console that moves."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from fixtures.servers.nats import nats_server_path


@pytest.mark.long
def test_console_moves_with_its_lock_when_its_node_is_killed() -> None:
    nats_server_path()
    demo = subprocess.run([sys.executable, "-m", "ptyctl", "demo", "--fleet"], capture_output=True, text=True, timeout=280)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert re.search(r"lisbon  owns the console \d+ s later", demo.stdout)
    assert "night-shift still holds the lock" in demo.stdout

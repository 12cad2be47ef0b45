"""`ptyctl demo --fleet`: three servers, three nodes, and a console that moves."""

from __future__ import annotations

import re

import pytest

from fixtures.forked_process import PTYCTL, ForkedProgram
from fixtures.servers.nats import nats_server_path


@pytest.mark.long
def test_console_moves_with_its_lock_when_its_node_is_killed() -> None:
    nats_server_path()
    demo = ForkedProgram(PTYCTL, "demo", "--fleet")
    output, errors = demo.communicate()
    assert demo.returncode == 0, output + errors
    assert re.search(r"lisbon  owns the console \d+ s later", output)
    assert "night-shift still holds the lock" in output

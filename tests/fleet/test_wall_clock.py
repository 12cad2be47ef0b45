"""Setting the wall clock of a node or a NATS server does not change who may type on a console."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from pathlib import Path

import pytest

import ptyctl.fleet
from fixtures.virtual_clock import run_virtually
from ptyctl.fleet.buckets import LEASE_TTL_S
from ptyctl.fleet.node_lease import MARGIN_S, RENEW_S
from tests.fleet.virtual_site import Site, loop_time

#: Modules that read the wall clock, and why.
_READERS = {
    "certificates.py": "the validity of certificates",
    "node.py": "the start of the node, for display",
    "sites.py": "since when something is degraded, for display",
}
_WALL_CLOCK = re.compile(r"\btime\.time\b|\btime_ns\b|\bdatetime\.now\b|\butcnow\b|\bCLOCK_REALTIME\b")


def test_only_these_modules_read_the_wall_clock() -> None:
    folder = Path(ptyctl.fleet.__file__).parent
    readers = {str(file.relative_to(folder)) for file in folder.rglob("*.py") if _WALL_CLOCK.search(file.read_text())}
    assert readers == set(_READERS)


async def move_console() -> tuple[float, float]:
    """Hold a claim for a minute, and let another node take the console over; return when it ended, and when it was taken."""
    site = Site()
    a, b = await site.node("a"), await site.node("b")
    held = await a.claim("s1")
    for _ in range(60):
        await asyncio.sleep(1.0)
        assert held.lease.deadline.at >= loop_time() + LEASE_TTL_S - MARGIN_S - RENEW_S - 0.01
    a.link.interrupt("cut")
    ended = loop_time()
    await asyncio.sleep(LEASE_TTL_S)
    taken = await b.claim("s2")
    taken.check(loop_time())
    return ended, loop_time()


@pytest.mark.parametrize("clock", [[0.0], [0.0, 4e9], [2e9, 1e9, 3e9]], ids=["stopped", "stepped", "set back and forward"])
def test_console_moves_at_the_same_time_whatever_the_wall_clock_shows(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run_virtually(move_console())
    times = itertools.cycle(clock)
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: next(times))
        patch.setattr(time, "time_ns", lambda: round(next(times) * 1e9))
        assert run_virtually(move_console()) == expected

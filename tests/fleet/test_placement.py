"""Which node opens a device: the owner of its console, the least loaded one that may reach it, or the one that is named."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.session import GivenUp, SessionRequest
from ptyctl.controller.devices import DevicePlacement
from ptyctl.fleet import standby
from ptyctl.fleet.buckets import Entry
from ptyctl.fleet.claim import Claim
from ptyctl.fleet.claim_directory import ClaimDirectory
from ptyctl.fleet.directory import NodeRow
from ptyctl.fleet.node_lease import LeaseDirectory, Renewal
from ptyctl.fleet.standby import RETRY_S, SETTLED_S, STEP_S, Standby
from tests.fleet.fake_bucket import FakeBucket
from tests.fleet.nodes import MakeNode, silent_console, until, until_known

pytestmark = pytest.mark.waits

DEVICES = """
[devices.rack]
protocol = "telnet"
host = "127.0.0.1"
port = {port}
session_type = "console"
login = {{ automatic = false }}
node_labels = ["dc1"]
standby = true
[devices.elsewhere]
protocol = "telnet"
host = "127.0.0.1"
node_labels = ["moon"]
"""


@pytest.fixture
async def devices() -> AsyncIterator[str]:
    async with silent_console() as port:
        yield DEVICES.format(port=port)


async def test_device_is_opened_by_a_node_with_its_labels(make_node: MakeNode) -> None:
    a, b = await make_node("a"), await make_node("b", "dc1")
    await until_known(a, "a", "b")
    handle = await SessionHandle.open(a.controller, device="rack")
    assert b.local.holds(handle.session_id)
    with pytest.raises(PtyctlError, match="no node with the labels moon is up") as refused:
        await SessionHandle.open(a.controller, device="elsewhere")
    assert refused.value.code is ErrorCode.CONNECT_FAILED
    with pytest.raises(PtyctlError) as unknown:
        await SessionHandle.open(a.controller, device="unknown")
    assert unknown.value.code is ErrorCode.NOT_FOUND


async def test_named_node_opens_and_a_server_without_fleet_refuses_the_name(make_node: MakeNode) -> None:
    a, b = await make_node("a"), await make_node("b")
    await until_known(a, "a", "b")
    there = await SessionHandle.open(a.controller, protocol="local", command=["cat"], node="b")
    here = await SessionHandle.open(a.controller, protocol="local", command=["cat"], node="a")
    assert b.local.holds(there.session_id)
    assert a.local.holds(here.session_id)
    with pytest.raises(PtyctlError) as refused:
        await a.local.session(SessionRequest(action="open", protocol="local", node="a"))
    assert refused.value.code is ErrorCode.UNSUPPORTED
    with pytest.raises(PtyctlError, match="node moon is not reachable"):
        await SessionHandle.open(a.controller, protocol="local", node="moon")


async def test_standby_console_is_taken_when_its_owner_is_gone(make_node: MakeNode) -> None:
    a, b = await make_node("a", "dc1"), await make_node("b", "dc1")
    await until_known(b, "a", "b")
    await SessionHandle.open(a.controller, device="rack", node="a")
    await a.fleet._standby.aclose()  # type: ignore[union-attr]
    await a.fleet.claims.aclose()
    await until(lambda: bool(b.local.entries()))
    owner = b.fleet.claimed.owner("rack")
    assert owner is not None
    assert b.local.holds(owner.session_id)


class Nodes:
    """The nodes that are up."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def up(self) -> list[NodeRow]:
        return [NodeRow(name, "1", "host", 0.0, load) for load, name in enumerate(self.names)]


class StandbyNode:
    """A node named b with one standby console, and a clock that the test sets."""

    def __init__(self, *up: str) -> None:
        self.bucket = FakeBucket(math.inf)
        self.leases = LeaseDirectory(self.bucket, now=lambda: self.bucket.now)  # type: ignore[arg-type]
        self.leases.complete.set()
        self.leases.complete_at = self.bucket.now
        self.claimed = ClaimDirectory(self.bucket, self.leases, lambda: self.bucket.now)  # type: ignore[arg-type]
        self.revision = 0
        self.opened: list[str | None] = []
        self.failure: ErrorCode | None = None
        self.given_up: GivenUp | None = None

        async def placements() -> dict[str, DevicePlacement]:
            return {"rack": DevicePlacement("rack", (), standby=True), "other": DevicePlacement("other")}

        async def open_here(request: SessionRequest) -> None:
            self.opened.append(request.device)
            if self.failure is not None:
                raise PtyctlError(self.failure, "refused")

        async def given_up(device_id: str) -> GivenUp | None:
            return self.given_up if device_id == "rack" else None

        now, nodes = lambda: self.bucket.now, Nodes(*up)
        self.standby = Standby("b", self.claimed, nodes, placements, given_up, open_here, now)  # type: ignore[arg-type]

    def claim(self, node: str, device: str = "rack") -> None:
        """Report a claim of a node, and a renewal of its lease."""
        self.revision += 1
        self.leases._receive(node, Entry(Renewal(f"of {node}", node, str(self.revision), 0.0).encode(), self.revision))
        self.store(Claim(node, f"of {node}", f"claim of {node}", self.revision, "s", 0.0), device)

    def release(self, device: str = "rack") -> None:
        """Report that the claim on a console was released."""
        seen = self.claimed.last(device)
        assert seen is not None
        self.store(replace(seen.claim, node="", lease_id=""), device)

    def store(self, claim: Claim, device: str) -> None:
        self.revision += 1
        self.claimed._receive(device, Entry(claim.encode(), self.revision))

    async def after(self, seconds: float) -> int:
        """Return the number of attempts so far, some seconds later."""
        self.bucket.now += seconds
        await self.standby.check()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return len(self.opened)


async def test_standby_waits_for_the_expiry_and_for_less_loaded_nodes() -> None:
    node = StandbyNode("a", "c", "b")
    node.claim("a")
    assert await node.after(14) == 0
    assert await node.after(1 + STEP_S - 0.1) == 0  # c is first; a, the owner that is gone, does not count
    assert await node.after(0.1) == 1


async def test_standby_leaves_closed_and_other_consoles_alone() -> None:
    node = StandbyNode("b")
    node.claim("a")
    node.claim("a", "other")
    node.release()
    assert await node.after(100) == 0


async def test_console_that_was_closed_stays_closed_after_an_interruption_of_the_watch() -> None:
    node = StandbyNode("b")
    node.claim("a")
    node.release()
    await node.leases.follow()
    await node.claimed.follow()
    assert await node.after(100) == 0


async def test_standby_tries_again_until_a_new_owner_has_lasted() -> None:
    node = StandbyNode("b")
    node.failure = ErrorCode.CONNECT_FAILED
    node.claim("a")
    assert await node.after(15) == 1
    node.release()  # the failed attempt has released its claim
    assert await node.after(RETRY_S - 1) == 1
    assert await node.after(1) == 2
    node.claim("c")
    assert await node.after(SETTLED_S) == 2
    node.release()  # closed by its user
    assert await node.after(100) == 2


async def test_standby_does_not_try_a_refused_login_again() -> None:
    node = StandbyNode("b")
    node.failure = ErrorCode.AUTH_FAILED
    node.claim("a")
    assert await node.after(15) == 1
    node.release()
    assert await node.after(RETRY_S) == 1
    assert await node.after(3600) == 1


async def test_standby_does_not_open_a_console_that_this_node_has_given_up() -> None:
    """The node was killed after a refused login, before it released the console."""
    node = StandbyNode("b")
    node.given_up = GivenUp(reason="the login was refused", at=0)
    node.claim("b")
    assert await node.after(3600) == 0


async def test_standby_opens_a_given_up_console_that_another_node_has_owned_since() -> None:
    node = StandbyNode("b")
    node.given_up = GivenUp(reason="the login was refused", at=0)
    node.claim("c")
    assert await node.after(15) == 1


async def test_standby_console_whose_owner_died_before_the_node_started_is_taken() -> None:
    node = StandbyNode("b")
    node.store(Claim("a", "of a", "claim of a", 1, "s", 0.0), "rack")
    assert await node.after(14) == 0
    assert await node.after(1) == 1


async def test_standby_connects_a_limited_number_of_consoles_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby, "MAX_ATTEMPTS", 2)
    node = StandbyNode("b")
    devices = [f"rack{number}" for number in range(5)]
    is_open = asyncio.Event()

    async def placements() -> dict[str, DevicePlacement]:
        return {device: DevicePlacement(device, (), standby=True) for device in devices}

    async def open_here(request: SessionRequest) -> None:
        node.opened.append(request.device)
        await is_open.wait()

    node.standby._placements, node.standby._open_here = placements, open_here  # type: ignore[assignment]
    for device in devices:
        node.claim("a", device)
    assert await node.after(100) == 2
    is_open.set()
    assert await node.after(0) == 2
    assert await node.after(0) == 4

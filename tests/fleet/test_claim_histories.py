"""Random histories of four nodes and two consoles on a virtual clock: at no time two processes may type on one console."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.virtual_clock import run_virtually
from ptyctl.api.errors import PtyctlError
from ptyctl.fleet.buckets import ConflictError, encode_key
from ptyctl.fleet.console_claims import ClaimedElsewhereError, HeldClaim
from ptyctl.fleet.node_lease import MARGIN_S
from tests.fleet.virtual_site import Node, Site, loop_time

CONSOLES = ("one", "two")
#: The names of the nodes, and the ids of their state directories; the last one has the file of the first, and a copy of its
#: directory.
NODES = (("a", "1"), ("b", "2"), ("c", "3"), ("a", "4"))
#: How far the nodes' clocks are apart: each machine has counted since its boot.
_CLOCKS_S = (0.0, 5000.0, 10.0, 90_000.0)
#: How often it is checked who may type; how long a client tries to open a console (seconds).
_TICK_S, _PATIENCE_S = 0.2, 40.0
#: Time after a history within which some node gets each console (seconds).
_LIVE_S = 120.0


class Step(NamedTuple):
    """A wait, and what is done then with a node and a console; the node `OWNER` is the one that has the console."""

    wait_s: float
    action: str
    node: int
    console: int


OWNER = 4
ACTIONS = (
    *["claim"] * 6,
    *["claim on all"] * 3,
    "release",
    "release all",
    "hand over",
    "interrupt claims",
    "cut",
    "answers lost",
    "late",
    "answer lost once",
    "request lost once",
    *["heal"] * 3,
    "pause",
    *["continue"] * 2,
    "restart",
    "expire lease",
    *["cut and expire lease"] * 2,
    "restart others",
)
WAITS_S = (0.0, 0.4, 3.0, 11.0, 16.0)
STEPS = st.lists(
    st.builds(
        Step, st.sampled_from(WAITS_S), st.sampled_from(ACTIONS), st.sampled_from([0, 1, 2, 3, *[OWNER] * 4]), st.integers(0, 1)
    ),
    min_size=5,
    max_size=40,
)


@dataclass(eq=False)
class Ownership:
    """A session that has claimed a console. `last_at`: when it may have typed last."""

    process: Node
    held: HeldClaim
    began_at: float
    last_at: float
    is_given_up: bool = False

    def may_type(self) -> bool:
        return not self.is_given_up and self.process.may_type(self.held)


class History:
    """A site whose nodes claim consoles, with the record of who may type when."""

    def __init__(self, site: Site, nodes: list[Node]) -> None:
        self.site = site
        self.nodes = nodes
        self.owned: dict[str, list[Ownership]] = {console: [] for console in CONSOLES}
        self.claiming: dict[Node, set[asyncio.Task[None]]] = {}
        self.faults: list[str] = []
        self._numbers = iter(range(1_000_000))

    async def run(self, steps: list[Step]) -> None:
        watching = asyncio.create_task(self._watch())
        for step in steps:
            await asyncio.sleep(step.wait_s)
            await self._perform(step)
        for node in self.nodes:
            node.link.heal()
            node.link.running.set()
        for console in CONSOLES:
            await asyncio.wait_for(self._until_owned(console), _LIVE_S)
        watching.cancel()

    async def _perform(self, step: Step) -> None:
        console = CONSOLES[step.console]
        number = self._owner(console) if step.node == OWNER else step.node
        node = self.nodes[number]
        match step.action:
            case "claim":
                self._begin_claim(node, console)
            case "claim on all":
                for each in self.nodes:
                    self._begin_claim(each, console)
            case "release":
                self._release(node, [console])
            case "release all":
                self._release(node, list(CONSOLES))
            case "hand over":
                asyncio.create_task(self._hand_over(node, self.nodes[(number + 1) % 4], console))  # noqa: RUF006
            case "interrupt claims":
                for task in self.claiming.pop(node, ()):
                    task.cancel()
            case "cut" | "answers lost" | "late":
                node.link.interrupt(step.action)  # type: ignore[arg-type]
            case "answer lost once":
                node.link.losses += 1
            case "request lost once":
                node.link.drops += 1
            case "heal":
                node.link.heal()
            case "pause":
                node.link.running.clear()
            case "continue":
                node.link.running.set()
            case "restart":
                self.nodes[number] = await node.restart()
            case "expire lease":
                self.site.leases.expire(encode_key(node.name))
            case "cut and expire lease":
                node.link.interrupt("cut")
                self.site.leases.expire(encode_key(node.name))
            case "restart others":
                self.nodes = [each if each is node else await each.restart() for each in self.nodes]

    def _owner(self, console: str) -> int:
        """Return the number of the node that has a console, else of the last one that had it."""
        owned = self.owned[console]
        last = next((each for each in owned if each.may_type()), owned[-1] if owned else None)
        return self.nodes.index(last.process) if last is not None and last.process in self.nodes else 0

    def _begin_claim(self, node: Node, console: str) -> None:
        self.claiming.setdefault(node, set()).add(asyncio.create_task(self._claim(node, console)))

    async def _claim(self, node: Node, console: str) -> None:
        until = loop_time() + _PATIENCE_S
        while loop_time() < until:
            if any(each.process is node and each.may_type() for each in self.owned[console]):
                return  # it has the console
            with suppress(ClaimedElsewhereError, PtyctlError):
                self._begin(node, await node.claim(f"s{next(self._numbers)}", console), console)
                return
            await asyncio.sleep(1.0)

    def _begin(self, node: Node, held: HeldClaim, console: str) -> None:
        """Record a new owner, which may type from now on."""
        now = loop_time()
        for other in self.owned[console]:
            who = f"{node.name} ({node.state_id}) of {other.process.name} ({other.process.state_id})"
            if other.may_type():
                self.faults.append(f"at {now:.1f} {console}: new owner beside the old one: {who}")
            elif other.process is not node and not other.is_given_up and now < other.last_at + MARGIN_S:
                self.faults.append(f"at {now:.1f} {console}: new owner {now - other.last_at:.1f} s after the old one: {who}")
            if other.held.first_fence >= held.first_fence:
                self.faults.append(f"at {now:.1f} {console}: the fence does not grow: {who}")
        self.owned[console].append(Ownership(node, held, now, now))

    async def _watch(self) -> None:
        while True:
            for console, owned in self.owned.items():
                typing = [each for each in owned if each.may_type()]
                for each in typing:
                    each.last_at = loop_time()
                if len(typing) > 1:
                    names = ", ".join(f"{each.process.name} ({each.process.state_id})" for each in typing)
                    self.faults.append(f"at {loop_time():.1f} {console}: {names} may type")
            await asyncio.sleep(_TICK_S)

    def _release(self, node: Node, consoles: list[str]) -> None:
        for console in consoles:
            for each in self.owned[console]:
                if each.process is node and not each.is_given_up:
                    each.is_given_up = True
                    asyncio.create_task(node.claims.release(each.held))  # noqa: RUF006

    async def _hand_over(self, node: Node, target: Node, console: str) -> None:
        for each in self.owned[console]:
            if each.process is not node or not each.may_type():
                continue
            node.claims.stop(each.held)
            each.is_given_up = True
            with suppress(ConflictError, PtyctlError):
                await node.claims.hand_over(each.held, target.name, None)
                await self._claim(target, console)
            return

    async def _until_owned(self, console: str) -> None:
        while not any(each.may_type() for each in self.owned[console]):
            with suppress(ClaimedElsewhereError, PtyctlError):
                node = self.nodes[1]
                self._begin(node, await node.claim(f"s{next(self._numbers)}", console), console)
            await asyncio.sleep(1.0)


async def faults_of(steps: list[Step]) -> list[str]:
    site = Site()
    nodes = [await site.node(*node, clock_s=clock_s) for node, clock_s in zip(NODES, _CLOCKS_S, strict=True)]
    history = History(site, nodes)
    await history.run(steps)
    return history.faults


@settings(deadline=None)
@given(STEPS)
def test_random_history_of_four_nodes_has_one_writer_at_a_time(steps: list[Step]) -> None:
    assert run_virtually(faults_of(steps)) == []

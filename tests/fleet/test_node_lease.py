"""The lease of a node, in a site in memory on a virtual clock: the write deadline never exceeds the TTL of the key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.virtual_clock import run_virtually
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.fleet.buckets import LEASE_TTL_S, Entry
from ptyctl.fleet.node_lease import MARGIN_S, RENEW_S, Renewal, WriteDeadline
from tests.fleet.virtual_site import Node, Site, loop_time


@given(st.lists(st.floats(0, 1000), min_size=1))
def test_deadline_is_that_of_the_latest_renewal_start(starts: list[float]) -> None:
    deadline = WriteDeadline()
    assert not deadline.allows(0)
    for start in starts:
        deadline.renew(start)
    assert deadline.at == max(starts) + LEASE_TTL_S - MARGIN_S
    assert not deadline.allows(deadline.at)
    deadline.end()
    deadline.renew(2000)
    assert not deadline.allows(max(starts))
    assert not deadline.allows(2000)


def stored(site: Site, node: str = "a") -> Renewal | None:
    entry = site.leases.current(node)
    return None if entry is None else Renewal.decode(entry.value)


def on_site(check: Callable[[Site, Node], Awaitable[None]]) -> None:
    """Run a check with a node that has a lease."""

    async def run() -> None:
        site = Site()
        await check(site, await site.node("a"))

    run_virtually(run())


LINKS = st.lists(
    st.tuples(st.sampled_from(["cut", "answers lost", "late", "up", "one answer", "one request"]), st.floats(0, 9)), max_size=12
)


@settings(deadline=None)
@given(LINKS)
def test_write_deadline_is_before_the_end_of_the_key_whatever_answers_are_lost(links: list[tuple[str, float]]) -> None:
    async def check(site: Site, node: Node) -> None:
        def is_early_enough() -> None:
            held = node.lease.current
            if held is None or not held.deadline.allows(loop_time()):
                return
            entry, at = site.leases.values["a"]
            assert Renewal.decode(entry.value).lease_id == held.lease_id
            assert held.deadline.at <= at + LEASE_TTL_S - MARGIN_S

        for state, wait_s in links:
            if state == "one answer":
                node.link.losses += 1
            elif state == "one request":
                node.link.drops += 1
            elif state == "up":
                node.link.heal()
            else:
                node.link.interrupt(state)  # type: ignore[arg-type]
            for _ in range(round(wait_s / 0.1)):
                await asyncio.sleep(0.1)
                is_early_enough()
        node.link.heal()
        await asyncio.sleep(2 * LEASE_TTL_S)
        is_early_enough()
        await node.lease.in_force()

    on_site(check)


def test_renewal_that_was_not_stored_does_not_extend_the_write_deadline() -> None:
    async def check(site: Site, node: Node) -> None:
        lease = await node.lease.in_force()
        deadline_at = lease.deadline.at
        node.link.drops = 1
        await asyncio.sleep(RENEW_S + 5.1)  # the check for the key has been answered
        assert lease.deadline.at == deadline_at
        await asyncio.sleep(RENEW_S)
        assert lease.deadline.at > deadline_at

    on_site(check)


def test_renewal_whose_answer_was_lost_keeps_the_lease() -> None:
    async def check(site: Site, node: Node) -> None:
        lease = await node.lease.in_force()
        for _ in range(5):
            node.link.losses = 1
            await asyncio.sleep(RENEW_S + 5.1)
        assert node.lease.current is lease
        assert lease.deadline.allows(loop_time())

    on_site(check)


def test_expired_lease_is_followed_by_one_with_another_id_within_the_interval_of_renewals() -> None:
    async def check(site: Site, node: Node) -> None:
        before = await node.lease.in_force()
        site.leases.expire("a")
        await asyncio.sleep(RENEW_S + 0.1)
        after = await node.lease.in_force()
        assert after.lease_id != before.lease_id
        assert not before.deadline.allows(loop_time())
        assert node.lease.is_own(before.lease_id)

    on_site(check)


def test_renewal_that_a_server_stores_after_the_life_of_the_lease_ends_it() -> None:
    """Another node may have found the key expired in between."""

    async def check(site: Site, node: Node) -> None:
        before = await node.lease.in_force()
        entry, at = site.leases.values["a"]
        node.link.running.clear()
        await asyncio.sleep(LEASE_TTL_S + 1)
        site.leases.values["a"] = Entry(entry.value, entry.revision), at + 2 * LEASE_TTL_S
        node.link.running.set()
        await asyncio.sleep(1.0)
        assert not before.deadline.allows(loop_time())
        assert (await node.lease.in_force()).lease_id != before.lease_id

    on_site(check)


def test_lease_of_an_earlier_process_is_replaced_at_once_and_known_as_own() -> None:
    async def check(site: Site, node: Node) -> None:
        before = await node.lease.in_force()
        restarted = await node.restart()
        began = loop_time()
        lease = await restarted.lease.in_force()
        assert loop_time() - began < 0.1
        assert lease.lease_id != before.lease_id
        assert restarted.lease.is_own(before.lease_id)

    on_site(check)


def test_lease_of_a_process_with_another_state_directory_is_replaced_only_after_its_expiry() -> None:
    async def check(site: Site, node: Node) -> None:
        spare = await site.node("a", "copy")
        with pytest.raises(PtyctlError, match="another state directory") as refused:
            await spare.lease.in_force()
        assert (refused.value.code, refused.value.retryable) == (ErrorCode.CLAIM_LOST, True)
        node.kill()
        began = loop_time()
        while spare.lease.current is None:  # noqa: ASYNC110  (on the virtual clock)
            await asyncio.sleep(0.1)
        assert LEASE_TTL_S - RENEW_S - 0.1 <= loop_time() - began <= LEASE_TTL_S + 1

    on_site(check)


def test_value_that_is_no_lease_ends_that_of_the_node() -> None:
    async def check(site: Site, node: Node) -> None:
        lease = await node.lease.in_force()
        site.leases.put("a", b"{}")
        await asyncio.sleep(RENEW_S + 0.1)
        assert not lease.deadline.allows(loop_time())
        with pytest.raises(PtyctlError):
            await node.lease.in_force()

    on_site(check)


def test_claim_of_a_node_without_an_answer_from_its_servers_names_the_next_step() -> None:
    async def check(site: Site, node: Node) -> None:
        node.link.interrupt("cut")
        await asyncio.sleep(LEASE_TTL_S)
        with pytest.raises(PtyctlError, match="no console can be claimed") as refused:
            await node.claim("s")
        assert refused.value.code is ErrorCode.IO_ERROR
        assert "fleet doctor" in (refused.value.hint or "")

    on_site(check)

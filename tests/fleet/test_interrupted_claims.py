"""Claims that wait for an owner whose lease expired early, and are interrupted: on a site in memory with a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fixtures.virtual_clock import run_virtually
from ptyctl.api.errors import PtyctlError
from ptyctl.fleet.buckets import LEASE_TTL_S
from ptyctl.fleet.console_claims import HeldClaim
from ptyctl.fleet.node_lease import MARGIN_S, RENEW_S
from tests.fleet.virtual_site import Node, Site, claim_answers_lost, loop_time


async def interrupt(node: Node, *, after_s: float) -> None:
    """Cancel a claim of a node during its wait."""
    claiming = asyncio.create_task(node.claim("interrupted"))
    await asyncio.sleep(after_s)
    assert not claiming.done()
    claiming.cancel()
    await asyncio.gather(claiming, return_exceptions=True)


async def _claim_again(site: Site, node: Node) -> HeldClaim:
    await interrupt(node, after_s=4.0)
    await asyncio.sleep(0.5)
    return await node.claim("s2")


async def _claim_twice_interrupted(site: Site, node: Node) -> HeldClaim:
    await interrupt(node, after_s=0.5)
    await interrupt(node, after_s=4.0)
    return await node.claim("s2")


async def _claim_on_third_node(site: Site, node: Node) -> HeldClaim:
    third = await site.node("c")
    await interrupt(node, after_s=0.5)
    return await third.claim_when_free("s2")


async def _claim_on_new_third_node(site: Site, node: Node) -> HeldClaim:
    claiming = asyncio.create_task(node.claim("interrupted"))
    await asyncio.sleep(0.5)
    third = await site.node("c")
    claiming.cancel()
    await asyncio.gather(claiming, return_exceptions=True)
    return await third.claim_when_free("s2")


async def _claim_after_restart(site: Site, node: Node) -> HeldClaim:
    await interrupt(node, after_s=4.0)
    return await (await node.restart()).claim_when_free("s2")


async def _claim_after_crash(site: Site, node: Node) -> HeldClaim:
    claiming = asyncio.create_task(node.claim("interrupted"))
    await asyncio.sleep(1.0)
    restarted = await node.restart()
    claiming.cancel()
    return await restarted.claim_when_free("s2")


async def _claim_after_io_error(site: Site, node: Node) -> HeldClaim:
    with claim_answers_lost(node), pytest.raises(PtyctlError, match="no answer"):
        await node.claim("interrupted")
    return await node.claim("s2")


@pytest.mark.parametrize(
    "claim_next",
    [
        _claim_again,
        _claim_twice_interrupted,
        _claim_on_third_node,
        _claim_on_new_third_node,
        _claim_after_restart,
        _claim_after_crash,
        _claim_after_io_error,
    ],
)
def test_claim_after_an_interrupted_one_waits_for_the_owner_before_it(
    claim_next: Callable[[Site, Node], Awaitable[HeldClaim]],
) -> None:
    async def run() -> None:
        site = Site()
        first = await site.cut_off_owner(await site.node("a"))
        held = await claim_next(site, await site.node("b"))
        assert loop_time() >= first.lease.deadline.at + 2 * MARGIN_S
        held.check(loop_time())

    run_virtually(run())


def test_claim_on_a_node_that_has_missed_the_last_owner_waits_for_it() -> None:
    """The node has followed the claims again, and knows only an older one."""

    async def run() -> None:
        site = Site()
        a, b = await site.node("a"), await site.node("b")
        await a.claims.release(await a.claim("s0"))
        await asyncio.sleep(0.1)
        b.link.interrupt("cut")
        await asyncio.sleep(10 * LEASE_TTL_S)
        first = await site.cut_off_owner(a)
        b.link.heal()
        await asyncio.sleep(1.5)
        await b.claim_when_free("s2")
        assert loop_time() >= first.lease.deadline.at + 2 * MARGIN_S

    run_virtually(run())


def test_released_console_is_claimed_at_once_by_nodes_that_have_just_started() -> None:
    async def run() -> None:
        site = Site()
        node = await site.node("a")
        await node.claims.release(await node.claim("s"))
        for number, name in enumerate("baba"):
            node = await (node.restart() if node.name == name else site.node(name))
            await asyncio.sleep(0.001)
            began = loop_time()
            held = await node.claim(f"s{number}")
            assert loop_time() - began < 0.1
            await node.claims.release(held)

    run_virtually(run())


def test_console_of_a_dead_node_is_claimed_18_s_after_its_last_renewal_and_taken_over_by_a_restarted_owner() -> None:
    async def run() -> None:
        site = Site()
        a, b = await site.node("a"), await site.node("b")
        await asyncio.sleep(10 * LEASE_TTL_S)
        await a.claim("s1")
        a.kill()
        began = loop_time()
        await b.claim_when_free("s2")
        assert LEASE_TTL_S + MARGIN_S - RENEW_S <= loop_time() - began <= LEASE_TTL_S + MARGIN_S + 1.0
        await asyncio.sleep(1.0)
        restarted = await b.restart()
        began = loop_time()
        (await restarted.claim("s3")).check(loop_time())
        assert loop_time() - began <= MARGIN_S + 0.1

    run_virtually(run())


def test_interrupted_claim_delays_no_later_ones_once_its_wait_would_be_over() -> None:
    async def run() -> None:
        site = Site()
        await site.cut_off_owner(await site.node("a"))
        b, c = await site.node("b"), await site.node("c")
        await interrupt(b, after_s=4.0)
        held = await c.claim_when_free("s2")
        await asyncio.sleep(RENEW_S)
        await c.claims.release(held)
        await asyncio.sleep(0.001)
        began = loop_time()
        await b.claim("s3")
        assert loop_time() - began < 0.1

    run_virtually(run())

"""Claims that wait for an owner whose key expired early, and are interrupted: with a bucket in memory and a virtual clock."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from fixtures.virtual_clock import run_virtually
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.fleet.buckets import Entry, encode_key
from ptyctl.fleet.claim import MARGIN_S, RENEW_S, TTL_S
from ptyctl.fleet.console_claims import ClaimDirectory, ClaimedElsewhereError, ConsoleClaims, HeldClaim
from ptyctl.fleet.fences import FenceCounter
from tests.fleet.fake_bucket import FakeBucket

CONSOLE = "rack"
KEY = encode_key(CONSOLE)


def loop_time() -> float:
    return asyncio.get_running_loop().time()


class WatchedBucket(FakeBucket):
    """A bucket with the clock of the loop, whose changes are reported."""

    def __init__(self) -> None:
        super().__init__(TTL_S)
        self.watchers: list[asyncio.Queue[tuple[str, Entry | None]]] = []

    def _current(self, key: str) -> Entry | None:
        self.now = loop_time()
        return super()._current(key)

    def _write(self, key: str, value: bytes) -> int:
        self.now = loop_time()
        revision = super()._write(key, value)
        self._report(key, Entry(value, revision))
        return revision

    async def delete(self, key: str, revision: int | None = None) -> None:
        await super().delete(key, revision)
        self._report(key, None)

    def _report(self, key: str, entry: Entry | None) -> None:
        for watcher in self.watchers:
            watcher.put_nowait((key, entry))

    async def watch(self) -> AsyncGenerator[tuple[str, Entry | None] | None]:
        changes: asyncio.Queue[tuple[str, Entry | None]] = asyncio.Queue()
        self.watchers.append(changes)
        try:
            for key in list(self.values):
                if (entry := self._current(key)) is not None:
                    yield key, entry
            yield None
            while True:
                yield await changes.get()
        finally:
            self.watchers.remove(changes)


class Site:
    """A bucket of claims, and nodes that follow it."""

    def __init__(self) -> None:
        self.bucket: Any = WatchedBucket()
        fences: Any = FakeBucket(math.inf)
        self.fences = FenceCounter(fences)

    async def node(self, name: str) -> Node:
        node = Node(self, name)
        await node.follow()
        return node

    async def cut_off_owner(self, node: Node, session_id: str = "s1") -> HeldClaim:
        """Let a node claim the console, after which it is cut off and its key expires early."""
        held = await node.claim(session_id)
        cut_off(held)
        self.bucket.values.clear()
        return held


class Node:
    """A node that follows the claims of a site."""

    def __init__(self, site: Site, name: str) -> None:
        self.directory = ClaimDirectory(site.bucket, loop_time)
        self.claims = ConsoleClaims(site.bucket, name, self.directory, site.fences, now=loop_time)
        self.claims.use_state(f"state of {name}")
        self.following: asyncio.Task[None] | None = None

    async def follow(self) -> None:
        self.following = asyncio.create_task(self.directory.follow())
        await asyncio.sleep(0.001)
        assert self.directory.complete.is_set()

    async def cut(self) -> None:
        assert self.following is not None
        self.following.cancel()
        await asyncio.gather(self.following, return_exceptions=True)

    async def claim(self, session_id: str) -> HeldClaim:
        return await self.claims.claim(CONSOLE, session_id)

    async def claim_when_free(self, session_id: str) -> HeldClaim:
        while True:
            with suppress(ClaimedElsewhereError):
                return await self.claim(session_id)
            await asyncio.sleep(0.5)


def cut_off(held: HeldClaim) -> None:
    assert held.renewing is not None
    held.renewing.cancel()


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
    await node.cut()
    return await (await site.node("b")).claim_when_free("s2")


async def _claim_after_crash(site: Site, node: Node) -> HeldClaim:
    claiming = asyncio.create_task(node.claim("interrupted"))
    await asyncio.sleep(1.0)
    await node.claims.aclose()
    await node.cut()
    held = await (await site.node("b")).claim_when_free("s2")
    await asyncio.gather(claiming, return_exceptions=True)
    return held


async def _claim_after_io_error(site: Site, node: Node) -> HeldClaim:
    get, gets = site.bucket.get, iter(range(1))

    async def get_without_answer(key: str) -> Entry | None:
        if next(gets, None) is not None:
            raise PtyctlError(ErrorCode.IO_ERROR, "no answer")
        return await get(key)  # type: ignore[no-any-return]

    site.bucket.get = get_without_answer
    with pytest.raises(PtyctlError, match="no answer"):
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
        assert loop_time() >= first.deadline.at + 2 * MARGIN_S
        held.check(loop_time())

    run_virtually(run())


def test_claim_on_a_node_that_has_missed_the_last_owner_waits_for_it() -> None:
    """The node has followed the claims again, and knows only an older one."""

    async def run() -> None:
        site = Site()
        a, b = await site.node("a"), await site.node("b")
        await a.claims.release(await a.claim("s0"))
        await asyncio.sleep(0.1)
        await b.cut()
        await asyncio.sleep(10 * TTL_S)
        first = await site.cut_off_owner(a)
        await b.follow()
        await b.claim("s2")
        assert loop_time() >= first.deadline.at + 2 * MARGIN_S

    run_virtually(run())


def test_released_console_is_claimed_at_once_by_nodes_that_have_just_started() -> None:
    async def run() -> None:
        site = Site()
        nodes = [await site.node(name) for name in "abab"]
        await nodes[0].claims.release(await nodes[0].claim("s"))
        for number, node in enumerate(nodes):
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
        await asyncio.sleep(10 * TTL_S)
        cut_off(await a.claim("s1"))
        began = loop_time()
        second = await b.claim_when_free("s2")
        assert loop_time() - began <= TTL_S + MARGIN_S + 0.5
        await asyncio.sleep(1.0)
        cut_off(second)
        await b.cut()
        restarted = await site.node("b")
        began = loop_time()
        (await restarted.claim("s3")).check(loop_time())
        assert loop_time() - began <= MARGIN_S

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

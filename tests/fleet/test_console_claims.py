"""Claims of two nodes on one console, with a real server and short times."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client
from nats.js.errors import KeyNotFoundError

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.clock import boot_time
from ptyctl.fleet.buckets import CLAIMS, LEASES, Bucket, Entry, encode_key, open_bucket
from ptyctl.fleet.claim import Claim, ClaimedLock
from ptyctl.fleet.claim_directory import ClaimDirectory
from ptyctl.fleet.console_claims import ClaimedElsewhereError, ConsoleClaims, HeldClaim
from ptyctl.fleet.node_lease import LeaseDirectory, LeaseTimes, NodeLease, Renewal
from tests.fleet.nodes import until

pytestmark = pytest.mark.waits

TIMES = LeaseTimes(ttl_s=3.0, renew_s=0.3, margin_s=0.5)
CONSOLE = "rack 1/port 7"

MakeNode = Callable[[str], "Node"]


class LossyBucket(Bucket):
    """A bucket whose answers to updates can be lost after the value was stored."""

    loses_answers = False

    async def update(self, key: str, value: bytes, revision: int) -> int:
        stored = await super().update(key, value, revision)
        if self.loses_answers:
            raise PtyctlError(ErrorCode.IO_ERROR, "no answer")
        return stored


class Node:
    """A node's view of the claims, and its own."""

    def __init__(self, leases: LossyBucket, claims: Bucket, name: str) -> None:
        self.leases = leases
        self.bucket = claims
        self.directory = ClaimDirectory(claims, LeaseDirectory(leases, TIMES))
        self.lease = NodeLease(leases, name, TIMES)
        self.claims = ConsoleClaims(self.lease, self.directory)
        self.claims.use_state(f"state of {name}")
        self.lost: asyncio.Queue[HeldClaim] = asyncio.Queue()
        self.following = [asyncio.create_task(each.follow()) for each in (self.directory, self.directory.leases)]

    async def claim(self, session_id: str, lock: ClaimedLock | None = None) -> HeldClaim:
        return await self.claims.claim(CONSOLE, session_id, lambda: lock, self.lost.put_nowait)

    async def claim_when_free(self, session_id: str) -> HeldClaim:
        async with asyncio.timeout(60):
            while True:
                try:
                    return await self.claim(session_id)
                except ClaimedElsewhereError:
                    await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Stop as a killed node does: nothing is released."""
        for following in self.following:
            following.cancel()
        await self.claims.aclose()


@pytest.fixture
async def make_node(client: Client) -> AsyncIterator[MakeNode]:
    async with AsyncExitStack() as stack:
        leases = await open_bucket(client.jetstream(), LEASES, ttl_s=TIMES.ttl_s)
        claims = await open_bucket(client.jetstream(), CLAIMS)

        def make(name: str) -> Node:
            bucket = LossyBucket(leases.store, leases.created_s, TIMES.ttl_s)
            node = Node(bucket, Bucket(claims.store, claims.created_s, None), name)
            stack.push_async_callback(node.stop)
            return node

        yield make


async def test_second_node_is_refused_with_the_owner_while_the_claim_is_renewed(make_node: MakeNode) -> None:
    a, b = make_node("a"), make_node("b")
    held = await a.claim("s1")
    await asyncio.sleep(2 * TIMES.ttl_s)
    held.check(boot_time())
    with pytest.raises(ClaimedElsewhereError) as refused:
        await b.claim("s2")
    assert (refused.value.claim.node, refused.value.claim.session_id) == ("a", "s1")
    assert b.directory.owner(CONSOLE) is not None


async def test_console_of_a_dead_node_is_claimed_after_its_write_deadline(make_node: MakeNode) -> None:
    a, b = make_node("a"), make_node("b")
    lock = ClaimedLock("task", "alice", 60.0, 7)
    first = await a.claim("s1", lock)
    await until(lambda: (seen := b.directory.last(CONSOLE)) is not None and seen.claim.lock is not None)
    deadline_at = first.lease.deadline.at
    await a.stop()
    second = await b.claim_when_free("s2")
    assert boot_time() >= deadline_at + TIMES.margin_s
    with pytest.raises(PtyctlError) as refused:
        first.check(boot_time())
    assert (refused.value.code, refused.value.retryable) == (ErrorCode.CLAIM_LOST, True)
    assert second.claim.continues == "s1"
    assert second.first_fence > first.first_fence
    assert second.inherited is not None
    assert 0 < second.inherited.expires_in_s < 60


async def test_key_that_expires_during_its_claim_is_claimed(make_node: MakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """nats-py finds the key on its first attempt, and none on its second."""
    node = make_node("b")

    class Expiring:
        def __init__(self) -> None:
            self.refusals = 1

        async def create(self, key: str, value: bytes) -> int:
            if self.refusals:
                self.refusals -= 1
                raise KeyNotFoundError
            return await store.create(key, value)

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

    store: Any = node.bucket.store
    monkeypatch.setattr(node.bucket, "store", Expiring())
    assert (await node.claim("s1")).claim.session_id == "s1"


async def test_released_console_is_claimed_by_another_node_at_once(make_node: MakeNode) -> None:
    a, b = make_node("a"), make_node("b")
    held = await a.claim("s1")
    await a.claims.release(held)
    with pytest.raises(PtyctlError):
        held.check(boot_time())
    released = await b.bucket.get(encode_key(CONSOLE))
    assert released is not None
    second = await b.claim("s2")
    assert second.revision == released.revision + 1  # a claim that waits is written twice


async def test_renewal_whose_answer_was_lost_keeps_the_claim(make_node: MakeNode) -> None:
    node = make_node("a")
    held = await node.claim("s1")
    lease = node.lease.current
    node.leases.loses_answers = True
    await asyncio.sleep(2 * TIMES.ttl_s)
    held.check(boot_time())
    assert node.lease.current is lease


async def test_node_whose_key_was_taken_reports_the_new_owner(make_node: MakeNode) -> None:
    a, b = make_node("a"), make_node("b")
    held = await a.claim("s1")
    # as if its lease had expired while the node was paused
    await b.bucket.put(encode_key(CONSOLE), Claim("b", "of b", "1", held.claim.number + 1, "s2", 0.0).encode())
    async with asyncio.timeout(60):
        assert await a.lost.get() is held
    with pytest.raises(PtyctlError) as refused:
        held.check(boot_time())
    assert refused.value.code is ErrorCode.SESSION_MOVED
    assert refused.value.details == {"node": "b", "session_id": "s2"}
    assert not refused.value.retryable  # the session stays on its node
    assert "s2" in (refused.value.hint or "")


async def stop_renewals(node: Node) -> None:
    """End the renewals of a node's lease as if it did not reach the servers."""
    assert node.lease._renewing is not None
    node.lease._renewing.cancel()
    await asyncio.wait({node.lease._renewing})


async def expire_lease(client: Client, node: str) -> None:
    """Let a lease expire at once."""
    await client.jetstream().purge_stream("KV_leases", subject=f"$KV.leases.{node}")


async def test_console_whose_lease_expired_early_is_used_only_after_the_deadline_of_its_owner(
    make_node: MakeNode, client: Client
) -> None:
    """A NATS server whose clock was stepped, or a new leader with another clock, expires keys at any time, without a marker."""
    a, b = make_node("a"), make_node("b")
    first = await a.claim("s1")
    await stop_renewals(a)
    await until(lambda: b.directory.leases.last(first.claim.lease_id) is not None)
    await expire_lease(client, "a")
    second = await b.claim_when_free("s2")
    assert boot_time() >= first.lease.deadline.at + 2 * TIMES.margin_s  # bytes of its last moment are under way for 1.5 margins
    assert second.claim.continues == "s1"
    second.check(boot_time())


async def test_console_whose_lease_expired_early_before_a_node_started_is_used_only_after_the_deadline_of_its_owner(
    make_node: MakeNode, client: Client
) -> None:
    a = make_node("a")
    first = await a.claim("s1")
    await stop_renewals(a)
    await expire_lease(client, "a")
    b = make_node("b")
    second = await b.claim("s2")
    assert boot_time() >= first.lease.deadline.at + 2 * TIMES.margin_s
    second.check(boot_time())


async def test_renewal_that_is_received_during_a_claim_extends_its_wait(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stored before the lease was found absent, and is reported after that."""
    node = make_node("b")
    entry = Entry(Renewal("of a", "state of a", "1", 0.0).encode(), 1)
    node.directory.leases._receive("a", entry)
    seen = node.directory.leases.last("of a")
    assert seen is not None
    seen.at -= 2 * TIMES.ttl_s
    await node.bucket.create(encode_key(CONSOLE), Claim("a", "of a", "1", 1, "s1", 0.0).encode())
    update, renewed_at = node.bucket.update, 0.0

    async def renew_meanwhile(key: str, value: bytes, revision: int) -> int:
        nonlocal renewed_at
        if not renewed_at:
            renewed_at = boot_time()
            node.directory.leases._receive("a", entry._replace(revision=2))
        return await update(key, value, revision)

    monkeypatch.setattr(node.bucket, "update", renew_meanwhile)
    await node.claim("s2")
    assert boot_time() >= renewed_at + TIMES.ttl_s


async def test_restarted_node_takes_its_claim_over_with_a_greater_fence(make_node: MakeNode) -> None:
    before = make_node("a")
    first = await before.claim("s1")
    await before.stop()
    second = await make_node("a").claim("s1")
    assert second.first_fence > first.first_fence
    assert second.claim.continues is None


@given(st.text(st.characters(), min_size=1))
def test_key_has_only_allowed_characters_and_names_differ(name: str) -> None:
    key = encode_key(name)
    assert re.fullmatch(r"[-_=A-Za-z0-9]+", key)
    decoded = re.sub(rb"=(..)", lambda match: bytes.fromhex(match[1].decode()), key.encode())
    assert decoded == name.encode("utf-8", "surrogatepass")

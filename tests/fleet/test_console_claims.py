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
from ptyctl.fleet.boot_clock import boot_time
from ptyctl.fleet.buckets import CONSOLES, FENCES, Bucket, Entry, encode_key, open_bucket
from ptyctl.fleet.claim import Claim, ClaimedLease
from ptyctl.fleet.console_claims import ClaimDirectory, ClaimedElsewhereError, ClaimTimes, ConsoleClaims, HeldClaim
from ptyctl.fleet.fences import FenceCounter
from tests.fleet.fake_bucket import FakeBucket
from tests.fleet.nodes import until

pytestmark = pytest.mark.waits

TIMES = ClaimTimes(ttl_s=3.0, renew_s=0.3, margin_s=0.5)
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

    def __init__(self, bucket: LossyBucket, name: str, fences: FenceCounter) -> None:
        self.bucket = bucket
        self.directory = ClaimDirectory(bucket)
        self.claims = ConsoleClaims(bucket, name, self.directory, fences, TIMES)
        self.claims.use_state(f"state of {name}")
        self.lost: asyncio.Queue[HeldClaim] = asyncio.Queue()
        self.following = asyncio.create_task(self.directory.follow())

    async def claim(self, session_id: str, lease: ClaimedLease | None = None) -> HeldClaim:
        return await self.claims.claim(CONSOLE, session_id, lambda: lease, self.lost.put_nowait)

    async def claim_when_free(self, session_id: str) -> HeldClaim:
        async with asyncio.timeout(60):
            while True:
                try:
                    return await self.claim(session_id)
                except ClaimedElsewhereError:
                    await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Stop as a killed node does: nothing is released."""
        self.following.cancel()
        await self.claims.aclose()


@pytest.fixture
async def make_node(client: Client) -> AsyncIterator[MakeNode]:
    async with AsyncExitStack() as stack:
        opened = await open_bucket(client.jetstream(), CONSOLES, ttl_s=TIMES.ttl_s)
        fences = FenceCounter(await open_bucket(client.jetstream(), FENCES))

        def make(name: str) -> Node:
            bucket = LossyBucket(opened.store, opened.created_s, TIMES.ttl_s)
            node = Node(bucket, name, fences)
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
    lease = ClaimedLease("task", "alice", 60.0, 7)
    first = await a.claim("s1", lease)
    await until(lambda: (seen := b.directory.last(CONSOLE)) is not None and seen.claim.lease is not None)
    await a.stop()
    second = await b.claim_when_free("s2")
    assert boot_time() >= first.deadline.at + TIMES.margin_s
    with pytest.raises(PtyctlError) as refused:
        first.check(boot_time())
    assert (refused.value.code, refused.value.retryable) == (ErrorCode.CLAIM_LOST, True)
    assert second.claim.continues == "s1"
    assert second.first_fence > first.first_fence
    seen = b.directory.last(CONSOLE)
    assert seen is not None


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
    started = boot_time()
    await b.claim_when_free("s2")
    assert boot_time() - started < TIMES.ttl_s


async def test_renewal_whose_answer_was_lost_keeps_the_claim(make_node: MakeNode) -> None:
    node = make_node("a")
    held = await node.claim("s1")
    node.bucket.loses_answers = True
    await asyncio.sleep(2 * TIMES.ttl_s)
    held.check(boot_time())
    assert not held.is_lost


async def test_node_whose_key_was_taken_reports_the_new_owner(make_node: MakeNode) -> None:
    a, b = make_node("a"), make_node("b")
    held = await a.claim("s1")
    # as if it had expired while the node was paused; in one step, or a renewal can find no claim in between
    await b.bucket.put(encode_key(CONSOLE), Claim("b", "s2").encode())
    async with asyncio.timeout(60):
        assert await a.lost.get() is held
    with pytest.raises(PtyctlError) as refused:
        held.check(boot_time())
    assert refused.value.code is ErrorCode.SESSION_MOVED
    assert refused.value.details == {"node": "b", "session_id": "s2"}
    assert not refused.value.retryable  # the session stays on its node
    assert "s2" in (refused.value.hint or "")


async def test_console_whose_key_expired_early_is_used_only_after_the_deadline_of_its_owner(
    make_node: MakeNode, client: Client
) -> None:
    """A NATS server whose clock was stepped, or a new leader with another clock, expires keys at any time, without a marker."""
    a, b = make_node("a"), make_node("b")
    first = await a.claim("s1")
    assert first.renewing is not None
    first.renewing.cancel()  # as if its node did not reach the servers
    await until(lambda: (seen := b.directory.last(CONSOLE)) is not None and seen.revision >= first.revision)
    await client.jetstream().purge_stream("KV_consoles", subject=f"$KV.consoles.{encode_key(CONSOLE)}")
    second = await b.claim("s2")
    assert boot_time() >= first.deadline.at + 2 * TIMES.margin_s  # bytes of its last moment are under way for 1.5 margins
    assert second.claim.continues == "s1"
    second.check(boot_time())


async def test_console_whose_key_expired_early_before_a_node_started_is_used_only_after_the_deadline_of_its_owner(
    make_node: MakeNode, client: Client
) -> None:
    a = make_node("a")
    first = await a.claim("s1")
    assert first.renewing is not None
    first.renewing.cancel()  # as if its node did not reach the servers
    await client.jetstream().purge_stream("KV_consoles", subject=f"$KV.consoles.{encode_key(CONSOLE)}")
    b = make_node("b")
    second = await b.claim("s2")
    assert boot_time() >= first.deadline.at + 2 * TIMES.margin_s
    second.check(boot_time())


async def test_renewal_that_is_received_during_a_claim_extends_its_wait(
    make_node: MakeNode, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key is created only after the owner's renewal, and after that expired early."""
    node, key = make_node("b"), encode_key(CONSOLE)
    create = node.bucket.create
    owner = Claim("a", "s1", claim_id="1", state_id="state of a")
    await node.bucket.put(key, owner.encode())
    await until(lambda: node.directory.last(CONSOLE) is not None)
    (first := node.directory.last(CONSOLE)).at -= TIMES.ttl_s  # type: ignore[union-attr]
    renewed_at = 0.0

    async def create_late(key: str, value: bytes) -> int:
        nonlocal renewed_at
        renewed_at = boot_time()
        await node.bucket.put(key, owner.renewed("2", None).encode())
        await until(lambda: node.directory.last(CONSOLE) is not first)
        await client.jetstream().purge_stream("KV_consoles", subject=f"$KV.consoles.{key}")
        return await create(key, value)

    monkeypatch.setattr(node.bucket, "create", create_late)
    await node.claim("s2")
    assert boot_time() >= renewed_at + TIMES.ttl_s + TIMES.margin_s


class Clock:
    """Seconds that the test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_console_that_a_second_owner_released_is_not_free_while_the_first_may_type() -> None:
    clock, key = Clock(), encode_key(CONSOLE)
    directory = ClaimDirectory(FakeBucket(TIMES.ttl_s), clock)  # type: ignore[arg-type]
    directory._receive(key, Entry(Claim("a", "s1", claim_id="1", state_id="of a").encode(), 1))
    directory._receive(key, Entry(Claim("b", "s2", claim_id="2", state_id="of b").encode(), 2))  # the first expired early
    directory._receive(key, None)
    clock.now += TIMES.ttl_s
    assert not directory.knows_free(CONSOLE, TIMES.margin_s)
    clock.now += TIMES.margin_s
    assert directory.knows_free(CONSOLE, TIMES.margin_s)


def test_console_that_was_handed_over_and_released_is_free() -> None:
    clock, key = Clock(), encode_key(CONSOLE)
    directory = ClaimDirectory(FakeBucket(TIMES.ttl_s), clock)  # type: ignore[arg-type]
    owner = Claim("a", "s1", claim_id="1", state_id="of a")
    directory._receive(key, Entry(owner.encode(), 1))
    directory._receive(key, Entry(owner.given_to("b", "2", None).encode(), 2))
    directory._receive(key, Entry(Claim("b", "s2", claim_id="2", state_id="of b").encode(), 3))
    directory._receive(key, None)
    assert directory.knows_free(CONSOLE, TIMES.margin_s)


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

"""Claims whose answers are lost, on a bucket in memory: the write deadline never exceeds the life of the key."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.fleet.buckets import ConflictError, encode_key
from ptyctl.fleet.claim import Claim
from ptyctl.fleet.console_claims import ClaimDirectory, ClaimedElsewhereError, ClaimTimes, ConsoleClaims, HeldClaim
from ptyctl.fleet.fences import ClaimNumber, FenceCounter
from ptyctl.fleet.session_claims import SessionClaims, _state_id
from tests.fleet.fake_bucket import FakeBucket

TIMES = ClaimTimes(ttl_s=15, renew_s=1000, margin_s=0)


class Node:
    def __init__(self, bucket: Any, name: str = "a", fences: FenceCounter | None = None) -> None:
        self.bucket = bucket
        self.fences = fences or FenceCounter(FakeBucket(float("inf")))
        self.directory = ClaimDirectory(bucket, lambda: bucket.now)
        self.directory.complete.set()
        self.directory.complete_at = bucket.now - 100
        self.claims = ConsoleClaims(bucket, name, self.directory, self.fences, TIMES, lambda: bucket.now)
        self.lost: list[HeldClaim] = []

    async def claim(self, session_id: str) -> HeldClaim:
        return await self.claims.claim("line", session_id, on_lost=self.lost.append)


async def renew(node: Node, held: HeldClaim) -> None:
    try:
        await node.claims._renew_once(held, None)
    except PtyctlError as error:
        assert error.code is ErrorCode.IO_ERROR  # noqa: PT017


async def test_renewal_that_finds_its_earlier_attempt_does_not_count_from_its_own_start() -> None:
    node = Node(FakeBucket(15))
    held = await node.claim("s")
    node.bucket.now = 105
    node.bucket.losses = 2  # the attempt is stored; its answer and the one of the look are lost
    await renew(node, held)
    node.bucket.now = 115.5
    await renew(node, held)
    assert held.deadline.at <= 105 + 15 or held.deadline.at <= node.bucket.values[encode_key("line")][1] + 15 - TIMES.margin_s
    assert node.bucket.values[encode_key("line")][1] + 15 >= held.deadline.at
    await node.claims.aclose()


async def test_failed_create_is_not_confirmed_by_the_key_of_an_earlier_claim() -> None:
    bucket = FakeBucket(15)
    await Node(bucket).claim("s")
    bucket.now = 114

    class Unreachable:
        async def create(self, key: str, value: bytes) -> int:
            raise PtyctlError(ErrorCode.IO_ERROR, "not sent")

        def __getattr__(self, name: str) -> object:
            return getattr(bucket, name)

    with pytest.raises(PtyctlError) as refused:
        await Node(Unreachable()).claim("s")
    assert refused.value.code is ErrorCode.IO_ERROR


async def test_release_of_an_earlier_claim_leaves_the_later_one_alone() -> None:
    node = Node(FakeBucket(15))
    first = await node.claim("s1")
    second = await node.claim("s2")
    await node.claims.release(first)
    await asyncio.sleep(0)
    assert second.renewing is not None
    assert not second.renewing.done()
    second.check(node.bucket.now)
    assert not node.lost
    stored = Claim.decode(node.bucket.values[encode_key("line")][0].value, 1)
    assert stored.session_id == "s2"
    await node.claims.aclose()


async def test_new_claim_of_the_same_session_ends_the_earlier_one_without_a_loss() -> None:
    node = Node(FakeBucket(15))
    first = await node.claim("s")
    node.bucket.now = 113  # past the deadline of the first
    second = await node.claim("s")
    await asyncio.sleep(0)
    assert first.is_lost
    assert not node.lost
    second.check(node.bucket.now)
    await node.claims.aclose()


async def test_console_of_a_process_with_another_state_directory_is_claimed_only_after_its_expiry() -> None:
    bucket = FakeBucket(15)
    first, spare, restarted = Node(bucket), Node(bucket), Node(bucket)
    for node, state_id in ((first, "1"), (spare, "2"), (restarted, "1")):
        node.claims.use_state(state_id)
    await first.claim("s1")
    with pytest.raises(ClaimedElsewhereError):
        await spare.claim("s2")
    await restarted.claim("s1")
    bucket.now += 16
    await spare.claim("s2")
    for node in (first, spare, restarted):
        await node.claims.aclose()


async def test_claim_without_the_id_of_a_state_directory_is_not_replaced() -> None:
    bucket = FakeBucket(15)
    fields = json.loads(Claim("a", "s1").encode())
    del fields["state_id"]
    await bucket.create(encode_key("line"), json.dumps(fields).encode())
    with pytest.raises(ClaimedElsewhereError):
        await Node(bucket).claim("s2")


def test_id_of_a_state_directory_is_stored_once(tmp_path: Path) -> None:
    first = _state_id(tmp_path / "one")
    assert _state_id(tmp_path / "one") == first != _state_id(tmp_path / "two")


def test_copy_of_a_state_directory_and_another_boot_have_another_id(tmp_path: Path) -> None:
    original, copy, boot_id = tmp_path / "id", tmp_path / "copy", tmp_path / "boot_id"
    first = _state_id(original)
    shutil.copy2(original, copy)
    boot_id.write_text("another boot")
    assert len({first, _state_id(copy), _state_id(original, boot_id)}) == 3
    assert _state_id(original) == first


async def test_console_that_a_target_of_a_drain_has_released_is_left_to_the_next_one() -> None:
    bucket = FakeBucket(15)
    owner = Node(bucket, "a")
    first, second, third = (Node(bucket, name, owner.fences) for name in "bcd")
    held = await owner.claim("s1")
    await owner.claims.hand_over(held, "b", None)
    await first.claims.release(await first.claim("s2"))
    await owner.claims.hand_over(held, "c", None)
    await second.claim("s3")
    with pytest.raises(ConflictError):
        await owner.claims.hand_over(held, "d", None)
    for node in (owner, first, second, third):
        await node.claims.aclose()


async def test_claim_that_is_complete_after_the_begin_of_a_drain_is_released(tmp_path: Path) -> None:
    node = Node(FakeBucket(15))
    ownership = SessionClaims(node.claims, node.directory)
    refusal = PtyctlError(ErrorCode.CONNECT_FAILED, "drained")
    next_number = node.fences.next

    async def drain_meanwhile(device_id: str) -> ClaimNumber:
        ownership.refuse(refusal)
        return await next_number(device_id)

    node.fences.next = drain_meanwhile  # type: ignore[method-assign]
    session: Any = Mock(session_id="s")
    session.spec.device_id = "line"
    with pytest.raises(PtyctlError, match="drained"):
        await ownership.acquire(session, tmp_path)
    assert not node.bucket.values
    assert not ownership.held()


async def test_key_that_holds_no_claim_is_an_error_with_a_next_step() -> None:
    bucket = FakeBucket(15)
    await bucket.create(encode_key("line"), b"not a claim")
    with pytest.raises(PtyctlError, match="holds no claim") as refused:
        await Node(bucket).claim("s")
    assert refused.value.hint is not None


async def test_value_that_is_no_claim_ends_a_held_claim() -> None:
    node = Node(FakeBucket(15))
    held = await node.claim("s")
    node.bucket.revision += 1
    node.bucket.values[encode_key("line")] = (node.bucket.values[encode_key("line")][0]._replace(value=b"{}", revision=99), 100)
    await renew(node, held)
    assert held.is_lost
    await node.claims.aclose()


async def test_claim_lost_during_the_margin_is_not_returned() -> None:
    bucket = FakeBucket(15)
    node = Node(bucket)
    node.claims._times = ClaimTimes(ttl_s=15, renew_s=1000, margin_s=0.001)
    number = node.fences.next

    async def expire(device_id: str) -> ClaimNumber:
        bucket.now = 200
        return await number(device_id)

    node.fences.next = expire  # type: ignore[method-assign]
    with pytest.raises(PtyctlError) as refused:
        await node.claim("s")
    assert refused.value.code is ErrorCode.CLAIM_LOST


async def test_console_that_was_never_claimed_is_used_at_once_by_a_node_that_has_just_started() -> None:
    node = Node(FakeBucket(15))
    node.directory.complete_at = node.bucket.now
    async with asyncio.timeout(60):
        held = await node.claim("s")
    held.check(node.bucket.now)
    await node.claims.aclose()


async def test_claim_that_expired_early_before_it_had_a_number_is_refused_if_another_node_uses_the_console() -> None:
    """The other node has the first number of the console, and does not wait for an owner."""
    bucket = FakeBucket(15)
    a = Node(bucket, "a")
    b = Node(bucket, "b", FenceCounter(a.fences._bucket))
    b.directory.complete_at = bucket.now
    number, others = a.fences.next, []

    async def expire_early(device_id: str) -> ClaimNumber:
        bucket.values.clear()
        others.append(await b.claim("s2"))
        return await number(device_id)

    a.fences.next = expire_early  # type: ignore[method-assign]
    with pytest.raises(PtyctlError) as refused:
        await a.claim("s1")
    assert refused.value.code is ErrorCode.SESSION_MOVED
    assert refused.value.details == {"node": "b", "session_id": "s2"}
    others[0].check(bucket.now)
    await b.claims.aclose()


async def test_claims_of_two_nodes_exclude_each_other() -> None:
    bucket = FakeBucket(15)
    a = Node(bucket, "a")
    b = Node(bucket, "b", a.fences)
    held = await a.claim("s1")
    with pytest.raises(ClaimedElsewhereError):
        await b.claim("s2")
    bucket.now += 20
    other = await b.claim("s2")
    assert other.first_fence > held.first_fence
    await renew(a, held)
    assert held.is_lost
    assert held.lost_to is not None
    await a.claims.aclose()
    await b.claims.aclose()

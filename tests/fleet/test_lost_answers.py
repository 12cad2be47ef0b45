"""Claims whose answers are lost, and claims of two processes, on a site in memory with a virtual clock."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from fixtures.virtual_clock import run_virtually
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.fleet.buckets import LEASE_TTL_S, ConflictError
from ptyctl.fleet.claim import Claim, ClaimedLock
from ptyctl.fleet.console_claims import ClaimedElsewhereError, HeldClaim
from ptyctl.fleet.node_lease import MARGIN_S, RENEW_S
from ptyctl.fleet.session_claims import SessionClaims, _state_id
from tests.fleet.virtual_site import CONSOLE, KEY, Node, Site, Store, claim_answers_lost, loop_time


def on_site(check: Callable[[Site], Awaitable[None]]) -> None:
    """Run a check on a new site."""

    async def run() -> None:
        await check(Site())

    run_virtually(run())


def check_no_more(node: Node, held: HeldClaim, code: ErrorCode) -> PtyctlError:
    """Check that a node may not type under a claim; return the error."""
    with pytest.raises(PtyctlError) as refused:
        held.check(node.now())
    assert refused.value.code is code
    return refused.value


def test_failed_write_is_not_confirmed_by_the_key_of_an_earlier_claim() -> None:
    async def check(site: Site) -> None:
        a = await site.node("a")
        await a.claim("s")
        restarted = await a.restart()
        await restarted.lease.in_force()

        async def not_sent(key: str, value: bytes, revision: int) -> int:
            raise PtyctlError(ErrorCode.IO_ERROR, "not sent")

        restarted.directory.bucket.update = not_sent  # type: ignore[method-assign]
        with pytest.raises(PtyctlError, match="not sent"):
            await restarted.claim("s")

    on_site(check)


def test_claim_that_was_stored_after_its_call_had_ended_is_released() -> None:
    async def check(site: Site) -> None:
        a, b = await site.node("a"), await site.node("b")
        await a.claims.release(await a.claim("s0"))
        with claim_answers_lost(a), pytest.raises(PtyctlError, match="no answer"):
            await a.claim("s1")
        assert site.stored().node == "a"
        with pytest.raises(ClaimedElsewhereError):
            await b.claim("s2")
        await asyncio.sleep(LEASE_TTL_S + 2 * RENEW_S)
        assert site.stored().is_released
        (await b.claim("s2")).check(b.now())

    on_site(check)


def test_handed_over_console_that_is_not_opened_is_released_by_its_new_owner() -> None:
    async def check(site: Site) -> None:
        a, b = await site.node("a"), await site.node("b")
        await a.claims.hand_over(await a.claim("s1"), "b", None)
        assert (site.stored().node, site.stored().lease_id) == ("b", (await b.lease.in_force()).lease_id)
        c = await site.node("c")
        await asyncio.sleep(LEASE_TTL_S - 1)
        with pytest.raises(ClaimedElsewhereError):
            await c.claim("s3")
        await asyncio.sleep(1 + 2 * RENEW_S)
        assert site.stored().is_released

    on_site(check)


def test_release_of_an_earlier_claim_leaves_the_later_one_alone() -> None:
    async def check(site: Site) -> None:
        node = await site.node("a")
        first = await node.claim("s1")
        second = await node.claim("s2")
        await node.claims.release(first)
        second.check(node.now())
        assert not node.lost
        assert site.stored().session_id == "s2"

    on_site(check)


def test_new_claim_of_the_same_session_ends_the_earlier_one_without_a_loss() -> None:
    async def check(site: Site) -> None:
        node = await site.node("a")
        first = await node.claim("s")
        second = await node.claim("s")
        await asyncio.sleep(1)
        assert first.is_lost
        check_no_more(node, first, ErrorCode.CLAIM_LOST)
        assert not node.lost
        second.check(node.now())

    on_site(check)


def test_console_of_a_process_with_another_state_directory_is_claimed_only_after_its_expiry() -> None:
    async def check(site: Site) -> None:
        first = await site.node("a", "1")
        held = await first.claim("s1")
        spare = await site.node("a", "2")
        with pytest.raises(PtyctlError) as refused:
            await spare.claim("s2")
        assert refused.value.code is ErrorCode.CLAIM_LOST
        restarted = await first.restart()
        await restarted.claim("s1")
        deadline = (await restarted.lease.in_force()).deadline.at
        restarted.kill()
        while True:
            try:
                other = await spare.claim("s2")
            except (ClaimedElsewhereError, PtyctlError):
                await asyncio.sleep(0.5)
            else:
                break
        assert loop_time() >= deadline + MARGIN_S
        assert other.first_fence > held.first_fence

    on_site(check)


@pytest.mark.parametrize("value", [b"not a claim", b"{}", b'{"node": "a", "session_id": "s"}'])
def test_key_that_holds_no_claim_is_an_error_with_a_next_step(value: bytes) -> None:
    async def check(site: Site) -> None:
        site.claims.put(KEY, value)
        node = await site.node("a")
        with pytest.raises(PtyctlError, match="holds no claim") as refused:
            await node.claim("s")
        assert refused.value.hint is not None

    on_site(check)


def test_number_that_cannot_grow_is_an_error_with_a_next_step() -> None:
    async def check(site: Site) -> None:
        site.claims.put(KEY, Claim("", "", "c", 2**27 - 1, "s", 0.0).encode())
        node = await site.node("a")
        with pytest.raises(PtyctlError, match="greatest possible number") as refused:
            await node.claim("s")
        assert refused.value.hint is not None

    on_site(check)


@pytest.mark.parametrize("change", ["no claim", "deleted", "other claim"])
def test_console_whose_key_was_changed_by_hand_is_given_up_at_once(change: str) -> None:
    async def check(site: Site) -> None:
        node = await site.node("a")
        held = await node.claim("s")
        if change == "deleted":
            site.claims.delete(KEY)
        else:
            other = Claim("b", "l", "c", held.claim.number, "s2", 0.0).encode()
            site.claims.put(KEY, b"{}" if change == "no claim" else other)
        await asyncio.sleep(0.01)
        assert node.lost == [held]
        error = check_no_more(node, held, ErrorCode.SESSION_MOVED if change == "other claim" else ErrorCode.CLAIM_LOST)
        if change == "other claim":
            assert error.details == {"node": "b", "session_id": "s2"}

    on_site(check)


def test_owner_of_a_key_that_was_deleted_by_hand_is_waited_for() -> None:
    """It may not know yet that the key is gone."""

    async def check(site: Site) -> None:
        a, b = await site.node("a"), await site.node("b")
        first = await a.claim("s1")
        await asyncio.sleep(0.01)
        a.link.interrupt("cut")
        site.claims.delete(KEY)
        second = await b.claim("s2")
        assert loop_time() >= first.lease.deadline.at + 2 * MARGIN_S
        assert second.first_fence > first.first_fence

    on_site(check)


def test_console_that_was_never_claimed_is_used_at_once_by_a_node_that_has_just_started() -> None:
    async def check(site: Site) -> None:
        node = await site.node("a")
        began = loop_time()
        (await node.claim("s")).check(node.now())
        assert loop_time() - began < 0.1

    on_site(check)


def test_numbers_of_claims_grow_although_the_bucket_was_created_again() -> None:
    async def check(site: Site) -> None:
        numbers = []
        for created_s in (64_000, 128_000, 128_000):
            if created_s != site.claims.created_s:
                site.claims = Store(created_s=created_s)
            node = await site.node("a")
            for _ in range(3):
                held = await node.claim("s")
                numbers.append(held.claim.number)
                await node.claims.release(held)
            node.kill()
        assert numbers == sorted(set(numbers))
        assert numbers[3] == 128_000 // 64

    on_site(check)


def test_claim_whose_lease_ends_during_its_wait_is_not_returned() -> None:
    async def check(site: Site) -> None:
        await site.cut_off_owner(await site.node("a"))
        b = await site.node("b")
        claiming = asyncio.create_task(b.claim("s2"))
        await asyncio.sleep(1.0)
        site.leases.expire("b")
        with pytest.raises(PtyctlError) as refused:
            await claiming
        assert refused.value.code is ErrorCode.CLAIM_LOST
        assert site.stored().waiting

    on_site(check)


def test_claims_of_two_nodes_at_the_same_time_exclude_each_other() -> None:
    async def check(site: Site) -> None:
        a, b = await site.node("a"), await site.node("b")
        await a.claims.release(await a.claim("s0"))
        results = await asyncio.gather(a.claim("s1"), b.claim("s2"), return_exceptions=True)
        refused = [result for result in results if isinstance(result, BaseException)]
        assert len(refused) == 1
        assert isinstance(refused[0], ClaimedElsewhereError | PtyctlError)

    on_site(check)


def test_node_that_is_back_with_its_lease_continues() -> None:
    async def check(site: Site) -> None:
        node = await site.node("a")
        held = await node.claim("s")
        lease = await node.lease.in_force()
        node.link.running.clear()
        await asyncio.sleep(LEASE_TTL_S - MARGIN_S + 0.5)
        check_no_more(node, held, ErrorCode.CLAIM_LOST)
        node.link.running.set()
        await asyncio.sleep(0.1)
        held.check(node.now())
        assert node.lease.current is lease

    on_site(check)


def test_node_that_is_back_after_its_lease_keeps_the_consoles_that_nobody_has_taken() -> None:
    async def check(site: Site) -> None:
        a, b = await site.node("a"), await site.node("b")
        kept, moved = await a.claim("s1"), await a.claim("s2", "other")
        claim_id, number = kept.claim.claim_id, kept.claim.number
        a.link.running.clear()
        other = await b.claim_when_free("s3", "other")
        for held in (kept, moved):
            check_no_more(a, held, ErrorCode.CLAIM_LOST)
        a.link.running.set()
        await asyncio.sleep(0.2)
        kept.check(a.now())
        assert (site.stored().claim_id, site.stored().number) == (claim_id, number)
        assert site.stored().lease_id == (await a.lease.in_force()).lease_id
        error = check_no_more(a, moved, ErrorCode.SESSION_MOVED)
        assert error.details == {"node": "b", "session_id": "s3"}
        assert a.lost == [moved]
        other.check(b.now())

    on_site(check)


def test_claim_is_not_in_force_between_a_new_lease_and_its_own_write() -> None:
    async def check(site: Site) -> None:
        a, b = await site.node("a"), await site.node("b")
        held = await a.claim("s1")

        async def no_answer(key: str, value: bytes, revision: int) -> int:
            raise PtyctlError(ErrorCode.IO_ERROR, "no answer")

        update = a.directory.bucket.update
        a.directory.bucket.update = no_answer  # type: ignore[method-assign]
        site.leases.expire("a")
        await asyncio.sleep(RENEW_S + 0.5)
        assert (await a.lease.in_force()).deadline.allows(a.now())
        check_no_more(a, held, ErrorCode.CLAIM_LOST)
        other = await b.claim_when_free("s2")
        a.directory.bucket.update = update  # type: ignore[method-assign]
        await asyncio.sleep(1.0)
        check_no_more(a, held, ErrorCode.SESSION_MOVED)
        other.check(b.now())

    on_site(check)


def test_console_is_not_taken_while_renewals_are_received_although_a_server_finds_no_lease() -> None:
    """A server that has lost its cluster, and does not know yet, may find a key expired that the others renew."""

    async def check(site: Site) -> None:
        a, b = await site.node("a"), await site.node("b")
        held = await a.claim("s1")
        await asyncio.sleep(0.01)

        async def expired(key: str) -> None:
            return None

        b.leases.bucket.get = expired  # type: ignore[method-assign]
        for _ in range(20):
            with pytest.raises(ClaimedElsewhereError):
                await b.claim("s2")
            await asyncio.sleep(1.0)
        held.check(a.now())

    on_site(check)


def test_lease_that_expires_early_while_its_node_reaches_the_servers_moves_no_console() -> None:
    async def check(site: Site) -> None:
        a, b = await site.node("a"), await site.node("b")
        held = await a.claim("s1")
        site.leases.expire("a")
        for _ in range(round(2 * LEASE_TTL_S)):
            with pytest.raises(ClaimedElsewhereError):
                await b.claim("s2")
            await asyncio.sleep(1.0)
        held.check(a.now())
        assert not a.lost

    on_site(check)


def test_lock_is_written_when_its_holder_changes_and_when_its_end_has_moved() -> None:
    async def check(site: Site) -> None:
        node = await site.node("a")
        lock: ClaimedLock | None = None
        await node.claim("s", lock=lambda: lock)
        ends_at, writes = loop_time() + 60.0, 1

        async def written(holder: str | None) -> int:
            nonlocal lock
            lock = None if holder is None else ClaimedLock(holder, "alice", ends_at - loop_time(), 7)
            await asyncio.sleep(1.0)
            stored = site.stored().lock
            assert (None if stored is None else stored.holder) == holder
            return site.claims.writes[KEY]

        assert await written(None) == writes
        assert await written("t") == writes + 1
        assert await written("t") == writes + 1
        ends_at += 4.0
        assert await written("t") == writes + 1
        ends_at += 4.0
        assert await written("t") == writes + 2
        assert await written("u") == writes + 3
        assert await written(None) == writes + 4

    on_site(check)


def test_next_owner_takes_the_rest_of_a_lock_by_the_clock_of_the_owner_before() -> None:
    async def check(site: Site) -> None:
        a, b = await site.node("a", clock_s=5000.0), await site.node("b")
        ends_at = loop_time() + 300.0
        await a.claim("s1", lock=lambda: ClaimedLock("t", "alice", ends_at - loop_time(), 7))
        await asyncio.sleep(60.0)
        a.kill()
        second = await b.claim_when_free("s2")
        assert second.inherited is not None
        assert second.inherited.expires_in_s == pytest.approx(ends_at - loop_time(), abs=0.1)
        assert (second.inherited.holder, second.claim.continues) == ("t", "s1")

    on_site(check)


def test_thousand_idle_consoles_send_one_renewal_in_five_seconds() -> None:
    async def check(site: Site) -> None:
        node = await site.node("a")
        held = [await node.claim(f"s{number}", f"console{number}") for number in range(1000)]
        await asyncio.sleep(2 * RENEW_S)
        before = sum(site.leases.writes.values()), sum(site.claims.writes.values())
        await asyncio.sleep(100.0)
        after = sum(site.leases.writes.values()), sum(site.claims.writes.values())
        assert (after[0] - before[0], after[1] - before[1]) == (20, 0)
        for each in held:
            each.check(node.now())

    on_site(check)


def test_all_consoles_of_a_node_that_end_together_are_claimed_by_another_at_once() -> None:
    async def check(site: Site) -> None:
        a, b = await site.node("a"), await site.node("b")
        consoles = [f"console{number}" for number in range(200)]
        held = [await a.claim(f"s{console}", console) for console in consoles]
        await asyncio.gather(*(a.claims.release(each) for each in held))
        taken = await asyncio.gather(*(b.claim(f"t{console}", console) for console in consoles))
        for old, new in zip(held, taken, strict=True):
            new.check(b.now())
            check_no_more(a, old, ErrorCode.CLAIM_LOST)
            assert new.first_fence > old.first_fence

    on_site(check)


def test_console_that_a_target_of_a_drain_has_released_is_left_to_the_next_one() -> None:
    async def check(site: Site) -> None:
        owner, first, second = [await site.node(name) for name in "abc"]
        await site.node("d")
        held = await owner.claim("s1")
        await owner.claims.hand_over(held, "b", None)
        await first.claims.release(await first.claim("s2"))
        await owner.claims.hand_over(held, "c", None)
        await second.claim("s3")
        with pytest.raises(ConflictError):
            await owner.claims.hand_over(held, "d", None)

    on_site(check)


def test_console_is_not_handed_over_to_a_node_without_a_lease() -> None:
    async def check(site: Site) -> None:
        node = await site.node("a")
        held = await node.claim("s1")
        with pytest.raises(PtyctlError, match="node b has no lease"):
            await node.claims.hand_over(held, "b", None)
        await node.claims.release(held)
        assert site.stored().is_released

    on_site(check)


def test_new_lease_does_not_take_a_handed_over_console_back() -> None:
    async def check(site: Site) -> None:
        a, b = await site.node("a"), await site.node("b")
        held = await a.claim("s1")
        site.leases.expire("a")
        await a.claims.hand_over(held, "b", None)
        await asyncio.sleep(RENEW_S + 1)
        assert (site.stored().node, site.stored().handed_over) == ("b", True)
        (await b.claim("s2")).check(b.now())

    on_site(check)


def test_claim_that_is_complete_after_the_start_of_a_drain_is_released(tmp_path: Path) -> None:
    async def check(site: Site) -> None:
        node = await site.node("a")
        ownership = SessionClaims(node.claims, node.directory)
        ownership._has_state = True
        refusal = PtyctlError(ErrorCode.CONNECT_FAILED, "drained")
        create = node.directory.bucket.create

        async def drain_meanwhile(key: str, value: bytes) -> int:
            ownership.refuse(refusal)
            return await create(key, value)

        node.directory.bucket.create = drain_meanwhile  # type: ignore[method-assign]
        session: Any = Mock(session_id="s")
        session.spec.device_id = CONSOLE
        with pytest.raises(PtyctlError, match="drained"):
            await ownership.acquire(session, tmp_path)
        assert site.stored().is_released
        assert not ownership.held()

    on_site(check)


def test_id_of_a_state_directory_is_stored_once(tmp_path: Path) -> None:
    first = _state_id(tmp_path / "new" / "one")
    assert _state_id(tmp_path / "new" / "one") == first != _state_id(tmp_path / "two")


def test_copy_of_a_state_directory_and_another_boot_have_another_id(tmp_path: Path) -> None:
    original, copy, boot_id = tmp_path / "id", tmp_path / "copy", tmp_path / "boot_id"
    first = _state_id(original)
    shutil.copy2(original, copy)
    boot_id.write_text("another boot")
    assert len({first, _state_id(copy), _state_id(original, boot_id)}) == 3
    assert _state_id(original) == first

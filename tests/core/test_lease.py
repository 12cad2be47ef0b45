"""Leases: one holder at a time, expiry, a fence that only grows. LeaseQueue: first come, first served."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.lease import GRACE_S, Lease, LeaseQueue, Leases, Owner

ONE, TWO, THREE = (Owner("alice", task) for task in ("one", "two", "three"))
#: The same task name as ONE, of another principal.
OTHER_ONE = Owner("ci", "one")
NO_TASK = Owner("alice", "")

owners = st.sampled_from([ONE, TWO, THREE, OTHER_ONE])
seconds = st.sampled_from([0.5, 1.0, 2.0, 60.0])


class LeaseMachine(RuleBasedStateMachine):
    """Compare `Leases` with a model of holder, expiry and fence."""

    CODES: ClassVar[dict[bool, ErrorCode]] = {True: ErrorCode.LOCKED, False: ErrorCode.LOCK_LOST}

    def __init__(self) -> None:
        super().__init__()
        self.leases = Leases()
        self.now = 0.0
        self.holder: Owner | None = None
        self.expires_at = 0.0
        self.fence = 0
        #: The owners whose last lease expired or was taken over.
        self.lost: set[Owner] = set()

    @property
    def held_by(self) -> Owner | None:
        return self.holder if self.now < self.expires_at else None

    def refused(self, code: ErrorCode) -> pytest.RaisesExc[PtyctlError]:
        return pytest.raises(PtyctlError, check=lambda error: error.code is code)

    @rule(after=seconds)
    def time_passes(self, after: float) -> None:
        self.now += after
        if self.holder is not None and self.held_by is None:
            self.lost.add(self.holder)
            self.holder = None

    @rule(owner=owners, ttl=seconds)
    def acquire(self, owner: Owner, ttl: float) -> None:
        if self.held_by not in (None, owner):
            with self.refused(ErrorCode.LOCKED):
                self.leases.acquire(owner, ttl, self.now)
            return
        if self.held_by is None:
            self.fence += 1
        self.holder, self.expires_at = owner, self.now + ttl
        assert self.leases.acquire(owner, ttl, self.now) == Lease(owner, self.expires_at, self.fence)

    @rule(owner=owners, ttl=seconds)
    def take_over(self, owner: Owner, ttl: float) -> None:
        previous = self.held_by
        if previous != owner:
            self.fence += 1
            if previous is not None:
                self.lost.add(previous)
        self.holder, self.expires_at = owner, self.now + ttl
        lease, loser = self.leases.take_over(owner, ttl, self.now)
        assert lease == Lease(owner, self.expires_at, self.fence)
        assert loser == (None if previous == owner else previous)

    @rule(owner=owners, ttl=seconds)
    def heartbeat(self, owner: Owner, ttl: float) -> None:
        if self.held_by != owner:
            with self.refused(self.CODES[self.held_by is not None]):
                self.leases.heartbeat(owner, ttl, self.now)
            return
        self.expires_at = self.now + ttl
        assert self.leases.heartbeat(owner, ttl, self.now) == Lease(owner, self.expires_at, self.fence)

    @rule(owner=owners)
    def release(self, owner: Owner) -> None:
        if self.held_by not in (None, owner):
            with self.refused(ErrorCode.LOCKED):
                self.leases.release(owner, self.now)
            return
        self.leases.release(owner, self.now)
        if self.holder is not None:
            self.lost.discard(self.holder)
        self.holder = None

    @rule(owner=st.one_of(st.just(NO_TASK), owners), required=st.booleans())
    def check(self, owner: Owner, required: bool) -> None:
        if self.held_by is None and required:
            with self.refused(ErrorCode.LOCK_LOST if owner in self.lost else ErrorCode.LOCK_REQUIRED):
                self.leases.check(owner, required, self.now)
        elif self.held_by is None:
            assert self.leases.check(owner, required, self.now) is None
        elif self.held_by == owner:
            assert self.leases.check(owner, required, self.now) == self.fence
        else:
            with self.refused(ErrorCode.LOCKED) as caught:
                self.leases.check(owner, required, self.now)
            assert self.held_by is not None
            assert f"Session locked by {self.held_by.describe(owner)} for" in caught.value.message
            assert (caught.value.details["lock_principal"], caught.value.details["lock_holder"]) == self.held_by
            assert caught.value.details["expires_in_ms"] == round((self.expires_at - self.now) * 1000)

    @invariant()
    def the_lease_is_the_models(self) -> None:
        lease = self.leases.current(self.now)
        assert (lease.holder if lease else None) == self.held_by


LeaseMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestLeases = LeaseMachine.TestCase


def test_lease_expires_exactly_at_expiry_time() -> None:
    leases = Leases()
    leases.acquire(ONE, 1.0, 10.0)
    assert leases.current(10.999) is not None
    assert leases.current(11.0) is None
    assert leases.acquire(TWO, 1.0, 11.0).fence == 2


def test_owner_of_another_principal_is_named_with_its_principal() -> None:
    leases = Leases()
    leases.acquire(ONE, 10.0, 0.0)
    with pytest.raises(PtyctlError, match="locked by task one of alice for"):
        leases.check(OTHER_ONE, required=False, now=1.0)
    leases.take_over(OTHER_ONE, 10.0, 1.0)
    assert leases.end_of(ONE, 1.5).describe(1.5) == "was taken over by task one of ci 500 ms ago"
    with pytest.raises(PtyctlError, match="locked by task one of ci for"):
        leases.check(TWO, required=False, now=2.0)


def test_memory_of_lost_leases_is_bounded_and_keeps_the_latest() -> None:
    leases = Leases()
    tasks = [Owner("alice", f"task-{number}") for number in range(1_000)]
    for now, task in enumerate(tasks):
        leases.take_over(task, 60.0, float(now))
    kept = [end.of for end in leases.losses()]
    assert kept == tasks[-1 - len(kept) : -1]
    assert 0 < len(kept) <= 256


def test_take_over_that_cannot_be_stored_leaves_no_loss() -> None:
    failing = False

    def store(lease: Lease) -> None:
        if failing:
            raise PtyctlError(ErrorCode.IO_ERROR, "full")
        stored.append([end.of for end in leases.losses()])

    stored: list[list[Owner | None]] = []
    leases = Leases(store)
    leases.acquire(ONE, 60.0, 0.0)
    failing = True
    with pytest.raises(PtyctlError, match="full"):
        leases.take_over(TWO, 60.0, 1.0)
    assert (leases.losses(), leases.current(1.0)) == ([], Lease(ONE, 60.0, 1))
    failing = False
    leases.take_over(TWO, 60.0, 2.0)
    assert stored == [[], [ONE]]


def test_acquire_after_expiry_grants_new_fence() -> None:
    leases = Leases()
    assert leases.acquire(ONE, 1.0, 0.0).fence == 1
    assert leases.acquire(ONE, 1.0, 0.5).fence == 1
    assert leases.acquire(ONE, 1.0, 5.0).fence == 2


def test_queue_orders_tasks_by_arrival() -> None:
    queue = LeaseQueue()
    for owner in (ONE, TWO, THREE):
        queue.join(owner, 0.0)
    queue.leave(ONE)
    assert queue.waiting(0.0) == [TWO, THREE]
    queue.join(ONE, 0.0)
    assert queue.waiting(0.0) == [TWO, THREE, ONE]


def test_queue_keeps_place_during_grace_period() -> None:
    queue = LeaseQueue()
    queue.join(ONE, 0.0)
    queue.join(TWO, 0.0)
    queue.pause(ONE, 1.0)
    assert queue.next_change() == 1.0 + GRACE_S
    assert queue.waiting(1.0 + GRACE_S - 0.01) == [ONE, TWO]
    queue.join(ONE, 1.0 + GRACE_S - 0.01)
    assert queue.waiting(1e6) == [ONE, TWO]
    queue.pause(ONE, 1e6)
    assert queue.waiting(1e6 + GRACE_S) == [TWO]


def test_queue_two_calls_of_one_task_share_a_place() -> None:
    queue = LeaseQueue()
    queue.join(ONE, 0.0)
    queue.join(ONE, 0.0)
    queue.pause(ONE, 0.0)
    assert queue.waiting(1e6) == [ONE]
    assert queue.next_change() is None


def test_acquire_without_waiting_is_locked_while_others_wait() -> None:
    leases = Leases()
    leases.acquire(ONE, 10.0, 0.0)
    leases.queue.join(TWO, 0.0)
    with pytest.raises(PtyctlError, match="task two is first in its queue") as caught:
        leases.acquire(THREE, 10.0, 10.0)
    assert (caught.value.code, caught.value.details["next_in_line"]) == (ErrorCode.LOCKED, "two")
    assert leases.acquire(TWO, 10.0, 10.0) == Lease(TWO, 20.0, 2)
    assert leases.queue.waiting(10.0) == []


def test_take_over_bypasses_queue_and_grants_new_fence() -> None:
    leases = Leases()
    leases.acquire(ONE, 10.0, 0.0)
    leases.queue.join(TWO, 0.0)
    assert leases.take_over(THREE, 10.0, 1.0) == (Lease(THREE, 11.0, 2), ONE)
    assert leases.take_over(THREE, 10.0, 2.0) == (Lease(THREE, 12.0, 2), None)
    assert leases.queue.waiting(2.0) == [TWO]


def test_restore_continues_lease_of_earlier_process() -> None:
    leases = Leases()
    leases.restore(Lease(ONE, 5.0, 7), 7)
    with pytest.raises(PtyctlError, match="locked by task one"):
        leases.acquire(TWO, 1.0, 4.0)
    assert leases.acquire(TWO, 1.0, 5.0).fence == 8


class QueueMachine(RuleBasedStateMachine):
    """Compare leases and queue with a list of names; every call of a waiting owner lasts until it is served."""

    def __init__(self) -> None:
        super().__init__()
        self.leases = Leases()
        self.now = 0.0
        self.line: list[Owner] = []
        self.fences = [0]

    def holder(self) -> Owner | None:
        lease = self.leases.current(self.now)
        return lease.holder if lease else None

    @rule(after=st.sampled_from([0.5, 3.0, 20.0]))
    def time_passes(self, after: float) -> None:
        self.now += after

    @rule(owner=owners)
    def ask(self, owner: Owner) -> None:
        try:
            lease = self.leases.acquire(owner, 10.0, self.now)
        except PtyctlError:
            assert self.holder() not in (None, owner) or self.line[0] != owner
            if owner not in self.line:
                self.leases.queue.join(owner, self.now)
                self.line.append(owner)
        else:
            assert lease.holder == owner
            self.fences.append(lease.fence)
            self.line = [name for name in self.line if name != owner]

    @rule(owner=owners)
    def take_over(self, owner: Owner) -> None:
        self.fences.append(self.leases.take_over(owner, 10.0, self.now)[0].fence)
        self.line = [name for name in self.line if name != owner]

    @rule()
    def release(self) -> None:
        if (holder := self.holder()) is not None:
            self.leases.release(holder, self.now)

    @rule(owner=owners)
    def leave(self, owner: Owner) -> None:
        self.leases.queue.leave(owner)
        self.line = [name for name in self.line if name != owner]

    @invariant()
    def order_is_order_of_arrival(self) -> None:
        assert self.leases.queue.waiting(self.now) == self.line

    @invariant()
    def fences_only_grow(self) -> None:
        assert self.fences == sorted(self.fences)

    @invariant()
    def holder_is_not_waiting(self) -> None:
        assert self.holder() not in self.line or self.holder() is None


QueueMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40)
TestQueue = QueueMachine.TestCase


def test_renewed_fence_keeps_the_holder_and_is_greater_than_any_before() -> None:
    leases = Leases()
    held = leases.acquire(Owner("p", "t"), 10, now=0)
    leases.renew_fence(1000, now=1)
    renewed = leases.current(1)
    assert renewed is not None
    assert (renewed.holder, renewed.expires_at, renewed.fence) == (held.holder, held.expires_at, 1001)
    leases.renew_fence(5, now=1)  # a smaller one: fences only grow
    assert leases.fence == 1002


def test_revoked_lease_is_reported_as_taken_over() -> None:
    leases = Leases()
    leases.acquire(Owner("p", "t"), 10, now=0)
    leases.revoke(now=1)
    assert leases.current(1) is None
    assert leases.end_of(Owner("p", "t"), 1).reason == "taken_over"
    leases.revoke(now=2)  # without a lease, nothing

"""Leases: one holder at a time, expiry, a fence that only grows. LeaseQueue: first come, first served."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.lease import GRACE_S, Lease, LeaseQueue, Leases

tasks = st.sampled_from(["one", "two", "three"])
seconds = st.sampled_from([0.5, 1.0, 2.0, 60.0])


class LeaseMachine(RuleBasedStateMachine):
    """Compare `Leases` with a model of holder, expiry and fence."""

    CODES: ClassVar[dict[bool, ErrorCode]] = {True: ErrorCode.LOCKED, False: ErrorCode.LOCK_LOST}

    def __init__(self) -> None:
        super().__init__()
        self.leases = Leases()
        self.now = 0.0
        self.holder: str | None = None
        self.expires_at = 0.0
        self.fence = 0

    @property
    def held_by(self) -> str | None:
        return self.holder if self.now < self.expires_at else None

    def refused(self, code: ErrorCode) -> pytest.RaisesExc[PtyctlError]:
        return pytest.raises(PtyctlError, check=lambda error: error.code is code)

    @rule(after=seconds)
    def time_passes(self, after: float) -> None:
        self.now += after

    @rule(task=tasks, ttl=seconds)
    def acquire(self, task: str, ttl: float) -> None:
        if self.held_by not in (None, task):
            with self.refused(ErrorCode.LOCKED):
                self.leases.acquire(task, ttl, self.now)
            return
        if self.held_by is None:
            self.fence += 1
        self.holder, self.expires_at = task, self.now + ttl
        assert self.leases.acquire(task, ttl, self.now) == Lease(task, self.expires_at, self.fence)

    @rule(task=tasks, ttl=seconds)
    def heartbeat(self, task: str, ttl: float) -> None:
        if self.held_by != task:
            with self.refused(self.CODES[self.held_by is not None]):
                self.leases.heartbeat(task, ttl, self.now)
            return
        self.expires_at = self.now + ttl
        assert self.leases.heartbeat(task, ttl, self.now) == Lease(task, self.expires_at, self.fence)

    @rule(task=tasks)
    def release(self, task: str) -> None:
        if self.held_by not in (None, task):
            with self.refused(ErrorCode.LOCKED):
                self.leases.release(task, self.now)
            return
        self.leases.release(task, self.now)
        self.holder = None

    @rule(task=st.one_of(st.none(), tasks), required=st.booleans())
    def check(self, task: str | None, required: bool) -> None:
        if self.held_by is None and required:
            with self.refused(ErrorCode.LOCK_REQUIRED):
                self.leases.check(task, required, self.now)
        elif self.held_by is None:
            assert self.leases.check(task, required, self.now) is None
        elif self.held_by == task:
            assert self.leases.check(task, required, self.now) == self.fence
        else:
            with self.refused(ErrorCode.LOCKED) as caught:
                self.leases.check(task, required, self.now)
            assert f"Session locked by task {self.held_by}" in caught.value.message
            assert caught.value.details["lock_holder"] == self.held_by
            assert caught.value.details["expires_in_ms"] == round((self.expires_at - self.now) * 1000)

    @invariant()
    def the_lease_is_the_models(self) -> None:
        lease = self.leases.current(self.now)
        assert (lease.holder if lease else None) == self.held_by


LeaseMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestLeases = LeaseMachine.TestCase


def test_lease_expires_exactly_at_expiry_time() -> None:
    leases = Leases()
    leases.acquire("one", 1.0, 10.0)
    assert leases.current(10.999) is not None
    assert leases.current(11.0) is None
    assert leases.acquire("two", 1.0, 11.0).fence == 2


def test_acquire_after_expiry_grants_new_fence() -> None:
    leases = Leases()
    assert leases.acquire("one", 1.0, 0.0).fence == 1
    assert leases.acquire("one", 1.0, 0.5).fence == 1
    assert leases.acquire("one", 1.0, 5.0).fence == 2


queue_tasks = st.sampled_from(["one", "two", "three", "four"])


def test_queue_orders_tasks_by_arrival() -> None:
    queue = LeaseQueue()
    for task in ("one", "two", "three"):
        queue.join(task, 0.0)
    queue.leave("one")
    assert queue.waiting(0.0) == ["two", "three"]
    queue.join("one", 0.0)
    assert queue.waiting(0.0) == ["two", "three", "one"]


def test_queue_keeps_place_during_grace_period() -> None:
    queue = LeaseQueue()
    queue.join("one", 0.0)
    queue.join("two", 0.0)
    queue.pause("one", 1.0)
    assert queue.next_change() == 1.0 + GRACE_S
    assert queue.waiting(1.0 + GRACE_S - 0.01) == ["one", "two"]
    queue.join("one", 1.0 + GRACE_S - 0.01)
    assert queue.waiting(1e6) == ["one", "two"]
    queue.pause("one", 1e6)
    assert queue.waiting(1e6 + GRACE_S) == ["two"]


def test_queue_two_calls_of_one_task_share_a_place() -> None:
    queue = LeaseQueue()
    queue.join("one", 0.0)
    queue.join("one", 0.0)
    queue.pause("one", 0.0)
    assert queue.waiting(1e6) == ["one"]
    assert queue.next_change() is None


def test_acquire_without_waiting_is_locked_while_others_wait() -> None:
    leases = Leases()
    leases.acquire("one", 10.0, 0.0)
    leases.queue.join("two", 0.0)
    with pytest.raises(PtyctlError, match="task two is first in its queue") as caught:
        leases.acquire("three", 10.0, 10.0)
    assert (caught.value.code, caught.value.details["next_in_line"]) == (ErrorCode.LOCKED, "two")
    assert leases.acquire("two", 10.0, 10.0) == Lease("two", 20.0, 2)
    assert leases.queue.waiting(10.0) == []


def test_take_over_bypasses_queue_and_grants_new_fence() -> None:
    leases = Leases()
    leases.acquire("one", 10.0, 0.0)
    leases.queue.join("two", 0.0)
    assert leases.take_over("three", 10.0, 1.0) == (Lease("three", 11.0, 2), "one")
    assert leases.take_over("three", 10.0, 2.0) == (Lease("three", 12.0, 2), None)
    assert leases.queue.waiting(2.0) == ["two"]


def test_restore_continues_lease_of_earlier_process() -> None:
    leases = Leases()
    leases.restore(Lease("one", 5.0, 7), 7)
    with pytest.raises(PtyctlError, match="locked by task one"):
        leases.acquire("two", 1.0, 4.0)
    assert leases.acquire("two", 1.0, 5.0).fence == 8


class QueueMachine(RuleBasedStateMachine):
    """Compare leases and queue with a list of names; every call of a waiting task lasts until it is served."""

    def __init__(self) -> None:
        super().__init__()
        self.leases = Leases()
        self.now = 0.0
        self.line: list[str] = []
        self.fences = [0]

    def holder(self) -> str | None:
        lease = self.leases.current(self.now)
        return lease.holder if lease else None

    @rule(after=st.sampled_from([0.5, 3.0, 20.0]))
    def time_passes(self, after: float) -> None:
        self.now += after

    @rule(task=queue_tasks)
    def ask(self, task: str) -> None:
        try:
            lease = self.leases.acquire(task, 10.0, self.now)
        except PtyctlError:
            assert self.holder() not in (None, task) or self.line[0] != task
            if task not in self.line:
                self.leases.queue.join(task, self.now)
                self.line.append(task)
        else:
            assert lease.holder == task
            self.fences.append(lease.fence)
            self.line = [name for name in self.line if name != task]

    @rule(task=queue_tasks)
    def take_over(self, task: str) -> None:
        self.fences.append(self.leases.take_over(task, 10.0, self.now)[0].fence)
        self.line = [name for name in self.line if name != task]

    @rule()
    def release(self) -> None:
        if (holder := self.holder()) is not None:
            self.leases.release(holder, self.now)

    @rule(task=queue_tasks)
    def leave(self, task: str) -> None:
        self.leases.queue.leave(task)
        self.line = [name for name in self.line if name != task]

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

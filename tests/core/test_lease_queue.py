"""The queue for a lease: first come, first served, and nobody gets it who does not ask."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.lease import GRACE_S, Lease, LeaseQueue, Leases

tasks = st.sampled_from(["one", "two", "three", "four"])


def test_places_are_in_the_order_of_coming() -> None:
    queue = LeaseQueue()
    for task in ("one", "two", "three"):
        queue.join(task, 0.0)
    queue.leave("one")
    assert queue.waiting(0.0) == ["two", "three"]
    queue.join("one", 0.0)
    assert queue.waiting(0.0) == ["two", "three", "one"]


def test_a_place_is_kept_for_who_asks_again_in_time() -> None:
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


def test_two_calls_of_one_task_have_one_place() -> None:
    queue = LeaseQueue()
    queue.join("one", 0.0)
    queue.join("one", 0.0)
    queue.pause("one", 0.0)
    assert queue.waiting(1e6) == ["one"]
    assert queue.next_change() is None


def test_who_did_not_wait_does_not_overtake() -> None:
    leases = Leases()
    leases.acquire("one", 10.0, 0.0)
    leases.queue.join("two", 0.0)
    with pytest.raises(PtyctlError, match="task two is first in its queue") as caught:
        leases.acquire("three", 10.0, 10.0)
    assert (caught.value.code, caught.value.details["next_in_line"]) == (ErrorCode.LOCKED, "two")
    assert leases.acquire("two", 10.0, 10.0) == Lease("two", 20.0, 2)
    assert leases.queue.waiting(10.0) == []


def test_a_take_over_passes_the_queue_and_gives_a_new_fence() -> None:
    leases = Leases()
    leases.acquire("one", 10.0, 0.0)
    leases.queue.join("two", 0.0)
    assert leases.take_over("three", 10.0, 1.0) == (Lease("three", 11.0, 2), "one")
    assert leases.take_over("three", 10.0, 2.0) == (Lease("three", 12.0, 2), None)
    assert leases.queue.waiting(2.0) == ["two"]


def test_an_earlier_process_lease_goes_on() -> None:
    leases = Leases()
    leases.restore(Lease("one", 5.0, 7), 7)
    with pytest.raises(PtyctlError, match="locked by task one"):
        leases.acquire("two", 1.0, 4.0)
    assert leases.acquire("two", 1.0, 5.0).fence == 8


class QueueMachine(RuleBasedStateMachine):
    """Holds a lease with its queue against a list of names, where every call of a waiting task goes on until it is served."""

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

    @rule(task=tasks)
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

    @rule(task=tasks)
    def take_over(self, task: str) -> None:
        self.fences.append(self.leases.take_over(task, 10.0, self.now)[0].fence)
        self.line = [name for name in self.line if name != task]

    @rule()
    def release(self) -> None:
        if (holder := self.holder()) is not None:
            self.leases.release(holder, self.now)

    @rule(task=tasks)
    def give_up(self, task: str) -> None:
        self.leases.queue.leave(task)
        self.line = [name for name in self.line if name != task]

    @invariant()
    def the_order_is_that_of_coming(self) -> None:
        assert self.leases.queue.waiting(self.now) == self.line

    @invariant()
    def fences_only_grow(self) -> None:
        assert self.fences == sorted(self.fences)

    @invariant()
    def a_holder_does_not_wait(self) -> None:
        assert self.holder() not in self.line or self.holder() is None


QueueMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40)
TestQueue = QueueMachine.TestCase

"""Leases: one holder at a time, an expiry, and a fence that only grows."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.lease import Lease, Leases

tasks = st.sampled_from(["one", "two", "three"])
seconds = st.sampled_from([0.5, 1.0, 2.0, 60.0])


class LeaseMachine(RuleBasedStateMachine):
    """Holds `Leases` against the simplest model: who, until when, which fence."""

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


def test_a_lease_ends_at_its_very_moment() -> None:
    leases = Leases()
    leases.acquire("one", 1.0, 10.0)
    assert leases.current(10.999) is not None
    assert leases.current(11.0) is None
    assert leases.acquire("two", 1.0, 11.0).fence == 2


def test_a_lease_that_ran_out_is_not_extended_but_new() -> None:
    leases = Leases()
    assert leases.acquire("one", 1.0, 0.0).fence == 1
    assert leases.acquire("one", 1.0, 0.5).fence == 1
    assert leases.acquire("one", 1.0, 5.0).fence == 2

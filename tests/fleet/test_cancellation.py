"""Cancellation that nats-py loses, because the answer arrives in the same iteration of the event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from ptyctl.cancellation import keep_cancellation
from ptyctl.fleet.buckets import Bucket
from ptyctl.fleet.node_lease import LeaseTimes, NodeLease


class Store:
    """A key-value store whose first update is cancelled and answered at once."""

    def __init__(self) -> None:
        self.is_updating = asyncio.Event()
        self.losses = 1
        self.entry = SimpleNamespace(value=None, revision=0)

    async def create(self, key: str, value: bytes) -> int:
        self.entry = SimpleNamespace(value=value, revision=1)
        return 1

    async def get(self, key: str) -> SimpleNamespace:
        return self.entry

    async def update(self, key: str, value: bytes, revision: int) -> int:
        self.is_updating.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not self.losses:
                raise
            self.losses -= 1
        return revision + 1


async def test_lease_closes_although_the_cancellation_of_a_renewal_was_lost() -> None:
    store: Any = Store()
    lease = NodeLease(Bucket(store, 1, 15.0), "a", LeaseTimes(ttl_s=15, renew_s=0, margin_s=0))
    lease.start("state")
    async with asyncio.timeout(60):
        await store.is_updating.wait()
        await lease.aclose()


@pytest.mark.parametrize("error", [None, ValueError("late")])
async def test_lost_cancellation_is_raised_at_the_end_of_the_block(error: Exception | None) -> None:
    is_waiting = asyncio.Event()

    async def lose() -> None:
        with keep_cancellation():
            is_waiting.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            if error is not None:
                raise error

    task = asyncio.create_task(lose())
    await is_waiting.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_cleanup_of_a_cancelled_task_is_not_cancelled_again() -> None:
    is_waiting, is_clean = asyncio.Event(), asyncio.Event()

    async def wait_and_clean() -> None:
        try:
            is_waiting.set()
            await asyncio.Event().wait()
        finally:
            with keep_cancellation():
                await asyncio.sleep(0)
            is_clean.set()

    task = asyncio.create_task(wait_and_clean())
    await is_waiting.wait()
    task.cancel()
    await asyncio.wait({task})
    assert is_clean.is_set()

"""Signal: waiters are woken by each notification, by enough bytes, by silence or by their deadline."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.session.io.signal import Signal

PATIENCE_S = 10.0


class Waiter:
    """Counts its wake-ups and waits again at once."""

    def __init__(self, signal: Signal, *, coalesce: bool) -> None:
        self.woken = 0
        self._signal = signal
        self._coalesce = coalesce
        self._task = asyncio.create_task(self._wait())

    async def _wait(self) -> None:
        while True:
            await self._signal.wait(coalesce=self._coalesce)
            self.woken += 1

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def loop_iterations(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("coalesce", [True, False])
async def test_many_waiters_are_woken_in_batches(coalesce: bool) -> None:
    signal = Signal()
    waiters = [Waiter(signal, coalesce=coalesce) for _ in range(300)]
    await loop_iterations(1)
    signal.notify()
    woken = [0]
    while woken[-1] < len(waiters):
        await loop_iterations(1)
        woken.append(sum(waiter.woken for waiter in waiters))
    assert max(after - before for before, after in pairwise(woken)) <= 32
    assert {waiter.woken for waiter in waiters} == {1}
    for waiter in waiters:
        await waiter.end()


async def test_coalescing_waiter_during_flood_is_woken_once_per_coalesce_size() -> None:
    signal = Signal(coalesce_bytes=1000)
    each, coalescing = Waiter(signal, coalesce=False), Waiter(signal, coalesce=True)
    await loop_iterations(1)
    for _ in range(50):
        signal.notify_received(100)
        await loop_iterations(1)
    assert each.woken == 50
    assert coalescing.woken == 5
    await each.end()
    await coalescing.end()


async def test_coalescing_waiter_after_silence_is_woken_within_few_loop_iterations() -> None:
    signal = Signal(coalesce_bytes=1000)
    coalescing = Waiter(signal, coalesce=True)
    await loop_iterations(1)
    signal.notify_received(1)
    assert not signal.settled
    await loop_iterations(4)
    assert coalescing.woken == 1
    assert signal.settled
    signal.notify_received(1)
    assert not signal.settled
    await coalescing.end()


async def test_notify_wakes_all_waiters() -> None:
    signal = Signal()
    waiters = [Waiter(signal, coalesce=False), Waiter(signal, coalesce=True)]
    await loop_iterations(1)
    signal.notify()
    await loop_iterations(2)
    assert [waiter.woken for waiter in waiters] == [1, 1]
    for waiter in waiters:
        await waiter.end()


@given(st.lists(st.tuples(st.integers(1, 700), st.integers(0, 3)), max_size=30))
def test_coalescing_waiter_with_any_pauses_sees_last_byte(pieces: list[tuple[int, int]]) -> None:
    """Each piece is a number of bytes and the number of loop iterations after it."""

    async def scenario() -> None:
        signal, received, seen, all_seen = Signal(coalesce_bytes=1000), 0, 0, asyncio.Event()

        async def watch() -> None:
            nonlocal seen
            while True:
                seen = received
                if seen == sum(size for size, _ in pieces):
                    all_seen.set()
                await signal.wait(coalesce=True)

        watching = asyncio.create_task(watch())
        await loop_iterations(1)
        for size, pause in pieces:
            received += size
            signal.notify_received(size)
            await loop_iterations(pause)
        async with asyncio.timeout(PATIENCE_S):
            await all_seen.wait()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(scenario())


@pytest.mark.parametrize("later", range(4))
async def test_settled_with_bytes_received_while_nobody_waits_is_false(later: int) -> None:
    signal = Signal()
    watching = asyncio.create_task(signal.wait(coalesce=True))
    await loop_iterations(1)
    signal.notify_received(5)
    signal.notify()
    await watching
    await loop_iterations(later)
    signal.notify_received(5)
    await loop_iterations(1)
    assert not signal.settled


async def test_wait_with_deadline_returns_at_own_deadline_only() -> None:
    loop, signal = asyncio.get_running_loop(), Signal()
    later = asyncio.create_task(signal.wait(loop.time() + PATIENCE_S))
    for coalesce in (True, False):
        until = loop.time() + 0.01
        await signal.wait(until, coalesce=coalesce)
        assert loop.time() >= until
    assert not later.done()
    signal.notify()
    await later


async def test_observer_is_called_at_once_when_channel_is_drained() -> None:
    signal, calls = Signal(), list[bool]()
    signal.observe(lambda: calls.append(signal.settled))
    signal.notify_received(5)
    assert calls == []
    signal.notify_drained()
    assert calls == [True]
    signal.notify_received(5)
    await loop_iterations(4)
    assert calls == [True, True]  # not drained: the signal settles after two iterations without data


async def test_observer_after_request_settled_is_called_when_signal_settles() -> None:
    signal, called = Signal(), asyncio.Event()
    signal.notify_received(5)
    signal.observe(called.set)
    assert not signal.request_settled()
    await called.wait()
    assert signal.request_settled()


async def test_observer_without_output_is_called_by_notifications_only() -> None:
    signal, calls = Signal(), list[str]()
    signal.observe(lambda: calls.append("called"), output=False)
    signal.notify_received(5)
    signal.notify_drained()
    await loop_iterations(4)
    assert calls == []
    signal.notify()
    assert calls == ["called"]

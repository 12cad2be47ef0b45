"""Who waits is woken by what it waits for: each byte, or enough of them, or quiet; and nothing is ever waited for in vain."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.session.io.signal import Signal

PATIENCE_S = 10.0


class Waiter:
    """Counts how often it was woken; `wait` is asked for again at once, as those do who look again."""

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


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_flood_wakes_who_gathers_only_for_much_of_it() -> None:
    signal = Signal(coalesce_bytes=1000)
    each, gathers = Waiter(signal, coalesce=False), Waiter(signal, coalesce=True)
    await turns(1)
    for _ in range(50):
        signal.notify_received(100)
        await turns(1)
    assert each.woken == 50
    assert gathers.woken == 5
    await each.end()
    await gathers.end()


async def test_quiet_wakes_who_gathers_within_a_few_turns() -> None:
    signal = Signal(coalesce_bytes=1000)
    gathers = Waiter(signal, coalesce=True)
    await turns(1)
    signal.notify_received(1)
    assert not signal.settled
    await turns(4)
    assert gathers.woken == 1
    assert signal.settled
    signal.notify_received(1)
    assert not signal.settled
    await gathers.end()


async def test_a_beat_wakes_all() -> None:
    signal = Signal()
    waiters = [Waiter(signal, coalesce=False), Waiter(signal, coalesce=True)]
    await turns(1)
    signal.notify()
    await turns(2)
    assert [waiter.woken for waiter in waiters] == [1, 1]
    for waiter in waiters:
        await waiter.end()


@given(st.lists(st.tuples(st.integers(1, 700), st.integers(0, 3)), max_size=30))
def test_whatever_the_pace_the_last_byte_is_looked_at(pieces: list[tuple[int, int]]) -> None:
    """Pieces of so many bytes, each followed by so many turns."""

    async def scenario() -> None:
        signal, received, seen, all_seen = Signal(coalesce_bytes=1000), 0, 0, asyncio.Event()

        async def look() -> None:
            nonlocal seen
            while True:
                seen = received
                if seen == sum(size for size, _ in pieces):
                    all_seen.set()
                await signal.wait(coalesce=True)

        looking = asyncio.create_task(look())
        await turns(1)
        for size, pause in pieces:
            received += size
            signal.notify_received(size)
            await turns(pause)
        async with asyncio.timeout(PATIENCE_S):
            await all_seen.wait()
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)

    asyncio.run(scenario())


@pytest.mark.parametrize("later", range(4))
async def test_bytes_that_come_while_nobody_gathers_count_too(later: int) -> None:
    signal = Signal()
    looking = asyncio.create_task(signal.wait(coalesce=True))
    await turns(1)
    signal.notify_received(5)
    signal.notify()
    await looking
    await turns(later)
    signal.notify_received(5)
    await turns(1)
    assert not signal.settled


async def test_only_who_is_due_is_woken_by_the_clock() -> None:
    loop, signal = asyncio.get_running_loop(), Signal()
    later = asyncio.create_task(signal.wait(loop.time() + PATIENCE_S))
    for gather in (True, False):
        until = loop.time() + 0.01
        await signal.wait(until, coalesce=gather)
        assert loop.time() >= until
    assert not later.done()
    signal.notify()
    await later


async def test_a_watch_is_told_at_once_that_the_channel_has_nothing_more() -> None:
    signal, told = Signal(), list[bool]()
    signal.observe(lambda: told.append(signal.settled))
    signal.notify_received(5)
    assert told == []
    signal.notify_drained()
    assert told == [True]
    signal.notify_received(5)
    await turns(4)
    assert told == [True, True]  # nobody told, so two turns that brought nothing did


async def test_a_watch_that_asks_hears_when_it_has_settled() -> None:
    signal, told = Signal(), asyncio.Event()
    signal.notify_received(5)
    signal.observe(told.set)
    assert not signal.request_settled()
    await told.wait()
    assert signal.request_settled()

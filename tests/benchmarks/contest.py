"""Measures contestants in turns: A B C, A B C, ... so that a machine's drift falls on all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field

#: Does the work once and returns the seconds it took; what comes before the clock starts is its own affair.
Once = Callable[[], Awaitable[float]]

OURS = "ours"


class Unavailable(Exception):
    """This contestant cannot run here; the message says why."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """`opened()` is entered once and gives what is then called again and again."""

    name: str
    opened: Callable[[], AbstractAsyncContextManager[Once]]


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to measure: a turn ends after `calls` calls or `seconds`, whichever comes first, but never before one call."""

    turns: int = 9
    calls: int = 100
    seconds: float = 0.4


@dataclass(slots=True)
class Result:
    """What each contestant got in each turn, in the row's unit; `missing` says why one got nothing."""

    turns: dict[str, list[float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def value(self, name: str) -> float | None:
        """The median over all turns."""
        return statistics.median(self.turns[name]) if name in self.turns else None

    def ratio(self, beside: str, less: str | None = None, *, worst: bool = False) -> float | None:
        """Ours as a multiple of another, turn by turn, then the median, or the largest; `less` names what is first taken off
        ours."""
        if OURS not in self.turns or beside not in self.turns:
            return None
        spared = self.turns[less] if less in self.turns else [0.0] * len(self.turns[OURS])
        columns = zip(self.turns[OURS], spared, self.turns[beside], strict=True)
        ratios = [(ours - spare) / other for ours, spare, other in columns]
        return max(ratios) if worst else statistics.median(ratios)

    def each(self, convert: Callable[[float], float]) -> Result:
        """The same in another unit."""
        return Result({name: [convert(value) for value in values] for name, values in self.turns.items()}, self.missing)


def in_milliseconds(result: Result) -> Result:
    """From seconds per call to ms per call."""
    return result.each(lambda seconds: seconds * 1e3)


def in_megabytes_per_second(result: Result, size: int) -> Result:
    """From seconds per call that handles `size` bytes to MB (10^6 bytes) per second."""
    return result.each(lambda seconds: size / seconds / 1e6)


def timed(call: Callable[[], Awaitable[str]], wanted: str) -> Once:
    """Times one call, and makes sure that it did the work: `wanted` stands in what it gives."""

    async def once() -> float:
        start = time.perf_counter()
        output = await call()
        seconds = time.perf_counter() - start
        assert wanted in output, output
        return seconds

    return once


async def _turn(once: Once, plan: Plan) -> float:
    taken: list[float] = []
    end = time.perf_counter() + plan.seconds
    while not taken or (len(taken) < plan.calls and time.perf_counter() < end):
        taken.append(await once())
    return statistics.median(taken)


async def measure(contestants: Sequence[Contestant], plan: Plan) -> Result:
    """Seconds per call. All contestants are set up, warmed with one turn that is thrown away, then measured in turns."""
    result = Result()
    async with AsyncExitStack() as stack:
        running: dict[str, Once] = {}
        for contestant in contestants:
            try:
                running[contestant.name] = await stack.enter_async_context(contestant.opened())
            except Unavailable as error:
                result.missing[contestant.name] = str(error)
        for number in range(plan.turns + 1):
            for name, once in running.items():
                seconds = await _turn(once, plan)
                if number:
                    result.turns.setdefault(name, []).append(seconds)
    return result

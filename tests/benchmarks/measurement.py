"""Measures candidates in rounds: A B C, A B C, ... Changes of the machine's speed then affect all of them equally."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field

#: Does the work once and returns its duration in seconds. Preparation before the clock starts is not included.
TimedCall = Callable[[], Awaitable[float]]

OURS = "ours"


class Unavailable(Exception):
    """A candidate or server cannot run on this machine; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A measured implementation. `opened()` is entered once; the call that it yields is measured repeatedly."""

    name: str
    opened: Callable[[], AbstractAsyncContextManager[TimedCall]]


@dataclass(frozen=True, slots=True)
class Plan:
    """Duration of a measurement. A round ends after `calls` calls or `seconds`, whichever is first, with at least one call.

    `full_size`: whether rows with large outputs use all of them instead of a part.
    `entries`: parts of the names of entries of a catalogue; only these are measured. Empty means all.
    """

    rounds: int = 9
    calls: int = 100
    seconds: float = 0.4
    full_size: bool = False
    entries: tuple[str, ...] = ()


@dataclass(slots=True)
class Result:
    """The values of each candidate, one per round, in the row's unit; `missing` has the reasons of those without values."""

    rounds: dict[str, list[float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def value(self, name: str) -> float | None:
        """Return the median over all rounds."""
        return statistics.median(self.rounds[name]) if name in self.rounds else None

    def ratio(self, reference: str, minus: str | None = None) -> float | None:
        """Divide our value by that of `reference` in each round; return the median.

        The value of `minus` is first subtracted from ours.
        """
        if OURS not in self.rounds or reference not in self.rounds:
            return None
        subtracted = self.rounds[minus] if minus in self.rounds else [0.0] * len(self.rounds[OURS])
        columns = zip(self.rounds[OURS], subtracted, self.rounds[reference], strict=True)
        ratios = [(ours - part) / other for ours, part, other in columns]
        return statistics.median(ratios)

    def each(self, convert: Callable[[float], float]) -> Result:
        """Return the result with all values converted."""
        return Result({name: [convert(value) for value in values] for name, values in self.rounds.items()}, self.missing)


def in_milliseconds(result: Result) -> Result:
    """Convert seconds per call to ms per call."""
    return result.each(lambda seconds: seconds * 1e3)


def in_megabytes_per_second(result: Result, size: int) -> Result:
    """Convert seconds per call, each of `size` bytes, to MB (10^6 bytes) per second."""
    return result.each(lambda seconds: size / seconds / 1e6)


def timed(call: Callable[[], Awaitable[str]], wanted: str) -> TimedCall:
    """Return a timed call that checks that its output contains `wanted`."""

    async def once() -> float:
        start = time.perf_counter()
        output = await call()
        seconds = time.perf_counter() - start
        assert wanted in output, output
        return seconds

    return once


async def _round(once: TimedCall, plan: Plan) -> float:
    taken: list[float] = []
    end = time.perf_counter() + plan.seconds
    while not taken or (len(taken) < plan.calls and time.perf_counter() < end):
        taken.append(await once())
    return statistics.median(taken)


async def measure(candidates: Sequence[Candidate], plan: Plan) -> Result:
    """Return seconds per call. All candidates are opened, run for one unmeasured round, and then measured in rounds."""
    result = Result()
    async with AsyncExitStack() as stack:
        running: dict[str, TimedCall] = {}
        for candidate in candidates:
            try:
                running[candidate.name] = await stack.enter_async_context(candidate.opened())
            except Unavailable as error:
                result.missing[candidate.name] = str(error)
        for number in range(plan.rounds + 1):
            for name, once in running.items():
                seconds = await _round(once, plan)
                if number:
                    result.rounds.setdefault(name, []).append(seconds)
    return result

"""Counts the operations and the memory of a computation, which do not depend on the machine and its load, unlike time.

A computation over hostile input is bounded if both are at most proportional to the size of the input.
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import ptyctl

_PACKAGE = str(Path(ptyctl.__file__).parent)
#: The larger of two sizes whose costs are compared, and their ratio: a linear cost grows by 16, a quadratic one by 256.
_LARGE, _RATIO = 16 * 1024, 16
_GROWTH = 64


@dataclass(frozen=True)
class Cost:
    """The executed lines of ptyctl's code, each iteration of a loop included, and the peak of the allocated bytes."""

    lines: int
    memory: int


class LineCount:
    """Counts the executed lines of this thread while it is entered, also over several turns of an event loop."""

    def __init__(self) -> None:
        self.lines = 0
        self._before: Any = None

    def __enter__(self) -> LineCount:
        self._before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._count if frame.f_code.co_filename.startswith(_PACKAGE) else None

    def _count(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.lines += event == "line"
        return self._count


def lines_of(computation: Callable[[], Any]) -> int:
    """Return the number of executed lines of a call."""
    with LineCount() as count:
        computation()
    return count.lines


def cost_of(computation: Callable[[], Any]) -> Cost:
    """Return the cost of a call."""
    lines = lines_of(computation)
    tracemalloc.start()
    try:
        computation()
        memory = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return Cost(lines, memory)


def assert_cost(computation: Callable[[], Any], size: int, *, lines_per_byte: float, memory_per_byte: float) -> None:
    """Check that the cost of a computation over `size` bytes is linear in them; small sizes count as 1 KiB."""
    cost, size = cost_of(computation), max(size, 1024)
    assert cost.lines <= lines_per_byte * size, f"{cost.lines / size:.1f} lines a byte"
    assert cost.memory <= memory_per_byte * size, f"{cost.memory / size:.1f} bytes of memory a byte"


def assert_linear(computation: Callable[[bytes], Any], unit: bytes, prefix: bytes = b"", largest: int = _LARGE) -> None:
    """Check that the cost of a computation over repetitions of a unit is linear, also within calls that count as one line.

    Compares the processor time of two sizes, which a loaded machine does not change; a cost below 10 ms passes. The time of the
    larger size is measured again only if it is too high.
    """

    def seconds(size: int) -> float:
        data = prefix + unit * (size // len(unit))
        gc.disable()
        try:
            started = time.thread_time()
            computation(data)
            return time.thread_time() - started
        finally:
            gc.enable()

    large = seconds(largest)
    if large > 0.01:
        small = min(seconds(largest // _RATIO) for _ in range(5))
        for _ in range(4):
            if large < _GROWTH * small:
                break
            large = min(large, seconds(largest))
        assert large < _GROWTH * small, f"{_RATIO} times the output costs {large / small:.0f} times as much"

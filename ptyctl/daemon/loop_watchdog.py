"""Watchdog of the daemon's event loop: counts and logs iterations that block all sessions for too long."""

from __future__ import annotations

import asyncio
import logging
import selectors
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

#: An iteration of the loop that takes longer is a stall (seconds).
STALL_S = 0.1
#: Number of calls in the log line, innermost first, without calls of the loop itself.
_CALLS = 4
_LOOP_PACKAGES = ("asyncio", "selectors")
_LOG = logging.getLogger(__name__)


class LoopWatchdog:
    """Measures each iteration of an event loop. A thread samples the stack during an iteration that takes too long.

    Attributes:
        stalls: number of iterations that took longer than the limit.
        longest_s: duration of the longest of them.
    """

    def __init__(self, stall_s: float = STALL_S) -> None:
        self.stalls = 0
        self.longest_s = 0.0
        self._stall_s = stall_s
        self._began: float | None = None
        self._sample: tuple[float, str] | None = None
        self._main = threading.get_ident()

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """Return an event loop that is watched, for the calling thread."""
        self._main = threading.get_ident()
        threading.Thread(target=self._watch, name="loop watchdog", daemon=True).start()
        return asyncio.SelectorEventLoop(_MeasuredSelector(self))

    @property
    def sampled(self) -> bool:
        """Whether the stack of the current iteration was sampled."""
        return self._sample is not None and self._sample[0] == self._began

    def iteration_began(self) -> None:
        """Record the start of an iteration: the loop has events or timers to process."""
        self._began = time.monotonic()

    def iteration_ended(self) -> None:
        """Record the end of an iteration: the loop is about to wait for events."""
        began, self._began = self._began, None
        if began is None or (duration := time.monotonic() - began) <= self._stall_s:
            return
        self.stalls += 1
        self.longest_s = max(self.longest_s, duration)
        call = self._sample[1] if self._sample is not None and self._sample[0] == began else "unknown"
        _LOG.warning("the event loop was blocked", extra={"ms": round(duration * 1000), "call": call})

    def _watch(self) -> None:
        while True:
            time.sleep(self._stall_s)
            began = self._began
            if began is not None and not self.sampled and time.monotonic() - began > self._stall_s:
                frame = sys._current_frames().get(self._main)
                self._sample = began, " < ".join(_calls(frame)) or "unknown"


class _MeasuredSelector(selectors.DefaultSelector):
    """The loop calls `select` once in each iteration, between two batches of callbacks."""

    def __init__(self, watchdog: LoopWatchdog) -> None:
        super().__init__()
        self._watchdog = watchdog

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._watchdog.iteration_ended()
        try:
            return super().select(timeout)
        finally:
            self._watchdog.iteration_began()


def _calls(frame: FrameType | None) -> Iterator[str]:
    """Yield the innermost calls as `module.function:line`."""
    found = 0
    while frame is not None and found < _CALLS:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _LOOP_PACKAGES:
            found += 1
            yield f"{module}.{frame.f_code.co_name}:{frame.f_lineno}"
        frame = frame.f_back

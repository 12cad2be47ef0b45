"""Wake-up signal for waiters on a session's output. Carries no data: a woken waiter re-reads the state it needs.

The waiters share one timer, and bytes wake the coalescing waiters in batches. asyncio's primitives do neither: each wait on an
`asyncio.Condition` with a timeout costs a timer and several loop iterations, too much for a command that takes 0.2 ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

#: Coalescing waiters are woken once per this many bytes: much more than the 64 KiB of overlap that a search repeats, and few
#: enough to be searched for a literal in the event loop.
COALESCE_BYTES = 896 * 1024
#: After this many loop iterations without a pause the output is a flood, which is checked at this interval (seconds).
FLOOD_ITERATIONS = 8
FLOOD_CHECK_S = 0.002
#: Number of waiters that are woken in one loop iteration.
_WAKES = 32


class CoalescedTimer:
    """Fires once at the earliest requested time, then is idle until the next request.

    A single request cannot be withdrawn, so the callback must check whether anything is due. A timer for each deadline would
    cost more than an occasional early call.
    """

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def at(self, when: float) -> None:
        """Fire no later than `when` on the loop's clock."""
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._fire)

    def stop(self) -> None:
        """Cancel all requests."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._callback()


class Signal:
    """Wakes all its waiters at each notification.

    There is no await between a waiter's check of the state and its wait, so no notification is lost.

    Received bytes wake a coalescing waiter only when `coalesce_bytes` have arrived or when two loop iterations brought none.
    Searching in a woken waiter therefore stays linear in the output, and a flood costs it little.
    """

    def __init__(self, coalesce_bytes: int = COALESCE_BYTES) -> None:
        #: True once two loop iterations brought no bytes, and none have arrived since.
        self.settled = False
        self._observer: Callable[[], None] | None = None
        self._observes_output = False
        self._waiting: dict[asyncio.Future[None], float] = {}
        self._coalescing: dict[asyncio.Future[None], float] = {}
        self._coalesce_bytes = coalesce_bytes
        self._loop = asyncio.get_running_loop()
        self._timer = CoalescedTimer(self._wake_due)
        self._received = 0
        self._received_at_wake = 0
        self._settling = False
        self._busy_iterations = 0

    def observe(self, observer: Callable[[], None] | None, *, output: bool = True) -> None:
        """Set the one callback that runs when coalescing waiters are woken, and when the channel has nothing more to read.

        It is called synchronously. None removes it. Without `output`, received bytes alone do not call it.
        """
        self._observer, self._observes_output = observer, output and observer is not None

    @property
    def observed(self) -> bool:
        """Whether a callback is set."""
        return self._observer is not None

    def notify(self) -> None:
        """Wake all waiters for a change other than received bytes."""
        if self._waiting:
            self._wake_all(self._waiting)
        if self._coalescing or self._observer is not None:
            self._wake_coalescing()

    def notify_received(self, nbytes: int) -> None:
        """Wake waiters for `nbytes` received bytes: plain waiters now, coalescing waiters after more bytes or a pause."""
        self._received += nbytes
        self.settled = False
        if self._waiting:
            self._wake_all(self._waiting)
        if self._coalescing or self._observes_output:
            if self._received - self._received_at_wake >= self._coalesce_bytes:
                self._wake_coalescing()
            elif not self._settling:
                self._settling = True
                self._loop.call_soon(self._check_settled, self._received)

    def notify_drained(self) -> None:
        """Call the observer of the output, because the channel has no more data to read."""
        if self._observer is not None and self._observes_output and not self.settled:
            self.settled = True
            self._observer()

    async def wait(self, until: float | None = None, *, coalesce: bool = False) -> None:
        """Return at the next notification, or when the loop's clock reaches `until`."""
        waiting = self._coalescing if coalesce else self._waiting
        future = self._loop.create_future()
        waiting[future] = inf if until is None else until
        if until is not None:
            self._timer.at(until)
        try:
            await future
        finally:
            waiting.pop(future, None)

    def request_settled(self) -> bool:
        """Return whether the output has settled. If not, wake the coalescing waiters once it has."""
        if not self.settled and not self._settling:
            self._settling = True
            self._loop.call_soon(self._check_settled, self._received)
        return self.settled

    def _check_settled(self, received: int, quiet_iterations: int = 0) -> None:
        """Run once per loop iteration, less often in a flood.

        Two iterations must bring nothing: one iteration runs its ready callbacks before it polls for input.
        """
        if self.settled and not self._coalescing:
            self._settling, self._busy_iterations = False, 0
        elif self._received != received:
            self._busy_iterations += 1
            if self._busy_iterations < FLOOD_ITERATIONS:
                self._loop.call_soon(self._check_settled, self._received)
            else:
                self._loop.call_later(FLOOD_CHECK_S, self._check_settled, self._received)
        elif quiet_iterations == 0:
            self._loop.call_soon(self._check_settled, received, 1)
        else:
            self._settling, self._busy_iterations = False, 0
            self.settled = True
            self._wake_coalescing()

    def _wake_coalescing(self) -> None:
        self._received_at_wake = self._received
        self._wake_all(self._coalescing)
        if self._observer is not None:
            self._observer()

    def _wake_all(self, waiting: dict[asyncio.Future[None], float]) -> None:
        futures = [*waiting]
        waiting.clear()
        self._wake_next(futures)

    def _wake_next(self, futures: list[asyncio.Future[None]]) -> None:
        """Wake some waiters now, and others in the next iterations of the loop, because each examines the output."""
        for future in futures[:_WAKES]:
            _wake(future)
        if len(futures) > _WAKES:
            self._loop.call_soon(self._wake_next, futures[_WAKES:])

    def _wake_due(self) -> None:
        now, next_due = self._loop.time(), inf
        for waiting in (self._waiting, self._coalescing):
            for future, until in list(waiting.items()):
                if until <= now:
                    _wake(future)
                    del waiting[future]
                else:
                    next_due = min(next_due, until)
        if next_due < inf:
            self._timer.at(next_due)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

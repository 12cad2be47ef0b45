"""Delivery of received bytes in pieces: expensive output of one far end does not block the event loop for the others."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from .errors import ReceiverFailed
from .receiver import Receiver, receiver_failed

#: How long one iteration of the event loop delivers (seconds).
DELIVERY_S = 0.002
#: Deliveries that take less time are counted in a later iteration, which saves a callback for each small read (seconds).
UNMEASURED_S = DELIVERY_S / 8
#: Size of a piece: that of a read from a PTY. Its control sequences take at most some milliseconds to process.
PIECE_BYTES = 4096
_ESC = b"\x1b"
clock = time.perf_counter


class OutputDelivery:
    """Delivers bytes to a receiver in order: at once, until this iteration of the event loop has delivered for `DELIVERY_S`.

    The rest follows in the next iterations. Bytes without control sequences are cheap and not divided.

    Args:
        pause, resume: stop and resume reading from the far end, so that the queue is bounded by the data already read.
        fail: called once if the receiver raises an exception; nothing is delivered afterwards.
    """

    def __init__(
        self,
        receiver: Receiver,
        pause: Callable[[], None],
        resume: Callable[[], None],
        fail: Callable[[ReceiverFailed], None],
    ) -> None:
        self._receiver = receiver
        self._pause = pause
        self._resume = resume
        self._fail = fail
        self._failed = False
        self._waiting: deque[memoryview] = deque()
        self._used_s = 0.0
        self._scheduled = False
        self._on_delivered: Callable[[], None] | None = None
        self._delivered = asyncio.Event()
        self._delivered.set()

    def deliver(self, data: bytes) -> None:
        """Deliver bytes, after all queued bytes."""
        if self._failed:
            return
        size = PIECE_BYTES if _ESC in data else len(data)
        pieces = memoryview(data)
        self._waiting.extend(pieces[begin : begin + size] for begin in range(0, len(data), size or 1))
        if self._delivered.is_set():
            self._deliver_slice()
            if self._waiting:
                self._delivered.clear()
                self._pause()

    def drained(self) -> None:
        """Report to the receiver that nothing more can be read now, unless bytes are queued."""
        if not self._waiting and not self._failed:
            try:
                self._receiver.drained()
            except Exception as error:  # noqa: BLE001 - a bug in the receiver
                self._end(error)

    def then(self, action: Callable[[], None]) -> None:
        """Call `action` once all bytes are delivered; at once if none are queued."""
        if self._delivered.is_set():
            action()
        else:
            self._on_delivered = action

    def discard(self) -> None:
        """Drop all queued bytes."""
        self._waiting.clear()
        self._on_delivered = None

    async def wait(self) -> None:
        """Wait until all bytes are delivered and the action set by `then` was called."""
        await self._delivered.wait()

    def _deliver_slice(self) -> None:
        """Deliver until the queue is empty or the time of this iteration is used up."""
        begin = clock() - self._used_s
        while self._waiting and self._used_s < DELIVERY_S:
            try:
                self._receiver.data_received(self._waiting.popleft())
            except Exception as error:  # noqa: BLE001 - a bug in the receiver: the session must not freeze
                self._end(error)
            self._used_s = clock() - begin
        if not self._scheduled and (self._waiting or self._used_s >= UNMEASURED_S):
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next_iteration)

    def _next_iteration(self) -> None:
        self._scheduled = False
        self._used_s = 0.0
        self._deliver_slice()
        if self._waiting or self._delivered.is_set():
            return
        action, self._on_delivered = self._on_delivered, None
        self._delivered.set()
        if action is not None:
            action()
        self._resume()

    def _end(self, error: Exception) -> None:
        self._waiting.clear()
        self._failed = True
        self._fail(receiver_failed(error))

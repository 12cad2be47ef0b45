"""Who a channel feeds. The shape is that of asyncio.BufferedProtocol: the receiver owns the buffer, so bytes can be read
straight into it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque

from .errors import ChannelError


class Receiver(ABC):
    """Takes what a channel receives, in order, in the event loop's thread. No method may block or raise."""

    @abstractmethod
    def get_buffer(self) -> memoryview:
        """A writable view of at least one byte, valid until the next `buffer_updated`."""

    @abstractmethod
    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` (at least 1) were written to the start of the last buffer."""

    @abstractmethod
    def channel_ended(self, reason: ChannelError) -> None:
        """No more bytes will come: ChannelEnded, ChannelClosed or ChannelBroken. Called exactly once, after the last byte."""

    def drained(self) -> None:
        """Nothing more is there to be read now. Not every channel can tell, and not every receiver wants to know."""
        return

    def data_received(self, data: bytes) -> None:
        """For channels whose library hands over bytes of its own: copies them in, as much as each buffer takes."""
        rest = memoryview(data)
        while rest:
            buffer = self.get_buffer()
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]
            self.buffer_updated(size)
            rest = rest[size:]


class QueueReceiver(Receiver):
    """A receiver to pull from, for tools and tests: `await receive()` gives the next bytes."""

    BUFFER_BYTES = 65536

    def __init__(self) -> None:
        self._buffer = bytearray(self.BUFFER_BYTES)
        self._chunks: deque[bytes] = deque()
        self._reason: ChannelError | None = None
        self._arrived = asyncio.Event()

    def get_buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self._chunks.append(bytes(self._buffer[:nbytes]))
        self._arrived.set()

    def channel_ended(self, reason: ChannelError) -> None:
        self._reason = reason
        self._arrived.set()

    async def receive(self) -> bytes:
        """The next bytes, never empty.

        Raises:
            ChannelEnded, ChannelClosed, ChannelBroken: after the last byte, each time.
        """
        while not self._chunks:
            if self._reason is not None:
                raise self._reason
            self._arrived.clear()
            await self._arrived.wait()
        return self._chunks.popleft()

    async def receive_until(self, wanted: bytes) -> bytes:
        """Everything up to the first chunk after which `wanted` has been seen."""
        seen = b""
        while wanted not in seen:
            seen += await self.receive()
        return seen

"""The consumer of a channel's bytes. Like asyncio.BufferedProtocol, a receiver owns the buffer that the channel reads into."""

from __future__ import annotations

import asyncio
import logging
import traceback
from abc import ABC, abstractmethod
from collections import deque
from pathlib import PurePath

from .errors import ChannelError, ReceiverFailed

_LOG = logging.getLogger(__name__)


class Receiver(ABC):
    """Receives a channel's bytes in order, in the thread of the event loop. No method may block or raise.

    An exception is a bug. It is logged and ends the channel with `ReceiverFailed`.
    """

    @abstractmethod
    def get_buffer(self) -> memoryview:
        """Return a writable view of at least one byte; it must stay valid until the next `buffer_updated`."""

    @abstractmethod
    def buffer_updated(self, nbytes: int) -> None:
        """Process the first `nbytes` (at least 1) bytes of the buffer, which the channel has just written."""

    @abstractmethod
    def channel_ended(self, reason: ChannelError) -> None:
        """Handle the end of the channel: ChannelEnded, ChannelClosed, ChannelBroken or ReceiverFailed.

        Called once, after the last byte.
        """

    def drained(self) -> None:
        """Handle an empty receive buffer of the kernel: nothing more can be read now. Optional; not every channel can detect
        it."""
        return

    def data_received(self, data: bytes | memoryview) -> None:
        """Copy `data` through the buffer. For channels whose library delivers bytes objects."""
        rest = memoryview(data)
        while rest:
            buffer = self.get_buffer()
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]
            self.buffer_updated(size)
            rest = rest[size:]


def receiver_failed(error: Exception) -> ReceiverFailed:
    """Log an exception of a receiver; return the reason for the channel's end. Both omit its text, which may hold output."""
    _log_failure("output cannot be processed", error)
    return ReceiverFailed(
        f"internal error in ptyctl ({type(error).__qualname__}): the output could not be processed",
        hint="open the session again; the server's log has the error",
    )


def end_receiver(receiver: Receiver, reason: ChannelError) -> None:
    """Report the end of the channel to its receiver. An exception is logged, so that the channel can be closed."""
    try:
        receiver.channel_ended(reason)
    except Exception as error:  # noqa: BLE001 - a bug in the receiver
        _log_failure("end of the output cannot be processed", error)


def _log_failure(event: str, error: Exception) -> None:
    frames = [
        f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
    ]
    _LOG.error(event, extra={"error": type(error).__qualname__, "frames": frames})


class QueueReceiver(Receiver):
    """A receiver with a pull interface: `await receive()` returns the next bytes. Its queue is unbounded."""

    BUFFER_BYTES = 65536

    def __init__(self) -> None:
        self._buffer = bytearray(self.BUFFER_BYTES)
        self._chunks: deque[bytes] = deque()
        self._reason: ChannelError | None = None
        self._changed = asyncio.Event()

    def get_buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self._chunks.append(bytes(self._buffer[:nbytes]))
        self._changed.set()

    def channel_ended(self, reason: ChannelError) -> None:
        self._reason = reason
        self._changed.set()

    async def receive(self) -> bytes:
        """Return the next bytes, at least one.

        Raises:
            ChannelEnded, ChannelClosed, ChannelBroken: there are no more bytes; raised by every further call.
        """
        while not self._chunks:
            if self._reason is not None:
                raise self._reason
            self._changed.clear()
            await self._changed.wait()
        return self._chunks.popleft()

    async def receive_until(self, wanted: bytes) -> bytes:
        """Return all bytes up to and including the first chunk that completes `wanted`."""
        received = b""
        while wanted not in received:
            received += await self.receive()
        return received

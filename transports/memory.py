"""A scripted channel for tests: what is written is answered by a function, and the script may speak by itself."""

from __future__ import annotations

from collections.abc import Callable

from .channel import Channel, ExitStatus
from .errors import ChannelClosed, ChannelEnded, ChannelError, Unsupported
from .receiver import Receiver
from .waiting import Waiters


class MemoryChannel(Channel):
    """`on_write(data)` returns what the far end answers. `written` is all that was taken; `capacity` is how many bytes are
    taken before `write` returns 0, until `unblock`."""

    def __init__(self, on_write: Callable[[bytes], bytes] = lambda data: b"", *, fail: ChannelError | None = None) -> None:
        self.written = bytearray()
        self.writes: list[bytes] = []
        self.sizes: list[tuple[int, int]] = []
        self.breaks: list[int] = []
        self.capacity: int | None = None
        self._on_write = on_write
        self._fail = fail
        self._receiver: Receiver | None = None
        self._reason: ChannelError | None = None
        self._waiters = Waiters()

    async def open(self, receiver: Receiver) -> None:
        if self._fail is not None:
            raise self._fail
        self._receiver = receiver

    def feed(self, data: bytes) -> None:
        """The far end says something."""
        assert self._receiver is not None
        self._receiver.data_received(data)

    def end(self, reason: ChannelError | None = None, status: ExitStatus | None = None) -> None:
        """The far end ends the channel, in order unless a reason is given."""
        if self._reason is None:
            self.exit_status = status
            self._reason = reason or ChannelEnded("the far end closed the channel")
            self._waiters.wake()
            if self._receiver is not None:
                self._receiver.channel_ended(self._reason)

    def unblock(self) -> None:
        self.capacity = None
        self._waiters.wake()

    def write(self, data: bytes) -> int:
        if self._reason is not None:
            raise self._reason
        if self.capacity is not None:
            data = data[: self.capacity]
            self.capacity -= len(data)
        if data:
            self.written += data
            self.writes.append(data)
            answer = self._on_write(data)
            if answer:
                self.feed(answer)
        return len(data)

    async def drain(self) -> None:
        if self._reason is None and self.capacity == 0:
            await self._waiters.wait()
        if self._reason is not None:
            raise self._reason

    def resize(self, cols: int, rows: int) -> None:
        if not self.pty_enabled:
            raise Unsupported("this channel has no terminal to resize")
        self.sizes.append((cols, rows))

    async def send_break(self, duration_ms: int = 250) -> None:
        self.breaks.append(duration_ms)

    async def close(self, *, force: bool = False) -> None:
        self.end(ChannelClosed("the session was closed from this side"))

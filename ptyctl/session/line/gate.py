"""The one gate that all input passes, chunk by chunk, at the moment it goes to the transport (design, section 7)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.session import Pace
from ptyctl.core.lease import Leases
from transports.channel import Channel
from transports.errors import ChannelError

from .errors import from_channel
from .pulse import Pulse

#: What goes to the transport in one go: an interrupt never waits behind more.
CHUNK_BYTES = 4096
#: On a console, whose far side may buffer a line or less, and how long it gets to show that it took it.
PACED_CHUNK_BYTES = 128
PACE_S = 0.05
#: What one piece is worth where a pace is set.
PACED_PIECE_S = 0.1
#: So often the lease is looked at while a far end takes nothing.
RECHECK_S = 0.25

_NEWLINE = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Writer:
    """Who types: a caller's task, or the session itself (login, pager keys), which needs no lease.

    What is `sensitive` is recorded with its length only. `deadline` is on the loop's clock: what the far end has not taken by
    then is not sent.
    """

    task_id: str | None = None
    system: bool = False
    sensitive: bool = False
    deadline: float | None = None


SYSTEM = Writer(system=True)
SECRETLY = Writer(system=True, sensitive=True)


class Gate:
    """Writes are whole: one ends before the next begins, in the order in which they came. Interrupts overtake them."""

    def __init__(self, leases: Leases, channel: Callable[[], Channel], received: Pulse, console: bool, paced: bool) -> None:
        self.bytes_sent = 0
        self._leases = leases
        self._channel = channel
        self._received = received
        self._console = console
        self._paced = paced
        self._order = asyncio.Lock()
        self._front: _Outgoing | None = None
        self._rest: asyncio.Future[None] | None = None
        #: How fast the line may be typed at, where it would lose what comes faster.
        self.pace: Pace | None = None
        self._free_at = 0.0
        self.on_secret: Callable[[bytes], None] = lambda data: None
        self.on_input: Callable[[Writer, bytes, bool], None] = lambda writer, data, secret: None

    def check(self, writer: Writer) -> int | None:
        """The fence of the writer's lease, or None where it needs none.

        Raises:
            PtyctlError: LOCKED, LOCK_REQUIRED, REMOTE_CLOSED, ALREADY_CLOSED.
        """
        self._channel()
        if writer.system:
            return None
        return self._leases.check(writer.task_id, self._console, asyncio.get_running_loop().time())

    async def type(self, text: str, writer: Writer) -> int:
        """Types text, each newline of any kind as one Enter. Returns how many bytes of its UTF-8 went out."""
        return await self._write_all(_typed(text, self._chunk_bytes(writer)), writer)

    async def write(self, data: bytes, writer: Writer) -> int:
        """Writes bytes as they are. Returns how many went out: all of them."""
        size = self._chunk_bytes(writer)
        pieces = (_Piece(data[begin : begin + size], 0, 0) for begin in range(0, len(data), size))
        return await self._write_all(pieces, writer)

    async def interrupt(self, data: bytes, writer: Writer) -> int:
        """Writes a few bytes at once, before all that waits."""
        self.check(writer)
        await self._send(_Outgoing(data, urgent=True), writer, None)
        return len(data)

    async def answer(self, data: bytes) -> None:
        """Writes a terminal's own reply: before what waits for its turn, but never into what has to go in one step."""
        await self._send(_Outgoing(data), SYSTEM, None)

    def type_now(self, text: str, writer: Writer) -> None:
        """Types text in this very step, before all that waits; what the channel does not take now goes next, in order.

        Raises:
            PtyctlError: LOCKED, LOCK_REQUIRED, REMOTE_CLOSED, ALREADY_CLOSED; then nothing was typed.
        """
        self.check(writer)
        out = _Outgoing(b"".join(piece.data + self._channel().enter * piece.enters for piece in _typed(text, CHUNK_BYTES)))
        try:
            self._hand_over(out, writer)
        except ChannelError as error:
            raise from_channel(error) from None
        if out.sent < len(out.data):
            self._front = out
            self._rest = asyncio.ensure_future(self._send_front(out, writer))

    async def _send_front(self, out: _Outgoing, writer: Writer) -> None:
        """The rest of what had to go at once: until it is gone only an interrupt passes it."""
        with suppress(PtyctlError):  # the lock was lost, or the far end is gone: the rest is dropped
            try:
                await self._send(out, writer, None)
            finally:
                self._front = None

    async def send_break(self, writer: Writer) -> None:
        self.check(writer)
        try:
            await self._channel().send_break()
        except ChannelError as error:
            raise from_channel(error) from None

    async def _write_all(self, pieces: Iterator[_Piece], writer: Writer) -> int:
        fence = self.check(writer)
        written = 0
        await self._turn(writer)
        try:
            for number, piece in enumerate(pieces):
                if number and self._paced:
                    await self._received.wait(asyncio.get_running_loop().time() + PACE_S)
                if self._free_at:
                    await self._free(writer)
                out = _Outgoing(piece.data + self._channel().enter * piece.enters)
                try:
                    await self._send(out, writer, fence)
                except PtyctlError as error:
                    raise _cut_short(error, written + min(out.sent, len(piece.data))) from None
                self._take_time(out, piece)
                written += len(piece.data) + piece.newline_bytes
        finally:
            self._order.release()
        return written

    def _chunk_bytes(self, writer: Writer) -> int:
        """At a pace, a tenth of a second's worth: an interrupt waits behind no more. A secret is whole, as its echo is looked
        for whole."""
        size = PACED_CHUNK_BYTES if self._paced else CHUNK_BYTES
        rate = self.pace.chars_per_s if self.pace is not None else None
        if rate is None or writer.sensitive or self._channel().echo_off:
            return size
        return max(1, min(size, int(rate * PACED_PIECE_S)))

    def _take_time(self, out: _Outgoing, piece: _Piece) -> None:
        """The line is busy with a piece for as long as its pace says."""
        if self.pace is not None:
            typing_s = len(out.data) / self.pace.chars_per_s if self.pace.chars_per_s is not None else 0.0
            resting_s = piece.enters * (self.pace.line_delay_ms or 0) / 1000
            self._free_at = max(self._free_at, asyncio.get_running_loop().time()) + typing_s + resting_s

    async def _free(self, writer: Writer) -> None:
        """Until the line has taken what was typed before; it is given up where it would take longer than the writer waits."""
        if writer.deadline is not None and self._free_at > writer.deadline:
            raise _too_slow()
        wait_s = self._free_at - asyncio.get_running_loop().time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    async def _send(self, out: _Outgoing, writer: Writer, fence: int | None) -> None:
        """Every byte passes here: the lease is looked at each time before bytes go out."""
        try:
            while out.sent < len(out.data):
                if self.check(writer) != fence and fence is not None:
                    raise PtyctlError(
                        ErrorCode.LOCK_LOST, "the lock was lost and taken again in between; look before writing on"
                    )
                if writer.deadline is not None and asyncio.get_running_loop().time() >= writer.deadline:
                    raise _too_slow()
                if self._front is None or self._front is out or out.urgent:
                    self._hand_over(out, writer)
                else:
                    await asyncio.sleep(0)
                if out.sent < len(out.data):
                    await self._room()
        except ChannelError as error:
            raise from_channel(error) from None

    def _hand_over(self, out: _Outgoing, writer: Writer) -> None:
        """What the channel takes now. Whether it is secret is asked before: a program that has it may show its echo again."""
        channel = self._channel()
        secret = writer.sensitive or (channel.echo_off and not writer.system)  # the session says itself what is a secret
        rest = out.data[out.sent :]
        if secret and not out.secret:
            out.secret = True
            self.on_secret(rest)
        taken = channel.write(rest)
        self.bytes_sent += taken
        out.sent += taken
        if taken:
            self.on_input(writer, rest[:taken], secret)

    async def _turn(self, writer: Writer) -> None:
        """Until all that came before has been written."""
        if writer.deadline is None:
            await self._order.acquire()
            return
        try:
            async with asyncio.timeout_at(writer.deadline):
                await self._order.acquire()
        except TimeoutError:
            raise _too_slow() from None

    async def _room(self) -> None:
        """Until the channel takes more, or it is time to look at the lease again: it can change hands meanwhile."""
        draining = asyncio.ensure_future(self._channel().drain())
        try:
            await asyncio.wait({draining}, timeout=RECHECK_S)  # no asyncio.timeout: see eager
            if draining.done():
                draining.result()
        finally:
            draining.cancel()


@dataclass(slots=True)
class _Outgoing:
    """Bytes on their way to the transport, of which `sent` are there; `secret` once their echo is to be masked, `urgent` for
    an interrupt."""

    data: bytes
    sent: int = 0
    secret: bool = False
    urgent: bool = False


class _Piece(NamedTuple):
    """Bytes, then so many Enters, which were `newline_bytes` of the caller's text."""

    data: bytes
    enters: int
    newline_bytes: int


def _typed(text: str, size: int) -> Iterator[_Piece]:
    """Pieces of at most `size` bytes, each at most one line, so that a paced console takes them line by line."""
    begin = 0
    lines: list[tuple[str, int]] = []
    for found in _NEWLINE.finditer(text):
        lines.append((text[begin : found.start()], len(found[0])))
        begin = found.end()
    if begin < len(text):
        lines.append((text[begin:], 0))
    for line, newline in lines:
        data = line.encode("utf-8", "surrogateescape")
        while len(data) > size:
            yield _Piece(data[:size], 0, 0)
            data = data[size:]
        yield _Piece(data, 1 if newline else 0, newline)


def _too_slow() -> PtyctlError:
    return PtyctlError(
        ErrorCode.IO_ERROR,
        "the far end takes no more input now, and the rest was not sent; read what it does, and write on when it takes some",
        {"bytes_written": 0},
    )


def _cut_short(error: PtyctlError, written: int) -> PtyctlError:
    """An error in the middle says how much went out; a lock that was there at the start has then been lost."""
    if not written:
        return error
    lost = error.code in (ErrorCode.LOCKED, ErrorCode.LOCK_REQUIRED, ErrorCode.LOCK_LOST)
    code = ErrorCode.LOCK_LOST if lost else error.code
    told = f"the lock was lost after {written} bytes, the rest was not sent: {error.message}" if lost else error.message
    return PtyctlError(code, told, {**error.details, "bytes_written": written})

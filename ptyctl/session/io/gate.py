"""The gate: all input passes it chunk by chunk, and the writer's lease is checked before each chunk goes to the channel."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.api.session import Pace
from ptyctl.core.lease import Leases, Owner
from ptyctl.core.unfinished_line import UnfinishedLine
from ptyctl.session.clients import current_principal
from transports.channel import Channel
from transports.errors import ChannelError

from .channel_errors import from_channel
from .signal import Signal

#: Largest write to the channel: an interrupt waits for no more than this.
CHUNK_BYTES = 4096
#: Other tasks run after this number of writes to a channel that accepts everything.
BATCH_PIECES = 64
#: Largest write to a console, whose input buffer may hold one line or less, and the pause that lets it echo (seconds).
PACED_CHUNK_BYTES = 128
PACE_S = 0.05
#: With a configured rate, one piece takes this long to transmit (seconds).
PACED_PIECE_S = 0.1
#: How often the lease is checked while the far end accepts no input (seconds).
RECHECK_S = 0.25

#: A line and its newline of any kind; the last match is empty.
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")


@dataclass(frozen=True, slots=True)
class Writer:
    """Who types: a caller's task, or the session itself (login, pager keys), which needs no lease.

    Attributes:
        principal: that of the caller.
        command: it types the command of a run, which must begin in an empty line.
        sensitive: record only the length of what is typed.
        deadline: on the loop's clock; input that the far end has not accepted by then is dropped.
    """

    task_id: str | None = None
    system: bool = False
    command: bool = False
    sensitive: bool = False
    deadline: float | None = None
    principal: str = field(default_factory=lambda: current_principal().name)

    @property
    def owner(self) -> Owner:
        """The owner of locks that it acts for."""
        return Owner(self.principal, self.task_id or "")


SYSTEM = Writer(system=True)
SYSTEM_SECRET = Writer(system=True, sensitive=True)


class Gate:
    """Serialises writes: each is sent whole, in the order of the calls. Only interrupts are sent before waiting writes."""

    def __init__(
        self,
        leases: Leases,
        channel: Callable[[], Channel],
        received: Signal,
        *,
        console: bool,
        paced: bool,
        raw_size: Callable[[], int] = lambda: 0,
        on_input: Callable[[Writer, bytes, bool], None] = lambda writer, data, secret: None,
        on_secret: Callable[[bytes], None] = lambda data: None,
        check_recorded: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the gate.

        Args:
            channel: returns the open channel, or raises PtyctlError.
            received: signals received output; a paced write waits for it between pieces.
            console: whether every write needs a lease.
            paced: whether to send small pieces with a pause between them.
            raw_size: returns the size of the output so far.
            on_input: called with the writer, the bytes and whether they are secret, after the channel took them.
            on_secret: called with secret bytes before they are sent, so that their echo can be masked.
            check_recorded: raises PtyctlError while a console takes no input because it cannot be recorded.
        """
        self.bytes_sent = 0
        #: Typing rate of a line that loses faster input, or None.
        self.pace: Pace | None = None
        #: What users typed since the last Enter. Replies to queries, pager keys and logins are no part of it.
        self.unfinished_line = UnfinishedLine()
        self._leases = leases
        self._channel = channel
        self._received = received
        self._console = console
        self._paced = paced
        self._raw_size = raw_size
        self._on_input = on_input
        self._on_secret = on_secret
        self._check_recorded = check_recorded
        self._now = asyncio.get_running_loop().time
        self._order = asyncio.Lock()
        self._front: _Outgoing | None = None
        self._front_task: asyncio.Future[None] | None = None
        self._line_free_at = 0.0

    def check(self, writer: Writer) -> int | None:
        """Return the fencing token of the writer's lease, or None if it needs no lease.

        Raises:
            PtyctlError: LOCKED, LOCK_REQUIRED, REMOTE_CLOSED, ALREADY_CLOSED; IO_ERROR if the input cannot be recorded.
        """
        self._channel()
        if writer.system or not (self._console or self._leases.any):
            return None
        self._check_recorded()
        return self._leases.check(writer.owner, self._console, self._now())

    async def type(self, text: str, writer: Writer) -> int:
        """Type text, each newline of any kind as one Enter. Return how many bytes of its UTF-8 were sent."""
        return await self._write_all(_pieces(text, self._chunk_bytes(writer)), writer)

    async def write(self, data: bytes, writer: Writer) -> int:
        """Write bytes unchanged. Return their number."""
        size = self._chunk_bytes(writer)
        pieces = (_Piece(data[begin : begin + size], 0, 0) for begin in range(0, len(data), size))
        return await self._write_all(pieces, writer)

    async def interrupt(self, data: bytes, writer: Writer) -> int:
        """Write a few bytes before all waiting writes."""
        self.check(writer)
        await self._send(_Outgoing(data, urgent=True), writer, None)
        return len(data)

    async def reply(self, data: bytes) -> None:
        """Write the terminal's reply to a query: before waiting writes, but never inside a `type_now`."""
        await self._send(_Outgoing(data), SYSTEM, None)

    def type_now(self, text: str, writer: Writer) -> None:
        """Type text synchronously, before all waiting writes. What the channel does not take at once is sent next.

        Raises:
            PtyctlError: LOCKED, LOCK_REQUIRED, REMOTE_CLOSED, ALREADY_CLOSED; nothing was typed then.
        """
        self.check(writer)
        out = _Outgoing(b"".join(piece.data + self._channel().enter * piece.enters for piece in _pieces(text, CHUNK_BYTES)))
        try:
            self._hand_over(out, writer)
        except ChannelError as error:
            raise from_channel(error) from None
        if out.sent < len(out.data):
            self._front = out
            self._front_task = asyncio.ensure_future(self._send_front(out, writer))

    async def send_break(self, writer: Writer) -> None:
        """Send a break condition.

        Raises:
            PtyctlError: as `check`; UNSUPPORTED.
        """
        self.check(writer)
        try:
            await self._channel().send_break()
        except ChannelError as error:
            raise from_channel(error) from None

    async def _send_front(self, out: _Outgoing, writer: Writer) -> None:
        """Send the rest of a `type_now`. Until it is sent, only interrupts are written."""
        with suppress(PtyctlError):  # the lock was lost or the channel has ended: the rest is dropped
            try:
                await self._send(out, writer, None)
            finally:
                self._front = None

    async def _write_all(self, pieces: Iterator[_Piece], writer: Writer) -> int:
        fence = self.check(writer)
        written = 0
        await self._acquire_order(writer)
        try:
            if writer.command and not self.unfinished_line.empty:
                message = "another task typed into the line at the same moment; nothing was typed"
                raise PtyctlError(ErrorCode.BUSY, message, {"reason": "half_typed"}, hint=NextStep.CLEAR_LINE)
            for number, piece in enumerate(pieces):
                if number and self._paced:
                    await self._received.wait(self._now() + PACE_S)
                elif number % BATCH_PIECES == BATCH_PIECES - 1:
                    await asyncio.sleep(0)
                if self._line_free_at:
                    await self._wait_for_line(writer)
                out = _Outgoing(piece.data + self._channel().enter * piece.enters)
                try:
                    await self._send(out, writer, fence)
                except PtyctlError as error:
                    raise self._with_bytes_written(error, written + min(out.sent, len(piece.data)), writer) from None
                self._reserve_line(out, piece)
                written += len(piece.data) + piece.newline_bytes
        finally:
            self._order.release()
        return written

    def _chunk_bytes(self, writer: Writer) -> int:
        """Return the largest piece. A secret is sent whole, because its echo is matched whole."""
        size = PACED_CHUNK_BYTES if self._paced else CHUNK_BYTES
        rate = self.pace.chars_per_s if self.pace is not None else None
        if rate is None or writer.sensitive or self._channel().echo_off:
            return size
        return max(1, min(size, int(rate * PACED_PIECE_S)))

    def _reserve_line(self, out: _Outgoing, piece: _Piece) -> None:
        """Account for the time that a piece takes at the configured pace."""
        if self.pace is not None:
            typing_s = len(out.data) / self.pace.chars_per_s if self.pace.chars_per_s is not None else 0.0
            line_delay_s = piece.enters * (self.pace.line_delay_ms or 0) / 1000
            self._line_free_at = max(self._line_free_at, self._now()) + typing_s + line_delay_s

    async def _wait_for_line(self, writer: Writer) -> None:
        """Wait until the previous piece is transmitted, unless that is after the writer's deadline."""
        if writer.deadline is not None and self._line_free_at > writer.deadline:
            raise _not_accepted()
        wait_s = self._line_free_at - self._now()
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    async def _send(self, out: _Outgoing, writer: Writer, fence: int | None) -> None:
        """Send all bytes, checking the lease before each chunk."""
        try:
            while out.sent < len(out.data):
                if self.check(writer) != fence and fence is not None:
                    raise self._lock_lost(writer)
                if writer.deadline is not None and self._now() >= writer.deadline:
                    raise _not_accepted()
                if self._front is None or self._front is out or out.urgent:
                    self._hand_over(out, writer)
                else:
                    await asyncio.sleep(0)
                if out.sent < len(out.data):
                    await self._wait_for_room()
        except ChannelError as error:
            raise from_channel(error) from None

    def _hand_over(self, out: _Outgoing, writer: Writer) -> None:
        """Give the channel what it takes now. ECHO is read first: with the input, the program may turn it on again."""
        channel = self._channel()
        secret = writer.sensitive or (channel.echo_off and not writer.system)  # the session marks its own secrets
        rest = out.data[out.sent :]
        if secret and not out.secret:
            out.secret = True
            self._on_secret(rest)
        raw = self._raw_size()
        taken = channel.write(rest)
        self.bytes_sent += taken
        out.sent += taken
        if taken:
            if not writer.system:
                self.unfinished_line.typed(rest[:taken], writer.owner, raw, command=writer.command)
            self._on_input(writer, rest[:taken], secret)

    def _lock_lost(self, writer: Writer) -> PtyctlError:
        end = self._leases.end_of(writer.owner, self._now())
        message = f"the lock {end.describe(self._now())}, during the write"
        return PtyctlError(ErrorCode.LOCK_LOST, message, {"reason": end.reason}, hint=NextStep.READ_STATE)

    def _with_bytes_written(self, error: PtyctlError, written: int, writer: Writer) -> PtyctlError:
        """Return the error of an incomplete write. A lock error after the first byte becomes LOCK_LOST."""
        if not written and error.code is not ErrorCode.LOCK_LOST:
            return error
        if error.code in (ErrorCode.LOCKED, ErrorCode.LOCK_REQUIRED, ErrorCode.LOCK_LOST):
            lost = self._lock_lost(writer)
            message = f"{lost.message}: {written} bytes were sent, and the rest was not sent"
            error = PtyctlError(lost.code, message, {**error.details, **lost.details}, hint=error.hint)
        return PtyctlError(error.code, error.message, {**error.details, "bytes_written": written}, hint=error.hint)

    async def _acquire_order(self, writer: Writer) -> None:
        """Wait for all earlier writes."""
        if writer.deadline is None or not self._order.locked():
            await self._order.acquire()
            return
        try:
            async with asyncio.timeout_at(writer.deadline):
                await self._order.acquire()
        except TimeoutError:
            raise _not_accepted() from None

    async def _wait_for_room(self) -> None:
        """Wait until the channel takes more input, or until the lease must be checked again."""
        draining = asyncio.ensure_future(self._channel().drain())
        try:
            await asyncio.wait({draining}, timeout=RECHECK_S)  # a run may begin outside its task, which forbids asyncio.timeout
            if draining.done():
                draining.result()
        finally:
            draining.cancel()


@dataclass(slots=True)
class _Outgoing:
    """Bytes on their way to the channel.

    Attributes:
        sent: how many of them the channel took.
        secret: their echo is masked.
        urgent: an interrupt.
    """

    data: bytes
    sent: int = 0
    secret: bool = False
    urgent: bool = False


class _Piece(NamedTuple):
    """Bytes followed by a number of Enters, which were `newline_bytes` of the caller's text."""

    data: bytes
    enters: int
    newline_bytes: int


def _pieces(text: str, size: int) -> Iterator[_Piece]:
    """Split text into pieces of at most `size` bytes and at most one line, so that a paced console gets it line by line."""
    for line, newline in _LINE.findall(text):
        data = line.encode("utf-8", "surrogateescape")
        while len(data) > size:
            yield _Piece(data[:size], 0, 0)
            data = data[size:]
        if data or newline:
            yield _Piece(data, 1 if newline else 0, len(newline))


def _not_accepted() -> PtyctlError:
    return PtyctlError(
        ErrorCode.IO_ERROR,
        "the far end accepts no more input; the rest was not sent",
        {"bytes_written": 0},
        hint="read its output, and continue to write when it accepts input",
    )

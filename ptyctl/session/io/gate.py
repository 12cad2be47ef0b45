"""The gate: the only path of input to the channel. It checks the writer's lease before each chunk."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.api.policy import PendingApproval, PolicyWarning
from ptyctl.api.session import Pace
from ptyctl.core.control_sequences import ETX, INTERRUPT_BYTES, NAK, PASTE_BEGIN, PASTE_END
from ptyctl.core.lease import Leases, Owner
from ptyctl.core.principal import Principal
from ptyctl.core.shells import shell_dialect
from ptyctl.core.unfinished_line import UnfinishedLine
from ptyctl.policy.rules import Decision, Verdict
from ptyctl.session.clients import current_principal
from ptyctl.trace import current_trace_id
from transports.channel import Channel
from transports.errors import ChannelError, WriteRightEnded

from .errors import from_channel
from .signal import Signal
from .time_slice import TimeSlice

#: Largest write to the channel: an interrupt waits for no more than this.
CHUNK_BYTES = 4096
#: Number of writes, or of bytes, to a channel that accepts everything, after which the gate yields to the event loop.
_BATCH_PIECES = 16
_BATCH_BYTES = 4096
#: Largest part of a write with keys that is sent at once: interpreting keys takes up to 10 µs for each byte.
_INSPECTED_BYTES = 512
#: Largest write to a console, whose input buffer may hold one line or less, and the pause that lets it echo (seconds).
PACED_CHUNK_BYTES = 128
PACE_S = 0.05
#: Transmission time of one piece at a configured typing rate (seconds).
PACED_PIECE_S = 0.1
#: Interval at which the lease is checked while the far end accepts no input (seconds).
RECHECK_S = 0.25

#: CR, LF and Ctrl-D: the terminal driver in canonical mode passes on what precedes them.
_ENDS_IN_DRIVER = frozenset(b"\r\n\x04")
#: A line and its newline of any kind; the last match is empty.
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_PASTE = re.compile(f"({re.escape(PASTE_BEGIN.decode())}.*?{re.escape(PASTE_END.decode())})", re.DOTALL)


class Permit(Protocol):
    """An approval request for a text that is to be typed."""

    approval_id: str

    @property
    def state(self) -> str:
        """The state: `pending`, `approved`, `declined`, ..."""
        ...

    def pending(self) -> PendingApproval | None:
        """Return the reply field `approval` of a pending request; None otherwise."""
        ...

    def subscribe(self, callback: Callable[[], None]) -> object:
        """Call `callback` once the request is answered or has expired."""
        ...

    def set_stale(self, why: str) -> None:
        """End the request because the state that it is bound to has changed."""
        ...

    def withdraw(self, why: str) -> None:
        """End the request because no call waits for it."""
        ...


@dataclass(slots=True)
class Review:
    """The result of judging a writer's input: the last verdict, and the approval that the input waits for or has.

    `warned`: the last verdict that warns. `edited`: the approver has changed the text. `is_secret`: the text must not be
    shown. `is_for_program`: a command was judged as input of a program. `shell`: the dialect that it was judged for.
    """

    verdict: Verdict | None = None
    warned: Verdict | None = None
    permit: Permit | None = None
    edited: bool = False
    is_secret: bool = False
    is_for_program: bool = False
    shell: str | None = None
    _is_canonical_taken: bool = False

    def record(self, verdict: Verdict) -> None:
        """Record the verdict on a part of the input."""
        self.verdict, self._is_canonical_taken = verdict, False
        if verdict.decision is Decision.WARN:
            self.warned = verdict

    def record_reader(self, shell: str | None, *, is_program: bool) -> None:
        """Record what a command was judged for: a program, or a shell of a dialect, None if that is not known."""
        self.shell, self.is_for_program = shell, self.is_for_program or is_program

    def record_request(self, permit: Permit) -> None:
        """Record that the input waits for an approval."""
        self.permit = permit

    def record_approval(self, permit: Permit, *, edited: bool) -> None:
        """Record that the input is approved."""
        self.permit, self.edited = permit, edited

    def record_refusal(self, *, is_secret: bool) -> None:
        """Record that the text is denied, and whether it must not be shown."""
        self.is_secret = is_secret

    def take_canonical(self) -> str | None:
        """Return the canonical form that the last verdict judged; None if it was taken before."""
        if self.verdict is None or self._is_canonical_taken:
            return None
        self._is_canonical_taken = True
        return self.verdict.canonical

    def warning(self) -> PolicyWarning | None:
        """Return the reply field `policy`."""
        warned = self.warned
        return None if warned is None else PolicyWarning(rules=list(warned.rules), reason=warned.reason)


@dataclass(frozen=True, slots=True)
class Writer:
    """Sender of input: a caller's task, or the session itself (login, pager keys), which needs no lease.

    Attributes:
        by: the principal of the caller.
        command: the input is the command of a run, which must begin in an empty line. The policy has judged it already.
        judged: the input is a line, or keys for a program, that the policy has judged already.
        sensitive: record only the length of the input.
        erases: the owner of the refused line that the session deletes with the input.
        deadline: on the loop's clock; input that the far end has not accepted by then is dropped.
        trace_id: the trace id of the call.
        review: the result of judging the input.
    """

    task_id: str | None = None
    system: bool = False
    command: bool = False
    judged: Literal["line", "keys"] | None = None
    sensitive: bool = False
    erases: Owner | None = None
    deadline: float | None = None
    by: Principal = field(default_factory=current_principal)
    trace_id: str | None = field(default_factory=current_trace_id)
    review: Review = field(default_factory=Review)

    @property
    def principal(self) -> str:
        """The name of the principal."""
        return self.by.name

    @property
    def owner(self) -> Owner:
        """The lock owner for which the writer acts."""
        return Owner(self.by.name, self.task_id or "")


SYSTEM = Writer(system=True)
SYSTEM_SECRET = Writer(system=True, sensitive=True)


class Refusal(Exception):
    """Input that the policy does not allow.

    Attributes:
        error: the error for the caller.
        erase: the keys that delete the pending text at the far end.
    """

    def __init__(self, error: PtyctlError, erase: bytes) -> None:
        super().__init__(error.message)
        self.error = error
        self.erase = erase


class Split(NamedTuple):
    """A split of input before a key that may submit a line that was not judged.

    Attributes:
        size: number of bytes before the key.
        lines: number of lines that these bytes submit.
        key: size of the key in bytes; 0 if there is none.
    """

    size: int
    lines: int
    key: int


class Inspector(Protocol):
    """Judges the input of callers by the policy, except the commands of runs."""

    def awaits_prompt(self) -> bool:
        """Return whether a shell has sent its prompt mark, but has not shown the prompt yet."""
        ...

    async def prompt_shown(self) -> None:
        """Wait until the shell has shown the prompt whose mark it has sent. The wait is limited."""
        ...

    def sending(self, data: bytes) -> None:
        """Record the state of the far end before input is sent."""
        ...

    def typed(self, data: bytes, *, secret: bool = False) -> None:
        """Update the pending line with input that was sent."""
        ...

    def is_judged(self, data: bytes, writer: Writer) -> bool:
        """Return whether input must be judged before it is sent: it may submit a line, or a program may read single keys."""
        ...

    def check_held(self, data: bytes, writer: Writer) -> None:
        """Refuse input that continues a command without a refused line of the writer. Raises PtyctlError BUSY."""
        ...

    def asks_secret(self) -> bool:
        """Return whether a far end with unknown echo state asks for a password. Input to it is secret."""
        ...

    async def review(self, data: bytes, writer: Writer) -> int:
        """Judge a whole write before any of it is sent; return the number of its lines that were judged. Raises Refusal."""
        ...

    def review_now(self, data: bytes, writer: Writer) -> bool:
        """Judge a whole write. Return False if it is a password, which only a password prompt may receive. Raises Refusal."""
        ...

    def split(self, data: bytes, judged: int) -> Split:
        """Split input before the first key that may submit a line that was not judged. The first `judged` lines were judged."""
        ...

    async def admit(self, key: bytes, writer: Writer) -> None:
        """Judge the line that a key submits, before the key is sent. Raises Refusal."""
        ...

    def check_break(self, writer: Writer) -> None:
        """Judge a break condition. Raises PtyctlError POLICY_DENIED."""
        ...

    def line_replaced(self) -> None:
        """Clear the pending line before the command of a run is typed at an empty prompt."""
        ...

    def lose_line(self) -> None:
        """Mark the pending line as unknown after an incomplete command of a run, or after a break condition."""
        ...


class Gate:
    """Serialises writes: each is sent whole, in the order of the calls. Only interrupts overtake queued writes."""

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
        is_shown: Callable[[], bool] = lambda: True,
        check_recorded: Callable[[], None] = lambda: None,
        check_reserved: Callable[[], None] = lambda: None,
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
            is_shown: returns whether the terminal certainly shows what a user types now.
            check_recorded: raises PtyctlError while a console takes no input because it cannot be recorded.
            check_reserved: raises PtyctlError while the session itself types, for example during a login: input of a caller
                could then become part of a password.
        """
        self.bytes_sent = 0
        #: The size of the output before the input that was sent last.
        self.typed_raw = 0
        #: Whether the terminal certainly shows that input.
        self.typed_shown = True
        #: Typing rate for a far end that loses faster input; None for the default.
        self.pace: Pace | None = None
        #: Text that users typed since the last Enter, without replies to queries, pager keys and logins.
        self.unfinished_line = UnfinishedLine()
        self._leases = leases
        self._channel = channel
        self._received = received
        self._console = console
        self._paced = paced
        self._raw_size = raw_size
        self._on_input = on_input
        self._on_secret = on_secret
        self._is_shown = is_shown
        self._check_recorded = check_recorded
        self._check_reserved = check_reserved
        self._now = asyncio.get_running_loop().time
        self._order = asyncio.Lock()
        self._front: _Outgoing | None = None
        self._front_task: asyncio.Future[None] | None = None
        self._line_free_at = 0.0
        #: The program that got the last line end in canonical mode, and how often it had been woken before.
        self._line_end_sent_to: tuple[object, int | None] | None = None
        self._inspector: Inspector | None = None
        self._cuts = 0

    def set_pace(self, pace: Pace | None) -> None:
        """Set the typing rate of all further pieces."""
        self.pace = pace

    def restore(self, bytes_sent: int) -> None:
        """Set the number of bytes that earlier processes have sent."""
        self.bytes_sent = bytes_sent

    def inspect_with(self, inspector: Inspector) -> None:
        """Set the inspector that judges all further input of callers."""
        self._inspector = inspector

    def check(self, writer: Writer) -> int | None:
        """Return the fencing token of the writer's lease, or None if it needs no lease.

        Raises:
            PtyctlError: LOCKED, LOCK_REQUIRED, LOCK_LOST, REMOTE_CLOSED, ALREADY_CLOSED; IO_ERROR if the input cannot be
                recorded.
        """
        self._channel()
        if writer.system or not (self._console or self._leases.any):
            return None
        self._check_recorded()
        return self._leases.check(writer.owner, self._console, self._now())

    def _check_begin(self, writer: Writer) -> int | None:
        """Check the lease before the first byte of a write. Raises PtyctlError as `check`; BUSY while the session types."""
        fence = self.check(writer)
        if not (writer.system or writer.command):
            self._check_reserved()
        return fence

    async def type(self, text: str, writer: Writer, before: Callable[[], None] | None = None) -> int:
        """Type text; each newline (CR, LF or CR LF) becomes one Enter. Return the number of bytes of its UTF-8 sent.

        `before` is called directly before the first byte is sent.
        """
        size = self._chunk_bytes(writer)
        if writer.command and size == CHUNK_BYTES:
            pieces: Iterator[_Piece] = (piece for part in _PASTE.split(text) for piece in self._paste_or_lines(part, size))
        else:
            pieces = _pieces(text, size)
        return await self._write_all(pieces, writer, lambda: self._typed_bytes(text), before)

    async def write(self, data: bytes, writer: Writer) -> int:
        """Write bytes unchanged. Return the number of bytes sent."""
        size = self._chunk_bytes(writer)
        pieces = (_Piece(data[begin : begin + size], 0, 0) for begin in range(0, len(data), size))
        return await self._write_all(pieces, writer, lambda: data)

    async def interrupt(self, data: bytes, writer: Writer) -> int:
        """Write a few bytes ahead of all queued writes. Return their number."""
        self.check(writer)
        self._cuts += 1
        await self.send(_Outgoing(data, urgent=True), writer, None)
        if writer.system and self._inspector is not None:
            self._inspector.typed(data)
        return len(data)

    async def reply(self, data: bytes) -> None:
        """Write the terminal's response to a query ahead of queued writes, but never within a `type_now`."""
        await self.send(_Outgoing(data), SYSTEM, None)

    def type_now(self, text: str, writer: Writer) -> None:
        """Type text synchronously, ahead of all queued writes. Bytes that the channel does not accept at once are sent next.

        Raises:
            PtyctlError: BUSY, LOCKED, LOCK_REQUIRED, LOCK_LOST, REMOTE_CLOSED, ALREADY_CLOSED, POLICY_DENIED,
                APPROVAL_PENDING; nothing was typed.
        """
        self._check_begin(writer)
        out = _Outgoing(self._typed_bytes(text))
        if self._inspector is not None:
            self._inspector.check_held(out.data, writer)
            try:
                out.password = not self._inspector.review_now(out.data, writer)
            except Refusal as refusal:
                raise refusal.error from None
        self._cuts += 1
        try:
            self._hand_over(out, writer)
        except ChannelError as error:
            raise self._error_of(error) from None
        if out.sent < len(out.data):
            self._front = out
            self._front_task = asyncio.ensure_future(self._send_front(out, writer))

    async def send_break(self, writer: Writer) -> None:
        """Send a break condition.

        Raises:
            PtyctlError: as `check`; UNSUPPORTED, POLICY_DENIED.
        """
        self.check(writer)
        if self._inspector is not None:
            self._inspector.check_break(writer)
        self._cuts += 1
        try:
            await self._channel().send_break()
        except ChannelError as error:
            raise from_channel(error) from None
        if self._inspector is not None:
            self._inspector.lose_line()

    async def _send_front(self, out: _Outgoing, writer: Writer) -> None:
        """Send the rest of a `type_now`. Until it is sent, only interrupts are written."""
        with suppress(PtyctlError, _Cut):  # the lock was lost, or the channel or the program has ended: the rest is dropped
            try:
                await self.send(out, writer, None)
            finally:
                self._front = None

    async def _write_all(
        self, pieces: Iterator[_Piece], writer: Writer, data: Callable[[], bytes], before: Callable[[], None] | None = None
    ) -> int:
        """Send pieces in order; return the number of bytes sent. `data` returns the bytes of all pieces."""
        fence = self._check_begin(writer)
        written = 0
        await self._acquire_order(writer)
        try:
            if (writer.command or writer.judged == "line") and not self.unfinished_line.empty:
                message = "another task typed into the line at the same moment; nothing was typed"
                raise PtyctlError(ErrorCode.BUSY, message, {"reason": "half_typed"}, hint=NextStep.CLEAR_LINE)
            cuts = self._cuts
            time_slice = TimeSlice()
            inspection = await self._begin_inspection(writer, data, time_slice)
            batch_bytes = 0
            for number, piece in enumerate(pieces):
                if number and self._paced:
                    await self._received.wait(self._now() + PACE_S)
                elif number % _BATCH_PIECES == _BATCH_PIECES - 1 or batch_bytes >= _BATCH_BYTES:
                    batch_bytes = 0
                    await time_slice.yield_now()
                elif number:
                    await time_slice.yield_if_over()
                batch_bytes += len(piece.data)
                if self._line_free_at:
                    await self._wait_for_line(writer)
                out = _Outgoing(piece.data + self._channel().enter * piece.enters)
                if before is not None and not number:
                    before()
                try:
                    inspection = await self._send_piece(out, writer, fence, cuts, inspection, time_slice)
                except _Cut:
                    raise self._with_bytes_written(_cut(), written + min(out.sent, len(piece.data)), writer) from None
                except PtyctlError as error:
                    raise self._with_bytes_written(error, written + min(out.sent, len(piece.data)), writer) from None
                self._reserve_line(out, piece)
                written += len(piece.data) + piece.newline_bytes
        except Refusal as refusal:
            refusal.error.details["erased"] = await self._erase(refusal.erase, writer)
            raise self._with_bytes_written(refusal.error, written, writer) from None
        except BaseException:
            if writer.command and self._inspector is not None:
                self._inspector.lose_line()
            raise
        finally:
            self._order.release()
        return written

    async def _send_piece(
        self,
        out: _Outgoing,
        writer: Writer,
        fence: int | None,
        cuts: int,
        inspection: _Inspection | None,
        time_slice: TimeSlice,
    ) -> _Inspection | None:
        """Send a piece; return the inspection of the next ones. Input that submits nothing is inspected only once it is cut.

        Raises:
            _Cut: other input has interrupted a command, or a text that was judged for the line as it was.
            Refusal, PtyctlError: as `_Inspection.send`.
        """
        if inspection is None:
            checks_cuts = writer.command or writer.judged or (self._inspector is not None and not writer.system)
            try:
                await self.send(out, writer, fence, cuts if checks_cuts else None)
            except _Cut:
                if writer.command or writer.judged or self._inspector is None:
                    raise
                inspection = _Inspection(self, self._inspector, writer, time_slice, self._cuts, 0)
        if inspection is not None:
            await inspection.send(out, fence)
        return inspection

    async def prompt_shown(self) -> None:
        """Wait until a shell that has returned to its prompt has shown it: input is sent then. The wait is limited."""
        if self._inspector is not None and self._inspector.awaits_prompt():
            await self._inspector.prompt_shown()

    async def _begin_inspection(self, writer: Writer, data: Callable[[], bytes], time_slice: TimeSlice) -> _Inspection | None:
        """Judge a write before it is sent. Return an inspection if lines must be judged while it is sent. Raises Refusal."""
        inspector = self._inspector
        if inspector is None or writer.system:
            return None
        if writer.command:
            inspector.line_replaced()
            return None
        if data().strip(INTERRUPT_BYTES):
            await self.prompt_shown()
            if not writer.judged:
                inspector.check_held(data(), writer)
        if writer.judged or not inspector.is_judged(whole := data(), writer):
            return None
        cuts = self._cuts
        return _Inspection(self, inspector, writer, time_slice, cuts, await inspector.review(whole, writer))

    async def _erase(self, keys: bytes, writer: Writer) -> bool:
        """Delete the pending text of a caller whose line was refused. Return whether keys were sent for it."""
        if not keys or self._inspector is None:
            return False
        with suppress(PtyctlError):  # the far end has closed
            await self.send(_Outgoing(keys), Writer(system=True, erases=writer.owner), None)
        return True

    def _erased(self, keys: bytes, owner: Owner, raw: int) -> None:
        """Update the typed line with the keys that have deleted a refused one. `raw`: the raw offset before them."""
        keys = NAK if keys == self._channel().kill_key else keys
        # after Ctrl-C the next run waits for the prompt, as if the caller had pressed it
        self.unfinished_line.typed(keys, owner, raw, command=not keys.endswith(ETX))
        if self._inspector is not None:
            self._inspector.typed(keys)

    def _typed_bytes(self, text: str) -> bytes:
        data = text.encode("utf-8", "surrogateescape")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", self._channel().enter)

    def _paste_or_lines(self, part: str, size: int) -> Iterator[_Piece]:
        """Split text into pieces. A bracketed paste of at most `size` bytes is one piece: zsh does not wait for its end."""
        if _PASTE.fullmatch(part) and len(data := self._typed_bytes(part)) <= size:
            return iter([_Piece(data, 0, 0)])
        return _pieces(part, size)

    def _chunk_bytes(self, writer: Writer) -> int:
        """Return the largest size of a piece in bytes. A secret is not split, because its echo is matched as a whole."""
        size = PACED_CHUNK_BYTES if self._paced else CHUNK_BYTES
        rate = self.pace.chars_per_s if self.pace is not None else None
        if rate is None or self.is_secret(writer):
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

    @property
    def cuts(self) -> int:
        """Number of inputs that overtook queued writes. Each may have changed the line of a write that has begun."""
        return self._cuts

    async def send(self, out: _Outgoing, writer: Writer, fence: int | None, cuts: int | None = None) -> None:
        """Send all bytes. Before each chunk, check the lease, and that no other input has interrupted the write.

        Raises:
            _Cut: `cuts` is not the current number any more, or the password is no longer read; the rest is not sent.
            PtyctlError: as `check`; IO_ERROR after the writer's deadline.
        """
        try:
            while out.sent < len(out.data):
                if cuts is not None and cuts != self._cuts:
                    raise _Cut
                if out.password and not self._channel().reads_password():
                    raise _Cut
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
            raise self._error_of(error) from None

    def _error_of(self, error: ChannelError) -> PtyctlError:
        """Return the error for the caller. If the right to write has ended since it was checked, it is that of the check."""
        if isinstance(error, WriteRightEnded):
            try:
                self._channel()
            except PtyctlError as ended:
                return ended
        return from_channel(error)

    def _hand_over(self, out: _Outgoing, writer: Writer) -> None:
        """Write what the channel accepts now.

        ECHO and the reader are observed first: after the input, the program may turn it on again, or end.
        """
        channel = self._channel()
        secret = self.is_secret(writer)
        rest = out.data[out.sent :]
        if secret and not out.secret:
            out.secret = True
            self._on_secret(rest)
        raw = self.typed_raw = self._raw_size()
        inspector = None if writer.system or writer.command else self._inspector
        if inspector is not None:
            inspector.sending(rest)
        self.typed_shown = writer.system or writer.command or self._is_shown()
        is_in_driver = not (writer.system or writer.command) and self._program_reads_line(channel, rest)
        taken = channel.write(rest)
        self.bytes_sent += taken
        out.sent += taken
        if taken:
            if is_in_driver:
                self.unfinished_line.typed_in_driver(rest[:taken], writer.owner, raw)
            elif writer.erases is not None:
                self._erased(rest[:taken], writer.erases, raw)
            elif not writer.system:
                self.unfinished_line.typed(rest[:taken], writer.owner, raw, command=writer.command)
            if inspector is not None:
                inspector.typed(rest[:taken], secret=secret)
            self._on_input(writer, rest[:taken], secret)

    def _program_reads_line(self, channel: Channel, data: bytes) -> bool:
        """Return whether a program is in a read(2) in canonical mode, and has run since the last line end was sent to it.

        Before that, the terminal may not have passed the line on: another program may get what follows.
        """
        if not channel.reads_line():
            return False
        reader = channel.foreground_program(), channel.wakeups()
        has_run = reader != self._line_end_sent_to
        if not _ENDS_IN_DRIVER.isdisjoint(data):
            self._line_end_sent_to = reader
        return has_run

    def is_secret(self, writer: Writer) -> bool:
        """Return whether input of a writer is secret now. The session marks its own secrets as `sensitive`."""
        if writer.sensitive or writer.system:
            return writer.sensitive
        return self._hides_input(writer) or (self._inspector is not None and self._inspector.asks_secret())

    def _hides_input(self, writer: Writer) -> bool:
        """Return whether a line is read without echo. A command is typed at a prompt, where a shell may have echo off."""
        channel = self._channel()
        if not channel.echo_off:
            return False
        program = channel.foreground_program() if writer.command else None
        return program is None or shell_dialect(program[1]) is None

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
        """Wait until the channel accepts more input, or until the lease must be checked again."""
        draining = asyncio.ensure_future(self._channel().drain())
        try:
            await asyncio.wait({draining}, timeout=RECHECK_S)  # a run may begin outside its task, which forbids asyncio.timeout
            if draining.done():
                draining.result()
        finally:
            draining.cancel()


class _Cut(Exception):
    """Other input was sent in the middle of a write, or a password is no longer read."""


@dataclass(slots=True)
class _Inspection:
    """The inspection of one write. Its next `judged` lines were judged, unless other input has interrupted the write."""

    gate: Gate
    inspector: Inspector
    writer: Writer
    time_slice: TimeSlice
    cuts: int
    judged: int

    async def send(self, out: _Outgoing, fence: int | None) -> None:
        """Send input up to each key that may submit a line, judge the line, and send the key.

        Raises:
            Refusal: the policy does not allow a line.
            PtyctlError: as `Gate.write`.
        """
        while out.sent < len(out.data):
            if out.sent:  # each key of a piece may submit a line
                await self.time_slice.yield_if_over()
            if self.cuts != self.gate.cuts:
                self.cuts, self.judged = self.gate.cuts, 0
            end = out.sent + _INSPECTED_BYTES
            if end < len(out.data) and self.gate.is_secret(self.writer):
                end = len(out.data)
            rest = out.data[out.sent : end]
            split = self.inspector.split(rest, self.judged)
            if not await self._send(rest[: split.size], out, fence):
                continue
            self.judged -= split.lines
            if split.key:
                key = rest[split.size : split.size + split.key]
                await self.inspector.admit(key, self.writer)
                await self._send(key, out, fence)

    async def _send(self, data: bytes, out: _Outgoing, fence: int | None) -> bool:
        """Send bytes; return whether no other input was sent since the last judgement."""
        part = _Outgoing(data)
        try:
            await self.gate.send(part, self.writer, fence, self.cuts)
        except _Cut:
            return False
        finally:
            out.sent += part.sent
        return self.cuts == self.gate.cuts


@dataclass(slots=True)
class _Outgoing:
    """Bytes to be sent to the channel.

    Attributes:
        sent: number of bytes that the channel accepted.
        secret: whether the echo is masked.
        urgent: whether the bytes are an interrupt.
        password: whether the bytes are sent only while a program reads a password.
    """

    data: bytes
    sent: int = 0
    secret: bool = False
    urgent: bool = False
    password: bool = False


class _Piece(NamedTuple):
    """Bytes followed by `enters` Enters, which take `newline_bytes` in the caller's text."""

    data: bytes
    enters: int
    newline_bytes: int


def _pieces(text: str, size: int) -> Iterator[_Piece]:
    """Split text into pieces of at most `size` bytes and at most one line, so that a paced console receives single lines."""
    for found in _LINE.finditer(text):
        line, newline = found.groups()
        data = line.encode("utf-8", "surrogateescape")
        last = max(len(data) - 1, 0) // size * size
        for begin in range(0, last, size):
            yield _Piece(data[begin : begin + size], 0, 0)
        if data or newline:
            yield _Piece(data[last:], 1 if newline else 0, len(newline))


def _cut() -> PtyctlError:
    return PtyctlError(
        ErrorCode.BUSY,
        "other input was sent while this was being typed; the rest was not sent",
        {"reason": "interrupted"},
        hint=NextStep.READ_STATE,
    )


def _not_accepted() -> PtyctlError:
    return PtyctlError(
        ErrorCode.IO_ERROR,
        "the far end accepts no more input; the rest was not sent",
        {"bytes_written": 0},
        hint="read its output, and continue to write when it accepts input",
    )

"""A session: an id, a transcript, leases and cursors, which outlive the session's channels."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ptyctl.api.blocks import Block
from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError, unsupported
from ptyctl.api.session import Expect, GivenUp, LastCommand, LimitUse, Pace, SessionEntry
from ptyctl.clock import epoch_ms
from ptyctl.core.echo_watch import TypedPiece
from ptyctl.core.lease import Lease, LeaseEnd, Leases, Owner
from ptyctl.core.marks import PlacedMark
from ptyctl.core.shells import has_other_grammar, shell_dialect
from ptyctl.core.states import SessionState, StateEvent, TerminalMode, next_state
from ptyctl.files import write_memory_file
from ptyctl.platforms import DeviceProfile, Platform, common
from ptyctl.policy.rules import OTHER_SHELL
from ptyctl.session.device.login import NO_CREDENTIALS, LoginCredentials
from ptyctl.session.io.error_output import ErrorOutput
from ptyctl.session.io.errors import from_channel
from ptyctl.session.io.gate import Gate, Writer
from ptyctl.session.io.input_log import InputLog, LastInputs
from ptyctl.session.io.output_stream import GapStarted, OutputStream, StreamEnded
from ptyctl.session.io.publisher import Publisher, Unsubscribe
from ptyctl.session.io.shell_identity import ShellReader
from ptyctl.session.io.signal import Signal
from ptyctl.session.io.terminal_state import FarEnd, TerminalState
from ptyctl.session.io.typed_echo import TypedEcho
from ptyctl.session.runs.blocks import Blocks
from ptyctl.session.runs.events import Events
from ptyctl.session.runs.run import Run
from ptyctl.session.runs.runs import Runs
from ptyctl.session.runs.shells import new_nonce
from ptyctl.session.runs.strategy_selector import StrategySelector
from ptyctl.session.screen.display import Display
from ptyctl.session.transcript.meta_file import (
    SIZE_BEFORE_LOCK,
    MetaFile,
    encode_leases,
    read_given_up,
    read_size_before_lock,
    restore_leases,
)
from ptyctl.session.transcript.recovery import TranscriptState, new_folder
from ptyctl.session.transcript.stored_blocks import EventLogPosition, OpenBlock
from transports.channel import UNKNOWN_TERMINAL, Channel
from transports.errors import ChannelBroken, ChannelEnded, ChannelError, ReceiverFailed

from .activity import Activity
from .approvals import Bond
from .authorization import Authorization
from .clients import current_principal
from .judgement import Subject
from .notices import Notices
from .spec import SPECS, Limits, Spec
from .usage import Usage

#: A stored lease that expires within this time is written again at the next heartbeat, before the heartbeat returns (seconds).
LEASE_MARGIN_S = 5.0
#: Each of blocks.jsonl, events.jsonl and input.jsonl takes at most this part of the session's quota.
LOG_SHARE = 16
#: Longest part of a command in a list of sessions.
_LISTED_COMMAND_CHARS = 200

Event = TypeVar("Event")


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The session has processed a state event: its state or its channel may have changed."""

    session: Session


@dataclass(frozen=True, slots=True)
class LineLost:
    """The session's channel has ended while the session was in use."""

    session: Session
    reason: ChannelError


@dataclass(frozen=True, slots=True)
class ReconnectStatus:
    """Why the last attempt to reconnect failed, and when the next begins.

    Attributes:
        next_attempt: on the loop's clock; None while an attempt is in progress.
    """

    why: str
    next_attempt: float | None = None

    def describe(self, now: float) -> str:
        """Return the status as text."""
        if self.next_attempt is None:
            return f"reconnecting ({self.why}); an attempt is in progress"
        return f"reconnecting ({self.why}); the next attempt is in {self._wait_s(now):.0f} s"

    def error(self, session_id: str, now: float) -> PtyctlError:
        """Return the error for a call that needs the connection."""
        return PtyctlError(
            ErrorCode.CONNECT_FAILED,
            f"session {session_id} is {self.describe(now)}",
            {"state": "reconnecting", "retry_after_ms": round(self._wait_s(now) * 1000)},
            hint="call again after that time, open the session to try now, or close it to stop reconnecting",
        )

    def _wait_s(self, now: float) -> float:
        return 0.0 if self.next_attempt is None else max(self.next_attempt - now, 0.0)


@dataclass(frozen=True, slots=True)
class _LeaseSize:
    """A size (columns, rows) that lasts until the end of the current lease, and the size before it."""

    before: tuple[int, int]
    size: tuple[int, int]


class Session:
    """Owns one terminal. Only its methods change it; callers and components read its properties.

    All methods run in the event loop's thread.

    Attributes:
        state: the state, from the table in `core/states.py`.
        incarnation: the number of the current connection.
        expect: the session's prompt, pager and error patterns.
        platform: the device family, if known.
        credentials: the credentials that answer login prompts.
        login_notice: the message of the last login to the user.
        limits: the named limits, by their name.
        cols, rows: the terminal's size in cells.
        channel: the current channel.
        error_output: stderr, if the session keeps it apart.
        signal: wakes waiters when the state, the size or the lock changes, or an event is published.
        held: whether this process owns the session's files.
        reconnect: the status while the line is lost and reconnected; otherwise None.
        given_up: why the session is not reconnected, also by the next process; None otherwise. A successful login resets it.
    """

    def __init__(
        self, session_id: str, spec: Spec, folder: Path, limits: Limits, recovered: TranscriptState | None = None
    ) -> None:
        """Create the session. `recovered` is the state that recovery found in the folder; call `restore` with its meta.json."""
        transcript = recovered or new_folder(folder, limits.quota_bytes)
        log_bytes = limits.quota_bytes // LOG_SHARE
        self.session_id = session_id
        self.spec = spec
        self._last_inputs = LastInputs(transcript.last_inputs)
        self.state: SessionState = "opening"
        self.incarnation = transcript.incarnation
        self.closed_why = ""
        self.expect = spec.expect
        self.platform: Platform | None = None
        self.credentials: LoginCredentials = NO_CREDENTIALS
        self.login_notice: str | None = None
        self.cols, self.rows = spec.pty.cols, spec.pty.rows
        self.channel: Channel | None = None
        self.created_at = int(time.time() * 1000)
        self.held = True
        self.reconnect: ReconnectStatus | None = None
        self.given_up: GivenUp | None = None
        self.shell_nonce = new_nonce()
        self._nonce_file: Path | None = None
        #: The size that lasts until the end of a lease; the timer notices an expiry.
        self._lease_size: _LeaseSize | None = None
        self._lease_size_timer: asyncio.TimerHandle | None = None
        self.leases = Leases(self._store_lease, self._lease_granted, self._lease_ended)
        self.signal = Signal()
        self.notices = Notices()
        self._publisher = Publisher()
        self._meta_file = MetaFile(folder)
        self._closing: asyncio.Future[None] | None = None
        self._check_ownership: Callable[[], None] | None = None
        #: Longest time that input may be in transit to a console that another process can take over (seconds).
        self._delivery_s: float | None = None
        #: Why the line was closed although the session was in use; None while it is connected.
        self._line_closed_why: str | None = None
        self._damage = tuple(transcript.damage)
        self.stream = OutputStream(
            folder,
            limits.window_bytes,
            limits.quota_bytes,
            transcript,
            columns=spec.pty.cols,
            searches=limits.use["max_session_searches"],
        )
        self.activity = Activity(
            session_id, spec.device or spec.device_id, console=spec.console, raw_size=lambda: self.stream.raw_size
        )
        has_stderr = spec.protocol == "local" and not spec.pty.enabled
        self.error_output = ErrorOutput(folder, limits.quota_bytes) if has_stderr else None
        self.input_log = InputLog(folder, log_bytes)
        self.gate = Gate(
            self.leases,
            self.open_channel,
            self.stream.signal,
            console=spec.console,
            paced=spec.console or spec.protocol == "telnet",
            raw_size=lambda: self.stream.raw_size,
            on_input=self._input_sent,
            on_secret=self._mask_typed,
            is_shown=lambda: self.typed_echo.is_shown(),
            check_recorded=self.activity.check,
            check_reserved=lambda: self.runs.check_reserved(),
        )
        conversation_id = spec.conversation_id or session_id
        self.events = Events(folder, self.stream, session_id, conversation_id, self.signal, transcript.event_log, log_bytes)
        self.blocks = Blocks(session_id, folder, self.stream, transcript.blocks, log_bytes)
        self.display = Display(
            folder,
            self.stream,
            self.gate,
            (self.cols, self.rows),
            lambda: self.channel,
            new=recovered is None,
            conversation_id=conversation_id,
            command_unread=self._command_unread,
        )
        self.screen = self.display.screen
        self.terminal = TerminalState(
            self.stream,
            self.gate,
            expects_prompt=spec.pty.enabled,
            channel=lambda: self.channel or UNKNOWN_TERMINAL,
            width=lambda: self.cols,
            on_notice=self.notices.post,
        )
        self.typed_echo = TypedEcho(self.terminal, self.profile, lambda: self.runs.current is not None, self._echo_decided)
        self.prompt = self.terminal.prompt
        self.selector = StrategySelector(
            self.terminal,
            program=spec.program,
            runs_program=spec.runs_program,
            probe_shell=spec.probe_shell,
            install_integration=spec.install_integration,
            shell=spec.shell,
            notify=self.notices.post,
        )
        far_end = FarEnd(
            platform=lambda: self.spec.platform,
            is_device=lambda: self.platform is not None and not self.platform.posix_shell,
            profile=self.profile,
            is_shell=self.has_shell,
            has_marks=lambda: self.selector.has_marks,
            is_running=lambda: self.runs.current is not None,
            dialect=self.dialect,
        )
        shell_reader = self._shell_reader = ShellReader(self.terminal, far_end)
        self.authorization = Authorization(
            Subject(session_id, spec.protocol, spec.device or spec.device_id, spec.program),
            self.terminal,
            self.screen,
            far_end,
            shell_reader,
            bond=self._bond,
            post_notice=self.notices.post,
            on_refused=self.activity.refused,
        )
        self._unfinished = self.gate.unfinished_line
        self.gate.inspect_with(self.authorization)
        self.runs = Runs(
            self.terminal,
            self.selector,
            self.authorization,
            shell_reader,
            first_seq=self.blocks.last_seq() + 1,
            on_hold=self.blocks.hold,
            on_discard=self._run_refused,
            on_begin=self._run_begun,
            on_typed=self.blocks.flush,
            on_end=self._run_ended,
        )
        #: Waiters on these check the lock or its queue.
        self._lock_signals = (self.signal, self.stream.signal, self.runs.changed)
        self.usage = Usage(
            spec.idle_timeout_s,
            self._close_as_idle,
            self.take_notices,
            last_output=lambda: self._last_output() if self.runs.current is not None else None,
            limits=limits.use,
        )
        self.limits = limits.use
        self.stream.subscribe(PlacedMark, self.runs.mark_received)
        self.stream.subscribe(GapStarted, self._gap_started)
        self.stream.subscribe(StreamEnded, self._channel_ended)

    def subscribe(self, kind: type[Event], handler: Callable[[Event], None]) -> Unsubscribe:
        """Call `handler` for each event of the type `kind`: `StateChanged` or `LineLost`."""
        return self._publisher.subscribe(kind, handler)

    # Connecting

    async def connect(self, channel: Channel) -> None:
        """Open the channel of a new incarnation.

        Raises:
            PtyctlError: the channel did not open.
        """
        if self.incarnation and self.state != "reconnecting":
            self._enter("reconnect")
        if self.channel is not None:
            await self.channel.close(force=True)  # its program may continue without its terminal
        self.incarnation += 1
        typed_nonce = new_nonce()
        self.stream.begin_incarnation(self.incarnation, (typed_nonce, self.shell_nonce))
        self.display.terminal_replaced()
        self._unfinished.clear()
        self.authorization.connection_ended()
        self._shell_reader.connection_replaced()
        self.selector.new_incarnation(typed_nonce, self.shell_nonce, self.spec.integrated)
        self.channel = channel
        channel.receive_stderr(self.error_output)
        if self._delivery_s is not None:
            channel.guard_output(self._owns_console, self._delivery_s)
        self.write_meta()
        if self.incarnation == 1:
            self._check_stored("the session")
        try:
            await channel.open(self.stream)
        except ChannelError as error:
            if self.state in ("opening", "reconnecting") and self.reconnect is None:
                self._enter("broke")
            self.stream.end_without_channel(error)
            self.channel = None
            raise from_channel(error) from None
        if self._closing is not None:  # the session was closed meanwhile
            await channel.close(force=True)
            self.open_channel()
        if self.stream.ended is None:
            self.reconnect = self._line_closed_why = None
            self._enter("opened")
            self._reapply_size()
            self._watch_lease_size()
        self.write_meta()

    async def resume(self, channel: Channel, running: OpenBlock | None) -> None:
        """Resume the current incarnation on a channel whose program outlived the previous server process.

        `running`: the command that was running, if any.
        """
        typed_nonce, self.shell_nonce, is_integrated = self._resume_incarnation()
        self.selector.new_incarnation(typed_nonce, self.shell_nonce, is_integrated)
        self.channel = channel
        if running is not None:
            self.runs.resume(running)
        is_recorded, text = self._restore_line(is_running=running is not None)
        await channel.open(self.stream)
        if running is None:
            self.selector.resume_idle()
        inputs = self._last_inputs.unanswered(self.stream.shell_returned_raw) if is_recorded else None
        self.authorization.line_restored(inputs, text, is_recorded=is_recorded)
        if self.stream.ended is None:
            self._enter("opened")
        self.notices.post("the server was replaced; the terminal and all programs in it continue")
        self._watch_lease_size()
        self.write_meta()

    def _resume_incarnation(self) -> tuple[str, str, bool]:
        """Continue the incarnation. If its marks are not known, because of a damaged timeline, begin one without marks.

        Returns:
            The nonces of typed marks and of the shell's, and whether the shell sends marks.
        """
        if (nonces := self.stream.resume_incarnation()) is not None:
            typed, of_shell = nonces
            return typed, of_shell, self.spec.integrated
        self.incarnation += 1
        typed, of_shell = new_nonce(), new_nonce()
        self.stream.begin_incarnation(self.incarnation, (typed, of_shell))
        self.display.terminal_replaced()
        return typed, of_shell, False

    def _restore_line(self, *, is_running: bool) -> tuple[bool, str | None]:
        """Restore the unfinished line from the input log. An unknown line counts as text, which the next command clears.

        Returns:
            Whether all input of the earlier process was recorded; what was typed of the line, None if that is not known.
        """
        line, raw_size = self._unfinished, self.stream.raw_size
        is_known = self._last_inputs.restore(line) and self.input_log.has_room and not self.stream.has_gap
        # an unknown prompt cannot be distinguished from the continuation prompt of an incomplete command
        text = self._restored_text() if is_known else None
        if not is_known:
            line.fill(b"", raw_size)
        elif line.entered_raw >= 0 and not self.selector.has_marks:
            line.doubt(raw_size)
        prompt = self.stream.last_prompt
        if not is_running and prompt is not None and prompt.line is not None:
            line.fill(prompt.line, raw_size)
            text = None
        return is_known, text

    def _restored_text(self) -> str | None:
        """Return the text of the restored line; None if other keys, or a secret, may have changed it."""
        line = self._unfinished
        if line.keys or line.pasting:
            return None
        text = "" if line.empty else self._last_inputs.text()
        return text if text is not None and len(text) == line.characters else None

    def renew_shell_nonce(self) -> None:
        """Invalidate the marks of the previous shell; called before another one is started."""
        self.shell_nonce = new_nonce()

    def write_nonce_file(self) -> Path:
        """Write the nonce to a file and return its path. The shell that is started next reads and removes the file.

        Raises:
            OSError: the file cannot be written.
        """
        self._remove_nonce_file()
        self._nonce_file = write_memory_file(self.shell_nonce.encode() + b"\n")
        return self._nonce_file

    def _remove_nonce_file(self) -> None:
        """Remove the nonce file, which remains if the program was not a shell that reads it."""
        if self._nonce_file is not None:
            self._nonce_file.unlink(missing_ok=True)
            self._nonce_file = None

    def begin_reconnecting(self, why: str) -> None:
        """Enter the state `reconnecting` after the line was lost for the reason `why`."""
        self.reconnect = ReconnectStatus(why)
        if self.state != "reconnecting":
            self._enter("reconnect")

    def schedule_reconnect(self, at: float | None) -> None:
        """Set the time of the next attempt (loop's clock); None while an attempt is in progress."""
        if self.reconnect is not None:
            self.reconnect = replace(self.reconnect, next_attempt=at)

    def stop_reconnecting(self, why: str, *, for_good: bool = False) -> None:
        """End the series of reconnection attempts.

        Args:
            for_good: whether the next process must not reconnect the session either; see `given_up`.
        """
        self.reconnect = None
        if for_good:
            self.given_up = GivenUp(reason=why, at=int(time.time() * 1000))
        if self.state == "reconnecting":
            self._enter("broke")
        self.notices.post(f"reconnecting has ended: {why}")
        self.events.note("reconnecting_given_up", reason=why)
        self.write_meta()

    def login_succeeded(self) -> None:
        """Reset `given_up` after a successful login: the session is reconnected when its line is lost."""
        if self.given_up is not None:
            self.given_up = None
            self.write_meta()

    def set_ownership_check(self, check: Callable[[], None], delivery_s: float) -> None:
        """Set the function that raises PtyctlError if this process does not own the console. It is called before all input.

        From the next connection on, a byte that is not delivered within `delivery_s` is discarded.
        """
        self._check_ownership, self._delivery_s = check, delivery_s

    def _owns_console(self) -> bool:
        try:
            self.check_ownership()
        except PtyctlError:
            return False
        return True

    def check_ownership(self) -> None:
        """Check that this process owns the console. Raises PtyctlError CLAIM_LOST or SESSION_MOVED."""
        if self._check_ownership is not None:
            self._check_ownership()

    async def give_up_line(self, why: str) -> None:
        """Close the line of a console that another process may own now; the session stays readable and is not reconnected."""
        self.reconnect, self._line_closed_why = None, why
        self.notices.post(why)
        self.events.note("line_given_up", reason=why)
        if self.channel is not None:
            await self.channel.close(force=True)

    def open_channel(self) -> Channel:
        """Return the channel to write to.

        Raises:
            PtyctlError: ALREADY_CLOSED, or REMOTE_CLOSED with the reason; CLAIM_LOST or SESSION_MOVED if another node of the
                fleet may own the console.
        """
        if self._check_ownership is not None and self.state != "closed":
            self._check_ownership()
        if self.state == "open" and self.channel is not None:
            return self.channel
        if self.state == "closed":
            raise self.already_closed()
        if self.reconnect is not None:
            raise self.reconnect.error(self.session_id, asyncio.get_running_loop().time())
        if self.state == "opening":
            raise PtyctlError(
                ErrorCode.CONNECT_FAILED,
                f"session {self.session_id} is still being opened",
                {"state": self.state},
                hint="repeat the call when its state is open",
            )
        raise self.far_end_gone()

    def far_end_gone(self) -> PtyctlError:
        """Return the error of all calls except reads on a session whose connection has ended and is not reconnected."""
        why = self.stream.ended.message if self.stream.ended is not None else f"it is {self.state}"
        if self.given_up is not None:
            why = self.given_up.reason
        if self._line_closed_why is not None:
            why = self._line_closed_why
        return PtyctlError(
            ErrorCode.REMOTE_CLOSED,
            f"the far end of session {self.session_id} is gone: {why}",
            {"state": self.state},
            hint=NextStep.OPEN_SESSION,
        )

    @property
    def internal_error(self) -> str | None:
        """The message of the internal error in the processing of output that ended the connection, or None."""
        return self.stream.ended.message if isinstance(self.stream.ended, ReceiverFailed) else None

    def already_closed(self) -> PtyctlError:
        """Return the error of all calls except reads on a closed session."""
        return PtyctlError(
            ErrorCode.ALREADY_CLOSED,
            f"session {self.session_id} is closed ({self.closed_why})",
            hint=NextStep.OPEN_SESSION,
        )

    # Configuration

    def set_platform(self, platform: Platform) -> None:
        """Set the device family."""
        self.platform = platform

    def set_login(self, credentials: LoginCredentials, platform: Platform | None, pace: Pace | None) -> None:
        """Set the credentials, the device family and the typing rate for the next login."""
        self.credentials, self.platform = credentials, platform
        self.gate.set_pace(pace)

    def set_login_notice(self, notice: str | None) -> None:
        """Set the message of the last login to the user."""
        self.login_notice = notice

    def adopt_platform(self, name: str, platform: Platform, expect: Expect) -> None:
        """Set a detected device family. `expect`: its patterns, overridden by those of the session."""
        self.platform, self.expect = platform, expect
        self.spec = replace(self.spec, platform=name, expect=expect, probe_shell=platform.posix_shell)
        self.selector.set_may_probe(platform.posix_shell)
        self.write_meta()

    def set_address(self, host: str | None, port: int | None, username: str | None) -> None:
        """Set the address of the next connection, which the inventory may have changed."""
        self.spec = replace(self.spec, host=host, port=port, username=username)

    def set_pace(self, pace: Pace | None) -> None:
        """Set the typing rate of input to the far end; None for the default."""
        self.gate.set_pace(pace)

    def update_expect(self, expect: Expect) -> None:
        """Replace the patterns that are set in `expect`.

        Raises:
            PtyctlError: INVALID_ARGUMENT for a pattern that RE2 rejects.
        """
        self.profile(expect)
        self.expect = self.expect.replaced_by(expect)

    def profile(self, override: Expect | None = None) -> DeviceProfile:
        """Return the compiled patterns. Patterns of a call (`override`) precede the session's, and those the platform's."""
        expect = self.expect if override is None else self.expect.replaced_by(override)
        errors = expect.error_regexes
        if errors is None and (self.spec.program is not None or self.spec.platform == "linux"):
            errors = ()
        profile = (self.platform or common()).profile
        return profile.with_overrides(expect.prompt_regex, expect.pager_regexes, errors, expect.settle_ms)

    def resize(self, cols: int, rows: int) -> None:
        """Change the terminal's size.

        Raises:
            PtyctlError: UNSUPPORTED without a terminal; REMOTE_CLOSED, ALREADY_CLOSED.
        """
        channel = self.open_channel()
        if not channel.pty_enabled:
            raise unsupported("this session has no terminal to resize")
        try:
            channel.resize(cols, rows)
        except ChannelError as error:
            raise from_channel(error) from None
        self.cols, self.rows = cols, rows
        self.signal.notify()
        self.stream.resized(cols, rows)
        self.write_meta()

    def resize_while_locked(self, cols: int, rows: int, owner: Owner) -> None:
        """Change the terminal's size until the owner's lease ends.

        Raises:
            PtyctlError: LOCK_LOST without the lease; as `resize`.
        """
        lease = self.lease()
        if lease is None or lease.holder != owner:
            raise PtyctlError(ErrorCode.LOCK_LOST, "this size lasts while its task has the lock", hint=NextStep.TAKE_LOCK)
        previous = self._lease_size
        before = (self.cols, self.rows) if previous is None else previous.before
        self._lease_size = _LeaseSize(before, (cols, rows))  # stored with the size
        try:
            self.resize(cols, rows)
        except PtyctlError:
            self._lease_size = previous
            raise
        self._watch_lease_size()

    def _watch_lease_size(self) -> None:
        """Restore the size before a lease once that has ended, also if nobody uses the session then."""
        lease, lent = self.lease(), self._lease_size
        if self._lease_size_timer is not None:
            self._lease_size_timer.cancel()
            self._lease_size_timer = None
        if lent is not None and lease is not None:
            self._lease_size_timer = asyncio.get_running_loop().call_at(lease.expires_at, self._watch_lease_size)
        elif lent is not None:
            self._restore_size(lent)

    def _restore_size(self, lent: _LeaseSize) -> None:
        """Restore the size before a lease, unless others have resized the terminal since. Without a channel: on the next."""
        if self._lease_size is not lent:
            return
        if (self.cols, self.rows) == lent.size != lent.before:
            try:
                self.resize(*lent.before)
            except PtyctlError:
                return
        self._lease_size = None

    def _reapply_size(self) -> None:
        """Resize a new channel to the current size: it was opened with the size of the first channel."""
        first = (self.spec.pty.cols, self.spec.pty.rows)
        if (self.cols, self.rows) != first and self.open_channel().pty_enabled:
            self.resize(self.cols, self.rows)

    @property
    def mode(self) -> TerminalMode | None:
        """The terminal's mode; None once its program has ended."""
        return None if self.state in ("eof", "lost", "closed") else self.runs.mode

    # Users and the lock

    def lease(self) -> Lease | None:
        """Return the lease in force."""
        return self.leases.current(asyncio.get_running_loop().time())

    def lock_released(self) -> None:
        """Store the release of the lock, and wake the waiters that depend on it."""
        self.write_meta()
        self.lock_changed()

    def lock_changed(self) -> None:
        """Wake the waiters that depend on the lock or its queue."""
        for signal in self._lock_signals:
            signal.notify()

    def lease_extended(self) -> None:
        """Store an extended lease, usually later and outside the event loop, and wake the waiters that depend on it.

        After a crash the stored lease applies. It may expire earlier than the extended one, but never later, and it is still
        in force when the postponed write is due; otherwise the file is written now.
        """
        self._watch_lease_size()
        lease, stored = self.lease(), (self._meta_file.stored or {}).get("lock_until")
        due = asyncio.get_running_loop().time() + LEASE_MARGIN_S
        if lease is not None and stored is not None and due <= stored <= lease.expires_at:
            self._meta_file.write_postponed(lambda: self._meta(self.lease()))
        else:
            self.write_meta()
        self.lock_changed()

    def _store_lease(self, lease: Lease) -> None:
        """Write a lease to meta.json before it is granted: another process must find it after a crash.

        Raises:
            PtyctlError: IO_ERROR; the lease is not granted.
        """
        self._meta_file.write(self._meta(lease))
        self._check_stored("the lock")

    def _lease_ended(self, lease: Lease, end: LeaseEnd) -> None:
        self.authorization.lock_ended(lease.holder)
        if (lent := self._lease_size) is not None:
            asyncio.get_running_loop().call_soon(self._restore_size, lent)  # the next lease, if any, is in force then
        by = {"by": end.by.task_id, "by_principal": end.by.principal} if end.by is not None else {}
        self.activity.record("lock_ended", **_owner_fields(lease), why=end.reason, **by)

    def _bond(self) -> Bond:
        """Return the current connection and lock, to which an approval request is bound."""
        incarnation, lease = self.incarnation, self.lease()
        fence = None if lease is None else lease.fence

        def expiry() -> float:
            held = self.lease() if fence is not None else None
            return math.inf if held is None else held.expires_at

        def why_ended() -> str | None:
            if self.incarnation != incarnation:
                return "the session was connected again since it was asked for"
            held = self.lease() if fence is not None else None
            if fence is not None and (held is None or held.fence != fence):
                return "the lock under which it was asked for has ended"
            return None

        return Bond(f"{incarnation} {fence}", why_ended, expiry)

    def _lease_granted(self, lease: Lease, ttl_s: float) -> None:
        self.activity.record("lock", **_owner_fields(lease), ttl_ms=round(ttl_s * 1000))

    def observers(self) -> list[str]:
        """Return the labels of the tasks that read; labels of other principals include the principal. See `Usage.observers`."""
        lease, principal = self.lease(), current_principal().name
        return [owner.label(principal) for owner in self.usage.observers(lease.holder if lease else None)]

    def lock_queue(self) -> list[Owner]:
        """Return the tasks that wait for the lock, in order of arrival."""
        return self.leases.waiting(asyncio.get_running_loop().time())

    def limits_in_use(self) -> list[LimitUse]:
        """Return the session's limits with their current use."""
        approvals = self.limits["max_session_approvals"].use(self.authorization.pending_approvals())
        return [*self.usage.limits_in_use(len(self.lock_queue())), self.stream.searches_in_use(), approvals]

    def post_message(self, message: str, sender: str | None) -> None:
        """Send a person's message to all users of the session."""
        self.notices.post(f"message from {sender or 'a person'}: {message}")
        self.events.note("message", message=message, sender=sender)

    # Closing

    async def close(self, *, force: bool = False, why: str = "on request", by: Mapping[str, object] | None = None) -> None:
        """End the session; its output stays readable. Closing continues if the caller is cancelled.

        Args:
            by: audit fields of the caller that closes the session; None for the server.
        """
        await asyncio.shield(self._begin_close(force, why, by))

    def _begin_close(self, force: bool, why: str, by: Mapping[str, object] | None = None) -> asyncio.Future[None]:
        if self._closing is None:
            self.typed_echo.close()
            self.activity.flush()
            self.activity.record("close", **by or {}, why=why, force=force or None)
            self.reconnect = None
            self._enter("close")
            self.closed_why = why
            self.usage.end()
            self._closing = asyncio.create_task(self._close(force), name=f"close {self.session_id}")
        return self._closing

    async def _close(self, force: bool) -> None:
        await self.runs.abort("the session was closed")
        self.authorization.session_ended("the session was closed")
        if self._lease_size_timer is not None:
            self._lease_size_timer.cancel()
        if self.channel is not None:
            await self.channel.close(force=force)
        self._remove_nonce_file()
        await self.display.close()
        self.write_meta()
        self.release_files()

    def flush(self) -> None:
        """Write all buffered data to disk."""
        self.typed_echo.close()
        self.activity.flush()
        self.stream.release_held()
        self.stream.flush()
        self.blocks.flush()
        self.events.flush()
        self.write_meta()

    def release_files(self) -> None:
        """Close the files for writing and give up their ownership; this process can still read them."""
        self.held = False
        self._meta_file.cancel_postponed()
        self.usage.end()
        self.display.end_writing()
        self.blocks.close()
        self.input_log.close()
        self.events.close()
        if self.error_output is not None:
            self.error_output.close()
        self.stream.close()

    # meta.json

    async def publish_missing_events(self, position: EventLogPosition) -> None:
        """Publish the events that an earlier process had not published, before all others.

        `position`: the last event that it published.
        """
        await self.events.catch_up(self.blocks.begun_since(position.block_id))

    def restore(self, meta: dict[str, Any], *, still_running: bool) -> None:
        """Apply the meta.json of an earlier process. A lock that it granted stays in force until it expires.

        Unless the program is `still_running`, the session becomes `closed` if it was closed, otherwise `lost`.
        """
        self.created_at = meta["created_at"]
        self.usage.restore(meta["last_activity_at"])
        self.cols, self.rows = meta["pty"]["cols"], meta["pty"]["rows"]
        self.gate.restore(meta["bytes_sent"])
        self.given_up = read_given_up(meta)
        restore_leases(self.leases, meta)
        if (before := read_size_before_lock(meta)) is not None:
            self._lease_size = _LeaseSize(before, (self.cols, self.rows))
        if still_running:
            return
        self.stream.end_without_channel(ChannelBroken("the server that held its terminal has ended"))
        if meta["state"] != "closed":
            self._enter("broke")
            return
        self._enter("close")
        self.closed_why = meta["closed_reason"]
        self._closing = asyncio.get_running_loop().create_future()
        self._closing.set_result(None)
        self.release_files()

    def write_meta(self, **fields: object) -> None:
        """Write meta.json: the session's options, state, lock and sizes, and further `fields`."""
        self._meta_file.write({**self._meta(self.lease()), **fields})

    def _check_stored(self, what: str) -> None:
        """Raise IO_ERROR if the last write of meta.json failed."""
        if (why := self._meta_file.failure) is not None:
            raise PtyctlError(
                ErrorCode.IO_ERROR,
                f"{what} cannot be stored in {self.stream.folder}: {why}",
                hint="free disk space or make the state directory writable; output can still be read",
            )

    def check_closed(self) -> None:
        """Check that the close of the session is stored.

        Raises:
            PtyctlError: IO_ERROR.
        """
        if not self.stored:
            self._check_stored(f"the close of session {self.session_id}")

    @property
    def stored(self) -> bool:
        """Whether the stored state is current, or the folder was removed."""
        return self._meta_file.failure is None or not self.stream.folder.exists()

    def storage_alarm(self) -> str | None:
        """Return why the session's files cannot be written, or which were damaged; None if neither.

        Repeats a write of meta.json that failed.
        """
        damage = f"alarm: in {self.stream.folder}: {'; '.join(self._damage)}" if self._damage else None
        if not self.held:
            return damage
        if self._meta_file.failure is not None:
            self.write_meta()
        if (why := self._meta_file.failure) is not None:
            return f"alarm: {self.stream.folder} cannot be written ({why}): no lock is granted, and output may not be stored"
        if not os.access(self.stream.folder, os.W_OK):
            return f"alarm: {self.stream.folder} was removed or is read-only: the session is no longer stored"
        if not (self.blocks.growing and self.events.growing and self.input_log.growing):
            return "alarm: the disk or the session's quota is full: new commands, events or input are not stored"
        return damage

    def take_notices(self, task_id: str | None) -> list[str] | None:
        """Return the storage alarm, if any, and the notices that the task has not received; None without either."""
        alarm, notices = self.storage_alarm(), self.notices.take(task_id)
        return notices if alarm is None else [alarm, *(notices or ())]

    def entry(self, *, details: bool = False) -> SessionEntry:
        """Return the session's row in a list. `details` adds questions, pending approvals and the last command."""
        entry = self._entry(self.lease())
        entry.alarm = self.storage_alarm()
        if details:
            run, block = self.runs.current, self.blocks.latest()
            entry.waiting_for_input = (run is not None and run.question is not None) or None
            entry.pending_approvals = self.authorization.pending_approvals() or None
            entry.last_command = None if block is None else _last_command(block)
        return entry

    def _entry(self, lease: Lease | None) -> SessionEntry:
        spec = self.spec
        return SessionEntry(
            session_id=self.session_id,
            protocol=spec.protocol,
            host=spec.host,
            port=spec.port,
            username=spec.username,
            session_type=spec.session_type,
            device=spec.device,
            device_id=spec.device_id,
            conversation_id=spec.conversation_id,
            client_id=spec.client_id,
            opened_by=spec.opened_by,
            terminal=spec.terminal,
            platform=spec.platform,
            state=self.state,
            mode=self.mode,
            pty=spec.pty.model_copy(update={"cols": self.cols, "rows": self.rows}),
            lock_holder=lease.holder.task_id if lease else None,
            lock_principal=lease.holder.principal if lease else None,
            lock_expires_at=epoch_ms(lease.expires_at) if lease else None,
            observers=len(self.observers()),
            created_at=self.created_at,
            last_activity_at=self.usage.last_activity_at,
            bytes_received=self.stream.raw_size,
            bytes_sent=self.gate.bytes_sent,
            spool_size=self.stream.spool_end,
            disk_bytes=self.stream.disk_bytes(),
            incarnation=self.incarnation,
            given_up=self.given_up,
        )

    def _meta(self, lease: Lease | None) -> dict[str, Any]:
        """Return the content of meta.json with this lease: the row of the list, and the state to resume the session from."""
        spec = SPECS.dump_python(self.spec, mode="json", by_alias=True, exclude_defaults=True)
        closed = {"closed_reason": self.closed_why} if self.state == "closed" else {}
        lent = self._lease_size
        is_lent = lent is not None and lent.size == (self.cols, self.rows)
        size = {SIZE_BEFORE_LOCK: list(lent.before)} if lent is not None and is_lent else {}
        return {**self._entry(lease).payload(), **encode_leases(self.leases, lease), **size, "spec": spec, **closed}

    # Events of the components

    def _enter(self, event: StateEvent) -> None:
        self.state = next_state(self.state, event)
        self._publisher.publish(StateChanged(self))
        self.signal.notify()

    def _channel_ended(self, event: StreamEnded) -> None:
        self.typed_echo.close()
        if self.state != "closed":
            self._enter("ended" if isinstance(event.reason, ChannelEnded) else "broke")
            self.runs.far_end_gone()
            self._publisher.publish(LineLost(self, event.reason))
            self.write_meta(ended_reason=event.reason.message)

    def _run_begun(self, run: Run) -> None:
        self.events.begin(self.blocks.begin(run), run)
        if self.error_output is not None:
            self.error_output.run_begun(run.block_id)
        self.activity.run_begun(run)

    def _run_refused(self, run: Run) -> None:
        self.events.note("block_refused", block=self.blocks.discard(run))

    def _run_ended(self, run: Run) -> None:
        if self.channel is not None:
            self.channel.read_stderr()
        self.events.end(self.blocks.end(run))

    def _last_output(self) -> float:
        return max(self.stream.last_data, 0.0 if self.error_output is None else self.error_output.last_data)

    def _mask_typed(self, secret: bytes) -> None:
        self.stream.mask_typed(secret)
        if self.error_output is not None:
            self.error_output.mask_typed(secret)

    def dialect(self) -> str | None:
        """Return the dialect of the shell that reads a command, or `OTHER_SHELL`; None if it is not known."""
        shell, program = self.selector.shell, self.terminal.foreground_program()
        name = (self.spec.program or "") if program is None else program[1]
        if has_other_grammar(name):
            return OTHER_SHELL
        if program is not None and (in_foreground := shell_dialect(name)) is not None:
            return in_foreground
        if shell is not None and shell.marker is not None:
            return shell.marker.dialect
        if self.terminal.shell_in_foreground() is False:  # a relay, such as sudo, whose shell was not probed yet
            return None
        return shell_dialect(self.spec.program or "")

    def has_shell(self) -> bool:
        """Return whether a shell runs in the session: its program, one that replaced it (`env bash`), or a probed one."""
        shell = self.selector.shell
        if shell_dialect(self.spec.program or "") is not None or (shell is not None and shell.marker is not None):
            return True
        return bool(self.terminal.shell_in_foreground()) and self.terminal.foreground_shell() is not None

    def _command_unread(self, raw: int) -> bool:
        run = self.runs.current
        return run is not None and run.unread(raw)

    def _input_sent(self, writer: Writer, data: bytes, secret: bool) -> None:
        pieces = self.typed_echo.typed(data, shown=self.gate.typed_shown, secret=secret, raw=self.gate.typed_raw)
        if not writer.system:
            self.runs.typing(writer, data)
            self.activity.typed(writer, pieces)
        self.input_log.record(writer, pieces, self._unfinished.state())

    def _echo_decided(self, pieces: Sequence[TypedPiece]) -> None:
        for piece in pieces:
            self.input_log.decided(piece)
        self.activity.echo_decided()

    def _gap_started(self, event: GapStarted) -> None:
        self.notices.post("gap: the disk or the quota is full; from here on output is kept only in memory, for a limited time")

    def _close_as_idle(self) -> None:
        self._begin_close(False, "idle_timeout_ms passed without use")


def _last_command(block: Block) -> LastCommand:
    """Return a block as the last command in a list of sessions."""
    return LastCommand(
        block_id=block.block_id,
        cmd=block.cmd[:_LISTED_COMMAND_CHARS],
        status=block.status,
        exit_code=block.exit_code,
        error_hints=block.error_hints,
        ts_begin=block.ts_begin,
        ts_end=block.ts_end,
    )


def _owner_fields(lease: Lease) -> dict[str, object]:
    return {"principal": lease.holder.principal, "task": lease.holder.task_id, "fence": lease.fence}

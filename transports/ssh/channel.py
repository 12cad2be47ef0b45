"""The SSH channel: its asyncssh session, outbound flow control, and the channel interface."""

from __future__ import annotations

import asyncio
import shlex
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import asyncssh

from transports.channel import Channel, ExitStatus, check_window_size
from transports.errors import ChannelClosed, ChannelError, InvalidOption, ReceiverFailed, Unsupported, WriteRightEnded
from transports.output_delivery import OutputDelivery
from transports.receiver import Receiver, end_receiver
from transports.tcp import ACKNOWLEDGED_POLL_S, OutputGuard

from .attempt import Trail
from .bastion import SshConnection, SshConnectionPool
from .connect_options import SshConnectOptions
from .endpoint import resolve
from .errors import broken, ended, is_orderly, timed_out, translate

#: The receive window (RFC 4254 5.2), bytes; limits how much unprocessed output can be in transit.
WINDOW_BYTES = 256 * 1024
#: Maximum size of one write, bytes; buffered bytes delay a later ctrl_c.
WRITE_BYTES = 4096
SECURITY_WARNING = (
    "The server's host key is not checked: whoever controls the network can read and change the session, including passwords. "
    "Pin the host key or record it in known_hosts."
)
#: Unacknowledged bytes up to which a guarded channel accepts a further write: some packets of keys that are typed.
MAX_UNACKNOWLEDGED = 512
#: Limit for the exchange of the last packets during a close, seconds.
_CLOSE_GRACE_S = 2.0


class WriteGate:
    """Flow control for writers: open while the channel accepts bytes.

    Waiters are released one at a time, in order. If all were released at once, a long paste would fill the channel again each
    time before a waiting ctrl_c could be written.
    """

    def __init__(self) -> None:
        self.paused = False
        self._reason: ChannelError | None = None
        self._waiters: deque[asyncio.Future[None]] = deque()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self._release_next()

    def finish(self, reason: ChannelError) -> None:
        """Raise `reason` in all current and future waiters."""
        self._reason = reason
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(reason)

    async def wait(self) -> None:
        """Wait until the gate is open and the earlier waiters have passed.

        Raises:
            ChannelError: the reason passed to `finish`.
        """
        if self._reason is not None:
            # Without the reset the traceback would grow with each raise.
            raise self._reason.with_traceback(None)
        if not self.paused and not self._waiters:
            # Yield to the event loop: a long paste would block it otherwise.
            await asyncio.sleep(0)
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _release_next(self) -> None:
        while self._waiters and not self.paused:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                # Release the next waiter only after this one had the chance to fill the channel again.
                asyncio.get_running_loop().call_soon(self._release_next)
                return


class SshClientSession(asyncssh.SSHClientSession[bytes]):
    """asyncssh's callbacks for one session channel: passes all received bytes to the receiver, and then its end.

    Args:
        pause, resume: stop and continue reading from the server.
        has_pty: with a PTY the channel ends at end of file; without one it may still accept input.
        on_end: called once, after the last byte, with the error if the connection broke or the receiver failed.
    """

    def __init__(
        self,
        receiver: Receiver,
        pause: Callable[[], None],
        resume: Callable[[], None],
        gate: WriteGate,
        has_pty: bool,
        on_end: Callable[[SshClientSession, Exception | None], None],
    ) -> None:
        self.receiver = receiver
        self._delivery = OutputDelivery(receiver, pause, resume, self._end)
        self._gate = gate
        self._has_pty = has_pty
        self._on_end: Callable[[SshClientSession, Exception | None], None] | None = on_end
        self.exit_status: ExitStatus | None = None
        self.saw_eof = False

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        # Pause as soon as a byte is buffered: bytes in asyncssh's buffer delay every later ctrl_c.
        chan.set_write_buffer_limits(high=0)

    def detach(self) -> None:
        """Suppress all further callbacks; the open has failed."""
        self._on_end = None
        self._delivery.discard()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        # stderr (RFC 4254 5.2) is merged: a terminal has one stream.
        if self._on_end is not None:
            self._delivery.deliver(data)

    async def delivered(self) -> None:
        """Wait until the receiver has got all received bytes."""
        await self._delivery.wait()

    def eof_received(self) -> bool:
        self.saw_eof = True
        return not self._has_pty

    def pause_writing(self) -> None:
        self._gate.pause()

    def resume_writing(self) -> None:
        self._gate.resume()

    def exit_status_received(self, status: int) -> None:
        self.exit_status = ExitStatus(code=status)

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self.exit_status = ExitStatus(signal=signal)

    def connection_lost(self, exc: Exception | None) -> None:
        self._delivery.then(lambda: self._end(exc))

    def _end(self, error: Exception | None) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self, error)


class SshChannel(Channel):
    """A session channel on an SSH server (RFC 4254 6), with a PTY unless `options.pty` is None.

    Each channel uses a separate connection; connections to jump hosts are shared through the pool `connections`.
    """

    protocol = "ssh"

    def __init__(self, options: SshConnectOptions, connections: SshConnectionPool | None = None) -> None:
        self._options = options
        self._connections = connections if connections is not None else SshConnectionPool()
        self._gate = WriteGate()
        self._connection: SshConnection | None = None
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._session: SshClientSession | None = None
        self._opening: asyncio.Future[None] | None = None
        self._reason: ChannelError | None = None
        self._closing = False
        self._may_send: Callable[[], bool] | None = None
        self._delivery_s = 0.0
        self._guard: OutputGuard | None = None
        self.pty_enabled = options.pty is not None
        if options.host_keys.policy == "disabled" and options.host_keys.fingerprint is None:
            self.security_warning = SECURITY_WARNING

    @property
    def enter(self) -> bytes:
        return b"\r" if self.pty_enabled else b"\n"

    def guard_output(self, may_send: Callable[[], bool], delivery_s: float) -> None:
        self._may_send, self._delivery_s = may_send, delivery_s

    async def open(self, receiver: Receiver) -> None:
        if self._opening is not None or self._closing:
            raise InvalidOption("an SSH channel can be opened only once", hint="create a new channel to reconnect")
        self._opening = asyncio.ensure_future(self._open_with_timeout(receiver))
        try:
            await self._opening
        except asyncio.CancelledError:
            # The open may have succeeded in the same iteration of the event loop.
            await self._abandon()
            if not self._closing:
                raise
            raise ChannelClosed("the channel was closed while it was being opened") from None

    async def _open_with_timeout(self, receiver: Receiver) -> None:
        trail = Trail()
        limit = self._options.connect_timeout_s
        try:
            async with asyncio.timeout(limit):
                self._channel = await self._open(receiver, trail)
        except TimeoutError:
            raise timed_out(limit, trail.attempt, self._options.host) from None
        finally:
            if self._channel is None:
                await self._abandon()

    async def _open(self, receiver: Receiver, trail: Trail) -> asyncssh.SSHClientChannel[bytes]:
        route = await asyncio.to_thread(resolve, self._options)
        self._connection = connection = await self._connections.connect(route, self._options.keepalive_s, trail)
        self.server_banner = connection.attempt.server_banner
        if self._may_send is not None and connection.tcp is not None:
            self._guard = OutputGuard(connection.tcp, self._may_send, self._delivery_s)
        self._session = SshClientSession(
            receiver, connection.pause_reading, connection.resume_reading, self._gate, self.pty_enabled, self._session_ended
        )
        try:
            return await self._start_session(connection, self._session)
        except Exception as error:  # asyncssh lets exceptions caused by a hostile server through
            raise translate(error, connection.attempt) from error

    async def _start_session(self, connection: SshConnection, session: SshClientSession) -> asyncssh.SSHClientChannel[bytes]:
        pty, command = self._options.pty, self._options.command or connection.endpoint.settings.remote_command
        channel, _ = await connection.ssh.create_session(
            lambda: session,
            command if command is None or isinstance(command, str) else shlex.join(command),
            env=list({**dict(connection.endpoint.settings.environment), **self._options.env}.items()) or (),
            request_pty="force" if pty is not None else False,
            term_type=pty.term if pty is not None else None,
            term_size=(pty.cols, pty.rows) if pty is not None else None,
            encoding=None,
            window=WINDOW_BYTES,
        )
        return channel

    async def _abandon(self) -> None:
        self._channel = None
        if self._session is not None:
            self._session.detach()
        await self._disconnect(force=True)

    def _session_ended(self, session: SshClientSession, error: Exception | None) -> None:
        self.exit_status = session.exit_status
        self._reason = reason = self._reason_for_end(session, error)
        self._gate.finish(reason)
        end_receiver(session.receiver, reason)
        # The connection serves only this channel. Deferred, because asyncssh is still closing the channel.
        if self._connection is not None:
            asyncio.get_running_loop().call_soon(self._connection.close)

    def _reason_for_end(self, session: SshClientSession, error: Exception | None) -> ChannelError:
        if isinstance(error, ReceiverFailed):
            return error
        if self._closing:
            return ChannelClosed(f"the channel to {self._label} was closed from this side")
        if error is None or session.saw_eof or session.exit_status is not None or is_orderly(error):
            return ended(self._label, session.exit_status)
        return broken(error, self._label)

    @property
    def _label(self) -> str:
        return self._connection.endpoint.label if self._connection is not None else self._options.host

    def _open_channel(self) -> asyncssh.SSHClientChannel[bytes]:
        if self._reason is not None:
            # Without the reset the traceback would grow with each raise.
            raise self._reason.with_traceback(None)
        if self._channel is None or self._closing:
            raise ChannelClosed(f"the channel to {self._label} is not open")
        return self._channel

    def write(self, data: bytes) -> int:
        channel = self._open_channel()
        if self._may_send is not None and not self._may_send():
            raise WriteRightEnded(f"the right to write to {self._label} has ended")
        if self._gate.paused:
            return 0
        # More than the window would wait in asyncssh, which sends it when the server opens the window: perhaps too late.
        limit = WRITE_BYTES if self._guard is None else min(WRITE_BYTES, self._room(channel, self._guard))
        if limit <= 0:
            self._gate.pause()
            asyncio.get_running_loop().call_later(ACKNOWLEDGED_POLL_S, self._resume_when_acknowledged)
            return 0
        piece = data[:limit]
        try:
            channel.write(piece)
        except OSError:
            # The server has closed the channel; `connection_lost` has not been called yet.
            raise ended(self._label, None) from None
        return len(piece)

    def _room(self, channel: asyncssh.SSHClientChannel[bytes], guard: OutputGuard) -> int:
        """Return the number of bytes that the server takes at once; 0 while it has not acknowledged earlier ones."""
        return channel._send_window if guard.unacknowledged() <= MAX_UNACKNOWLEDGED else 0

    def _resume_when_acknowledged(self) -> None:
        if self._reason is not None or self._guard is None or self._channel is None:
            return
        if self._room(self._channel, self._guard) > 0:
            self._gate.resume()
        else:
            asyncio.get_running_loop().call_later(ACKNOWLEDGED_POLL_S, self._resume_when_acknowledged)

    async def drain(self) -> None:
        self._open_channel()
        await self._gate.wait()

    def resize(self, cols: int, rows: int) -> None:
        if not self.pty_enabled:
            raise Unsupported(
                "an SSH channel without a terminal has no window size",
                hint="open the session with a terminal (pty.enabled true)",
            )
        check_window_size(cols, rows)
        if self._reason is None and self._channel is not None:
            self._channel.change_terminal_size(cols, rows)

    async def send_break(self, duration_ms: int = 250) -> None:
        """Send BREAK (RFC 4335). asyncssh requests no reply, so a server without support ignores it unnoticed."""
        if not self.pty_enabled:
            raise Unsupported(
                "an SSH channel without a terminal cannot send BREAK",
                hint="open the session with a terminal (pty.enabled true), or send ctrl_c",
            )
        self._open_channel().send_break(duration_ms)

    async def close(self, *, force: bool = False) -> None:
        self._closing = True
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait([self._opening])
        await self._disconnect(force)

    async def _disconnect(self, force: bool) -> None:
        if self._connection is None:
            return
        try:
            if self._guard is not None and not force:
                await self._until_acknowledged(self._guard)
        finally:
            # The kernel would deliver the bytes later, perhaps after the first ones of the console's next owner.
            if self._guard is not None and self._guard.unacknowledged():
                self._guard.discard_on_close()
            self._connection.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_GRACE_S):
                await self._connection.wait_closed()
        if self._session is not None:
            await self._session.delivered()

    async def _until_acknowledged(self, guard: OutputGuard) -> None:
        """Wait until the server has acknowledged all bytes, or for the grace time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_GRACE_S):
                while guard.unacknowledged():  # noqa: ASYNC110  (the kernel has no event)
                    await asyncio.sleep(ACKNOWLEDGED_POLL_S)

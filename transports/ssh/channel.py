"""The SSH byte channel."""

from __future__ import annotations

import asyncio
import shlex
from contextlib import suppress

import asyncssh

from transports.channel import Channel
from transports.errors import ChannelClosed, ChannelError, InvalidOption, Unsupported
from transports.receiver import Receiver

from .attempt import Trail
from .bastion import Connection, SshConnections
from .endpoint import resolve
from .errors import broken, ended, is_orderly, timed_out, translate
from .flow import WriteGate
from .options import MAX_CELLS, SshOptions
from .session import Session

#: The receive window (RFC 4254 5.2), bytes: the most that a flood can have on its way to us.
WINDOW_BYTES = 256 * 1024
#: The most that one write hands over, bytes: what cannot go at once is in front of a later ctrl_c.
WRITE_BYTES = 4096
#: How long a close may wait for the last packets, seconds.
_CLOSE_GRACE_S = 2.0


class SshChannel(Channel):
    """A terminal, or a plain channel where `options.pty` is None, on an SSH server (RFC 4254 6).

    Each channel has a connection of its own; those to jump hosts are shared through `connections`.
    """

    protocol = "ssh"

    def __init__(self, options: SshOptions, connections: SshConnections | None = None) -> None:
        self._options = options
        self._connections = connections if connections is not None else SshConnections()
        self._gate = WriteGate()
        self._connection: Connection | None = None
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._session: Session | None = None
        self._opening: asyncio.Future[None] | None = None
        self._over: ChannelError | None = None
        self._closing = False
        self.pty_enabled = options.pty is not None

    @property
    def enter(self) -> bytes:
        return b"\r" if self.pty_enabled else b"\n"

    async def open(self, receiver: Receiver) -> None:
        if self._opening is not None or self._closing:
            raise InvalidOption("an SSH channel opens once; make a new one to reconnect")
        self._opening = asyncio.ensure_future(self._open_in_time(receiver))
        try:
            await self._opening
        except asyncio.CancelledError:
            # It may have succeeded in the very moment in which it was given up.
            await self._abandon()
            if not self._closing:
                raise
            raise ChannelClosed("the channel was closed while it was being opened") from None

    async def _open_in_time(self, receiver: Receiver) -> None:
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
        self._session = Session(receiver, self._gate, self.pty_enabled, self._ended)
        try:
            return await self._start(connection.ssh, self._session)
        except Exception as error:  # asyncssh hands on whatever a hostile far end made it raise
            raise translate(error, connection.attempt) from error

    async def _start(self, ssh: asyncssh.SSHClientConnection, session: Session) -> asyncssh.SSHClientChannel[bytes]:
        pty, command = self._options.pty, self._options.command
        channel, _ = await ssh.create_session(
            lambda: session,
            command if command is None or isinstance(command, str) else shlex.join(command),
            env=list(self._options.env.items()) or (),
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
        await self._disconnect()

    def _ended(self, session: Session, error: Exception | None) -> None:
        self.exit_status = session.exit_status
        self._over = reason = self._reason(session, error)
        self._gate.finish(reason)
        session.receiver.channel_ended(reason)
        # The connection is there for this channel alone. Not at once: asyncssh is in the middle of closing the channel.
        if self._connection is not None:
            asyncio.get_running_loop().call_soon(self._connection.close)

    def _reason(self, session: Session, error: Exception | None) -> ChannelError:
        if self._closing:
            return ChannelClosed(f"the channel to {self._label} was closed from this side")
        if error is None or session.saw_eof or session.exit_status is not None or is_orderly(error):
            return ended(self._label, session.exit_status)
        return broken(error, self._label)

    @property
    def _label(self) -> str:
        return self._connection.attempt.endpoint.label if self._connection is not None else self._options.host

    def _live_channel(self) -> asyncssh.SSHClientChannel[bytes]:
        if self._over is not None:
            # Its traceback would grow with each raise.
            raise self._over.with_traceback(None)
        if self._channel is None or self._closing:
            raise ChannelClosed(f"the channel to {self._label} is not open")
        return self._channel

    def write(self, data: bytes) -> int:
        channel = self._live_channel()
        if self._gate.paused:
            return 0
        piece = data[:WRITE_BYTES]
        try:
            channel.write(piece)
        except OSError:
            # The far end has closed its side, and the end itself is on its way.
            raise ended(self._label, None) from None
        return len(piece)

    async def drain(self) -> None:
        self._live_channel()
        await self._gate.wait()

    def resize(self, cols: int, rows: int) -> None:
        if not self.pty_enabled:
            raise Unsupported("a plain SSH channel has no window; open it with a pty")
        if not (1 <= cols <= MAX_CELLS and 1 <= rows <= MAX_CELLS):
            raise InvalidOption(f"cols and rows are 1 to {MAX_CELLS} each, not {cols} and {rows}")
        if self._over is None and self._channel is not None:
            self._channel.change_terminal_size(cols, rows)

    async def send_break(self, duration_ms: int = 250) -> None:
        """RFC 4335. Whether the server knows BREAK is not told: asyncssh asks for no answer."""
        if not self.pty_enabled:
            raise Unsupported("a plain SSH channel has no BREAK; open it with a pty, or send ctrl_c")
        self._live_channel().send_break(duration_ms)

    async def close(self, *, force: bool = False) -> None:
        self._closing = True
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait([self._opening])
        await self._disconnect()

    async def _disconnect(self) -> None:
        if self._connection is None:
            return
        self._connection.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_GRACE_S):
                await self._connection.wait_closed()

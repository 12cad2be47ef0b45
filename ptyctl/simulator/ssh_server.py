"""The SSH listener: password authentication, shells with or without a PTY, nothing else."""

from __future__ import annotations

from collections.abc import Callable

import asyncssh

from .line import Line
from .lines import Lines

#: Wrong passwords until the connection is ended, as the switch does on its consoles.
ATTEMPTS = 3

#: What BREAK (RFC 4335) means here: Ctrl-Shift-6.
BREAK = b"\x1e"

#: Whether this username and password are right.
Check = Callable[[str, str], bool]


class SSHSession(asyncssh.SSHServerSession[bytes]):
    """One shell, as asyncssh's session on one side and as a `Wire` on the other."""

    def __init__(self, lines: Lines, connection: asyncssh.SSHServerConnection) -> None:
        self._lines, self._connection = lines, connection
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None
        self._line: Line | None = None
        self._size = (0, 0)

    # asyncssh.SSHServerSession

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._channel = chan

    def pty_requested(self, term_type: str, term_size: tuple[int, int, int, int], term_modes: object) -> bool:
        self._size = term_size[:2]
        return True

    def shell_requested(self) -> bool:
        return True

    def session_started(self) -> None:
        self._line = self._lines.ssh(str(self._connection.get_extra_info("username")))
        self._line.console.resize(*self._size)
        self._line.attach(self)

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._type(data)

    def break_received(self, msec: int) -> bool:
        self._type(BREAK)
        return True

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        if self._line is not None:
            self._line.console.resize(width, height)

    def pause_writing(self) -> None:
        # A client that reads nothing must not make us remember ever more.
        if self._line is not None:
            self._line.stalls(self)

    def resume_writing(self) -> None:
        if self._line is not None:
            self._line.flows(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._line is not None:
            self._lines.release(self._line, self)
        self._line = self._channel = None

    # Wire

    def write(self, data: bytes) -> None:
        if self._channel is not None and not self._channel.is_closing():
            self._channel.write(data)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.exit(0)

    def drop(self) -> None:
        self._connection.abort()

    def pause(self) -> None:
        if self._channel is not None:
            self._channel.pause_reading()

    def resume(self) -> None:
        if self._channel is not None:
            self._channel.resume_reading()

    def _type(self, data: bytes) -> None:
        if self._line is not None:
            self._line.receive(data)


class SSHAuthentication(asyncssh.SSHServer):
    """One connection before and beside its sessions."""

    def __init__(self, lines: Lines, check: Check, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._lines, self._check, self._connections = lines, check, connections
        self._connection: asyncssh.SSHServerConnection | None = None
        self._failures = 0

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._connections.discard(self._connection)

    def begin_auth(self, username: str) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        if self._check(username, password):
            return True
        self._failures += 1
        if self._failures == ATTEMPTS:
            raise asyncssh.DisconnectError(asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, "Too many authentication failures")
        return False

    def session_requested(self) -> SSHSession:
        assert self._connection is not None, "asyncssh calls connection_made first"
        return SSHSession(self._lines, self._connection)


class SSHServer:
    """Listens on a free port of `host` with a host key of its own."""

    def __init__(self, lines: Lines, check: Check) -> None:
        self._lines, self._check = lines, check
        self._key = asyncssh.generate_private_key("ssh-ed25519")
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._acceptor: asyncssh.SSHAcceptor | None = None

    @property
    def fingerprint(self) -> str:
        """Of the host key, as `ssh-keygen -l` prints it: `SHA256:…`."""
        return self._key.get_fingerprint()

    async def start(self, host: str) -> int:
        """Gives the port."""
        self._acceptor = await asyncssh.create_server(
            lambda: SSHAuthentication(self._lines, self._check, self._connections),
            host,
            0,
            server_host_keys=[self._key],
            # The console edits its lines itself, and wants bytes.
            line_editor=False,
            encoding=None,
            public_key_auth=False,
            kbdint_auth=False,
            gss_host=None,
            agent_forwarding=False,
        )
        return self._acceptor.get_port()

    async def stop(self) -> None:
        if self._acceptor is None:
            return
        self._acceptor.close()
        while self._connections:
            connection = next(iter(self._connections))
            connection.abort()
            await connection.wait_closed()
        await self._acceptor.wait_closed()

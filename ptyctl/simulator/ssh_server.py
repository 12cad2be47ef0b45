"""SSH listener of the simulated switch: password authentication and shells, with or without a PTY."""

from __future__ import annotations

from collections.abc import Callable

import asyncssh

from .terminal_lines import LineDriver, LineTable

#: Wrong passwords before the connection is closed.
MAX_PASSWORD_ATTEMPTS = 3

#: Input for a BREAK request (RFC 4335): Ctrl-Shift-6.
BREAK = b"\x1e"

#: Returns whether username and password are right.
PasswordCheck = Callable[[str, str], bool]


class SshServerSession(asyncssh.SSHServerSession[bytes]):
    """A shell: an asyncssh session, and a `LineConnection` of its line."""

    def __init__(self, lines: LineTable, connection: asyncssh.SSHServerConnection) -> None:
        self._lines, self._connection = lines, connection
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None
        self._line: LineDriver | None = None
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
        self._line = self._lines.open_ssh(str(self._connection.get_extra_info("username")))
        self._line.console.resize(*self._size)
        self._line.attach(self)

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._receive(data)

    def break_received(self, msec: int) -> bool:
        self._receive(BREAK)
        return True

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        if self._line is not None:
            self._line.console.resize(width, height)

    def pause_writing(self) -> None:
        if self._line is not None:
            self._line.pause_output(self)

    def resume_writing(self) -> None:
        if self._line is not None:
            self._line.resume_output(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._line is not None:
            self._lines.release(self._line, self)
        self._line = self._channel = None

    # LineConnection

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

    def _receive(self, data: bytes) -> None:
        if self._line is not None:
            self._line.receive(data)


class SshServerAuthentication(asyncssh.SSHServer):
    """Password authentication of one connection, and creation of its sessions."""

    def __init__(self, lines: LineTable, check: PasswordCheck, connections: set[asyncssh.SSHServerConnection]) -> None:
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
        if self._failures == MAX_PASSWORD_ATTEMPTS:
            raise asyncssh.DisconnectError(asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, "Too many authentication failures")
        return False

    def session_requested(self) -> SshServerSession:
        assert self._connection is not None, "asyncssh calls connection_made first"
        return SshServerSession(self._lines, self._connection)


class SshServer:
    """Listens on a free port, with a new host key."""

    def __init__(self, lines: LineTable, check: PasswordCheck) -> None:
        self._lines, self._check = lines, check
        self._key = asyncssh.generate_private_key("ssh-ed25519")
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._acceptor: asyncssh.SSHAcceptor | None = None

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the host key, as `ssh-keygen -l` prints it: `SHA256:…`."""
        return self._key.get_fingerprint()

    async def start(self, host: str) -> int:
        """Start listening and return the port."""
        self._acceptor = await asyncssh.create_server(
            lambda: SshServerAuthentication(self._lines, self._check, self._connections),
            host,
            0,
            server_host_keys=[self._key],
            # The console has a line editor, and processes bytes.
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

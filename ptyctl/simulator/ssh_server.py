"""SSH listener of the simulated switch: password authentication and shells, with or without a PTY."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

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

    _channel: asyncssh.SSHServerChannel[bytes]
    _line: LineDriver

    def __init__(self, lines: LineTable, connection: asyncssh.SSHServerConnection) -> None:
        self._lines, self._connection = lines, connection

    # asyncssh.SSHServerSession

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._channel = chan
        self._line = self._lines.open(str(self._connection.get_extra_info("username")))

    def pty_requested(self, term_type: str, term_size: tuple[int, int, int, int], term_modes: object) -> bool:
        self._line.resize(*term_size[:2])
        return True

    def shell_requested(self) -> bool:
        return True

    def session_started(self) -> None:
        self._line.attach(self)

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._line.receive(data)

    def break_received(self, msec: int) -> bool:
        self._line.receive(BREAK)
        return True

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        self._line.resize(width, height)

    def pause_writing(self) -> None:
        self._line.pause_output(self)

    def resume_writing(self) -> None:
        self._line.resume_output(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lines.release(self._line, self)

    # LineConnection

    def write(self, data: bytes) -> None:
        if not self._channel.is_closing():
            self._channel.write(data)

    def close(self) -> None:
        self._channel.exit(0)

    def drop(self) -> None:
        self._connection.abort()

    def pause(self) -> None:
        self._channel.pause_reading()

    def resume(self) -> None:
        self._channel.resume_reading()


class SshServerAuthentication(asyncssh.SSHServer):
    """Password authentication of one connection, and creation of its sessions."""

    _connection: asyncssh.SSHServerConnection

    def __init__(self, lines: LineTable, check: PasswordCheck, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._lines, self._check, self._connections = lines, check, connections
        self._failures = 0

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
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
        return SshServerSession(self._lines, self._connection)


@asynccontextmanager
async def ssh_listener(lines: LineTable, check: PasswordCheck, host: str) -> AsyncIterator[tuple[int, str]]:
    """Listen on a free port while the context is open; yield the port and the fingerprint of the new host key."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    connections: set[asyncssh.SSHServerConnection] = set()
    acceptor = await asyncssh.create_server(
        lambda: SshServerAuthentication(lines, check, connections),
        host,
        0,
        server_host_keys=[key],
        # The console has a line editor, and processes bytes.
        line_editor=False,
        encoding=None,
        public_key_auth=False,
        kbdint_auth=False,
        gss_host=None,
        agent_forwarding=False,
    )
    try:
        yield acceptor.get_port(), key.get_fingerprint()
    finally:
        acceptor.close()
        while connections:
            connection = next(iter(connections))
            connection.abort()
            await connection.wait_closed()
        await acceptor.wait_closed()

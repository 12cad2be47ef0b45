"""The channel for a terminal over Telnet (RFC 854)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable
from dataclasses import replace

from transports.channel import Channel, Pty, check_window_size
from transports.errors import ChannelClosed, ConnectFailed, ConnectTimeout, Unsupported
from transports.receiver import Receiver
from transports.tcp import OutputGuard, is_timeout

from .connect_options import TelnetConnectOptions, check_options
from .connection import TelnetConnection
from .negotiation import TelnetNegotiation

#: Telnet has no mandatory handshake, and an idle console sends nothing at all. A server that negotiates starts as soon as it
#: accepts. `open` therefore waits for options until the peer sends data, or is silent for the first of these times, but at most
#: for the second one in total (seconds).
NEGOTIATION_QUIET_S = 0.05
NEGOTIATION_LIMIT_S = 0.5
#: How long a close waits for the kernel to take the remaining output.
CLOSE_GRACE_S = 1.0

SECURITY_WARNING = (
    "Telnet is not encrypted: all input and output, including passwords, crosses the network in cleartext. "
    "Use SSH if the device supports it."
)

_ENTER = {"cr": b"\r", "crlf": b"\r\n", "lf": b"\n", "pass_through": b"\n"}


class TelnetChannel(Channel):
    """Accepts ECHO, SGA, BINARY and, with a terminal, TTYPE, NAWS and NEW_ENVIRON (TERM only); refuses all other options.

    It starts no negotiation unless `binary` is True, so a raw TCP console receives only the bytes that the user sends.

    `echo_off` is never True: the ECHO option selects the side that echoes; it does not turn echo off. telnetd keeps WILL
    ECHO on while `stty -echo` hides a password, and zebra sends it when it asks for one.

    Args:
        options: the peer and the connection parameters.
        pty: the terminal to report; None refuses NAWS and TTYPE.
    """

    protocol = "telnet"
    security_warning = SECURITY_WARNING

    def __init__(self, options: TelnetConnectOptions, pty: Pty | None) -> None:
        self._options = options
        self._pty = pty
        self._peer = f"{options.host}:{options.port}"
        self._connection: TelnetConnection | None = None
        self._negotiation: TelnetNegotiation | None = None
        self._guard: Callable[[socket.socket], OutputGuard] | None = None
        self.pty_enabled = pty is not None

    def guard_output(self, may_send: Callable[[], bool], delivery_s: float) -> None:
        self._guard = lambda tcp: OutputGuard(tcp, may_send, delivery_s)

    async def open(self, receiver: Receiver) -> None:
        check_options(self._options, self._pty)
        connection = TelnetConnection(receiver, self._negotiate, self._peer, self._guard)
        with contextlib.ExitStack() as undo:
            undo.callback(connection.abandon)
            transport = await self._connect(connection)
            undo.callback(transport.abort)
            self._connection, self._negotiation = connection, connection.negotiation
            await _wait_for_negotiation(connection)
            undo.pop_all()
        self._schedule_keepalive(connection)

    @property
    def enter(self) -> bytes:
        """CR in BINARY, CR NUL otherwise (RFC 854), unless the options set the line ending."""
        if self._options.line_ending != "auto":
            return _ENTER[self._options.line_ending]
        return b"\r" if self._negotiation is not None and self._negotiation.sends_binary else b"\r\0"

    def write(self, data: bytes) -> int:
        return self._open_connection().write(data)

    async def drain(self) -> None:
        connection = self._open_connection()
        while not connection.writable.is_set():
            await connection.writable.wait()
            self._open_connection()

    def resize(self, cols: int, rows: int) -> None:
        if self._pty is None:
            raise Unsupported(
                f"the session with {self._peer} has no terminal to resize",
                hint="open the session with a terminal (pty.enabled true)",
            )
        check_window_size(cols, rows)
        self._pty = replace(self._pty, cols=cols, rows=rows)
        if self._connection is not None and self._connection.reason is None:
            self._connection.resize(self._pty)

    async def send_break(self, duration_ms: int = 250) -> None:
        """Send IAC BRK. Telnet does not transfer the duration; the peer chooses it."""
        self._open_connection().send_break()

    async def close(self, *, force: bool = False) -> None:
        connection = self._connection
        if connection is None or connection.lost.is_set():
            return
        connection.close()
        try:
            with contextlib.suppress(TimeoutError):
                if not force:
                    await asyncio.wait_for(connection.lost.wait(), CLOSE_GRACE_S)
        finally:
            connection.abort()
        await connection.lost.wait()

    def _schedule_keepalive(self, connection: TelnetConnection) -> None:
        if self._options.keepalive is not None and connection.reason is None:
            asyncio.get_running_loop().call_later(self._options.keepalive_s, self._send_keepalive, connection)

    def _send_keepalive(self, connection: TelnetConnection) -> None:
        """Send a keepalive, and schedule the next one."""
        if self._options.keepalive is not None and connection.reason is None:
            connection.send_keepalive(self._options.keepalive)
        self._schedule_keepalive(connection)

    def _open_connection(self) -> TelnetConnection:
        connection = self._connection
        if connection is None:
            raise ChannelClosed(f"the channel to {self._peer} is not open")
        if connection.reason is not None:
            raise connection.reason.with_traceback(None)
        return connection

    def _negotiate(self, transport: asyncio.Transport) -> TelnetNegotiation:
        term = self._options.term or (self._pty.term if self._pty else "")
        return TelnetNegotiation(transport, binary=self._options.binary, pty=self._pty, term=term)

    async def _connect(self, connection: TelnetConnection) -> asyncio.Transport:
        options = self._options
        timeout = asyncio.timeout(options.connect_timeout_s)
        try:
            async with timeout:
                transport, _ = await asyncio.get_running_loop().create_connection(
                    lambda: connection, options.host, options.port
                )
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that IDNA cannot encode
            if isinstance(error, OSError) and (timeout.expired() or is_timeout(error)):
                limit = (
                    f"within {options.connect_timeout_s:g} s" if timeout.expired() else "in the system's time for a connection"
                )
                hint = "check host and port, and any firewall on the path"
                raise ConnectTimeout(f"{self._peer} did not answer {limit}", hint=hint) from None
            raise ConnectFailed(f"cannot connect to {self._peer}: {_reason(error)}", hint="check host and port") from error
        return transport


def _reason(error: OSError | UnicodeError) -> str:
    """Return the operating system's message; asyncio replaces it by its own."""
    if isinstance(error, OSError) and error.errno is not None and error.errno in errno.errorcode:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error)


async def _wait_for_negotiation(connection: TelnetConnection) -> None:
    """Wait for the options that the peer negotiates right after it accepted the connection."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(NEGOTIATION_LIMIT_S):
            while not connection.has_data and connection.reason is None:
                connection.activity.clear()
                async with asyncio.timeout(NEGOTIATION_QUIET_S):
                    await connection.activity.wait()

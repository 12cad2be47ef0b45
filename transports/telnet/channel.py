"""A terminal over Telnet (RFC 854)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from dataclasses import replace

from transports.channel import Channel, Pty
from transports.errors import ChannelClosed, ConnectFailed, ConnectTimeout, Unsupported
from transports.receiver import Receiver

from .connection import Connection
from .negotiation import Negotiation
from .options import TelnetOptions, check, check_size

#: Telnet has no handshake that must be waited for: a sleeping console says nothing at all. A server that negotiates begins as
#: soon as it accepts, so `open` waits for its options until it has been quiet for so long,
NEGOTIATION_QUIET_S = 0.05
#: until it has sent something to read, or for so long in all.
NEGOTIATION_LIMIT_S = 0.5
#: How long a close waits until what was written has gone to the kernel.
CLOSE_GRACE_S = 1.0

SECURITY_WARNING = (
    "Telnet is not encrypted: all that is typed and shown, passwords too, crosses the network in cleartext. "
    "Use ssh if the device has it."
)

_ENTER = {"cr": b"\r", "crlf": b"\r\n", "lf": b"\n", "pass_through": b"\n"}


class TelnetChannel(Channel):
    """Answers ECHO, SGA, BINARY and, if there is a terminal, TTYPE, NAWS and NEW_ENVIRON (TERM alone); refuses all else.

    It begins no negotiation of its own (only `binary=True` does), so that a raw TCP console gets no byte that nobody typed.

    `echo_off` is never true: what Telnet calls ECHO says who echoes, not whether. telnetd promises WILL ECHO once and keeps
    it while `stty -echo` hides a password; zebra too promises it while it asks for one.

    Args:
        options: where to connect to.
        pty: the terminal to tell of, None for none: NAWS and TTYPE are then refused.
    """

    protocol = "telnet"
    security_warning = SECURITY_WARNING

    def __init__(self, options: TelnetOptions, pty: Pty | None) -> None:
        self._options = options
        self._pty = pty
        self._peer = f"{options.host}:{options.port}"
        self._connection: Connection | None = None
        self.pty_enabled = pty is not None

    async def open(self, receiver: Receiver) -> None:
        check(self._options, self._pty)
        connection = Connection(receiver, self._negotiate, self._peer)
        with contextlib.ExitStack() as undo:
            undo.callback(connection.abandon)
            transport = await self._connect(connection)
            undo.callback(transport.abort)
            self._connection = connection
            await _settle(connection)
            undo.pop_all()
        self._keep_alive_later(connection)

    @property
    def enter(self) -> bytes:
        """RFC 854: CR stands alone nowhere but in BINARY; CR NUL is one Enter on every peer that is not."""
        if self._options.line_ending != "auto":
            return _ENTER[self._options.line_ending]
        return b"\r" if self._connection is not None and self._connection.negotiation.sends_binary else b"\r\0"

    def write(self, data: bytes) -> int:
        return self._alive().write(data)

    async def drain(self) -> None:
        connection = self._alive()
        while not connection.writable.is_set():
            await connection.writable.wait()
            self._alive()

    def resize(self, cols: int, rows: int) -> None:
        if self._pty is None:
            raise Unsupported(f"the session with {self._peer} has no terminal to resize; open it with pty.enabled true")
        check_size(cols, rows)
        self._pty = replace(self._pty, cols=cols, rows=rows)
        if self._connection is not None and self._connection.reason is None:
            self._connection.negotiation.resize(self._pty)

    async def send_break(self, duration_ms: int = 250) -> None:
        """Sends IAC BRK. Telnet knows no duration: the far end chooses it."""
        self._alive().negotiation.send_break()

    async def close(self, *, force: bool = False) -> None:
        connection = self._connection
        if connection is None or connection.lost.is_set():
            return
        connection.close()
        try:
            if not force:
                async with asyncio.timeout(CLOSE_GRACE_S):
                    await connection.lost.wait()
        except TimeoutError:
            pass
        finally:
            connection.transport.abort()
        await connection.lost.wait()

    def _keep_alive_later(self, connection: Connection) -> None:
        if self._options.keepalive is not None and connection.reason is None:
            asyncio.get_running_loop().call_later(self._options.keepalive_s, self._keep_alive, connection)

    def _keep_alive(self, connection: Connection) -> None:
        """What the kernel has not taken yet keeps the line busy enough."""
        if self._options.keepalive is not None and connection.reason is None and connection.writable.is_set():
            connection.negotiation.keep_alive(self._options.keepalive)
        self._keep_alive_later(connection)

    def _alive(self) -> Connection:
        connection = self._connection
        if connection is None:
            raise ChannelClosed(f"the channel to {self._peer} is not open")
        if connection.reason is not None:
            raise connection.reason.with_traceback(None)
        return connection

    def _negotiate(self, transport: asyncio.Transport) -> Negotiation:
        term = self._options.term or (self._pty.term if self._pty else "")
        return Negotiation(transport, binary=self._options.binary, pty=self._pty, term=term)

    async def _connect(self, connection: Connection) -> asyncio.Transport:
        options = self._options
        try:
            async with asyncio.timeout(options.connect_timeout_s):
                transport, _ = await asyncio.get_running_loop().create_connection(
                    lambda: connection, options.host, options.port
                )
        except TimeoutError:
            raise ConnectTimeout(
                f"{self._peer} did not answer within {options.connect_timeout_s:g} s; check host, port and any firewall between"
            ) from None
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that IDNA cannot encode
            raise ConnectFailed(f"cannot connect to {self._peer}: {_why(error)}; check host and port") from error
        return transport


def _why(error: OSError | UnicodeError) -> str:
    """The system's own words: asyncio puts others in their place."""
    if isinstance(error, OSError) and error.errno is not None and error.errno in errno.errorcode:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error)


async def _settle(connection: Connection) -> None:
    """Waits for the options that the peer asks for on its own."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(NEGOTIATION_LIMIT_S):
            while not connection.has_data and connection.reason is None:
                connection.heard.clear()
                async with asyncio.timeout(NEGOTIATION_QUIET_S):
                    await connection.heard.wait()

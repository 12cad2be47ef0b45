"""The parameters of a Telnet channel, and their validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from transports.channel import MAX_PORT, Pty, check_window_size
from transports.errors import InvalidOption

LineEnding = Literal["auto", "cr", "crlf", "lf", "pass_through"]
Keepalive = Literal["nop", "ayt"]

#: Default interval between keepalives, seconds; shorter than the idle timeout of common firewalls.
KEEPALIVE_S = 60.0

#: Maximum length of a terminal type (RFC 1091), characters.
MAX_TERM_CHARS = 40


@dataclass(frozen=True, slots=True)
class TelnetConnectOptions:
    """The peer to connect to, and how.

    Args:
        host: a host name or an address.
        port: TCP port, 1 to 65535.
        line_ending: the bytes of the Enter key. `auto` conforms to RFC 854: CR while BINARY is on in our direction, CR NUL
            otherwise. `cr`, `crlf` and `lf` serve peers that deviate. `pass_through` sends a line feed, for data that already
            contains its line endings.
        binary: True requests BINARY (RFC 856) in both directions, False refuses it, None accepts it if the peer requests it.
        connect_timeout_s: limit for name resolution and the TCP connection, seconds.
        term: the terminal type to report instead of the `term` of the `Pty`.
        keepalive: the command sent every `keepalive_s` seconds so that no device on the path drops the connection as idle:
            NOP, which has no effect, or AYT, to which a peer responds with visible output (RFC 854). None sends nothing; TCP
            keepalives detect a dead peer in any case.
    """

    host: str
    port: int = 23
    line_ending: LineEnding = "auto"
    binary: bool | None = None
    connect_timeout_s: float = 15.0
    term: str | None = None
    keepalive: Keepalive | None = None
    keepalive_s: float = KEEPALIVE_S


def check_options(options: TelnetConnectOptions, pty: Pty | None) -> None:
    """Validate the options.

    Raises:
        InvalidOption: names the invalid option and the permitted values.
    """
    if not options.host or not options.host.isprintable():
        raise InvalidOption("host must be a name or an address", option="host")
    if not 1 <= options.port <= MAX_PORT:
        raise InvalidOption(f"port {options.port} is not within 1 to {MAX_PORT}", option="port")
    if options.line_ending not in get_args(LineEnding):
        raise InvalidOption(f"line_ending must be one of {', '.join(get_args(LineEnding))}", option="line_ending")
    if not options.keepalive_s > 0:
        raise InvalidOption("keepalive_s must be more than 0 seconds", hint="omit keepalive to send none", option="keepalive_s")
    if not options.connect_timeout_s > 0:
        raise InvalidOption("connect_timeout_s must be more than 0 seconds", option="connect_timeout_s")
    if pty is not None:
        check_window_size(pty.cols, pty.rows)
        check_term(pty.term if options.term is None else options.term)


def check_term(term: str) -> None:
    """Validate a terminal type for TTYPE (RFC 1091: 1 to 40 characters of NVT ASCII).

    Raises:
        InvalidOption: it is empty, too long, or not printable ASCII.
    """
    if not (1 <= len(term) <= MAX_TERM_CHARS and term.isascii() and term.isprintable() and " " not in term):
        raise InvalidOption(f"term must be 1 to {MAX_TERM_CHARS} printable ASCII characters, without spaces", option="term")

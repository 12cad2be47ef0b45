"""What a Telnet channel can be asked for, checked before anything is tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from transports.channel import Pty
from transports.errors import InvalidOption

LineEnding = Literal["auto", "cr", "crlf", "lf", "pass_through"]
Keepalive = Literal["nop", "ayt"]

#: Shorter than the time after which firewalls forget a line.
KEEPALIVE_S = 60.0

MAX_PORT = 65535
MAX_CELLS = 65535  # RFC 1073: NAWS has 16 bits for each direction
MAX_TERM_CHARS = 40  # RFC 1091


@dataclass(frozen=True, slots=True)
class TelnetOptions:
    """Where to connect to, and how.

    Args:
        host: a name or an address.
        port: TCP, 1 to 65535.
        line_ending: what one press of Enter sends. `auto` is right for every peer that keeps RFC 854: CR while we send
            BINARY, CR NUL otherwise. `cr`, `crlf` and `lf` are for those that do not. `pass_through` is for bytes that
            hold their ends of line already: a line feed goes out as it is.
        binary: True asks for BINARY (RFC 856) both ways, False refuses it, None leaves it to the far end.
        connect_timeout_s: seconds until the TCP connection must stand, name resolution included.
        term: the name told to the far end, where it is not to be the `term` of the `Pty`.
        keepalive: what is sent each `keepalive_s` seconds, so that nothing on the way takes the line for unused: NOP, which
            does nothing, or AYT, which a peer answers by printing something (RFC 854). None sends nothing: TCP's own
            keepalives find a dead peer all the same.
    """

    host: str
    port: int = 23
    line_ending: LineEnding = "auto"
    binary: bool | None = None
    connect_timeout_s: float = 15.0
    term: str | None = None
    keepalive: Keepalive | None = None
    keepalive_s: float = KEEPALIVE_S


def check(options: TelnetOptions, pty: Pty | None) -> None:
    """Refuses what cannot be.

    Raises:
        InvalidOption: names the option, and what it may be.
    """
    if not options.host or not options.host.isprintable():
        raise InvalidOption("host must be a name or an address", option="host")
    if not 1 <= options.port <= MAX_PORT:
        raise InvalidOption(f"port {options.port} is not within 1 to {MAX_PORT}", option="port")
    if options.line_ending not in get_args(LineEnding):
        raise InvalidOption(f"line_ending must be one of {', '.join(get_args(LineEnding))}", option="line_ending")
    if not options.keepalive_s > 0:
        raise InvalidOption("keepalive_s must be more than 0 seconds; leave keepalive out for none", option="keepalive_s")
    if not options.connect_timeout_s > 0:
        raise InvalidOption("connect_timeout_s must be more than 0 seconds", option="connect_timeout_s")
    if pty is not None:
        check_size(pty.cols, pty.rows)
        check_term(pty.term if options.term is None else options.term)


def check_size(cols: int, rows: int) -> None:
    """Refuses a window that NAWS cannot tell of (RFC 1073).

    Raises:
        InvalidOption: a direction is not within 1 to 65535 characters.
    """
    if not (1 <= cols <= MAX_CELLS and 1 <= rows <= MAX_CELLS):
        raise InvalidOption(f"a window of {cols} x {rows} is not within 1 x 1 to {MAX_CELLS} x {MAX_CELLS}", option="pty")


def check_term(term: str) -> None:
    """Refuses a name that TTYPE cannot carry (RFC 1091: 1 to 40 characters of NVT ASCII).

    Raises:
        InvalidOption: too long, empty, or not printable ASCII.
    """
    if not (1 <= len(term) <= MAX_TERM_CHARS and term.isascii() and term.isprintable() and " " not in term):
        raise InvalidOption(f"term must be 1 to {MAX_TERM_CHARS} printable ASCII characters, without spaces", option="term")

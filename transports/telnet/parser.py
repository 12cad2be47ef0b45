"""Parser that separates data and commands in the bytes of a Telnet peer (RFC 854, 855). Pure: no I/O, no negotiation state."""

from __future__ import annotations

import re
from dataclasses import dataclass

IAC = b"\xff"

#: Maximum size of a subnegotiation, bytes on the wire; bounds the memory. The longest useful one is a list of environment
#: variables, some hundred bytes.
MAX_SUBNEGOTIATION = 8192
#: Maximum number of commands in one feed; more are dropped. A login has tens; a peer that floods the client with them would
#: block the event loop.
MAX_COMMANDS = 250


@dataclass(frozen=True, slots=True)
class TelnetCommand:
    """IAC, `verb` (WILL, WONT, DO or DONT), `option`: one byte each (RFC 854)."""

    verb: bytes
    option: bytes


@dataclass(frozen=True, slots=True)
class Subnegotiation:
    """The bytes between IAC SB and IAC SE, beginning with the option, with IAC IAC unescaped (RFC 855)."""

    payload: bytes


TelnetEvent = bytes | TelnetCommand | Subnegotiation

# Possessive quantifiers make matching linear. A lone IAC at the end matches nothing and stays pending.
_RUN = rb"(?:[^\xff]++|\xff\xff)"
# RFC 855 allows no command within a subnegotiation. A command there terminates it and is processed.
_SUBNEGOTIATION_END = rb"(?:(?P<se>\xff\xf0)|(?=\xff[^\xf0\xff]))"
_TOKEN = re.compile(
    b"|".join(
        (
            rb"(?P<data>" + _RUN + rb"++)",
            rb"\xff(?P<verb>[\xfb-\xfe])(?P<option>.)",
            rb"\xff\xfa(?P<payload>" + _RUN + rb"*+)" + _SUBNEGOTIATION_END,
            # Commands that need no response of a client (NOP, DM, GA, AYT ...), and undefined ones.
            rb"(?:\xff[^\xfa-\xff])++",
        )
    ),
    re.DOTALL,
)
_OVERLONG = re.compile(_RUN + rb"*+(?P<end>" + _SUBNEGOTIATION_END + rb")?", re.DOTALL)


class TelnetParser:
    """Incremental parser. Buffers at most one incomplete command of up to `MAX_SUBNEGOTIATION` bytes."""

    def __init__(self) -> None:
        self._pending = b""
        self._overlong = False

    def feed(self, data: bytes) -> list[TelnetEvent]:
        """Return the events that `data` completes, in order; IAC IAC in data is unescaped, irrelevant commands are dropped.

        Data is one event up to the next command.
        """
        if not self._pending and not self._overlong and IAC not in data:
            return [data] if data else []
        data = self._pending + data
        position = self._skip(data) if self._overlong else 0
        events: list[TelnetEvent] = []
        text: list[bytes] = []
        commands = 0
        while token := _TOKEN.match(data, position):
            position = token.end()
            if token.lastgroup == "data":
                text.append(token["data"])
            elif commands < MAX_COMMANDS and (command := _command(token)) is not None:
                commands += 1
                events += _data(text)
                events.append(command)
        self._keep(data[position:])
        return events + _data(text)

    def _skip(self, data: bytes) -> int:
        """Return the number of bytes that belong to the current overlong subnegotiation."""
        part = _OVERLONG.match(data)
        assert part is not None  # the pattern matches the empty string
        self._overlong = part["end"] is None
        return part.end()

    def _keep(self, rest: bytes) -> None:
        # 3: the leading IAC SB and a trailing IAC do not count.
        if len(rest) <= MAX_SUBNEGOTIATION + 3:
            self._pending = rest
            return
        self._overlong = True
        self._pending = rest[2 + self._skip(rest[2:]) :]


def _data(text: list[bytes]) -> list[bytes]:
    """Return the data of an event, if there is any, and clear the list."""
    data = b"".join(text).replace(IAC + IAC, IAC)
    text.clear()
    return [data] if data else []


def _command(token: re.Match[bytes]) -> TelnetCommand | Subnegotiation | None:
    if (verb := token["verb"]) is not None:
        return TelnetCommand(verb, token["option"])
    payload = token["payload"]
    if payload is None or token["se"] is None or len(payload) > MAX_SUBNEGOTIATION:
        return None
    return Subnegotiation(payload.replace(IAC + IAC, IAC))

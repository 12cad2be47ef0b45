"""Cuts what a Telnet peer sends into data and commands (RFC 854, 855). Pure: bytes in, values out, however they were cut."""

from __future__ import annotations

import re
from dataclasses import dataclass

IAC = b"\xff"

#: The most a subnegotiation may hold, in bytes on the wire. The longest that a server has reason to send is a list of
#: environment variables, some hundred bytes; one that never ends must not fill the memory.
MAX_SUBNEGOTIATION = 8192


@dataclass(frozen=True, slots=True)
class Command:
    """IAC, `verb` (WILL, WONT, DO or DONT), `option`: one byte each (RFC 854)."""

    verb: bytes
    option: bytes


@dataclass(frozen=True, slots=True)
class Subnegotiation:
    """What stands between IAC SB and IAC SE, the option first, IAC IAC undone (RFC 855)."""

    payload: bytes


Event = bytes | Command | Subnegotiation

# Possessive, so that a match costs linear time: no byte is looked at twice. A lone IAC at the end fits nothing: it waits.
_RUN = rb"(?:[^\xff]++|\xff\xff)"
# RFC 855 knows no command inside a subnegotiation. One that comes all the same ends it, and counts.
_SUBNEGOTIATION_END = rb"(?:(?P<se>\xff\xf0)|(?=\xff[^\xf0\xff]))"
_TOKEN = re.compile(
    b"|".join(
        (
            rb"(?P<data>" + _RUN + rb"++)",
            rb"\xff(?P<verb>[\xfb-\xfe])(?P<option>.)",
            rb"\xff\xfa(?P<payload>" + _RUN + rb"*+)" + _SUBNEGOTIATION_END,
            # NOP, DM, GA, AYT and all that ask nothing of a client, and what is no command at all.
            rb"(?:\xff[^\xfa-\xff])++",
        )
    ),
    re.DOTALL,
)
_OVERLONG = re.compile(_RUN + rb"*+(?P<end>" + _SUBNEGOTIATION_END + rb")?", re.DOTALL)


class Scanner:
    """Remembers what the next bytes may complete: at most one command, `MAX_SUBNEGOTIATION` bytes long."""

    def __init__(self) -> None:
        self._held = b""
        self._overlong = False

    def feed(self, data: bytes) -> list[Event]:
        """What `data` completes, in order. Data has IAC IAC undone; a command without meaning for a client is left out."""
        if not self._held and not self._overlong and IAC not in data:
            return [data] if data else []
        data = self._held + data
        position = self._skip(data) if self._overlong else 0
        events: list[Event] = []
        while token := _TOKEN.match(data, position):
            position = token.end()
            event = _event(token)
            if event is not None:
                events.append(event)
        self._hold(data[position:])
        return events

    def _skip(self, data: bytes) -> int:
        """The length of what still belongs to a subnegotiation that is too long."""
        part = _OVERLONG.match(data)
        assert part is not None  # the pattern fits the empty string
        self._overlong = part["end"] is None
        return part.end()

    def _hold(self, rest: bytes) -> None:
        # IAC SB before it and a lone IAC behind it are not counted.
        if len(rest) <= MAX_SUBNEGOTIATION + 3:
            self._held = rest
            return
        self._overlong = True
        self._held = rest[2 + self._skip(rest[2:]) :]


def _event(token: re.Match[bytes]) -> Event | None:
    if (data := token["data"]) is not None:
        return data.replace(IAC + IAC, IAC)
    if (verb := token["verb"]) is not None:
        return Command(verb, token["option"])
    payload = token["payload"]
    if payload is None or token["se"] is None or len(payload) > MAX_SUBNEGOTIATION:
        return None
    return Subnegotiation(payload.replace(IAC + IAC, IAC))

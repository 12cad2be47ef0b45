"""Way 1 to know a run's end: marks that a shell sends in-band, as a private OSC sequence (design, section 5).

    OSC 7717 ; nonce ; counter ; P ; status ; ts ; cwd      a prompt is about to be shown
    OSC 7717 ; nonce ; counter ; B [ ; command ]            a command line was read and now runs
    OSC 7717 ; nonce ; counter ; E ; status                 it has ended

No screen shows them. The nonce is the session's own and the counter only grows, so old output that is shown again says nothing.
Where a wrapper types them, a begin has the status before in place of the command.
`ts` is epoch ms, or empty where the shell has no clock; `cwd` and `command` are percent-encoded as far as they must be, and
a long command is cut.
"""

from __future__ import annotations

import base64
from typing import Literal, NamedTuple
from urllib.parse import unquote_to_bytes

MarkKind = Literal["prompt", "begin", "end"]

OSC_NUMBER = b"7717"
SENTINEL = b"__FWS_PROMPT__"
_KINDS: dict[bytes, MarkKind] = {b"P": "prompt", b"B": "begin", b"E": "end"}
_FIELDS: dict[MarkKind, tuple[int, ...]] = {"prompt": (7,), "begin": (4, 5, 6, 7), "end": (5,)}


class Mark(NamedTuple):
    """What a shell announced. `status` is an exit status with prompt and end; `cwd` is bytes, as the system has it; `command`
    is what was typed, where the shell tells it."""

    nonce: str
    counter: int
    kind: MarkKind
    status: int | None = None
    ts: int | None = None
    cwd: bytes | None = None
    command: bytes | None = None


class PlacedMark(NamedTuple):
    """A mark and where it stood: bytes in the raw stream, and the spool's size before and behind the text that it left."""

    mark: Mark
    raw_begin: int
    raw_end: int
    spool_begin: int
    spool_end: int


class MarkReader:
    """Tells this session's marks from all else. Each source has a nonce and a counter; a mark must be newer than the last."""

    def __init__(self, *nonces: str) -> None:
        self._last = {nonce.encode(): 0 for nonce in nonces}

    @classmethod
    def resume(cls, counters: dict[str, int]) -> MarkReader:
        """As one that has read so far: `counters` of an earlier one."""
        reader = cls()
        reader._last = {nonce.encode(): counter for nonce, counter in counters.items()}
        return reader

    def counters(self) -> dict[str, int]:
        """The last counter of each nonce."""
        return {nonce.decode(): counter for nonce, counter in self._last.items()}

    def read(self, payload: bytes) -> Mark | None:
        """The mark in the payload of an OSC, or None."""
        if not payload.startswith(OSC_NUMBER):
            return None
        parts = payload.split(b";", 6)
        last = self._last.get(parts[1] if len(parts) > 1 else b"")
        mark = _parse(parts) if last is not None and parts[0] == OSC_NUMBER else None
        if mark is None or last is None or mark.counter <= last:
            return None
        self._last[parts[1]] = mark.counter
        return mark

    def next_counter(self, nonce: str) -> int:
        """One that is newer than all that this source has sent."""
        return self._last[nonce.encode()] + 1


def format_sentinel(mark: Mark, ts: int) -> bytes:
    """The line that a prompt mark leaves in the spool; `ts` stands in where the shell gave no time."""
    cwd = base64.b64encode(mark.cwd or b"")
    return b"%s ts=%d cwd_b64=%s exit=%d\n" % (SENTINEL, mark.ts if mark.ts is not None else ts, cwd, mark.status or 0)


def read_sentinel(line: bytes) -> Mark:
    """The mark that left this line in the spool."""
    fields = dict(field.split(b"=", 1) for field in line.split()[1:])
    cwd = base64.b64decode(fields[b"cwd_b64"])
    return Mark("", 0, "prompt", int(fields[b"exit"]), int(fields[b"ts"]), cwd)


def _parse(parts: list[bytes]) -> Mark | None:
    kind = _KINDS.get(parts[3] if len(parts) > 3 else b"")
    if kind is None or len(parts) not in _FIELDS[kind] or not _numeric(parts[2]):
        return None
    nonce, counter = parts[1].decode(), int(parts[2])
    if kind == "begin":
        return Mark(nonce, counter, kind, command=unquote_to_bytes(b";".join(parts[4:])) if len(parts) > 4 else None)
    if not _numeric(parts[4]):
        return None
    if kind == "end":
        return Mark(nonce, counter, kind, int(parts[4]))
    ts = int(parts[5]) if _numeric(parts[5]) else None
    return Mark(nonce, counter, kind, int(parts[4]), ts, unquote_to_bytes(parts[6]))


def _numeric(text: bytes) -> bool:
    return text.isdigit() and len(text) < 16

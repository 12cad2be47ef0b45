"""In-band marks: a private OSC sequence with which a shell reports its prompt and the begin and end of commands.

    OSC 7717 ; nonce ; counter ; P ; status ; ts ; cwd      the prompt follows
    OSC 7717 ; nonce ; counter ; B [ ; command ]            a command line starts to run
    OSC 7717 ; nonce ; counter ; E ; status                 the command line has ended

Terminals do not display them. The nonce belongs to the session and the counter grows, so replayed output has no effect. In a
begin mark sent by a command marker (`marker.py`), the previous status takes the place of the command. `ts` is epoch ms, or
empty if the shell has no clock. `cwd` and `command` are percent-encoded where necessary; a long command is truncated.
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
    """A mark sent by a shell.

    `status` is an exit status in prompt and end marks, `cwd` a path in bytes, and `command` the command line if the shell
    reports it.
    """

    nonce: str
    counter: int
    kind: MarkKind
    status: int | None = None
    ts: int | None = None
    cwd: bytes | None = None
    command: bytes | None = None

    @property
    def directory(self) -> str | None:
        """The working directory as text: bytes that are not UTF-8 are replaced."""
        return None if self.cwd is None else self.cwd.decode("utf-8", "replace")


class PlacedMark(NamedTuple):
    """A mark with its raw offsets, and the spool offsets before and after its sentinel line."""

    mark: Mark
    raw_begin: int
    raw_end: int
    spool_begin: int
    spool_end: int


class MarkReader:
    """Accepts the marks of one session. Each source has a nonce and a counter; a mark must be newer than the last one."""

    def __init__(self, *nonces: str) -> None:
        self._last = {nonce.encode(): 0 for nonce in nonces}

    @classmethod
    def resume(cls, counters: dict[str, int]) -> MarkReader:
        """Create a reader that continues from the counters of an earlier one."""
        reader = cls()
        reader._last = {nonce.encode(): counter for nonce, counter in counters.items()}
        return reader

    def counters(self) -> dict[str, int]:
        """Return the last counter of each nonce."""
        return {nonce.decode(): counter for nonce, counter in self._last.items()}

    def read(self, payload: bytes) -> Mark | None:
        """Return the mark in the payload of an OSC, or None."""
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
        """Return a counter newer than all marks of this source."""
        return self._last[nonce.encode()] + 1


def format_sentinel(mark: Mark, ts: int) -> bytes:
    """Return the sentinel line of a prompt mark in the spool; `ts` is used for a mark without a time."""
    cwd = base64.b64encode(mark.cwd or b"")
    return b"%s ts=%d cwd_b64=%s exit=%d\n" % (SENTINEL, mark.ts if mark.ts is not None else ts, cwd, mark.status or 0)


def read_sentinel(line: bytes) -> Mark:
    """Return the prompt mark of a sentinel line."""
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

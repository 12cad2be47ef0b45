"""In-band marks: a private OSC sequence with which a shell reports its prompt, and the start and end of commands.

    OSC 7717 ; nonce ; counter ; P ; status [+] [, line] ; ts [, keys] ; cwd  the prompt follows
    OSC 7717 ; nonce ; counter ; L [; line]                                   the line editor waits for a key
    OSC 7717 ; nonce ; counter ; B [ ; command ]                              a command line starts to run
    OSC 7717 ; nonce ; counter ; E ; status                                   the command line has ended

Terminals do not display them. The nonce belongs to the session and the counter grows, so replayed output has no effect.
Prompt and line marks count only with the nonce of the shell's integration: any program in the terminal can read that of
typed marks. A line mark directly follows the prompt mark that announces it. In a begin mark sent by a command marker
(`marker.py`), the previous status takes the place of the command. `ts` is epoch ms, or empty if the shell has no clock.
`keys` are bindings that a start-up file has changed (`ptyctl/policy/key_bindings.py`). `line` is text that the shell has put
after the prompt (`print -z` of zsh, a pushed line); it is empty if the text is long or unknown. With `+`, hooks of the shell
may put more text there before it reads: an L mark follows with the whole text. `line`, `keys`, `cwd` and
`command` are percent-encoded where necessary; a long command is truncated.
"""

from __future__ import annotations

import base64
import re
from typing import Literal, NamedTuple
from urllib.parse import unquote_to_bytes

MarkKind = Literal["prompt", "line", "begin", "end"]

OSC_NUMBER = b"7717"
SENTINEL = b"__FWS_PROMPT__"
#: Largest step from one counter to the next. The shell uses at most 5 numbers for each command.
_MAX_STEP = 100_000
#: The payload of a mark, with the fields of each kind.
_MARK = re.compile(
    OSC_NUMBER + rb";(?P<nonce>[^;]*);(?P<counter>[0-9]{1,15});"
    rb"(?:P;(?P<prompt>[0-9]{1,15})(?P<follows>\+?)(?:,(?P<line>[^;]*))?;(?P<ts>[^;,]*)(?:,(?P<keys>[^;]*))?;(?P<cwd>.*)"
    rb"|L(?P<filled>;[^;]*)?|B(?:;(?P<command>.*))?|E;(?P<end>[0-9]{1,15}))",
    re.DOTALL,
)


class Mark(NamedTuple):
    """A mark sent by a shell.

    `status` is an exit status in prompt and end marks, `cwd` a path in bytes, and `command` the command line if the shell
    reports it. `keys` are the bindings that a prompt mark reports; None for a mark that was not read from a shell. `line` is
    the text that the shell has put into the line: empty if the text is not known, None if there is none. `line_follows` is
    whether it may put more text there, which a line mark reports.
    """

    nonce: str
    counter: int
    kind: MarkKind
    status: int | None = None
    ts: int | None = None
    cwd: bytes | None = None
    command: bytes | None = None
    keys: str | None = None
    line: bytes | None = None
    line_follows: bool = False

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
    """Accepts the marks of one session. Each source has a nonce and a counter, which must increase by at most `_MAX_STEP`.

    The last nonce identifies the shell's integration, the only source of prompt and line marks.
    """

    def __init__(self, *nonces: str) -> None:
        self._last = {nonce.encode(): 0 for nonce in nonces}
        self._shell = nonces[-1].encode() if nonces else b""
        self._line_counter: int | None = None  # of the line mark that the last prompt mark has announced

    @classmethod
    def resume(cls, counters: dict[str, int], *, line_follows: bool = False) -> MarkReader:
        """Create a reader that continues from the counters of an earlier one.

        `line_follows`: whether the last mark of the shell was a prompt mark that announces a line mark.
        """
        reader = cls(*counters)
        reader._last = {nonce.encode(): counter for nonce, counter in counters.items()}
        reader._line_counter = reader._last[reader._shell] + 1 if line_follows and counters else None
        return reader

    def counters(self) -> dict[str, int]:
        """Return the last counter of each nonce."""
        return {nonce.decode(): counter for nonce, counter in self._last.items()}

    def read(self, payload: bytes) -> Mark | None:
        """Return the mark in the payload of an OSC, or None."""
        found = _MARK.fullmatch(payload)
        if found is None:
            return None
        source, number, prompt, follows, line, time, keys, cwd, filled, command, end = found.groups()
        last, counter = self._last.get(source), int(number)
        if last is None or not last < counter <= last + _MAX_STEP:
            return None
        is_line = payload[found.end("counter") + 1 :][:1] == b"L"
        if (prompt is not None or is_line) and source != self._shell:
            return None
        if is_line and counter != self._line_counter:
            return None
        self._last[source], nonce = counter, source.decode()
        if source == self._shell:
            self._line_counter = counter + 1 if follows else None
        if prompt is not None:
            ts = int(time) if time.isdigit() and len(time) < 16 else None
            bindings = unquote_to_bytes(keys or b"").decode("utf-8", "replace")
            text = None if line is None else unquote_to_bytes(line)
            status, directory = int(prompt), unquote_to_bytes(cwd)
            return Mark(nonce, counter, "prompt", status, ts, directory, None, bindings, text, line_follows=follows != b"")
        if end is not None:
            return Mark(nonce, counter, "end", int(end))
        if is_line:
            return Mark(nonce, counter, "line", line=None if filled is None else unquote_to_bytes(filled[1:]))
        return Mark(nonce, counter, "begin", command=None if command is None else unquote_to_bytes(command))

    def is_of_shell(self, mark: Mark) -> bool:
        """Return whether a mark was sent by the shell's integration."""
        return mark.nonce.encode() == self._shell

    def next_counter(self, nonce: str) -> int:
        """Return a counter newer than all marks of this source."""
        return self._last[nonce.encode()] + 1


def with_line(prompt: Mark | None, mark: Mark) -> Mark | None:
    """Return a prompt mark with the text of the line mark that follows it."""
    return None if prompt is None else prompt._replace(line=mark.line, line_follows=False)


def format_sentinel(mark: Mark, ts: int) -> bytes:
    """Return the sentinel line of a prompt mark in the spool; `ts` is used for a mark without a time."""
    cwd = base64.b64encode(mark.cwd or b"")
    return b"%s ts=%d cwd_b64=%s exit=%d\n" % (SENTINEL, mark.ts if mark.ts is not None else ts, cwd, mark.status or 0)


def read_sentinel(line: bytes) -> Mark:
    """Return the prompt mark of a sentinel line."""
    fields = dict(field.split(b"=", 1) for field in line.split()[1:])
    cwd = base64.b64decode(fields[b"cwd_b64"])
    return Mark("", 0, "prompt", int(fields[b"exit"]), int(fields[b"ts"]), cwd)

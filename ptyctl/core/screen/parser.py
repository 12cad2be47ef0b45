"""Splits bytes into text, controls and sequences; the result does not depend on how the bytes are split.

Sequences are read as a terminal reads them (see `ptyctl.core.control_sequences`) and held back until they are complete. C1
controls are recognised in their 7-bit form only; as UTF-8 characters they are dropped, as in tmux.
"""

from __future__ import annotations

import codecs
import copy
import re
from functools import lru_cache
from typing import NamedTuple

from ptyctl.core.control_sequences import ESC as ESC_BYTE
from ptyctl.core.control_sequences import (
    OSC_BODY,
    OSC_END,
    STRING_BODY,
    STRING_END,
    STRING_INTRODUCER,
    TERMINAL_CSI_BODY,
    TERMINAL_CSI_END,
    TERMINAL_ENDS,
    TERMINAL_ESCAPE_BODY,
    TERMINAL_ESCAPE_END,
    TERMINAL_ESCAPE_FINAL,
    TERMINAL_IGNORED,
    TERMINAL_INTRODUCER,
)

#: Longer sequences are skipped: no known sequence is longer than a title.
MAX_SEQUENCE = 4096
_MAX_CACHED = 16
ESC = ESC_BYTE.decode()

_SEQUENCE = (
    rf"\x1b(?:{TERMINAL_IGNORED}{{0,64}}(?:"
    rf"\[{TERMINAL_CSI_BODY}{TERMINAL_CSI_END}"
    rf"|\]{OSC_BODY}{OSC_END}"
    rf"|{STRING_INTRODUCER}{STRING_BODY}{STRING_END}"
    rf"|{TERMINAL_ESCAPE_BODY}{TERMINAL_ESCAPE_END}"
    rf"|{TERMINAL_ESCAPE_FINAL}|(?=\x1b))"
    rf"|{TERMINAL_IGNORED}{{65}})"
)
#: A plain CSI, or controls or another sequence, followed by text. A long CSI is not plain: it may exceed the limit. The last
#: alternative is a partial sequence. The last match is always empty.
_TOKEN = re.compile(
    rf"(?:\x1b\[([0-9;:]{{0,256}})([@-~])|([\x00-\x1a\x1c-\x1f\x7f-\x9f]+|{_SEQUENCE}|\x1b[\s\S]*))?([^\x00-\x1f\x7f-\x9f]*)"
)
_COMPLETE = re.compile(_SEQUENCE)
_INTRODUCER = re.compile(TERMINAL_INTRODUCER)
_ENDS = {introducer: re.compile(end) for introducer, end in TERMINAL_ENDS.items()}
#: By introducer: the start of an unknown sequence with the same end as the one that is skipped.
_UNKNOWN_START = {"[": "\x1b[!0", "": "\x1b  "}
_CSI_PARTS = re.compile(r"([<-?]?)([0-9:;]*)([ -/]*)([@-~])")
_ESCAPE_PARTS = re.compile(r"()()([ -/]*)([0-~])")

#: The numeric parameters of a control sequence.
Numbers = tuple[int, ...]
#: Parameters and final byte of a plain CSI, or a run of controls or any other sequence; and the text that follows.
OutputToken = tuple[str, str, str, str]


class Sequence(NamedTuple):
    """The parts of a complete sequence.

    `kind` is the introducer: `[` for CSI, `]` for OSC, `P` `X` `^` `_` for the other strings, or empty. A string has its text
    in `parameters` and its terminator in `final`. A cancelled or malformed sequence has no `final`. `controls` are the C0
    controls within the sequence.
    """

    kind: str
    private: str
    parameters: str
    intermediates: str
    final: str
    controls: str


class Tokenizer:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._partial = ""
        #: The introducer of a too long sequence until its end is found.
        self._skipping: str | None = None

    @property
    def between_tokens(self) -> bool:
        return not self._partial and self._skipping is None

    def tokens(self, data: bytes) -> list[OutputToken]:
        """Return the tokens that are complete after `data`; the last one may be empty."""
        text = self._decoder.decode(data)
        if self._partial:
            text = self._partial + text
            self._partial = ""
        if self._skipping is not None:
            text = self._skip_sequence(text, self._skipping)
        tokens = _TOKEN.findall(text)
        begin = _partial_start(text)
        if begin < len(text):
            del tokens[-2:]
            self._hold(text[begin:])
        return tokens

    def _hold(self, partial: str) -> None:
        """Hold back a partial sequence; of a too long one only the end is searched."""
        if len(partial) > MAX_SEQUENCE:
            introducer = _INTRODUCER.match(partial)
            self._skipping = introducer[2] if introducer else ""
            partial = _half_terminator(partial)
        self._partial = partial

    def skip(self) -> None:
        """Continue after skipped bytes that ended with a control. Drops an incomplete character before them."""
        self._decoder.reset()

    def pending(self) -> bytes:
        """Return bytes that bring a new tokenizer to this state."""
        start = ""
        if self._skipping is not None:
            start = _UNKNOWN_START.get(self._skipping, f"{ESC}{self._skipping}?")
        return (start + self._partial).encode("utf-8") + self._decoder.getstate()[0]

    def copy(self) -> Tokenizer:
        other = copy.copy(self)
        other._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        other._decoder.setstate(self._decoder.getstate())
        return other

    def _skip_sequence(self, text: str, introducer: str) -> str:
        """Return the part of `text` after the end of the skipped sequence."""
        end = _ENDS[introducer].search(text)
        if end is None:
            self._partial = _half_terminator(text)
            return ""
        self._skipping = None
        return text[end.end() :]


def parse_sequence(raw: str) -> Sequence | None:
    """Return the parts of a complete sequence, or None if it is too long."""
    return _cached_parse(raw) if len(raw) <= _MAX_CACHED else _parse(raw)


def _parse(raw: str) -> Sequence | None:
    introducer = _INTRODUCER.match(raw)
    if introducer is None or len(raw) > MAX_SEQUENCE:
        return None
    controls, kind = introducer[1], introducer[2]
    body = raw[introducer.end() :]
    if kind not in ("", "["):
        terminators = ("\x1b\\", "\x07") if kind == "]" else ("\x1b\\",)
        terminator = next((end for end in terminators if body.endswith(end)), "")
        return Sequence(kind, "", body.removesuffix(terminator), "", terminator, controls)
    controls += "".join(char for char in body if char < " ")
    printable = "".join(char for char in body if " " <= char <= "~")
    parts = (_CSI_PARTS if kind else _ESCAPE_PARTS).fullmatch(printable)
    private, parameters, intermediates, final = parts.groups() if parts else ("", "", "", "")
    return Sequence(kind, private, parameters, intermediates, final, controls)


#: Programs repeat a few short sequences.
_cached_parse = lru_cache(maxsize=1024)(_parse)


def _partial_start(text: str) -> int:
    """Return the start of a partial sequence at the end. A trailing ESC may be the first half of a string terminator."""
    last = text.rfind(ESC)
    if last < 0:
        return len(text)
    before = text.rfind(ESC, 0, last)
    if last == len(text) - 1:
        return before if before >= 0 and _COMPLETE.match(text, before) is None else last
    return last if _COMPLETE.match(text, last) is None else len(text)


def _half_terminator(text: str) -> str:
    return ESC if text.endswith(ESC) else ""

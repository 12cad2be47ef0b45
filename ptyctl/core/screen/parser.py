"""Bytes to text, controls and sequences, however the bytes are cut (ECMA-48 5.4 and 5.6; ECMA-35; DEC STD 070).

A sequence is known only at its end: until then what has come of it waits. As in a VT, C0 controls inside a control sequence
act as if they came before it, CAN and SUB cancel it, ESC begins another, and what is no ASCII inside it is nothing. OSC ends
with BEL or ST, the other strings (DCS, APC, PM, SOS) with ST. C1 controls are known by their seven-bit form only: as
characters of UTF-8 they are dropped, as in tmux.
"""

from __future__ import annotations

import codecs
import copy
import re
from functools import lru_cache
from typing import NamedTuple

from ptyctl.core.control_sequences import ESC as ESC_BYTE

#: Longer sequences are swallowed whole: nothing that is known is longer than a title.
MAX_SEQUENCE = 4096
_MAX_KNOWN = 16
ESC = ESC_BYTE.decode()

_OSC_END = r"(?:[\x07\x18\x1a]|\x1b\\|(?=\x1b[^\\]))"
_STRING_END = r"(?:[\x18\x1a]|\x1b\\|(?=\x1b[^\\]))"
_CSI_END = r"(?:[@-~\x18\x1a]|(?=\x1b))"
_ESC_END = r"(?:[0-~\x18\x1a]|(?=\x1b))"
_NOTHING = r"[^\x18\x1a\x1b -~]"  # C0 controls and what is no ASCII
_ESCAPED = (
    rf"\x1b(?:{_NOTHING}{{0,64}}(?:"
    rf"\[[^@-~\x18\x1a\x1b]*{_CSI_END}"
    rf"|\][^\x07\x18\x1a\x1b]*{_OSC_END}"
    rf"|[PX^_][^\x18\x1a\x1b]*{_STRING_END}"
    rf"|[ -/][^0-~\x18\x1a\x1b]*{_ESC_END}"
    r"|[0-OQ-WYZ\\`-~\x18\x1a]|(?=\x1b))"
    rf"|{_NOTHING}{{65}})"
)
#: A long control sequence is not plain: it may be overlong. The last alternative is a sequence that has not ended. At the end
#: there is always an empty token.
_TOKEN = re.compile(
    rf"(?:\x1b\[([0-9;:]{{0,256}})([@-~])|([\x00-\x1a\x1c-\x1f\x7f-\x9f]+|{_ESCAPED}|\x1b[\s\S]*))?([^\x00-\x1f\x7f-\x9f]*)"
)
_WHOLE = re.compile(_ESCAPED)
_INTRODUCED = re.compile(rf"\x1b({_NOTHING}*)([\[\]PX^_]?)")
_ENDS = {"[": re.compile(_CSI_END), "]": re.compile(_OSC_END), "": re.compile(_ESC_END)}
_STRING = re.compile(_STRING_END)
#: What an overlong sequence may as well have begun with: its end is the same, and it is unknown.
_UNKNOWN = {"[": "\x1b[!0", "": "\x1b  "}
_CONTROL_SEQUENCE = re.compile(r"([<-?]?)([0-9:;]*)([ -/]*)([@-~])")
_ESCAPE_SEQUENCE = re.compile(r"()()([ -/]*)([0-~])")

#: Parameters and final of a plain control sequence, or else a run of controls or any other sequence from ESC on; and the text
#: that follows.
Token = tuple[str, str, str, str]


class Sequence(NamedTuple):
    """`kind` is the introducer: `[` for CSI, `]` for OSC, `P` `X` `^` `_` for the other strings, or nothing. A string has its
    text in `parameters` and its terminator in `final`; what was cancelled or is malformed has no `final`. `controls` are C0
    controls that came inside of it."""

    kind: str
    private: str
    parameters: str
    intermediates: str
    final: str
    controls: str


class Tokenizer:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        #: The introducer of the overlong sequence whose end is awaited.
        self._swallowing: str | None = None

    @property
    def between_tokens(self) -> bool:
        return not self._rest and self._swallowing is None

    def tokens(self, data: bytes) -> list[Token]:
        """What has come to its end; the last of it may be an empty token."""
        text = self._decoder.decode(data)
        if self._rest:
            text = self._rest + text
            self._rest = ""
        if self._swallowing is not None:
            text = self._swallowed(text, self._swallowing)
        tokens = _TOKEN.findall(text)
        begin = _unfinished(text)
        if begin < len(text):
            del tokens[-2:]
            self._keep(text[begin:])
        return tokens

    def _keep(self, rest: str) -> None:
        """A sequence has begun; of an overlong one only its end is awaited."""
        if len(rest) > MAX_SEQUENCE:
            introduced = _INTRODUCED.match(rest)
            self._swallowing = introduced[2] if introduced else ""
            rest = _half_terminator(rest)
        self._rest = rest

    def skip(self) -> None:
        """The bytes that come next follow on a control that was not given: an incomplete character before it is drawn."""
        self._decoder.reset()

    def pending(self) -> bytes:
        """What brings a fresh tokenizer to where this one stands."""
        begun = ""
        if self._swallowing is not None:
            begun = _UNKNOWN.get(self._swallowing, f"{ESC}{self._swallowing}?")
        return (begun + self._rest).encode("utf-8") + self._decoder.getstate()[0]

    def copy(self) -> Tokenizer:
        other = copy.copy(self)
        other._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        other._decoder.setstate(self._decoder.getstate())
        return other

    def _swallowed(self, text: str, introducer: str) -> str:
        """`text` from the end of the overlong sequence on."""
        end = _ENDS.get(introducer, _STRING).search(text)
        if end is None:
            self._rest = _half_terminator(text)
            return ""
        self._swallowing = None
        return text[end.end() :]


def sequence(raw: str) -> Sequence | None:
    """The parts of a sequence that came to its end; None for an overlong one."""
    return _known(raw) if len(raw) <= _MAX_KNOWN else _parsed(raw)


def _parsed(raw: str) -> Sequence | None:
    introduced = _INTRODUCED.match(raw)
    if introduced is None or len(raw) > MAX_SEQUENCE:
        return None
    controls, kind = introduced[1], introduced[2]
    body = raw[introduced.end() :]
    if kind not in ("", "["):
        terminators = ("\x1b\\", "\x07") if kind == "]" else ("\x1b\\",)
        terminator = next((end for end in terminators if body.endswith(end)), "")
        return Sequence(kind, "", body.removesuffix(terminator), "", terminator, controls)
    controls += "".join(char for char in body if char < " ")
    printable = "".join(char for char in body if " " <= char <= "~")
    parts = (_CONTROL_SEQUENCE if kind else _ESCAPE_SEQUENCE).fullmatch(printable)
    private, parameters, intermediates, final = parts.groups() if parts else ("", "", "", "")
    return Sequence(kind, private, parameters, intermediates, final, controls)


#: Programs use a few short ones, over and over.
_known = lru_cache(maxsize=1024)(_parsed)


def _unfinished(text: str) -> int:
    """Where the sequence begins that has not ended. The last ESC may be the first half of a string's terminator."""
    last = text.rfind(ESC)
    if last < 0:
        return len(text)
    before = text.rfind(ESC, 0, last)
    if last == len(text) - 1:
        return before if before >= 0 and _WHOLE.match(text, before) is None else last
    return last if _WHOLE.match(text, last) is None else len(text)


def _half_terminator(text: str) -> str:
    return ESC if text.endswith(ESC) else ""

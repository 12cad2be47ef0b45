"""Removes sequences that are dangerous on a viewer's terminal from output, which may be hostile.

A terminal sends its responses as if its user had typed them, and some sequences act beyond the screen. Removed are: ENQ;
queries (DSR, DA, DECRQM, DECRQSS, XTGETTCAP, title and window reports, colour queries ...); the clipboard and similar (OSC 52,
1337, 5522); window manipulation; printing; and every DCS, APC, PM and SOS, which carry queries, key definitions, or sequences
for an outer terminal. Everything else passes unchanged.

Two more are removed. A sequence cut off by another one: without the removed bytes between them, its halves could form a
sequence. C1 controls in UTF-8, which some terminals obey (xterm) and ours does not. (xterm, "Control Sequences")
"""

from __future__ import annotations

import re

from .control_sequences import (
    ESC,
    OSC_BODY,
    OSC_TERMINATOR,
    STRING_BODY,
    STRING_END,
    TERMINAL_CSI_BODY,
    TERMINAL_ENDS,
    TERMINAL_ESCAPE_BODY,
    TERMINAL_ESCAPE_FINAL,
    TERMINAL_IGNORED,
    TERMINAL_INTRODUCER,
    compile_bytes,
)
from .marks import OSC_NUMBER

#: Longer sequences are removed: no harmless one is longer than a title or a hyperlink.
MAX_SEQUENCE_BYTES = 4096

_ENQ = b"\x05"
_TOKEN = compile_bytes(
    rf"\x1b(?:(?P<between>{TERMINAL_IGNORED}{{0,64}})(?:"
    rf"\[(?P<csi>{TERMINAL_CSI_BODY})(?P<final>[@-~\x18\x1a])"
    rf"|\](?P<osc>{OSC_BODY}){OSC_TERMINATOR}"
    rf"|(?P<string>[PX^_\]]){STRING_BODY}{STRING_END}"
    rf"|(?P<escape>{TERMINAL_ESCAPE_BODY}[0-~\x18\x1a]|{TERMINAL_ESCAPE_FINAL})"
    rf"|(?P<torn>(?:\[{TERMINAL_CSI_BODY}|{TERMINAL_ESCAPE_BODY})?)(?=\x1b)"
    rf"|(?P<partial>(?:\[{TERMINAL_CSI_BODY}|[\]PX^_]{STRING_BODY}\x1b?|{TERMINAL_ESCAPE_BODY})?)\Z)"
    rf"|(?={TERMINAL_IGNORED}{{65}}))"
)
_ENDS = {introducer.encode(): compile_bytes(end) for introducer, end in TERMINAL_ENDS.items()}
_INTRODUCER = compile_bytes(TERMINAL_INTRODUCER)
#: The first byte of a C1 control in UTF-8. Without it in the output, the expressions below would find nothing.
_C1_LEAD = b"\xc2"
#: A C1 control in UTF-8. Repeated first bytes belong to it, so that removing one control does not form another.
_C1 = re.compile(rb"\xc2+[\x80-\x9f]")
_PARTIAL_C1 = re.compile(rb"\xc2+\Z")
#: A first byte before a removable sequence: after the removal it could form a control with the next bytes.
_TORN_C1 = re.compile(rb"\xc2+(?=[\x05\x1b])")

#: CSI by private marker, intermediates and final: queries, and sequences that act beyond the screen.
_REMOVED_CSI = frozenset(
    b"n ?n >n c >c =c ?c $p ?$p >q x ?u $u &u $w *y #| #R ?S ?m ?g '| 'z 'w i ?i >t".split()
)  # fmt: skip
_TITLE_STACK = (b"22", b"23")
#: OSC numbers: clipboard, font, iTerm2 files and reports, xterm features, the clipboard of kitty, and our own marks, which
#: contain the nonce of the session.
_REMOVED_OSC = frozenset({*b"50 52 60 61 1337 5522".split(), OSC_NUMBER})
#: OSC whose text may contain a question mark: titles and hyperlinks.
_TEXT_OSC = (0, 1, 2, 8)


def escape_controls(text: str) -> str:
    """Replace each non-printable character by an escape such as \\x1b.

    These are control, bidirectional and invisible characters, and line separators.
    """
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


class TerminalSanitizer:
    """A filter over a stream of raw bytes. The result does not depend on how the bytes are split."""

    def __init__(self) -> None:
        self._partial = b""
        self._partial_c1 = b""
        #: The end of a sequence that is too long, until it is found, and the offset at which that sequence begins.
        self._skip_until: re.Pattern[bytes] | None = None
        self._skip_from = 0
        self._size = 0
        #: Offsets of the last two ESC: a partial sequence begins at one of them.
        self._escapes = (0, 0)

    @property
    def held(self) -> int:
        """Number of bytes at the end of the input that are held back. A new filter resumes here if it is fed them first."""
        if self._skip_until is not None:
            return self._size - self._skip_from
        return self._size - self._begin_of(self._partial) if self._partial else len(self._partial_c1)

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that may pass. A partial sequence at the end is held back."""
        self._note_escapes(data)
        data = self._partial_c1 + data
        self._partial_c1 = b""
        if _C1_LEAD in data:
            data = self._filter_torn_c1(data)
        data = data.replace(_ENQ, b"")
        if ESC in data or self._partial or self._skip_until:
            data = self._filter_sequences(data)
        return _C1.sub(b"", data) if _C1_LEAD in data else data

    def _filter_torn_c1(self, data: bytes) -> bytes:
        if (partial := _PARTIAL_C1.search(data)) is not None:
            self._partial_c1 = partial[0]
            data = data[: partial.start()]
        return _TORN_C1.sub(b"", data)

    def _note_escapes(self, data: bytes) -> None:
        if (last := data.rfind(ESC)) >= 0:
            previous = data.rfind(ESC, 0, last)
            self._escapes = (self._size + previous if previous >= 0 else self._escapes[1], self._size + last)
        self._size += len(data)

    def _begin_of(self, partial: bytes) -> int:
        """Return the offset at which the partial sequence at the end of the input begins."""
        return self._escapes[-partial.count(ESC)]

    def _filter_sequences(self, data: bytes) -> bytes:
        data = self._partial + data
        self._partial = b""
        if self._skip_until is not None:
            end = self._skip_until.search(data)
            if end is None:
                self._partial = ESC if data.endswith(ESC) else b""
                return b""
            self._skip_until = None
            data = data[end.end() :]
        return _TOKEN.sub(self._replacement, data)

    def _replacement(self, found: re.Match[bytes]) -> bytes:
        sequence = found[0]
        if found["partial"] is not None:
            self._hold(sequence)
            return b""
        if len(sequence) > MAX_SEQUENCE_BYTES or found["string"] is not None:
            return _controls(found["between"] or b"")
        if found["osc"] is not None:
            return sequence if _osc_may_pass(found["osc"]) else _controls(found["between"])
        if found["csi"] is not None and _csi_may_pass(found["csi"], found["final"]):
            return sequence
        if found["escape"] is not None and found["escape"] != b"Z" and not found["escape"].startswith(b"%"):
            return sequence
        return _controls(sequence)

    def _hold(self, partial: bytes) -> None:
        if len(partial) <= MAX_SEQUENCE_BYTES:
            self._partial = partial
            return
        introducer = _INTRODUCER.match(partial)
        assert introducer is not None
        self._skip_from = self._begin_of(partial)
        self._skip_until = _ENDS[introducer[2]]
        self._partial = ESC if partial.endswith(ESC) else b""


def _controls(removed: bytes) -> bytes:
    """Return the C0 controls within a removed sequence, which a terminal executes."""
    return bytes(byte for byte in removed if byte < 0x20 and byte != ESC[0])


def _osc_may_pass(text: bytes) -> bool:
    number, _, rest = text.partition(b";")
    is_query = b"?" in rest.split(b";") if number.isdigit() and int(number[:6]) not in _TEXT_OSC else False
    return number.lstrip(b"0") not in _REMOVED_OSC and not is_query


def _csi_may_pass(body: bytes, final: bytes) -> bool:
    if final in b"\x18\x1a":
        return True  # cancelled
    printable = bytes(byte for byte in body if 0x20 <= byte < 0x7F)
    private = printable[:1] if printable[:1] in (b"<", b"=", b">", b"?") else b""
    parameters = printable[len(private) :].rstrip(b" !\"#$%&'()*+,-./")
    kind = private + printable[len(private) + len(parameters) :] + final
    if kind == b"t":
        return parameters.split(b";")[0].lstrip(b"0") in _TITLE_STACK
    return kind not in _REMOVED_CSI

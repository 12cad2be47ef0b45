"""Takes out of a terminal's output what must not reach the terminal of whoever looks on: it is data, and may be hostile.

A terminal types what it answers, as if its user had; and some sequences reach beyond its screen. These are dropped: ENQ;
queries (DSR, DA, DECRQM, DECRQSS, XTGETTCAP, title and window reports, colours asked for ...); the clipboard and what is like
it (OSC 52, 1337, 5522); moving the window; printing; and all DCS, APC, PM and SOS, which hold queries, keys to be redefined,
or sequences meant for an outer terminal. Everything else passes as it came.

What another sequence cuts off is dropped too: without what stood between, its halves could become one. So are C1 controls in
UTF-8, which some terminals obey (xterm) and ours does not. (ECMA-48 5.4 and 5.6; xterm, "Control Sequences")
"""

from __future__ import annotations

import re

from .control_sequences import ESC
from .marks import OSC_NUMBER

#: Longer sequences are dropped: nothing that is known is longer than a title or a link.
MAX_SEQUENCE_BYTES = 4096

_ENQ = b"\x05"
_NOTHING = rb"[\x00-\x17\x19\x1c-\x1f\x7f-\xff]"  # C0 controls and what is no ASCII: as if it came before the sequence
_TOKEN = re.compile(
    rb"\x1b(?:"
    rb"(?P<between>" + _NOTHING + rb"{0,64})(?:"
    rb"\[(?P<csi>[^@-~\x18\x1a\x1b]*)(?P<final>[@-~\x18\x1a])"
    rb"|\](?P<osc>[^\x07\x18\x1a\x1b]*)(?P<osc_end>\x07|\x1b\\)"
    rb"|(?P<string>[PX^_\]])[^\x18\x1a\x1b]*(?:\x1b\\|[\x18\x1a]|(?=\x1b[^\\]))"
    rb"|(?P<escape>[ -/][^0-~\x18\x1a\x1b]*[0-~\x18\x1a]|[0-OQ-WYZ\\`-~\x18\x1a])"
    rb"|(?P<torn>(?:\[[^@-~\x18\x1a\x1b]*|[ -/][^0-~\x18\x1a\x1b]*)?)(?=\x1b)"
    rb"|(?P<open>(?:\[[^@-~\x18\x1a\x1b]*|[\]PX^_][^\x18\x1a\x1b]*\x1b?|[ -/][^0-~\x18\x1a\x1b]*)?)\Z)"
    rb"|(?=" + _NOTHING + rb"{65}))"
)
_ENDS = {
    b"[": re.compile(rb"[@-~\x18\x1a]|(?=\x1b)"),
    b"]": re.compile(rb"[\x07\x18\x1a]|\x1b\\|(?=\x1b[^\\])"),
    b"": re.compile(rb"[0-~\x18\x1a]|(?=\x1b)"),
}
_STRING_END = re.compile(rb"\x1b\\|[\x18\x1a]|(?=\x1b[^\\])")
_INTRODUCED = re.compile(rb"\x1b" + _NOTHING + rb"*([\[\]PX^_]?)")
#: A C1 control in UTF-8; more than one first byte, so that no other control is left where one is taken out.
_C1 = re.compile(rb"\xc2+[\x80-\x9f]")
_C1_BEGUN = re.compile(rb"\xc2+\Z")

#: By private marker, intermediates and final: asks for an answer, or reaches beyond the screen (printing).
_ASKING = frozenset(
    b"n ?n >n c >c =c ?c $p ?$p >q x ?u $u &u $w *y #| #R ?S ?m ?g '| 'z 'w i ?i >t".split()
)  # fmt: skip
_TITLE_STACK = (b"22", b"23")
#: Clipboard, a font's name, iTerm2's files and reports, xterm's features, the clipboard of kitty; our own marks, whose nonce
#: is nobody's business.
_REACHING = frozenset({*b"50 52 60 61 1337 5522".split(), OSC_NUMBER})


class TerminalSanitizer:
    """A filter over a stream of raw bytes: what it gives does not depend on how they were cut."""

    def __init__(self) -> None:
        self._held = b""
        self._held_c1 = b""
        #: The end that is awaited of a sequence which is too long.
        self._swallowing: re.Pattern[bytes] | None = None

    def feed(self, data: bytes) -> bytes:
        """What of it may pass; a sequence that has not ended is held back."""
        data = data.replace(_ENQ, b"")
        if ESC in data or self._held or self._swallowing:
            data = self._sequences(data)
        data = self._held_c1 + data
        begun = _C1_BEGUN.search(data)
        self._held_c1 = begun[0] if begun else b""
        return _C1.sub(b"", data[: begun.start()] if begun else data)

    def _sequences(self, data: bytes) -> bytes:
        data = self._held + data
        self._held = b""
        if self._swallowing is not None:
            end = self._swallowing.search(data)
            if end is None:
                self._held = ESC if data.endswith(ESC) else b""
                return b""
            self._swallowing = None
            data = data[end.end() :]
        return _TOKEN.sub(self._judged, data)

    def _judged(self, found: re.Match[bytes]) -> bytes:
        whole = found[0]
        if found["open"] is not None:
            self._hold(whole)
            return b""
        if len(whole) > MAX_SEQUENCE_BYTES or found["string"] is not None:
            return _controls(found["between"] or b"")
        if found["osc"] is not None:
            return whole if _osc_may_pass(found["osc"]) else _controls(found["between"])
        if found["csi"] is not None and _csi_may_pass(found["csi"], found["final"]):
            return whole
        if found["escape"] is not None and found["escape"] != b"Z" and not found["escape"].startswith(b"%"):
            return whole
        return _controls(whole)

    def _hold(self, begun: bytes) -> None:
        if len(begun) <= MAX_SEQUENCE_BYTES:
            self._held = begun
            return
        introduced = _INTRODUCED.match(begun)
        assert introduced is not None
        self._swallowing = _ENDS.get(introduced[1], _STRING_END)
        self._held = ESC if begun.endswith(ESC) else b""


def _controls(dropped: bytes) -> bytes:
    """Those within a sequence act all the same, but for a string's."""
    return bytes(byte for byte in dropped if byte < 0x20 and byte != ESC[0])


def _osc_may_pass(text: bytes) -> bool:
    number, _, rest = text.partition(b";")
    asks = b"?" in rest.split(b";") if number.isdigit() and int(number[:6]) not in (0, 1, 2, 8) else False
    return number.lstrip(b"0") not in _REACHING and not asks


def _csi_may_pass(body: bytes, final: bytes) -> bool:
    if final in b"\x18\x1a":
        return True  # it was cancelled
    printable = bytes(byte for byte in body if 0x20 <= byte < 0x7F)
    private = printable[:1] if printable[:1] in (b"<", b"=", b">", b"?") else b""
    parameters = printable[len(private) :].rstrip(b" !\"#$%&'()*+,-./")
    kind = private + printable[len(private) + len(parameters) :] + final
    if kind == b"t":
        return parameters.split(b";")[0].lstrip(b"0") in _TITLE_STACK
    return kind not in _ASKING

r"""Control characters and the grammar of control sequences (ECMA-48 5th ed., 5.4, 5.6 and 8.3; ECMA-35; DEC STD 070).

| sequence | introducer | body | end |
|---|---|---|---|
| CSI (control sequence) | `ESC [` | parameter bytes 30-3F, intermediate bytes 20-2F | a final byte 40-7E |
| OSC | `ESC ]` | any text | ST (`ESC \`), or BEL (xterm) |
| DCS, SOS, PM, APC | `ESC P`, `ESC X`, `ESC ^`, `ESC _` | any text | ST |
| escape sequence | `ESC` | intermediate bytes 20-2F | a final byte 30-7E |

CAN and SUB cancel any sequence, ESC ends it and begins another. Malformed input is read in one of two ways:

- For text (`SEQUENCE`): a byte that cannot continue a CSI or an escape sequence ends it and is text. A torn sequence
  costs nothing that follows it.
- As a terminal reads it (`TERMINAL_*`): C0 controls within a CSI or an escape sequence act as if they preceded it, DEL and
  bytes that are not ASCII are ignored, and the sequence continues.

The fragments are strings, for patterns over text and, with `compile_bytes`, over bytes. They have no groups unless noted.

The module also has the DEC special graphics and the zero-width joiner, which the readable text and the screen share.
"""

from __future__ import annotations

import re

ETX = b"\x03"  # Ctrl-C
LF = b"\x0a"
CR = b"\x0d"
NAK = b"\x15"  # Ctrl-U
#: Ctrl-C and Ctrl-\: the terminal sends a signal for them (termios VINTR, VQUIT).
INTERRUPT_BYTES = ETX + b"\x1c"
ESC = b"\x1b"

#: Brackets around pasted text (xterm, private mode 2004), which an application inserts without interpreting it.
PASTE_BEGIN = ESC + b"[200~"
PASTE_END = ESC + b"[201~"

#: DEC private modes that change the bytes of keys, or the screen.
DECCKM = 1  # application cursor keys
BRACKETED_PASTE = 2004
#: Modes that show the alternate screen.
ALTERNATE_SCREENS = frozenset((47, 1047, 1049))

#: The introducer, after ESC, of DCS, SOS, PM and APC.
STRING_INTRODUCER = r"[PX^_]"

OSC_BODY = r"[^\x07\x18\x1a\x1b]*"
OSC_TERMINATOR = r"(?:\x07|\x1b\\)"
#: The end of an OSC: terminated, cancelled, or cut off by another sequence.
OSC_END = r"(?:[\x07\x18\x1a]|\x1b\\|(?=\x1b[^\\]))"
STRING_BODY = r"[^\x18\x1a\x1b]*"
STRING_END = r"(?:[\x18\x1a]|\x1b\\|(?=\x1b[^\\]))"

_STRING = rf"\]{OSC_BODY}(?:[\x07\x18\x1a]|\x1b\\)?|{STRING_INTRODUCER}{STRING_BODY}(?:[\x18\x1a]|\x1b\\)?"
#: A string sequence in text, complete or torn.
STRING_SEQUENCE = rf"\x1b(?:{_STRING})"

CSI_BODY = r"[\x20-\x3f]*"
CSI_FINAL = r"[\x40-\x7e]"
ESCAPE_BODY = r"[\x20-\x2f]*"
ESCAPE_FINAL = r"[\x30-\x7e]"
#: Select Graphic Rendition (SGR), without ESC: sets the attributes of the following characters.
SGR_PARAMETERS = r"[0-9;:]*"
SGR_BODY = rf"\[{SGR_PARAMETERS}m"
#: A sequence of any kind in text, complete or torn.
SEQUENCE = rf"\x1b(?:\[{CSI_BODY}{CSI_FINAL}?|{_STRING}|{ESCAPE_BODY}{ESCAPE_FINAL}?)"
#: A sequence in text that is incomplete at the end of the text.
PARTIAL_SEQUENCE = rf"\x1b(?:\[{CSI_BODY}|\]{OSC_BODY}\x1b?|{STRING_INTRODUCER}{STRING_BODY}\x1b?|{ESCAPE_BODY})\Z"

#: Characters between ESC and the rest of a sequence: C0 controls, which act before it, and non-ASCII ones, which are ignored.
TERMINAL_IGNORED = r"[^\x18\x1a\x1b -~]"
TERMINAL_CSI_BODY = r"[^@-~\x18\x1a\x1b]*"
TERMINAL_CSI_END = r"(?:[@-~\x18\x1a]|(?=\x1b))"
#: An escape sequence with intermediate bytes; without them, the final byte is not an introducer.
TERMINAL_ESCAPE_BODY = r"[ -/][^0-~\x18\x1a\x1b]*"
TERMINAL_ESCAPE_END = r"(?:[0-~\x18\x1a]|(?=\x1b))"
TERMINAL_ESCAPE_FINAL = r"[0-OQ-WYZ\\`-~\x18\x1a]"
#: Two groups: the ignored bytes, and the introducer (empty for an escape sequence).
TERMINAL_INTRODUCER = rf"\x1b({TERMINAL_IGNORED}*)([\[\]PX^_]?)"
#: The end of a sequence, by its introducer.
TERMINAL_ENDS = {
    "[": TERMINAL_CSI_END,
    "]": OSC_END,
    "": TERMINAL_ESCAPE_END,
    **dict.fromkeys("PX^_", STRING_END),
}
#: DEC special graphics (ECMA-35; VT220 manual, table 2-4): a translation for `str.translate`.
SPECIAL_GRAPHICS = dict(zip(range(ord("_"), 0x7F), " ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·", strict=True))
#: Joins two characters into one cluster (Unicode).
ZERO_WIDTH_JOINER = "\u200d"


def compile_bytes(pattern: str) -> re.Pattern[bytes]:
    """Compile a pattern of these fragments for bytes."""
    return re.compile(pattern.encode("ascii"))


_SEQUENCE = compile_bytes(SEQUENCE)


def strip_sequences(data: bytes) -> bytes:
    """Remove all sequences, including an incomplete one at the end."""
    return _SEQUENCE.sub(b"", data)


def sequence_end(data: bytes, begin: int) -> int:
    """Return the end of the sequence that begins at `begin`, which is an ESC."""
    found = _SEQUENCE.match(data, begin)
    return found.end() if found else begin

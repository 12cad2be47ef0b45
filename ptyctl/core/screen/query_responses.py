"""Terminal queries: detection in raw bytes, and responses (xterm, "Control Sequences"; VT510 manual).

The emulated terminal is a VT420 with colours. It has no pixels: a cell is reported as 8 by 16, the palette as that of xterm,
the text as light on black. Reports that would return text chosen by the far end (a title) are empty: it would be typed there.
"""

from __future__ import annotations

from collections.abc import Callable

from ptyctl.core.control_sequences import (
    ESC,
    OSC_BODY,
    OSC_TERMINATOR,
    STRING_BODY,
    TERMINAL_CSI_BODY,
    compile_bytes,
)

from . import modes
from .attributes import sgr
from .colours import change_colours
from .emulator import Emulator
from .parser import Numbers
from .rectangles import checksum

#: Name and version of the emulated terminal, not of the package: programs adapt to it.
_NAME = "ptyctl(1)"
#: Lowest VT level at which modes can be queried.
_DECRQM_LEVEL = 3
_CELL_WIDTH, _CELL_HEIGHT = 8, 16
#: By name of a capability in hexadecimal digits: its value in the same form. 256 colours (`Co`, `colors`).
_CAPABILITIES = {"436F": "323536", "636F6C6F7273": "323536"}

Response = Callable[[Emulator, Numbers], None]


def _status(emulator: Emulator, values: Numbers) -> None:
    """Report no malfunction, or the cursor position (DSR)."""
    if values[0] == 5:
        emulator.write_process_input("\x1b[0n")
    elif values[0] == 6:
        emulator.write_process_input(f"\x1b[{_position(emulator)}R")


def _private_status(emulator: Emulator, values: Numbers) -> None:
    """Report the cursor position (DECXCPR) or the state of a device.

    There are no printer, locator, macros (DECMSR, DECCKSR) and other sessions; key definitions are locked, the keyboard is a
    US one, the link has no errors, the colour scheme is dark.
    """
    fixed = {15: "?13", 25: "?21", 26: "?27;1;0;0", 53: "?50", 55: "?50", 56: "?57;0", 75: "?70", 85: "?83", 996: "?997;1"}
    if values[0] == 6:
        emulator.write_process_input(f"\x1b[?{_position(emulator)};1R")
    elif values[0] == 62:
        emulator.write_process_input("\x1b[0*{")
    elif values[0] == 63:
        emulator.write_process_input(f"\x1bP{(*values, 0)[1]}!~0000\x1b\\")
    elif values[0] in fixed:
        emulator.write_process_input(f"\x1b[{fixed[values[0]]}n")


def _position(emulator: Emulator) -> str:
    """Return row and column, 1-based; in origin mode they count from the margins."""
    origin = modes.DECOM in emulator.mode
    top, left = (emulator.region[0], emulator.side_margins[0]) if origin else (0, 0)
    return f"{emulator.cursor.y - top + 1};{emulator.column - left + 1}"


def _checksum(emulator: Emulator, values: Numbers) -> None:
    """Report the checksum of an area with the number of the request (DECRQCRA). Pages do not exist."""
    if emulator.level >= 4 and emulator.responds:
        emulator.write_process_input(f"\x1bP{values[0]}!~{checksum(emulator, values[2:]):04X}\x1b\\")


def _ansi_mode(emulator: Emulator, values: Numbers) -> None:
    """Report an ANSI mode: 0 unknown, 1 set, 2 reset, 4 permanently reset (DECRQM)."""
    if emulator.level < _DECRQM_LEVEL:
        return
    if values[0] in modes.PUBLIC:
        state = 1 if values[0] in emulator.mode else 2
    else:
        state = 4 if values[0] in modes.PUBLIC_RESET else 0
    emulator.write_process_input(f"\x1b[{values[0]};{state}$y")


def _private_mode(emulator: Emulator, values: Numbers) -> None:
    """Report a private mode: 0 unknown, 1 set, 2 reset, 4 permanently reset (DECRQM)."""
    mode = modes.private(values[0])
    if emulator.level < _DECRQM_LEVEL:
        return
    if mode in modes.ALTERNATE:
        state = 1 if emulator.alternate else 2
    elif mode == modes.SAVED_CURSOR:
        state = 1 if emulator.alternate in emulator.saved else 2
    elif mode in modes.PRIVATE_RESET:
        state = 4
    else:
        state = (1 if mode in emulator.mode else 2) if mode in modes.KNOWN else 0
    emulator.write_process_input(f"\x1b[?{values[0]};{state}$y")


def _terminal_parameters(emulator: Emulator, values: Numbers) -> None:
    """Report no parity, 8 bits, 38,400 baud (DECREQTPARM)."""
    if values[0] in (0, 1):
        emulator.write_process_input(f"\x1b[{values[0] + 2};1;1;128;128;1;0x")


def _window(emulator: Emulator, values: Numbers) -> None:
    """Report sizes (XTWINOPS). The icon label and the title, which the far end chose, are reported empty."""
    height, width = emulator.lines, emulator.columns
    replies = {
        11: "\x1b[1t",
        13: "\x1b[3;0;0t",
        14: f"\x1b[4;{height * _CELL_HEIGHT};{width * _CELL_WIDTH}t",
        16: f"\x1b[6;{_CELL_HEIGHT};{_CELL_WIDTH}t",
        18: f"\x1b[8;{height};{width}t",
        19: f"\x1b[9;{height};{width}t",
        20: "\x1b]L\x1b\\",
        21: "\x1b]l\x1b\\",
    }
    if values[0] in replies:
        emulator.write_process_input(replies[values[0]])


def respond_to_osc(emulator: Emulator, code: str, value: str, terminator: str) -> None:
    """Set, reset and report colours, with the terminator of the query."""
    if code.isdecimal() and len(code) <= 3:
        for response in change_colours(emulator.colours, int(code), value):
            emulator.write_process_input(f"\x1b]{response}{terminator}")


def respond_to_dcs(emulator: Emulator, text: str) -> None:
    """Respond to DECRQSS, where 1 means valid (xterm), and to XTGETTCAP, which knows the number of colours only."""
    if text.startswith("+q"):
        name = text[2:].upper()
        known = f"1+r{name}={_CAPABILITIES[name]}" if name in _CAPABILITIES else "0+r"
        emulator.write_process_input(f"\x1bP{known}\x1b\\")
    elif text.startswith("$q"):
        setting = _setting(emulator, text[2:])
        emulator.write_process_input(f"\x1bP1$r{setting}\x1b\\" if setting is not None else "\x1bP0$r\x1b\\")


def _setting(emulator: Emulator, name: str) -> str | None:
    (top, bottom), (left, right) = emulator.region, emulator.side_margins
    settings = {
        "m": sgr(emulator.styles.value(emulator.pen)).decode().removeprefix("\x1b["),
        "r": f"{top + 1};{bottom + 1}r",
        " q": f"{emulator.cursor_style} q",
        "s": f"{left + 1};{right + 1}s",
        "t": f"{emulator.lines}t",
        '"p': f'6{emulator.level};1"p',
        '"q': f'{int(emulator.styles.value(emulator.pen).protection == "selective")}"q',
        "*x": f"{2 if emulator.rectangular else 0}*x",
        "*|": f"{emulator.lines}*|",
        "$}": "0$}",
        "$~": "0$~",
    }
    return settings.get(name)


def _fixed(response: str) -> Response:
    """Return the function that sends this response to a query with the parameter 0."""
    return lambda emulator, values: None if values[0] else emulator.write_process_input(response)


#: By private marker, intermediates and final.
CONTROL_SEQUENCE_RESPONSES: dict[str, Response] = {
    "c": _fixed("\x1b[?64;6;21;22;28c"),  # DA1: level 4; selective erase, horizontal scrolling, colour, rectangles
    ">c": _fixed("\x1b[>41;0;0c"),  # DA2: a VT420 without a firmware version
    "=c": _fixed("\x1bP!|00000000\x1b\\"),  # DA3: unit ID 0
    ">q": _fixed(f"\x1bP>|{_NAME}\x1b\\"),  # XTVERSION
    "n": _status,
    "?n": _private_status,
    "$p": _ansi_mode,
    "?$p": _private_mode,
    "t": _window,
    "x": _terminal_parameters,
    "*y": _checksum,
}


#: Limit of a string sequence (OSC, DCS) that is examined as a query.
_MAX_QUERY = 4096

#: DSR, DA, DECRQM, DECRQCRA, XTVERSION, DECREQTPARM, window reports, kitty keyboard flags; OSC with a `?`; DECRQSS and
#: XTGETTCAP; DECID.
QUERY = compile_bytes(
    rf"\x1b(?:\[{TERMINAL_CSI_BODY}[cnpqtuxy]"
    rf"|\][^\x07\x18\x1a\x1b?]*+\?{OSC_BODY}+{OSC_TERMINATOR}"
    rf"|P[0-9;]*+[$+]q{STRING_BODY}+\x1b\\"
    r"|Z)"
)
_PARTIAL = compile_bytes(rf"\x1b(?:\[{TERMINAL_CSI_BODY}|[\]P]{STRING_BODY}\x1b?)?\Z")


class QueryDetector:
    """Detects queries in a stream of raw bytes, independent of how the bytes are split.

    A session without viewers does not feed its screen model. It has each piece of output examined here, and feeds the model
    only if a query ended in it, to send the model's responses. False positives are possible: the model then has no response.
    There are no false negatives.
    """

    def __init__(self) -> None:
        #: The number of bytes of the last piece that follow its last query.
        self.bytes_after = 0
        self._partial = b""

    @property
    def partial(self) -> bool:
        """Whether a query may end in the next piece even if that contains no ESC."""
        return bool(self._partial)

    def feed(self, data: bytes) -> bool:
        """Return whether a query may end in `data`."""
        if ESC not in data and not self._partial:
            return False
        text = self._partial + data
        self._partial = _partial_query(text)
        end = max((found.end() for found in QUERY.finditer(text)), default=-1)
        self.bytes_after = len(text) - end
        return end >= 0


def _partial_query(text: bytes) -> bytes:
    """Return the end of `text` that may become a query. A trailing ESC may be the first half of a string terminator."""
    last = text.rfind(ESC)
    for begin in (text.rfind(ESC, 0, max(last, 0)), last):
        if begin >= 0 and len(text) - begin <= _MAX_QUERY and _PARTIAL.match(text, begin):
            return text[begin:]
    return b""

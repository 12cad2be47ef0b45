"""What a terminal answers when a program asks, truthfully for the model (xterm, "Control Sequences"; VT510 manual).

It is a VT220 with colours. It has no pixels and no colours of its own: a cell is told as 8 by 16, the palette as xterm's, the
text as light on black. What would type at the far end something that the far end chose (a title) is answered empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ptyctl.core.control_sequences import ESC

from . import modes
from .attributes import palette, sgr
from .emulator import Emulator

#: The name and the version of this terminal, not of the package: programs adapt to it.
_NAME = "ptyctl(1)"
_CELL_WIDTH, _CELL_HEIGHT = 8, 16
_MAX_ASKED_COLOURS = 16
_DYNAMIC_COLOURS = {"10": (0xE5, 0xE5, 0xE5), "11": (0, 0, 0), "12": (0xE5, 0xE5, 0xE5)}

Numbers = tuple[int, ...]
Answer = Callable[[Emulator, Numbers], None]


def device_attributes(emulator: Emulator, values: Numbers) -> None:
    """DA1: level 2, with ANSI colour."""
    if values[0] == 0:
        emulator.write_process_input("\x1b[?62;22c")


def _secondary_attributes(emulator: Emulator, values: Numbers) -> None:
    """DA2: a VT220, no firmware of a known make."""
    if values[0] == 0:
        emulator.write_process_input("\x1b[>1;0;0c")


def _unit(emulator: Emulator, values: Numbers) -> None:
    """DA3"""
    if values[0] == 0:
        emulator.write_process_input("\x1bP!|00000000\x1b\\")


def _version(emulator: Emulator, values: Numbers) -> None:
    """XTVERSION"""
    if values[0] == 0:
        emulator.write_process_input(f"\x1bP>|{_NAME}\x1b\\")


def _status(emulator: Emulator, values: Numbers) -> None:
    """DSR: all is well, or where the cursor is."""
    if values[0] == 5:
        emulator.write_process_input("\x1b[0n")
    elif values[0] == 6:
        emulator.write_process_input(f"\x1b[{_position(emulator)}R")


def _private_status(emulator: Emulator, values: Numbers) -> None:
    """DECXCPR, no printer, keys cannot be defined, a North American keyboard; dark colours."""
    fixed = {15: "?13", 25: "?21", 26: "?27;1;0;0", 996: "?997;1"}
    if values[0] == 6:
        emulator.write_process_input(f"\x1b[?{_position(emulator)}R")
    elif values[0] in fixed:
        emulator.write_process_input(f"\x1b[{fixed[values[0]]}n")


def _position(emulator: Emulator) -> str:
    """Rows count from the top margin in origin mode."""
    top = emulator.region[0] if modes.DECOM in emulator.mode else 0
    return f"{emulator.cursor.y - top + 1};{min(emulator.cursor.x, emulator.columns - 1) + 1}"


def _ansi_mode(emulator: Emulator, values: Numbers) -> None:
    known = values[0] in modes.PUBLIC
    state = (1 if values[0] in emulator.mode else 2) if known else 0
    emulator.write_process_input(f"\x1b[{values[0]};{state}$y")


def _private_mode(emulator: Emulator, values: Numbers) -> None:
    """DECRQM: 0 unknown, 1 set, 2 reset, 4 for ever reset."""
    mode = modes.private(values[0])
    if mode in modes.ALTERNATE:
        state = 1 if emulator.alternate else 2
    elif mode == modes.SAVED_CURSOR:
        state = 1 if emulator.alternate in emulator.saved else 2
    elif mode == modes.DECCOLM:
        state = 4
    else:
        state = (1 if mode in emulator.mode else 2) if mode in modes.KNOWN else 0
    emulator.write_process_input(f"\x1b[?{values[0]};{state}$y")


def _terminal_parameters(emulator: Emulator, values: Numbers) -> None:
    """DECREQTPARM: no parity, 8 bits, 38,400 baud."""
    if values[0] in (0, 1):
        emulator.write_process_input(f"\x1b[{values[0] + 2};1;1;128;128;1;0x")


def _window(emulator: Emulator, values: Numbers) -> None:
    """XTWINOPS: sizes. Icon label and title are told empty: they are the far end's own words."""
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
    """OSC 4 and 10 to 12 with `?`, answered with the terminator of the question. Colours that are set are not kept."""
    if code == "4":
        pairs = value.split(";")[: 2 * _MAX_ASKED_COLOURS]
        for number, asked in zip(pairs[::2], pairs[1::2], strict=False):
            if asked == "?" and number.isdecimal() and len(number) <= 3 and int(number) < 256:
                _colour(emulator, f"4;{int(number)}", palette(int(number)), terminator)
    elif code in _DYNAMIC_COLOURS:
        for offset, asked in enumerate(value.split(";")):
            colour = _DYNAMIC_COLOURS.get(str(int(code) + offset))
            if asked == "?" and colour is not None:
                _colour(emulator, str(int(code) + offset), colour, terminator)


def _colour(emulator: Emulator, what: str, colour: tuple[int, ...], terminator: str) -> None:
    value = "/".join(f"{part:02x}{part:02x}" for part in colour)
    emulator.write_process_input(f"\x1b]{what};rgb:{value}{terminator}")


def respond_to_dcs(emulator: Emulator, text: str) -> None:
    """DECRQSS, as xterm: 1 is valid. XTGETTCAP: nothing is known."""
    if text.startswith("+q"):
        emulator.write_process_input("\x1bP0+r\x1b\\")
    elif text.startswith("$q"):
        setting = _setting(emulator, text[2:])
        emulator.write_process_input(f"\x1bP1$r{setting}\x1b\\" if setting is not None else "\x1bP0$r\x1b\\")


def _setting(emulator: Emulator, name: str) -> str | None:
    top, bottom = emulator.region
    settings = {
        "m": sgr(emulator.styles.value(emulator.pen)).decode().removeprefix("\x1b["),
        "r": f"{top + 1};{bottom + 1}r",
        " q": f"{emulator.cursor_style} q",
        '"p': '62;1"p',
    }
    return settings.get(name)


#: By private marker, intermediates and final.
CONTROL_SEQUENCE_RESPONSES: dict[str, Answer] = {
    "c": device_attributes,
    ">c": _secondary_attributes,
    "=c": _unit,
    ">q": _version,
    "n": _status,
    "?n": _private_status,
    "$p": _ansi_mode,
    "?$p": _private_mode,
    "t": _window,
    "x": _terminal_parameters,
}


#: Longest string sequence (OSC, DCS) that is looked at as a query.
_MAX_QUERY = 4096

#: DSR, DA, DECRQM, XTVERSION, DECREQTPARM, window reports, kitty's keyboard flags; OSC with a `?`; DECRQSS and XTGETTCAP.
_QUERY = re.compile(
    rb"\x1b(?:\[[^\x40-\x7e\x18\x1a\x1b]*[cnpqtux]"
    rb"|\][^\x07\x18\x1a\x1b]*\?[^\x07\x18\x1a\x1b]*(?:\x07|\x1b\\)"
    rb"|P[0-9;]*[$+]q[^\x18\x1a\x1b]*\x1b\\"
    rb"|Z)"
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[^\x40-\x7e\x18\x1a\x1b]*|[\]P][^\x18\x1a\x1b]*\x1b?)?\Z")


class QueryDetector:
    """Tells whether a query ended in a piece of the stream, however the stream is cut. `behind` is how many bytes of the piece
    stand behind the last one."""

    def __init__(self) -> None:
        self.bytes_after = 0
        self._rest = b""

    @property
    def partial(self) -> bool:
        """Whether what comes next may end a query even without an ESC in it."""
        return bool(self._rest)

    def feed(self, data: bytes) -> bool:
        """Whether `data`, which follows on all that was given before, may end a query."""
        if ESC not in data and not self._rest:
            return False
        text = self._rest + data
        self._rest = _unfinished(text)
        end = max((found.end() for found in _QUERY.finditer(text)), default=-1)
        self.bytes_after = len(text) - end
        return end >= 0


def _unfinished(text: bytes) -> bytes:
    """What may become a query with what comes next; the last ESC may be the first half of a string's terminator."""
    last = text.rfind(ESC)
    for begin in (text.rfind(ESC, 0, max(last, 0)), last):
        if begin >= 0 and len(text) - begin <= _MAX_QUERY and _UNFINISHED.match(text, begin):
            return text[begin:]
    return b""

"""What a terminal answers when a program asks, truthfully for the model (xterm, "Control Sequences"; VT510 manual).

It is a VT220 with colours. It has no pixels and no colours of its own: a cell is told as 8 by 16, the palette as xterm's, the
text as light on black. What would type at the far end something that the far end chose (a title) is answered empty.
"""

from __future__ import annotations

from collections.abc import Callable

from . import modes
from .drawing import Drawing
from .palette import palette
from .style import sgr

#: The name and the version of this terminal, not of the package: programs adapt to it.
_NAME = "ptyctl(1)"
_CELL_WIDTH, _CELL_HEIGHT = 8, 16
_MAX_ASKED_COLOURS = 16
_DYNAMIC_COLOURS = {"10": (0xE5, 0xE5, 0xE5), "11": (0, 0, 0), "12": (0xE5, 0xE5, 0xE5)}

Numbers = tuple[int, ...]
Answer = Callable[[Drawing, Numbers], None]


def device_attributes(canvas: Drawing, values: Numbers) -> None:
    """DA1: level 2, with ANSI colour."""
    if values[0] == 0:
        canvas.write_process_input("\x1b[?62;22c")


def _secondary_attributes(canvas: Drawing, values: Numbers) -> None:
    """DA2: a VT220, no firmware of a known make."""
    if values[0] == 0:
        canvas.write_process_input("\x1b[>1;0;0c")


def _unit(canvas: Drawing, values: Numbers) -> None:
    """DA3"""
    if values[0] == 0:
        canvas.write_process_input("\x1bP!|00000000\x1b\\")


def _version(canvas: Drawing, values: Numbers) -> None:
    """XTVERSION"""
    if values[0] == 0:
        canvas.write_process_input(f"\x1bP>|{_NAME}\x1b\\")


def _status(canvas: Drawing, values: Numbers) -> None:
    """DSR: all is well, or where the cursor is."""
    if values[0] == 5:
        canvas.write_process_input("\x1b[0n")
    elif values[0] == 6:
        canvas.write_process_input(f"\x1b[{_position(canvas)}R")


def _private_status(canvas: Drawing, values: Numbers) -> None:
    """DECXCPR, no printer, keys cannot be defined, a North American keyboard; dark colours."""
    fixed = {15: "?13", 25: "?21", 26: "?27;1;0;0", 996: "?997;1"}
    if values[0] == 6:
        canvas.write_process_input(f"\x1b[?{_position(canvas)}R")
    elif values[0] in fixed:
        canvas.write_process_input(f"\x1b[{fixed[values[0]]}n")


def _position(canvas: Drawing) -> str:
    """Rows count from the top margin in origin mode."""
    top = canvas.region[0] if modes.DECOM in canvas.mode else 0
    return f"{canvas.cursor.y - top + 1};{min(canvas.cursor.x, canvas.columns - 1) + 1}"


def _ansi_mode(canvas: Drawing, values: Numbers) -> None:
    known = values[0] in modes.PUBLIC
    state = (1 if values[0] in canvas.mode else 2) if known else 0
    canvas.write_process_input(f"\x1b[{values[0]};{state}$y")


def _private_mode(canvas: Drawing, values: Numbers) -> None:
    """DECRQM: 0 unknown, 1 set, 2 reset, 4 for ever reset."""
    mode = modes.private(values[0])
    if mode in modes.ALTERNATE:
        state = 1 if canvas.alternate else 2
    elif mode == modes.SAVED_CURSOR:
        state = 1 if canvas.alternate in canvas.saved else 2
    elif mode == modes.DECCOLM:
        state = 4
    else:
        state = (1 if mode in canvas.mode else 2) if mode in modes.KNOWN else 0
    canvas.write_process_input(f"\x1b[?{values[0]};{state}$y")


def _terminal_parameters(canvas: Drawing, values: Numbers) -> None:
    """DECREQTPARM: no parity, 8 bits, 38,400 baud."""
    if values[0] in (0, 1):
        canvas.write_process_input(f"\x1b[{values[0] + 2};1;1;128;128;1;0x")


def _window(canvas: Drawing, values: Numbers) -> None:
    """XTWINOPS: sizes. Icon label and title are told empty: they are the far end's own words."""
    height, width = canvas.lines, canvas.columns
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
        canvas.write_process_input(replies[values[0]])


def answer_command(canvas: Drawing, code: str, value: str, terminator: str) -> None:
    """OSC 4 and 10 to 12 with `?`, answered with the terminator of the question. Colours that are set are not kept."""
    if code == "4":
        pairs = value.split(";")[: 2 * _MAX_ASKED_COLOURS]
        for number, asked in zip(pairs[::2], pairs[1::2], strict=False):
            if asked == "?" and number.isdecimal() and len(number) <= 3 and int(number) < 256:
                _colour(canvas, f"4;{int(number)}", palette(int(number)), terminator)
    elif code in _DYNAMIC_COLOURS:
        for offset, asked in enumerate(value.split(";")):
            colour = _DYNAMIC_COLOURS.get(str(int(code) + offset))
            if asked == "?" and colour is not None:
                _colour(canvas, str(int(code) + offset), colour, terminator)


def _colour(canvas: Drawing, what: str, colour: tuple[int, ...], terminator: str) -> None:
    value = "/".join(f"{part:02x}{part:02x}" for part in colour)
    canvas.write_process_input(f"\x1b]{what};rgb:{value}{terminator}")


def answer_status_string(canvas: Drawing, text: str) -> None:
    """DECRQSS, as xterm: 1 is valid. XTGETTCAP: nothing is known."""
    if text.startswith("+q"):
        canvas.write_process_input("\x1bP0+r\x1b\\")
    elif text.startswith("$q"):
        setting = _setting(canvas, text[2:])
        canvas.write_process_input(f"\x1bP1$r{setting}\x1b\\" if setting is not None else "\x1bP0$r\x1b\\")


def _setting(canvas: Drawing, name: str) -> str | None:
    top, bottom = canvas.region
    settings = {
        "m": sgr(canvas.styles.value(canvas.pen)).decode().removeprefix("\x1b["),
        "r": f"{top + 1};{bottom + 1}r",
        " q": f"{canvas.cursor_style} q",
        '"p': '62;1"p',
    }
    return settings.get(name)


#: By private marker, intermediates and final.
CONTROL_SEQUENCE_ANSWERS: dict[str, Answer] = {
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

"""Maps controls and sequences to methods of the emulator.

Names are those of ECMA-48, chapter 8, and of xterm's "Control Sequences". Sequences that are not listed are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from . import modes, rectangles
from .cells import MAX_CLUSTER, width
from .emulator import Emulator
from .parser import ESC, Numbers, OutputToken, Sequence, parse_sequence
from .query_responses import CONTROL_SEQUENCE_RESPONSES, respond_to_dcs, respond_to_osc

_MAX_TITLE = 1024
_MAX_TITLES = 10
_MAX_NUMBER = 6  # digits
_MAX_NUMBERS = 32
_MAX_PARAMETERS = 256  # characters
#: Repeated text, and text between side margins, is drawn in parts: of this number of characters, or of rows that may scroll.
_PART = 4096
_SCROLLED_ROWS = 3200

SequenceAction = Callable[[Emulator, Numbers], object]


def apply(emulator: Emulator, tokens: Iterable[OutputToken]) -> Iterator[None]:
    """Apply tokens to the emulator. Yields after the control function that makes the cost reach `pause_at`."""
    last, draw, restyle = emulator.last, emulator.draw, emulator.restyle
    for parameters, final, other, text in tokens:
        if final == "m":
            restyle(parameters)
        elif final:
            if final == "b":
                yield from _draw_in_parts(emulator, _repeated(emulator, last, numbers(parameters)[0]))
            elif (action := _CONTROL_SEQUENCES.get(final)) is not None:
                action(emulator, numbers(parameters))
                if emulator.cost >= emulator.pause_at:
                    emulator.pause()
                    yield
        elif other == "\r\n":  # the most frequent controls
            emulator.carriage_return()
            emulator.index()
        elif other:
            found = parse_sequence(other) if other[0] == ESC else None
            for control in other if other[0] != ESC else found.controls if found is not None else "":
                if (function := _C0.get(control)) is not None:
                    function(emulator)
                if emulator.cost >= emulator.pause_at:
                    emulator.pause()
                    yield
            if found is not None and found.final:
                if found.kind == "[" and found.final == "b" and not found.private + found.intermediates:
                    before = "" if found.controls else last
                    yield from _draw_in_parts(emulator, _repeated(emulator, before, _numbers_of(found)[0]))
                else:
                    _sequence(emulator, found)
            if emulator.cost >= emulator.pause_at:
                emulator.pause()
                yield
        if text:
            if emulator.sides is None:
                draw(text)
            else:
                yield from _draw_in_parts(emulator, text)
            last = text
        elif final or other:
            last = ""
    emulator.last = last[-1:]


@lru_cache(maxsize=4096)
def numbers(parameters: str) -> Numbers:
    """Return the values of parameters, at least one. A missing value is 0; subparameters are ignored."""
    values = parameters.split(";", _MAX_NUMBERS)[:_MAX_NUMBERS]
    digits = (value.partition(":")[0].lstrip("0")[:_MAX_NUMBER] for value in values)
    return tuple(int(value) if value else 0 for value in digits)


def _numbers_of(found: Sequence) -> Numbers:
    return numbers(found.parameters[:_MAX_PARAMETERS])


def _repeated(emulator: Emulator, last: str, count: int) -> str:
    """Return the text that REP draws: repetitions of the preceding character (ECMA-48 8.3.103), at most one screen."""
    left, right = emulator.side_margins
    limit = (right + 1 - left) * emulator.lines
    if last and width(last[-1]) == 0:
        limit = min(limit, MAX_CLUSTER)
    return last[-1:] * min(count or 1, limit)


def _draw_in_parts(emulator: Emulator, text: str) -> Iterator[None]:
    scrolls = emulator.sides is not None and not text.isascii()  # perhaps for each character, all rows
    size = max(_SCROLLED_ROWS // emulator.lines, 1) if scrolls else _PART
    for begin in range(0, len(text), size):
        part = text[begin : begin + size]
        emulator.draw(part)
        left, right = emulator.side_margins
        emulator.charge(1 + 2 * len(part) // (right + 1 - left), emulator.columns)
        if emulator.cost >= emulator.pause_at:
            emulator.pause()
            yield


def _sequence(emulator: Emulator, found: Sequence) -> None:
    if found.kind == "[":
        _control_sequence(emulator, found)
    elif found.kind == "]":
        _osc(emulator, found.parameters, found.final)
    elif found.kind == "P":
        respond_to_dcs(emulator, found.parameters)
    elif not found.kind:
        action = _ESCAPES.get(found.intermediates + found.final)
        if action is not None:
            action(emulator)


def _control_sequence(emulator: Emulator, found: Sequence) -> None:
    name, values = found.private + found.intermediates + found.final, _numbers_of(found)
    if name == "m":
        emulator.restyle(found.parameters)
    elif (action := _CONTROL_SEQUENCES.get(name)) is not None:
        action(emulator, values)


def _osc(emulator: Emulator, text: str, terminator: str) -> None:
    """Handle an OSC: titles and colour queries."""
    code, _, value = text.partition(";")
    if code in ("0", "2"):
        emulator.set_title("".join(char for char in value if char.isprintable())[:_MAX_TITLE])
    else:
        respond_to_osc(emulator, code, value, terminator)


def _cursor_style(emulator: Emulator, values: Numbers) -> None:
    """Set the cursor style (DECSCUSR)."""
    if values[0] <= 6:
        emulator.cursor_style = values[0]


def _window(emulator: Emulator, values: Numbers) -> None:
    """Handle the title stack and queries of XTWINOPS; ignore other operations."""
    if values[0] == 22 and values[1:2] != (1,):
        emulator.titles = [*emulator.titles, emulator.title][-_MAX_TITLES:]
    elif values[0] == 23 and values[1:2] != (1,) and emulator.titles:
        emulator.set_title(emulator.titles.pop())
    else:
        CONTROL_SEQUENCE_RESPONSES["t"](emulator, values)


def _scroll_down(emulator: Emulator, values: Numbers) -> None:
    """Scroll down (SD). With more parameters it is highlight mouse tracking (xterm), which is not supported."""
    if len(values) == 1:
        emulator.scroll_up(-(values[0] or 1))


def _set_sides(emulator: Emulator, values: Numbers) -> None:
    """Set the left and right margins (DECSLRM) if DECLRMM is set; otherwise save the cursor (SCOSC)."""
    if modes.DECLRMM in emulator.mode:
        emulator.set_sides(*values[:2])
    else:
        emulator.save_cursor()


def _save_modes(emulator: Emulator, values: Numbers) -> None:
    """Save private modes (XTSAVE)."""
    known = {modes.private(value) for value in values} & modes.KNOWN
    emulator.saved_modes |= {mode: mode in emulator.mode for mode in known}


def _restore_modes(emulator: Emulator, values: Numbers) -> None:
    """Restore saved private modes (XTRESTORE)."""
    for value in values:
        on = emulator.saved_modes.get(modes.private(value))
        if on is not None:
            (emulator.set_mode if on else emulator.reset_mode)(value, private=True)


def _conformance_level(emulator: Emulator, values: Numbers) -> None:
    """Select the VT level, 61 to 64, and reset (DECSCL): softly, as a VT220 does."""
    if 61 <= values[0] <= 65:
        emulator.soft_reset()
        emulator.level = min(values[0] - 60, 4)


def _checksum_flags(emulator: Emulator, values: Numbers) -> None:
    """Select how checksums are computed (XTCHECKSUM)."""
    emulator.checksum_flags = values[0]


def _next_line(emulator: Emulator) -> None:
    """Move the cursor to the start of the next line (NEL)."""
    emulator.index()
    emulator.carriage_return()


_C0: dict[str, Callable[[Emulator], object]] = {
    "\b": Emulator.backspace,
    "\t": Emulator.tab,
    "\n": Emulator.linefeed,
    "\v": Emulator.linefeed,
    "\f": Emulator.linefeed,
    "\r": Emulator.carriage_return,
    "\x0e": Emulator.shift_out,
    "\x0f": Emulator.shift_in,
}
_ESCAPES: dict[str, Callable[[Emulator], object]] = {
    "7": Emulator.save_cursor,
    "8": Emulator.restore_cursor,
    "=": lambda emulator: emulator.mode.add(modes.DECNKM),  # DECKPAM
    ">": lambda emulator: emulator.mode.discard(modes.DECNKM),  # DECKPNM
    "6": Emulator.back_index,
    "9": Emulator.forward_index,
    "D": Emulator.index,
    "E": _next_line,
    "H": Emulator.set_tab_stop,
    "M": Emulator.reverse_index,
    "V": lambda emulator: emulator.protect("guarded"),  # SPA
    "W": lambda emulator: emulator.protect(""),  # EPA
    "Z": lambda emulator: CONTROL_SEQUENCE_RESPONSES["c"](emulator, (0,)),
    "c": Emulator.reset,
    "#8": Emulator.alignment_display,
    "(0": lambda emulator: emulator.define_charset("0", "("),
    "(B": lambda emulator: emulator.define_charset("B", "("),
    ")0": lambda emulator: emulator.define_charset("0", ")"),
    ")B": lambda emulator: emulator.define_charset("B", ")"),
}
#: By private marker, intermediates and final.
_CONTROL_SEQUENCES: dict[str, SequenceAction] = {
    "@": lambda emulator, values: emulator.insert_characters(values[0]),
    "A": lambda emulator, values: emulator.cursor_up(values[0]),
    "B": lambda emulator, values: emulator.cursor_down(values[0]),
    "C": lambda emulator, values: emulator.cursor_forward(values[0]),
    "D": lambda emulator, values: emulator.cursor_back(values[0]),
    "E": lambda emulator, values: emulator.cursor_down1(values[0]),
    "F": lambda emulator, values: emulator.cursor_up1(values[0]),
    "G": lambda emulator, values: emulator.cursor_to_column(values[0]),
    "H": lambda emulator, values: emulator.cursor_position(*values[:2]),
    "I": lambda emulator, values: emulator.tab(values[0]),
    "J": lambda emulator, values: emulator.erase_in_display(values[0]),
    "K": lambda emulator, values: emulator.erase_in_line(values[0]),
    "L": lambda emulator, values: emulator.insert_lines(values[0]),
    "M": lambda emulator, values: emulator.delete_lines(values[0]),
    "P": lambda emulator, values: emulator.delete_characters(values[0]),
    "S": lambda emulator, values: emulator.scroll_up(values[0] or 1),
    "T": _scroll_down,
    "X": lambda emulator, values: emulator.erase_characters(values[0]),
    "Z": lambda emulator, values: emulator.back_tab(values[0]),
    "`": lambda emulator, values: emulator.cursor_to_column(values[0]),
    "a": lambda emulator, values: emulator.cursor_forward(values[0]),
    "d": lambda emulator, values: emulator.cursor_to_line(values[0]),
    "e": lambda emulator, values: emulator.cursor_down(values[0]),
    "f": lambda emulator, values: emulator.cursor_position(*values[:2]),
    "g": lambda emulator, values: emulator.clear_tab_stop(values[0]),
    "h": lambda emulator, values: emulator.set_mode(*values),
    "l": lambda emulator, values: emulator.reset_mode(*values),
    "r": lambda emulator, values: emulator.set_margins(*values[:2]),
    "s": _set_sides,
    "u": lambda emulator, _: emulator.restore_cursor(),
    "?J": lambda emulator, values: emulator.erase_in_display(values[0], private=True),
    "?K": lambda emulator, values: emulator.erase_in_line(values[0], private=True),
    "?h": lambda emulator, values: emulator.set_mode(*values, private=True),
    "?l": lambda emulator, values: emulator.reset_mode(*values, private=True),
    "?s": _save_modes,
    "?r": _restore_modes,
    " q": _cursor_style,
    " @": lambda emulator, values: emulator.shift_columns(emulator.side_margins[0], -(values[0] or 1)),  # SL
    " A": lambda emulator, values: emulator.shift_columns(emulator.side_margins[0], values[0] or 1),  # SR
    "'}": lambda emulator, values: emulator.edit_columns(values[0] or 1),  # DECIC
    "'~": lambda emulator, values: emulator.edit_columns(-(values[0] or 1)),  # DECDC
    '"p': _conformance_level,
    '"q': lambda emulator, values: emulator.protect("selective" if values[0] == 1 else ""),  # DECSCA
    "#y": _checksum_flags,
    "$r": rectangles.change_attributes,
    "$t": rectangles.reverse_attributes,
    "$v": rectangles.copy,
    "$x": rectangles.fill,
    "$z": rectangles.erase,
    "${": rectangles.erase_selectively,
    "*x": rectangles.set_extent,
    "!p": lambda emulator, _: emulator.soft_reset(),
    **CONTROL_SEQUENCE_RESPONSES,
    "t": _window,
}

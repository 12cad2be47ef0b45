"""Tokens to the canvas: which control and which sequence does what.

Sequences are named as in ECMA-48, chapter 8, and in xterm's "Control Sequences". What is not listed is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from . import modes
from .answers import CONTROL_SEQUENCE_ANSWERS, answer_command, answer_status_string, device_attributes
from .drawing import Drawing
from .tokens import ESC, Sequence, Token, sequence

_MAX_TITLE = 1024
_MAX_TITLES = 10
_MAX_NUMBER = 6  # digits

Numbers = tuple[int, ...]
Action = Callable[[Drawing, Numbers], object]


def fold(canvas: Drawing, tokens: Iterable[Token]) -> None:
    """Does what the tokens say."""
    last, draw, restyle = canvas.last, canvas.draw, canvas.restyle
    for parameters, final, other, text in tokens:
        if final == "m":
            restyle(parameters)
        elif final:
            if final == "b":
                _repeat(canvas, last, numbers(parameters)[0])
            elif (action := _CONTROL_SEQUENCES.get(final)) is not None:
                action(canvas, numbers(parameters))
        elif other:
            if other[0] == ESC:
                _escaped(canvas, sequence(other), last)
            else:
                _controls(canvas, other)
        if text:
            draw(text)
            last = text
        elif final or other:
            last = ""
    canvas.last = last[-1:]


@lru_cache(maxsize=4096)
def numbers(parameters: str) -> Numbers:
    """The values of parameters; a missing one is 0, subparameters are left out. There is at least one."""
    values = (parameter.partition(":")[0].lstrip("0")[:_MAX_NUMBER] for parameter in parameters.split(";"))
    return tuple(int(value) if value else 0 for value in values)


def _controls(canvas: Drawing, controls: str) -> None:
    if controls == "\r\n":  # what most lines end with
        canvas.carriage_return()
        canvas.index()
        return
    for control in controls:
        if (action := _C0.get(control)) is not None:
            action(canvas)


def _repeat(canvas: Drawing, last: str, count: int) -> None:
    """REP. What comes right before must be a character (ECMA-48 8.3.103)."""
    if last:
        canvas.draw(last[-1] * min(count or 1, canvas.columns * canvas.lines))


def _escaped(canvas: Drawing, found: Sequence | None, last: str) -> None:
    if found is None:
        return
    _controls(canvas, found.controls)
    if not found.final:
        return
    if found.kind == "[":
        _control_sequence(canvas, found, last)
    elif found.kind == "]":
        _command(canvas, found.parameters, found.final)
    elif found.kind == "P":
        answer_status_string(canvas, found.parameters)
    elif not found.kind:
        action = _ESCAPES.get(found.intermediates + found.final)
        if action is not None:
            action(canvas)


def _control_sequence(canvas: Drawing, found: Sequence, last: str) -> None:
    name, values = found.private + found.intermediates + found.final, numbers(found.parameters)
    if name == "m":
        canvas.restyle(found.parameters)
    elif name == "b":
        _repeat(canvas, "" if found.controls else last, values[0])
    else:
        action = _CONTROL_SEQUENCES.get(name)
        if action is not None:
            action(canvas, values)


def _command(canvas: Drawing, text: str, terminator: str) -> None:
    """OSC: titles, and questions for colours."""
    code, _, value = text.partition(";")
    if code in ("0", "2"):
        canvas.set_title("".join(char for char in value if char.isprintable())[:_MAX_TITLE])
    else:
        answer_command(canvas, code, value, terminator)


def _cursor_style(canvas: Drawing, values: Numbers) -> None:
    if values[0] <= 6:
        canvas.cursor_style = values[0]


def _window(canvas: Drawing, values: Numbers) -> None:
    """Titles are kept and taken back; other operations on windows are questions, or not ours to do."""
    if values[0] == 22 and values[1:2] != (1,):
        canvas.titles = [*canvas.titles, canvas.title][-_MAX_TITLES:]
    elif values[0] == 23 and values[1:2] != (1,) and canvas.titles:
        canvas.set_title(canvas.titles.pop())
    else:
        CONTROL_SEQUENCE_ANSWERS["t"](canvas, values)


def _scroll_down(canvas: Drawing, values: Numbers) -> None:
    """SD; with more parameters it is xterm's mouse tracking by highlighting, which nobody has."""
    if len(values) == 1:
        canvas.scroll_down(values[0] or 1)


def _keypad(canvas: Drawing, *, application: bool) -> None:
    (canvas.mode.add if application else canvas.mode.discard)(modes.DECNKM)


def _next_line(canvas: Drawing) -> None:
    canvas.carriage_return()
    canvas.index()


_C0: dict[str, Callable[[Drawing], object]] = {
    "\b": Drawing.backspace,
    "\t": Drawing.tab,
    "\n": Drawing.linefeed,
    "\v": Drawing.linefeed,
    "\f": Drawing.linefeed,
    "\r": Drawing.carriage_return,
    "\x0e": Drawing.shift_out,
    "\x0f": Drawing.shift_in,
}
_ESCAPES: dict[str, Callable[[Drawing], object]] = {
    "7": Drawing.save_cursor,
    "8": Drawing.restore_cursor,
    "=": lambda canvas: _keypad(canvas, application=True),
    ">": lambda canvas: _keypad(canvas, application=False),
    "D": Drawing.index,
    "E": _next_line,
    "H": Drawing.set_tab_stop,
    "M": Drawing.reverse_index,
    "Z": lambda canvas: device_attributes(canvas, (0,)),
    "c": Drawing.reset,
    "#8": Drawing.alignment_display,
    "(0": lambda canvas: canvas.define_charset("0", "("),
    "(B": lambda canvas: canvas.define_charset("B", "("),
    ")0": lambda canvas: canvas.define_charset("0", ")"),
    ")B": lambda canvas: canvas.define_charset("B", ")"),
}
#: By private marker, intermediates and final.
_CONTROL_SEQUENCES: dict[str, Action] = {
    "@": lambda canvas, values: canvas.insert_characters(values[0]),
    "A": lambda canvas, values: canvas.cursor_up(values[0]),
    "B": lambda canvas, values: canvas.cursor_down(values[0]),
    "C": lambda canvas, values: canvas.cursor_forward(values[0]),
    "D": lambda canvas, values: canvas.cursor_back(values[0]),
    "E": lambda canvas, values: canvas.cursor_down1(values[0]),
    "F": lambda canvas, values: canvas.cursor_up1(values[0]),
    "G": lambda canvas, values: canvas.cursor_to_column(values[0]),
    "H": lambda canvas, values: canvas.cursor_position(*values[:2]),
    "I": lambda canvas, values: canvas.tab(values[0]),
    "J": lambda canvas, values: canvas.erase_in_display(values[0]),
    "K": lambda canvas, values: canvas.erase_in_line(values[0]),
    "L": lambda canvas, values: canvas.insert_lines(values[0]),
    "M": lambda canvas, values: canvas.delete_lines(values[0]),
    "P": lambda canvas, values: canvas.delete_characters(values[0]),
    "S": lambda canvas, values: canvas.scroll_up(values[0] or 1),
    "T": _scroll_down,
    "X": lambda canvas, values: canvas.erase_characters(values[0]),
    "Z": lambda canvas, values: canvas.back_tab(values[0]),
    "`": lambda canvas, values: canvas.cursor_to_column(values[0]),
    "a": lambda canvas, values: canvas.cursor_forward(values[0]),
    "d": lambda canvas, values: canvas.cursor_to_line(values[0]),
    "e": lambda canvas, values: canvas.cursor_down(values[0]),
    "f": lambda canvas, values: canvas.cursor_position(*values[:2]),
    "g": lambda canvas, values: canvas.clear_tab_stop(values[0]),
    "h": lambda canvas, values: canvas.set_mode(*values),
    "l": lambda canvas, values: canvas.reset_mode(*values),
    "r": lambda canvas, values: canvas.set_margins(*values[:2]),
    "s": lambda canvas, _: canvas.save_cursor(),
    "u": lambda canvas, _: canvas.restore_cursor(),
    "?J": lambda canvas, values: canvas.erase_in_display(values[0]),
    "?K": lambda canvas, values: canvas.erase_in_line(values[0]),
    "?h": lambda canvas, values: canvas.set_mode(*values, private=True),
    "?l": lambda canvas, values: canvas.reset_mode(*values, private=True),
    " q": _cursor_style,
    "!p": lambda canvas, _: canvas.soft_reset(),
    **CONTROL_SEQUENCE_ANSWERS,
    "t": _window,
}

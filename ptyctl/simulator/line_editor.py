"""Editing of one input line, and the output that updates it on the screen."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile

from .keys import Key

BELL = "\a"

#: Maximum length of an input line on IOS.
MAX_LINE = 254

#: Maps the line to its visible part.
LineView = Callable[[str], str]

#: Maps the visible text before and after a change to the output that updates the screen.
LinePainter = Callable[[str, str], str]


def hide(_line: str) -> str:
    """Line view of input that is not echoed, such as a password."""
    return ""


def common_prefix_length(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def repaint(before: str, after: str) -> str:
    """Return the output that replaces `before` by `after`, with the cursor at the end of each."""
    kept = common_prefix_length(before, after)
    surplus = max(0, len(before) - len(after))
    if kept == len(after):
        return "\b \b" * surplus
    return "\b" * (len(before) - kept) + after[kept:] + " " * surplus + "\b" * surplus


class LineEditor:
    """Line editor that edits at the end of the line only: cursor keys are not supported."""

    def __init__(self, view: LineView = str, paint: LinePainter = repaint) -> None:
        self.text = ""
        self._view, self._paint = view, paint

    def type(self, key: Key | str) -> str:
        """Apply a key other than Enter and return its echo."""
        if isinstance(key, str):
            return self.replace(self.text + key) if len(self.text) < MAX_LINE else BELL
        match key:
            case Key.BACKSPACE:
                return self.replace(self.text[:-1])
            case Key.CTRL_U:
                return self.replace("")
            case Key.CTRL_W:
                return self.replace(self.text.rstrip()[: self.text.rstrip().rfind(" ") + 1])
            case _:
                return ""

    def replace(self, text: str) -> str:
        """Set the line to `text` and return the output that shows it."""
        before, self.text = self.text, text
        return self._paint(self._view(before), self._view(text))

    @property
    def visible_text(self) -> str:
        return self._view(self.text)

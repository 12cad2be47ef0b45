"""The line that is being typed, and the bytes that show each change of it."""

from __future__ import annotations

from collections.abc import Callable

from .keys import Key
from .prefix import common_prefix_length

BELL = "\a"

#: What an IOS line holds (254 characters).
MAX_LINE = 254

#: What of a line is on the screen: normally all of it.
View = Callable[[str], str]

#: What turns one text on the screen into another.
Paint = Callable[[str, str], str]


def repaint(before: str, after: str) -> str:
    """What turns the one text on the screen into the other, with the cursor at the end of both."""
    kept = common_prefix_length(before, after)
    surplus = max(0, len(before) - len(after))
    if kept == len(after):
        return "\b \b" * surplus
    return "\b" * (len(before) - kept) + after[kept:] + " " * surplus + "\b" * surplus


class LineEditor:
    """Edits at the end of the line only: cursor keys are not known here."""

    def __init__(self, view: View = str, paint: Paint = repaint) -> None:
        self.text = ""
        self._view, self._paint = view, paint

    def type(self, key: Key | str) -> str:
        """Applies one key that is not Enter; gives its echo."""
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
        """Makes `text` the line; gives what shows it."""
        before, self.text = self.text, text
        return self._paint(self._view(before), self._view(text))

    @property
    def shown(self) -> str:
        return self._view(self.text)

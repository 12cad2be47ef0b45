"""Who takes the keys at a question: a whole line, a single key, or Enter."""

from __future__ import annotations

from collections.abc import Callable

from .editor import LineEditor, Paint, View, repaint
from .keys import INTERRUPTS, Key
from .terminal import Terminal


class LineInput:
    """Reads one line behind `prompt` and gives it to `answer`. An interrupt key calls `cancel` instead."""

    def __init__(
        self,
        terminal: Terminal,
        prompt: str,
        answer: Callable[[str], None],
        cancel: Callable[[], None],
        *,
        view: View = str,
        paint: Paint = repaint,
    ) -> None:
        self.terminal, self.prompt = terminal, prompt
        self.editor = LineEditor(view, paint)
        self._answer, self._cancel = answer, cancel

    def key(self, key: Key | str) -> None:
        if key is Key.ENTER:
            self.terminal.write("\n")
            self._answer(self.editor.text)
        elif key in INTERRUPTS:
            self.cancel("^C")
        else:
            self.terminal.write(self.editor.type(key))

    def cancel(self, mark: str) -> None:
        """Gives up the line; `mark` is what is shown for the key that did it."""
        self.terminal.interrupted()
        self.terminal.write(f"{mark}\n")
        self._cancel()

    def redraw(self) -> None:
        """Shows the prompt and what was typed so far, on a new line."""
        self.terminal.write(self.prompt + self.editor.shown)


class KeyInput:
    """Takes one key, whichever, and echoes nothing."""

    def __init__(self, answer: Callable[[Key | str], None]) -> None:
        self._answer = answer

    def key(self, key: Key | str) -> None:
        self._answer(key)


class ConfirmInput:
    """Reads a single key: Enter and y mean yes, anything else no."""

    def __init__(self, terminal: Terminal, answer: Callable[[bool], None]) -> None:
        self._terminal, self._answer = terminal, answer

    def key(self, key: Key | str) -> None:
        self._terminal.write("\n")
        self._answer(key in (Key.ENTER, "y", "Y"))


class EnterInput:
    """Takes nothing but Enter, and echoes nothing."""

    def __init__(self, answer: Callable[[], None]) -> None:
        self._answer = answer

    def key(self, key: Key | str) -> None:
        if key is Key.ENTER:
            self._answer()


def unseen(_line: str) -> str:
    """The view of a line that is not echoed: a password."""
    return ""

"""Random keys of one task in a shell, with a model of the line where their effect is known.

The lines call `note`, which records its arguments. Each line has a number, so that a recorded line names who asked for it.
"""

from __future__ import annotations

import random
import shlex
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

#: How the shell reads a line: as emacs or vi do, or as the kernel's terminal does.
Editing = Literal["emacs", "vi", "canonical"]

#: Keys whose effect depends on the shell, on its history, or on the time between two bytes. `{}` is a number.
UNKNOWN_KEYS = (
    *("\x12", "\x12no", "\x12note\x12", "\x12xyz", "\x12\x1b"),  # reverse search
    *("\x1b[A", "\x1b[A\x1b[A", "\x1b[B", "\x10", "\x10\x10\x0e", "\x1bp", "\x1b<", "\x1b[5~"),  # history
    *("\x1b", "\x1b\x1b", "\x1b[", "\x1bO", "\x1b5", "\x18", "\x16", "\x1f", "\x07", "\x14", "\x17", "\x19", "\x0b", "\x0c"),
    *("\x1b[H", "\x1b[F", "\x1b[3~", "\x1b[D\x1b[D\x1b[D", "\x1bf", "\x1bb", "\x1bd", "\x1b\x7f", "\x1b.", "\x1bt"),
    *("\x1bk", "\x1bkk", "\x1b0", "\x1b0i", "\x1bI", "\x1b0A", "\x1bdd", "\x1bu", "\x1b/te", "\x1bcc", "\x1bx", "\x1br"),
    *("\t", "\t\t", "no\t", "note \t"),
    *("\x1b[200~note {} pasted", "\x1b[200~note {} pasted\x1b[201~", "\x1b[201~", "\x1b[200~"),
)
#: Shells read mixtures of them differently.
_QUOTES = ("'", '"', "\\")


@dataclass
class Line:
    """The line that task A is typing.

    Attributes:
        known: whether `text` is what the shell's line editor has; A presses Enter only then.
        entered: the lines before it of an incomplete command.
        moved: whether keys have moved the cursor.
        complete: whether a complete command was entered just before: its shell may not be at its prompt yet.
    """

    known: bool = True
    text: str = ""
    cursor: int = 0
    entered: str = ""
    moved: bool = False
    complete: bool = False

    def insert(self, text: str) -> str:
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)
        return text

    @property
    def incomplete(self) -> bool:
        return bool(self.entered)


def arguments(command: str) -> list[str] | None:
    """Return the words of a command as the shells read it; None if it is incomplete."""
    try:
        return shlex.split(command.replace("\\\n", ""))
    except ValueError:
        return None


@dataclass
class Typist:
    """Task A: chooses keys, and records the commands that it has entered.

    Attributes:
        entered: the arguments of `note` in the commands that it has entered, in order.
    """

    choose: random.Random
    editing: Editing
    numbers: count[int]
    line: Line = field(default_factory=Line)
    entered: list[tuple[str, ...]] = field(default_factory=list)

    def reset(self) -> None:
        """Reset the line, which is empty after a command of another task."""
        self.line = Line()

    def lose(self) -> None:
        """Something has changed the line in an unknown way."""
        self.line.known = False

    def keys(self) -> str:
        """Return the next keys."""
        options = [self._text, self._text, self._text]
        if self.line.known:
            options += [self._edit, self._edit, self._enter, self._enter, self._enter, self._quote]
        options.append(self._unknown)
        return self.choose.choice(options)()

    def _text(self) -> str:
        number, begun = next(self.numbers), self.line.text and self.line.known
        return self.line.insert(f" x{number}" if begun else f"note {number} {self._word()}")

    def _word(self) -> str:
        return self.choose.choice(("half", "a b  c", "long " * 20, "é"))

    def _edit(self) -> str:
        line, choose = self.line, self.choose
        edits = [lambda: line.insert("n")]
        at_end = line.cursor == len(line.text)
        if line.text and at_end and not line.moved:
            edits += [self._erase, self._erase, *([] if line.incomplete else [self._kill])]
        if self.editing == "emacs" and not line.incomplete:
            edits += [self._home, *([self._left] if line.cursor else [])]
            if not at_end:
                edits += [self._end, self._right]
        return choose.choice(edits)()

    def _erase(self) -> str:
        line = self.line
        line.text, line.cursor = line.text[:-1], line.cursor - 1
        return "\x7f"

    def _kill(self) -> str:
        self.line.text, self.line.cursor = "", 0
        return "\x15"

    def _home(self) -> str:
        self.line.cursor, self.line.moved = 0, True
        return "\x01"

    def _end(self) -> str:
        self.line.cursor, self.line.moved = len(self.line.text), True
        return "\x05"

    def _left(self) -> str:
        self.line.cursor, self.line.moved = self.line.cursor - 1, True
        return "\x1b[D"

    def _right(self) -> str:
        self.line.cursor, self.line.moved = self.line.cursor + 1, True
        return "\x1b[C"

    def _quote(self) -> str:
        """Open or close a quotation, or continue in the next line. Shells read mixtures of these differently."""
        line = self.line
        command = line.entered + line.text
        used = [kind for kind in _QUOTES if kind in command]
        if line.cursor != len(line.text) or not line.text:
            return self._text()
        quote = used[0] if used else self.choose.choice(_QUOTES)
        keys = line.insert(f" {quote}")
        return keys + self._enter() if quote == "\\" else keys

    def _enter(self) -> str:
        line = self.line
        command = line.entered + line.text
        if line.text.endswith("\\") or arguments(command) is None:
            self.line = Line(entered=command + "\n")
        else:
            self.line = Line(complete=True)
            self.entered += notes(command)
        return "\n"

    def _unknown(self) -> str:
        self.lose()
        keys = self._numbered(self.choose.choice(UNKNOWN_KEYS))
        if self.choose.random() < 0.2:  # cut within a key
            keys = keys[: self.choose.randint(1, len(keys))]
        return keys

    def _numbered(self, keys: str) -> str:
        return keys.format(*(next(self.numbers) for _ in range(keys.count("{}"))))


def notes(command: str) -> list[tuple[str, ...]]:
    """Return the arguments of each `note` that a complete command runs."""
    words = arguments(command) or []
    return [tuple(words[1:])] if words[:1] == ["note"] else []

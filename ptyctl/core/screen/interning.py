"""Values that are kept as one character each, so that a row of cells is a string.

A row's styles are a string with a character per column, and so are its characters: slicing, comparing and sharing rows is
then as fast as Python gets, and a row costs some hundred bytes instead of some thousands.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Interned(Generic[Value]):
    """Values by character, beginning at `first`; `spare` stands for what no longer finds a place."""

    def __init__(self, first: int, last: int, spare: str) -> None:
        self._first, self._last, self._spare = first, last, spare
        self.values: list[Value] = []
        self._chars: dict[Value, str] = {}

    def __len__(self) -> int:
        return len(self.values)

    def char(self, value: Value) -> str:
        char = self._chars.get(value)
        if char is None:
            if self._first + len(self.values) > self._last:
                return self._spare
            char = self._chars[value] = chr(self._first + len(self.values))
            self.values.append(value)
        return char

    def value(self, char: str) -> Value:
        return self.values[ord(char) - self._first]

    def knows(self, char: str) -> bool:
        return 0 <= ord(char) - self._first < len(self.values)

    def forget(self, used: Iterable[str]) -> dict[int, str]:
        """Keeps only the values of these characters; the answer translates the old characters to the new ones."""
        kept = {char: self.value(char) for char in sorted(set(used)) if self.knows(char)}
        self.values, self._chars = [], {}
        return {ord(char): self.char(value) for char, value in kept.items()}

    def copy(self) -> Interned[Value]:
        other = copy.copy(self)
        other.values, other._chars = self.values.copy(), self._chars.copy()
        return other

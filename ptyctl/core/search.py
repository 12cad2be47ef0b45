"""Matching on the spool with RE2: linear whatever the pattern, so no caller can stall the others (design, section 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from ptyctl.api.errors import invalid

from .spool import Hidden, HiddenRanges, SpoolWindow, nothing_hidden

#: A match of up to this size is found however it was cut; what a failed search must look at again is bounded by it.
MATCH_LIMIT_BYTES = 64 * 1024
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # or it writes to stderr

#: What other engines have and RE2 has not, by how it begins; named in the refusal.
_LACKING = {
    "(?=": "lookahead",
    "(?!": "lookahead",
    "(?<=": "lookbehind",
    "(?<!": "lookbehind",
    "(?>": "atomic groups",
    "(?P=": "backreferences",
    "(?(": "conditionals",
    "(?#": "comments",
}


@lru_cache(maxsize=512)
def compile_pattern(pattern: str, field: str) -> Any:
    """A compiled RE2 pattern over UTF-8 bytes: `$` is the end of the text, `(?m)` makes `^` and `$` lines.

    Raises:
        PtyctlError: INVALID_ARGUMENT, naming the field, the fault, and what RE2 lacks.
    """
    try:
        return re2.compile(pattern.encode("utf-8", "surrogatepass"), _OPTIONS)
    except re2.error as error:
        told = error.args[0] if error.args else b"?"
        fault = told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
        lacking = [name for begin, name in _LACKING.items() if begin in pattern]
        if "invalid escape sequence: \\" in fault and fault[-1:].isdigit():
            lacking = ["backreferences"]
        hint = f"RE2 has no {lacking[0]}; match it without" if lacking else "patterns are RE2"
        raise invalid(f"{field}: {pattern!r} is no valid pattern: {fault} ({hint})", field=field) from None


def compile_all(patterns: tuple[str, ...] | None, field: str) -> list[Any]:
    """As `compile_pattern`, for a list."""
    return [compile_pattern(pattern, f"{field}[{number}]") for number, pattern in enumerate(patterns or ())]


def any_of(patterns: tuple[str, ...]) -> Callable[[bytes], bool]:
    """Whether one of the patterns, which `compile_pattern` took, matches: in one pass, however many there are."""
    if not patterns:
        return lambda text: False
    together = re2.Set.SearchSet(_OPTIONS)
    for pattern in patterns:
        together.Add(pattern.encode("utf-8", "surrogatepass"))
    together.Compile()
    return lambda text: bool(together.Match(text))


@dataclass(frozen=True, slots=True)
class _Found:
    """A match, as RE2 tells it."""

    at: int
    size: int

    def start(self) -> int:
        return self.at

    def end(self) -> int:
        return self.at + self.size


class LiteralPattern:
    """A text to be found as it is, searched for as a compiled pattern is: RE2 takes its length times as long, once its table of
    states is full (a text of 10 KB that nearly comes: 44 s for 2 MB)."""

    def __init__(self, text: str) -> None:
        self._text = text.encode("utf-8", "surrogatepass")

    def search(self, text: bytes | memoryview, begin: int = 0) -> _Found | None:
        at = (text if isinstance(text, bytes) else bytes(text)).find(self._text, begin)
        return None if at < 0 else _Found(at, len(self._text))


@dataclass(frozen=True, slots=True)
class MatchRange:
    """Where a match lies in the spool: byte offsets, the end exclusive."""

    start: int
    end: int


class Search:
    """One search from a cursor over a spool that still grows. `^` is the cursor. What is `hidden` is not seen at all.

    Each call looks only at what came since the last one and at the 64 KiB before it, so that the whole is linear.
    """

    def __init__(self, pattern: Any, cursor: int, hidden: Hidden = nothing_hidden) -> None:
        self.cursor = cursor
        self.scanned = cursor
        self._pattern = pattern
        self._hidden = hidden

    def search(self, window: SpoolWindow) -> MatchRange | None:
        """The leftmost match in what the window holds now, or None."""
        begin = max(self._again_from(), window.start)
        context = begin
        if begin > self.cursor:  # what stands before it decides on ^, \b and (?m)^; and a character is not cut
            context = self._context(begin, window)
            begin = max(begin - 3, context + (context > self.cursor))
        with window.view(context, window.end) as text:
            seen = HiddenRanges(text, context, self._hidden(context, window.end))
            self.scanned = window.end
            found = self._pattern.search(seen.text, seen.position(begin))
            if found is None:
                return None
            end = seen.end_offset(found.end())
            return MatchRange(min(seen.offset(found.start()), end), end)

    def _again_from(self) -> int:
        """Where a match that was not whole at the last call may begin."""
        begin = max(self.cursor, self.scanned - MATCH_LIMIT_BYTES)
        while True:
            hidden = sum(end - start for start, end in self._hidden(begin, self.scanned))
            earlier = max(self.cursor, self.scanned - MATCH_LIMIT_BYTES - hidden)
            if earlier >= begin:
                return begin
            begin = earlier

    def _context(self, begin: int, window: SpoolWindow) -> int:
        """An offset a few bytes that are seen before `begin`, or the cursor where there are none."""
        while True:
            context = window.character_start(max(begin - 4, self.cursor))
            hidden = self._hidden(context, begin)
            if not hidden:
                return context
            begin = max(hidden[0][0], self.cursor)
            if begin == self.cursor or begin <= window.start:
                return max(begin, window.start)

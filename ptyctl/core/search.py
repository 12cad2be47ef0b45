"""Pattern matching on the spool with RE2, which takes linear time for every pattern: no caller can stall the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from ptyctl.api.errors import invalid

from .spool import FindHidden, HiddenRanges, SpoolWindow, nothing_hidden

#: Matches up to this size are found however the output is split; a failed search re-reads at most this much.
MATCH_LIMIT_BYTES = 64 * 1024
#: RE2 searches for literals up to this size.
_SHORT_LITERAL_BYTES = 256
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # otherwise RE2 writes to stderr

#: Syntax of other engines that RE2 does not support, by its start.
_UNSUPPORTED = {
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
    """Compile an RE2 pattern for UTF-8 bytes: `$` is the end of the text, `(?m)` makes `^` and `$` match at lines.

    Raises:
        PtyctlError: INVALID_ARGUMENT, naming the field and the fault.
    """
    try:
        return re2.compile(pattern.encode("utf-8", "surrogatepass"), _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else b"?"
        fault = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        unsupported = [name for begin, name in _UNSUPPORTED.items() if begin in pattern]
        if "invalid escape sequence: \\" in fault and fault[-1:].isdigit():
            unsupported = ["backreferences"]
        message = f"{field}: {pattern!r} is not a valid pattern: {fault}"
        if unsupported:
            hint = f"rewrite the pattern without {unsupported[0]}"
            raise invalid(f"{message} (RE2 has no {unsupported[0]})", hint=hint, field=field) from None
        raise invalid(message, hint="patterns use RE2 syntax", field=field) from None


def line_pattern(pattern: str, field: str) -> Any:
    """Compile a pattern in which `^` and `$` match at lines. An error shows the pattern as given; see `compile_pattern`."""
    compile_pattern(pattern, field)
    return compile_pattern(f"(?m){pattern}", field)


def compile_all(patterns: tuple[str, ...] | None, field: str) -> list[Any]:
    """Compile a list of patterns; an error names the index in the field."""
    return [compile_pattern(pattern, f"{field}[{number}]") for number, pattern in enumerate(patterns or ())]


def any_of(patterns: tuple[str, ...]) -> Callable[[bytes], bool]:
    """Return a function that checks in one pass whether any pattern matches. The patterns must be valid."""
    if not patterns:
        return lambda text: False
    patterns_set = re2.Set.SearchSet(_OPTIONS)
    for pattern in patterns:
        patterns_set.Add(pattern.encode("utf-8", "surrogatepass"))
    patterns_set.Compile()
    return lambda text: bool(patterns_set.Match(text))


def literal_pattern(text: str) -> Any:
    """Return a pattern for a literal text: of RE2, or of Python for a long text.

    RE2 finds a short literal two to three times as fast. It is slow for long ones once its cache of states is full: 44 s for
    10 KB in 2 MB of near matches.
    """
    literal = text.encode("utf-8", "surrogatepass")
    if len(literal) <= _SHORT_LITERAL_BYTES:
        with suppress(re2.error):  # a surrogate is not UTF-8
            return re2.compile(re2.escape(literal), _OPTIONS)
    return re.compile(re.escape(literal))


class AnyPattern:
    """Several compiled patterns that are searched as one."""

    def __init__(self, patterns: Sequence[Any]) -> None:
        self._patterns = patterns

    def search(self, text: Any, begin: int = 0) -> AnyMatch | None:
        """Return the leftmost match; of two at the same place, that of the earlier pattern."""
        best: AnyMatch | None = None
        for index, pattern in enumerate(self._patterns):
            found = pattern.search(text, begin)
            if found is not None and (best is None or found.start() < best.start()):
                best = AnyMatch(found, index)
        return best


class AnyMatch:
    """A match of one of several patterns, with the pattern's `index`."""

    def __init__(self, found: Any, index: int) -> None:
        self.index = index
        self.start: Callable[[], int] = found.start
        self.end: Callable[[], int] = found.end


@dataclass(frozen=True, slots=True)
class MatchRange:
    """The spool offsets of a match; `end` is exclusive. `index` is that of the pattern in an `AnyPattern`."""

    start: int
    end: int
    index: int = 0


class Search:
    """A search from a cursor over a spool that grows. `^` matches at the cursor. Hidden ranges are not part of the text.

    Each call examines only the bytes since the last call and the 64 KiB before them, so the total time is linear.
    """

    def __init__(self, pattern: Any, cursor: int, hidden: FindHidden = nothing_hidden) -> None:
        self.cursor = cursor
        self.scanned = cursor
        self._pattern = pattern
        self._hidden = hidden

    def search(self, window: SpoolWindow) -> MatchRange | None:
        """Return the leftmost match in the window, or None."""
        begin = max(self._rescan_start(), window.start)
        context = begin
        if begin > self.cursor:  # the bytes before decide on ^, \b and (?m)^, and a character must not be split
            context = self._context_start(begin, window)
            begin = max(begin - 3, context + (context > self.cursor))
        with window.view(context, window.end) as text:
            visible = HiddenRanges(text, context, self._hidden(context, window.end))
            self.scanned = window.end
            found = self._pattern.search(visible.text, visible.position(begin))
            if found is None:
                return None
            end = visible.end_offset(found.end())
            index = found.index if isinstance(found, AnyMatch) else 0
            return MatchRange(min(visible.offset(found.start()), end), end, index)

    def _rescan_start(self) -> int:
        """Return the offset at which a match that was incomplete at the last call may begin."""
        begin = max(self.cursor, self.scanned - MATCH_LIMIT_BYTES)
        while True:
            hidden = sum(end - start for start, end in self._hidden(begin, self.scanned))
            earlier = max(self.cursor, self.scanned - MATCH_LIMIT_BYTES - hidden)
            if earlier >= begin:
                return begin
            begin = earlier

    def _context_start(self, begin: int, window: SpoolWindow) -> int:
        """Return an offset a few visible bytes before `begin`, or the cursor if there are none."""
        while True:
            context = window.character_start(max(begin - 4, self.cursor))
            hidden = self._hidden(context, begin)
            if not hidden:
                return context
            begin = max(hidden[0][0], self.cursor)
            if begin == self.cursor or begin <= window.start:
                return max(begin, window.start)

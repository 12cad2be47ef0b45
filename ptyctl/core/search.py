"""Pattern matching on the spool with RE2.

RE2 takes linear time for every pattern, but the factor is the size of the pattern's program: a text of n bytes takes up to
n * `program_size` steps of about 10 ns. A search of more than LOOP_STEPS runs outside the event loop
(`session/io/pattern_search.py`), as a `TimedPattern`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from ptyctl.api.errors import ErrorCode, PtyctlError, invalid

from .spool import UTF8_MAX_BYTES, FindHidden, HiddenRanges, SpoolWindow, nothing_hidden

#: Matches up to this size are found in every split of the output. A failed search reads at most this part of it again.
MATCH_LIMIT_BYTES = 64 * 1024
#: Size of the text before the searched part, which has its last visible character before the lines of prompt marks.
_CONTEXT_BYTES = 64 * 1024
#: RE2 searches for literals up to this size.
_SHORT_LITERAL_BYTES = 256
_SHORT_LITERAL = re.compile(rb"(?:[^\\.+*?()|\[\]{}^$]|\\[^0-9A-Za-z]){1,%d}" % _SHORT_LITERAL_BYTES)
#: Largest number of steps of a search in the event loop: at most 20 ms.
LOOP_STEPS = 1_000_000
#: Largest size of a pattern. RE2 compiles in the event loop: it keeps the interpreter lock, and takes 5 s for 60 KB of `a?`.
MAX_PATTERN_BYTES = 2048
#: Size that a Unicode class such as `\pL`, which has hundreds of ranges, counts in addition to its text.
_CLASS_BYTES = 32
_UNICODE_CLASS = re.compile(rb"\\[pP]")
#: Largest number of instructions of a pattern, or of a list of patterns: compiling takes about 1 us for each, and the first
#: search as much again. The prompts of all modes of a platform are one pattern of up to 11,000.
MAX_PROGRAM_SIZE = 12_000
#: Memory limit with which RE2 stops compiling slightly above that number.
_PROGRAM_BYTES = 22 * MAX_PROGRAM_SIZE
#: Largest number of instructions of a character of a pattern, except for Unicode classes.
_CHARACTER_INSTRUCTIONS = 12
#: A repetition of a character, or of a class or group.
_REPETITION = re.compile(rb"([)\]]?)\{(\d{1,4})(?:,(\d{0,4}))?\}")
#: Number of steps after which a search outside the event loop checks its deadline, and the largest size of its slices.
_SLICE_STEPS = 100_000_000
_SLICE_BYTES = 4 * 1024 * 1024
#: The same for Python's patterns, which hold the interpreter lock.
_LOCKED_SLICE_BYTES = 256 * 1024
#: Matches up to this size are found with any pattern.
_MIN_MATCH_LIMIT_BYTES = 1024
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # otherwise RE2 writes to stderr
_PROGRAM_OPTIONS = re2.Options()
_PROGRAM_OPTIONS.log_errors = False
_PROGRAM_OPTIONS.max_mem = _PROGRAM_BYTES
_TOO_LARGE = "pattern too large"

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


@lru_cache(maxsize=128)
def compile_pattern(pattern: str, field: str) -> Any:
    """Compile an RE2 pattern for UTF-8 bytes: `$` is the end of the text, `(?m)` makes `^` and `$` match at lines.

    Raises:
        PtyctlError: INVALID_ARGUMENT, naming the field and the fault; LIMIT_EXCEEDED for a pattern whose program is too large.
    """
    encoded = pattern.encode("utf-8", "surrogatepass")
    if len(encoded) + _CLASS_BYTES * len(_UNICODE_CLASS.findall(encoded)) > MAX_PATTERN_BYTES:
        raise _too_complex(field, f"it has more than {MAX_PATTERN_BYTES} bytes; a Unicode class counts as {_CLASS_BYTES} more")
    try:
        if _may_be_too_large(encoded):
            re2.compile(encoded, _PROGRAM_OPTIONS)
        compiled = re2.compile(encoded, _OPTIONS)
        if compiled.programsize > MAX_PROGRAM_SIZE:
            raise _too_complex(field)
        return compiled
    except re2.error as error:
        reason = error.args[0] if error.args else b"?"
        fault = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        if fault.startswith(_TOO_LARGE):
            raise _too_complex(field) from None
        unsupported = [name for begin, name in _UNSUPPORTED.items() if begin in pattern]
        if "invalid escape sequence: \\" in fault and fault[-1:].isdigit():
            unsupported = ["backreferences"]
        message = f"{field}: {pattern!r} is not a valid pattern: {fault}"
        if unsupported:
            hint = f"rewrite the pattern without {unsupported[0]}"
            raise invalid(f"{message} (RE2 has no {unsupported[0]})", hint=hint, field=field) from None
        raise invalid(message, hint="patterns use RE2 syntax", field=field) from None


def _may_be_too_large(pattern: bytes) -> bool:
    """Return whether the program may exceed MAX_PROGRAM_SIZE, and must first be compiled with limited memory."""
    size, factor = len(pattern), 1
    for end, least, most in _REPETITION.findall(pattern):
        count = int(most or least)
        size, factor = (size, factor * max(count, 1)) if end else (size + count, factor)
    return size * factor * _CHARACTER_INSTRUCTIONS > MAX_PROGRAM_SIZE or _UNICODE_CLASS.search(pattern) is not None


def _too_complex(field: str, why: str = f"it compiles to more than {MAX_PROGRAM_SIZE} instructions") -> PtyctlError:
    return PtyctlError(
        ErrorCode.LIMIT_EXCEEDED,
        f"{field}: the pattern is too complex: {why}",
        {"field": field},
        hint="use smaller numbers of repetitions, such as .* instead of .{0,1000}",
    )


def line_pattern(pattern: str, field: str) -> Any:
    """Compile a pattern whose `^` and `$` match at lines. An error shows the pattern as given; see `compile_pattern`."""
    try:
        return compile_pattern(f"(?m){pattern}", field)
    except PtyctlError:
        compile_pattern(pattern, field)
        raise


def compile_all(patterns: Iterable[str] | None, field: str) -> list[Any]:
    """Compile a list of patterns. The sum of their program sizes is at most MAX_PROGRAM_SIZE.

    Raises:
        PtyctlError: INVALID_ARGUMENT or LIMIT_EXCEEDED, with the field and the index of the pattern.
    """
    compiled, size = [], 0
    for number, pattern in enumerate(patterns or ()):
        compiled.append(compile_pattern(pattern, f"{field}[{number}]"))
        size += program_size(compiled[-1])
        if size > MAX_PROGRAM_SIZE:
            raise _too_complex(f"{field}[{number}]", f"the list compiles to more than {MAX_PROGRAM_SIZE} instructions")
    return compiled


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
    """Several compiled patterns (`parts`) that are searched as one."""

    def __init__(self, patterns: Sequence[Any]) -> None:
        self.parts = patterns

    @property
    def program_size(self) -> int:
        """The sum of the program sizes."""
        return sum(map(program_size, self.parts))

    def search(self, text: Any, begin: int = 0, end: int | None = None) -> AnyMatch | None:
        """Return the leftmost match; of matches at the same position, that of the earlier pattern."""
        best: AnyMatch | None = None
        for index, pattern in enumerate(self.parts):
            found = pattern.search(text, begin, len(text) if end is None else end)
            if found is not None and (best is None or found.start() < best.start()):
                best = AnyMatch(found, index)
        return best


def program_size(pattern: Any) -> int:
    """Return the number of a pattern's instructions, the largest number of steps for each byte of a text; 1 for a literal."""
    return pattern.program_size if isinstance(pattern, AnyPattern) else _program_size(pattern)


@lru_cache(maxsize=128)
def _program_size(pattern: Any) -> int:
    return 1 if _is_literal(pattern) else int(pattern.programsize)


def _is_literal(pattern: Any) -> bool:
    return isinstance(pattern, re.Pattern) or _SHORT_LITERAL.fullmatch(pattern.pattern) is not None


def _match_limit(pattern: Any) -> int:
    """Return the largest size of matches that are found in every split of the output, and that each search reads again.

    It is the length of a literal and some bytes, and smaller for a very large program, because a search cannot be
    interrupted.
    """
    if not isinstance(pattern, AnyPattern) and _is_literal(pattern):
        return len(pattern.pattern) + 2 * UTF8_MAX_BYTES
    return min(max(_SLICE_STEPS // program_size(pattern), _MIN_MATCH_LIMIT_BYTES), MATCH_LIMIT_BYTES)


class TimedPattern:
    """A pattern that is searched in slices, for a limited number of seconds in total.

    Matches up to the size of a slice are the same as in the whole text; see `_match_limit`.
    """

    def __init__(self, pattern: Any, clock: Callable[[], float], seconds: float) -> None:
        self._pattern = pattern
        self._clock = clock
        self._seconds = seconds
        self._deadline = clock() + seconds
        self._reach = _match_limit(pattern)
        largest = _LOCKED_SLICE_BYTES if isinstance(pattern, re.Pattern) else _SLICE_BYTES
        self._slice = min(max(_SLICE_STEPS // program_size(pattern), self._reach), largest)

    @property
    def parts(self) -> list[TimedPattern]:
        """The timed forms of the parts of an `AnyPattern`."""
        return [TimedPattern(part, self._clock, self._seconds) for part in self._pattern.parts]

    def search(self, text: Any, begin: int = 0) -> Any:
        """Return the leftmost match.

        Raises:
            PtyctlError: LIMIT_EXCEEDED if the time limit is exceeded.
        """
        at, end = begin, len(text)
        while True:
            stop = min(end, at + self._slice)
            found = self._pattern.search(text, max(begin, at - self._reach), stop)
            if found is not None and stop < end:  # it may be longer
                found = self._pattern.search(text, found.start(), min(end, found.start() + self._reach + self._slice))
            if found is not None or stop == end:
                return found
            if self._clock() > self._deadline:
                raise PtyctlError(
                    ErrorCode.LIMIT_EXCEEDED,
                    f"the search was stopped after {self._seconds:g} s of computing, with {end - stop} bytes left",
                    hint="search less text, or use a simpler pattern: smaller numbers of repetitions, anchors, literal text",
                )
            at = stop


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

    Each call examines only the bytes since the last call and the 64 KiB before them (for a literal, its length), so the total
    time is linear.
    """

    def __init__(self, pattern: Any, cursor: int, hidden: FindHidden = nothing_hidden) -> None:
        self.cursor = cursor
        self.scanned = cursor
        self.pattern = pattern
        self._match_limit = _match_limit(pattern)
        self._hidden = hidden

    def steps(self, window: SpoolWindow) -> int:
        """Return the largest number of steps that `search` may take."""
        return (window.end - max(self._rescan_start(), window.start)) * program_size(self.pattern)

    def unsearched(self, window: SpoolWindow) -> SpoolWindow:
        """Return a copy of the part of a window that `search` examines."""
        begin = max(self._rescan_start() - _CONTEXT_BYTES, window.start)
        part = SpoolWindow(window.end - begin, begin)
        part.append(window.read(begin, window.end))
        return part

    def search(self, window: SpoolWindow, pattern: Any = None) -> MatchRange | None:
        """Return the leftmost match in the window, or None. `pattern` is the timed form of the pattern."""
        begin = max(self._rescan_start(), window.start)
        context = begin
        if begin > self.cursor:  # the bytes before decide on ^, \b and (?m)^, and a character must not be split
            context = self._context_start(begin, window)
            begin = max(begin - 3, context + (context > self.cursor))
        with window.view(context, window.end) as text:
            visible = HiddenRanges(text, context, self._hidden(context, window.end))
            self.scanned = window.end
            found = (pattern or self.pattern).search(visible.text, visible.position(begin))
            if found is None:
                return None
            end = visible.end_offset(found.end())
            index = found.index if isinstance(found, AnyMatch) else 0
            return MatchRange(min(visible.offset(found.start()), end), end, index)

    def _rescan_start(self) -> int:
        """Return the offset at which a match that was incomplete at the last call may begin."""
        begin = max(self.cursor, self.scanned - self._match_limit)
        while True:
            hidden = sum(end - start for start, end in self._hidden(begin, self.scanned))
            earlier = max(self.cursor, self.scanned - self._match_limit - hidden)
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

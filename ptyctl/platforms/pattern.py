"""A pattern that is matched on one line of output in the event loop: of a platform file, or of a caller."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from ptyctl.api.errors import PtyctlError
from ptyctl.api.model import Value
from ptyctl.core.search import LOOP_STEPS, compile_all, compile_pattern, program_size

#: Largest number of steps of the searches for a pattern, or for a list of them, in one line.
LINE_STEPS = LOOP_STEPS // 2
#: Patterns of platform files examine at least this part of a line. Most begin with `^`, and take few of their steps.
_MIN_REACH_BYTES = 512

#: How a device removes the pager's line: CR and blanks; BS, blanks and BS; cursor left (CUB) and blanks; CR and EL; not at all.
PagerErasure = Literal["carriage_return", "backspaces", "cursor_left", "erase_line", "none"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """`text` is matched on one line as a terminal shows it; `^` and `$` are the ends of the line.

    The match is in the last `reach` bytes of the line, so that a search takes at most LINE_STEPS.
    """

    text: str
    _compiled: Any = field(compare=False, repr=False)
    reach: int = field(compare=False, repr=False)

    @classmethod
    def of(cls, text: str) -> Pattern:
        """Raises ValueError if RE2 rejects the text, so that model validation names the field."""
        try:
            compiled = compile_pattern(text, "pattern")
        except PtyctlError as error:
            raise ValueError(error.message.removeprefix("pattern: ")) from None
        return cls(text, compiled, max(LINE_STEPS // program_size(compiled), _MIN_REACH_BYTES))

    def search(self, line: bytes) -> Any:
        """Return the RE2 match in encoded text, or None."""
        return self._compiled.search(line, max(len(line) - self.reach, 0))

    def find(self, line: str) -> str | None:
        """Return the matched text, or None."""
        match = self.search(encode(line))
        return None if match is None else match.group().decode("utf-8", "replace")

    @property
    def groups(self) -> int:
        return int(self._compiled.groups)

    def matches(self, line: str) -> bool:
        return self.search(encode(line)) is not None

    def __str__(self) -> str:
        return self.text

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        text = core_schema.no_info_after_validator_function(cls.of, core_schema.str_schema(min_length=1))
        return core_schema.json_or_python_schema(
            json_schema=text,
            python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), text]),
            serialization=core_schema.to_string_ser_schema(),
        )


class PagerPattern(Value):
    """A pager's line. `key` shows the next page, `quit` ends the output; neither is followed by an end of line.

    `erased_by` says how the device erases the line, for readers of the file; the renderer recognises each form in the output.
    """

    pattern: Pattern
    key: str = Field(" ", min_length=1)
    quit: str = Field("q", min_length=1)
    erased_by: PagerErasure | None = None


def line_patterns(texts: Iterable[str] | None, field: str) -> tuple[Pattern, ...]:
    """Compile patterns of a caller. The searches for all of them take at most LINE_STEPS.

    Raises:
        PtyctlError: INVALID_ARGUMENT or LIMIT_EXCEEDED, naming the pattern.
    """
    texts = tuple(texts or ())
    compiled = compile_all(texts, field)
    reach = LINE_STEPS // max(sum(map(program_size, compiled)), 1)
    return tuple(Pattern(text, each, reach) for text, each in zip(texts, compiled, strict=True))


def encode(line: str) -> bytes:
    """Return the bytes on which patterns are matched."""
    return line.encode("utf-8", "replace")


def any_matches(patterns: Iterable[Pattern], line: str) -> bool:
    data = encode(line)
    return any(pattern.search(data) is not None for pattern in patterns)

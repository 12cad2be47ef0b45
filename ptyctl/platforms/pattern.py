"""A pattern in a platform's file: RE2 on bytes, as all matching here (design, section 4), compiled when the file is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from ptyctl.api.errors import PtyctlError
from ptyctl.core.search import compile_pattern


@dataclass(frozen=True, slots=True)
class Pattern:
    """`text` is matched on one line, as a terminal shows it: `^` and `$` are the line's ends."""

    text: str
    _compiled: Any = field(compare=False, repr=False)

    @classmethod
    def of(cls, text: str) -> Pattern:
        """Raises ValueError for what RE2 refuses, so that a model's validation names the field."""
        try:
            return cls(text, compile_pattern(text, "pattern"))
        except PtyctlError as error:
            raise ValueError(error.message.removeprefix("pattern: ")) from None

    def found_in(self, line: str) -> str | None:
        """The text that it matched, or None."""
        match = self._compiled.search(line.encode("utf-8", "replace"))
        return None if match is None else match.group().decode("utf-8", "replace")

    @property
    def groups(self) -> int:
        return int(self._compiled.groups)

    def matches(self, line: str) -> bool:
        return self._compiled.search(line.encode("utf-8", "replace")) is not None

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


def any_matches(patterns: tuple[Pattern, ...], line: str) -> bool:
    return any(pattern.matches(line) for pattern in patterns)

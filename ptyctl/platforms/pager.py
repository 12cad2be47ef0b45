"""A pager: how it looks, how one goes on, and how a device wipes it away."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ptyctl.api.model import Value
from ptyctl.core.prompt import DEFAULT_PAGERS

from .pattern import Pattern

#: How the pager's line goes: CR and blanks; as many BS, blanks and BS; cursor left (CUB) and blanks; CR and EL; not at all.
Erasing = Literal["carriage_return", "backspaces", "cursor_left", "erase_line", "none"]


class Pager(Value):
    """`key` shows the next page, `quit` ends the output; no end of line goes behind either."""

    pattern: Pattern
    key: str = Field(" ", min_length=1)
    quit: str = Field("q", min_length=1)
    erased_by: Erasing


#: Where a family names none.
COMMON_PAGERS = tuple(Pager(pattern=Pattern.of(text), erased_by="carriage_return") for text in DEFAULT_PAGERS)

"""What the ways to know a run's end have in common (design, section 6)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from ptyctl.core.marks import PlacedMark
from ptyctl.session.io.gate import Writer

from .run import Run

#: What is to be typed for a run.
Typing = Coroutine[Any, Any, object]


class CompletionStrategy(Protocol):
    """One for each run. `told_by_marks`: the shell tells the end, whatever else seems to. `look_at`: when to look again, on the
    loop's clock, should nothing come before."""

    told_by_marks: bool
    look_at: float | None

    async def type(self, run: Run, writer: Writer) -> None:
        """Types the command."""

    def look(self, run: Run) -> Typing | None:
        """Finishes the run if it is over. Otherwise perhaps something is to be typed; then it looks again."""

    def marked(self, run: Run, placed: PlacedMark) -> None:
        """A mark of this session came by."""

    def over(self) -> None:
        """The run has ended."""

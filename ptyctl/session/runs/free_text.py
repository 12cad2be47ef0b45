"""Text that a device takes line by line, with no prompt between, until its end is typed: a banner, a certificate."""

from __future__ import annotations

from ptyctl.core.prompt import render_line
from ptyctl.session.io.terminal_state import TerminalState

from .run import Run
from .typed_line import TypedLine

#: The line by which a device tells that it takes text is among the last so many bytes.
_TOLD_BYTES = 512


class FreeText:
    """`told` is how the device said so, and what ends it; None where it takes none."""

    def __init__(self, terminal: TerminalState) -> None:
        self._terminal = terminal
        self._end = ""
        self.told: str | None = None

    def typing(self, line: str) -> None:
        """A line is typed now: a single character ends the text anywhere in it, a word on a line of its own."""
        if self._end in line if len(self._end) == 1 else line.strip() == self._end:
            self.over()

    def over(self) -> None:
        self._end, self.told = "", None

    def awaits(self, typed: TypedLine) -> bool:
        """Whether the next line may be typed: the last one's echo is whole, and nothing else came."""
        return self.told is not None and typed.output is not None and not self._terminal.last_line().strip()

    def listen(self, run: Run, typed: TypedLine) -> bool:
        """Whether the device takes text: it said so in the line above the free one that the cursor is in."""
        if self.told is None and typed.output is not None and not self._terminal.last_line().strip():
            above = (
                self._terminal.stream.read_raw(
                    max(typed.output, self._terminal.stream.raw_kept - _TOLD_BYTES), self._terminal.stream.raw_kept
                )
                .rstrip()
                .rpartition(b"\n")[2]
            )
            told = render_line(above.rstrip(b"\r"))
            end = run.expect.profile.text_end(told)
            if end is not None:
                self._end, self.told = end, told
        return self.told is not None

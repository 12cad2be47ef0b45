"""Location of the line at the cursor on the screen, and of its possible prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptyctl.core.renderer import render, render_line
from ptyctl.core.screen import ScreenSnapshot
from ptyctl.session.device.exchange import lines_before, rendered
from ptyctl.session.io.prompt import PROMPT_BYTES
from ptyctl.session.io.terminal_state import TerminalState

from .shown_line import rows_above, text_after

#: The most output since the prompt that is searched for the first row of the line, in bytes.
_LINE_BYTES = 32 * 1024
#: What zsh and fish show behind output without a line end, before they move to the next row.
_LINE_END_MARKS = frozenset(("", "%", "#", "\u23ce", "\u00b6"))
#: The most output since the last Enter that is searched for the prompt, in bytes.
_SCREEN_BYTES = 8192


class LineLocation:
    """Finds the line at the cursor of one terminal, by the marks of its shell or by the last Enter."""

    def __init__(
        self,
        terminal: TerminalState,
        is_device: Callable[[], bool],
        has_marks: Callable[[], bool],
        is_running: Callable[[], bool],
    ) -> None:
        """Create the object.

        Args:
            is_device: returns whether the far end is a device rather than a POSIX shell.
            has_marks: returns whether the shell reports its prompts; `is_running` whether a command runs in it.
        """
        self._terminal = terminal
        self._stream, self._typed, self._prompt = terminal.stream, terminal.unfinished_line, terminal.prompt
        self._is_device = is_device
        self._has_marks, self._is_running = has_marks, is_running

    def shows_prompt_since_enter(self) -> bool:
        """Return whether a prompt was shown since the last line was submitted. Earlier text is not in the editor yet."""
        entered, stream = self._terminal.entered_raw, self._stream
        if entered < 0:
            return True
        if self._has_marks():
            return not self._is_running() and stream.shell_returned_raw >= entered and not stream.line_follows
        if self._is_device():
            return True
        learned = self._terminal.learned_prompt or ""
        shown = rendered(stream, max(entered, stream.raw_size - _SCREEN_BYTES), stream.raw_size).split("\n")
        return not learned.strip() or any(text_after(learned, line) is not None for line in shown)

    def begins_row(self) -> bool:
        """Return whether the prompt of a shell begins in the first column, as far as the output shows.

        Elsewhere, behind output without a line end or text that was typed ahead, bash redraws a line in wrong columns.
        """
        return self._marked_prompt_begins_row() if self._has_marks() and not self._is_running() else self._prompt_begins_row()

    def _marked_prompt_begins_row(self) -> bool:
        stream, returned = self._stream, self._stream.shell_returned_raw
        before = stream.read_raw(max(returned - PROMPT_BYTES, stream.incarnation_raw), returned)
        if before.endswith(b"\r") or not render_line(before.rpartition(b"\n")[2]):
            return True
        behind = stream.read_raw(returned, min(returned + PROMPT_BYTES, stream.raw_size))
        return b"\r" in behind and render_line(behind.partition(b"\r")[0]).strip() in _LINE_END_MARKS

    def _prompt_begins_row(self) -> bool:
        """Compare the row of the first key with the learned prompt, or with the row of the last Enter."""
        stream, typed, learned = self._stream, self._typed, self._terminal.learned_prompt or ""
        shown = lines_before(stream, typed.raw)[-1]
        if not shown.strip() or shown == learned:
            return shown == learned or stream.raw_size == typed.raw
        known = learned if learned.strip() else lines_before(stream, max(typed.entered_raw, 0))[-1]
        # another prompt, for example of another folder, begins like the one before
        return not known.strip() or (shown[0] == known[0] and not shown.endswith(known))

    def top_row(self, screen: ScreenSnapshot) -> int | None:
        """Return the first row that may belong to the line at the cursor; None if it is not on the screen, or not known."""
        stream, row, returned = self._stream, screen.cursor[0], self._stream.shell_returned_raw
        entered = max(stream.reader_changed_raw, self._terminal.entered_raw)
        is_marked = returned == entered or (self._has_marks() and not self._is_running())
        begin = returned if is_marked else entered
        if begin < stream.incarnation_raw:
            return row if self._is_device() else 0  # a device's line has no line end
        is_short = stream.raw_size - begin <= _LINE_BYTES
        above = rows_above(screen, stream.read_raw(begin, stream.raw_size)) if is_short else None
        if above is None:
            return None if is_marked else 0
        top = row - above
        if is_marked:
            return top if top >= 0 else None
        return top + 1  # the first row shows the line before

    def prompts(self, screen: ScreenSnapshot, top: int) -> list[str | None]:
        """Return the possible prompts of the line at the cursor, which begins at the row `top` or below it.

        The text of the last row when the first key was typed is the prompt, unless that key was typed ahead. The learned
        prompt may belong to an earlier line, and a row of the line may look like it: it counts only in the same row after the
        prompt mark, or if the line has one row. None stands for an unknown prompt.
        """
        stream, prompt, typed = self._stream, self._prompt, self._typed
        if self._is_device():
            return [prompt.learned]
        rows, returned = screen.rows[max(top, 0) : screen.cursor[0] + 1], stream.shell_returned_raw
        is_marked = self._has_marks() and not self._is_running()
        is_behind = typed.raw > (returned if is_marked else typed.entered_raw)
        shown = lines_before(stream, typed.raw)[-1] if is_behind else ""
        if shown.strip() and shown == prompt.learned:
            return [shown]
        if shown.strip() and any(text_after(shown, row) is not None for row in rows):
            return [prompt.learned, shown, None]
        is_there = is_marked and self._begins_with_learned_prompt(screen, rows)
        return [prompt.learned] if is_there or len(rows) <= 1 else []

    def _begins_with_learned_prompt(self, screen: ScreenSnapshot, rows: Sequence[str]) -> bool:
        """Return whether the rows since the prompt mark begin with all rows of the learned prompt."""
        learned, raw = self._prompt.learned, self._prompt.learned_raw
        if learned is None or raw is None or raw[1] - raw[0] > PROMPT_BYTES:
            return False
        output = self._stream.read_raw(*raw)
        above = rows_above(screen, output)
        if above is None or above >= len(rows) or text_after(learned, rows[above]) is None:
            return False
        drawn = render(output, screen.cols).split("\n")[:above]
        return [row.rstrip() for row in drawn] == [row.rstrip() for row in rows[:above]]

"""A prompt that came without the mark of a run's end: when it tells the end all the same (design, section 6)."""

from __future__ import annotations

from ptyctl.core.control_sequences import BRACKETED_PASTE
from ptyctl.core.shells import shell_change
from ptyctl.session.io.terminal_state import TerminalState

from .run import Run

#: A prompt must stay the end for so long before another shell is taken to be in front, where the command puts one there,
SILENT_S = 0.5
#: and for so long where it looks the same as what a program may ask.
UNSURE_S = 2.0


class UnmarkedPrompt:
    """Watches for one during a run; made before the command is typed, while the shell's own prompt is there."""

    def __init__(self, terminal: TerminalState, run: Run) -> None:
        self._terminal = terminal
        self._run = run
        self._line_feeds = terminal.stream.line_feeds
        self._edited = terminal.line_editor_active()

    def tells_end(self, *, runs: bool, ended: bool = False) -> bool:
        """`runs`: the command is known to have begun, so what looks like a prompt may be its output. `ended`: it is known to
        have ended, and only the prompt's mark is missing."""
        terminal = self._terminal
        quiet_s = terminal.now() - terminal.stream.last_data
        if quiet_s < SILENT_S or terminal.stream.line_feeds == self._line_feeds:
            return False
        certainty = terminal.prompt.match(terminal.last_line(), self._run.profile)
        if certainty is None or not runs:
            return certainty is not None
        if self._another_shell():
            return True
        if terminal.line_editor_active() != self._edited or terminal.shell_in_foreground() is False:
            return False  # a program's question has no line editor, and the kernel knows who is in front
        return ended or (certainty == "exact" and quiet_s >= UNSURE_S)

    def look_again(self) -> float | None:
        """When it may tell the end, should nothing come."""
        now, since = self._terminal.now(), self._terminal.stream.last_data
        return next((since + wait_s for wait_s in (SILENT_S, UNSURE_S) if now < since + wait_s), None)

    def _another_shell(self) -> bool:
        """Where the command may bring one or not, there must be a line editor: the shell here has ended its own paste mode."""
        change = shell_change(self._run.command)
        return change == "yes" or (change == "maybe" and BRACKETED_PASTE in self._terminal.stream.terminal_modes)

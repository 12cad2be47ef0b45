"""What the completion strategies have in common: how the end of a command is detected."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import DoneReason
from ptyctl.core.control_sequences import BRACKETED_PASTE
from ptyctl.core.marks import PlacedMark
from ptyctl.core.shells import shell_change
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.terminal_state import TerminalState

from .run import Run

#: A prompt without a mark must stay the end of the output for this long (seconds): if the command may have started another
#: shell, and if the text may be a program's question.
UNMARKED_PROMPT_S = 0.5
UNMARKED_UNSURE_S = 2.0

#: Input that is to be typed for a run.
Typing = Coroutine[Any, Any, object]


class CompletionStrategy(Protocol):
    """Types one run's command and detects its end.

    Attributes:
        ends_by_marks: whether the shell reports the end; if so, a caller's wait condition does not end the run.
        next_check: when to check again if no output arrives, on the loop's clock.
    """

    ends_by_marks: bool
    next_check: float | None

    async def type(self, run: Run, writer: Writer) -> None:
        """Type the command."""

    def check(self, run: Run) -> Typing | None:
        """Finish the run if it has ended. Otherwise return input that must be typed, if any; check again after that."""

    def mark_received(self, run: Run, placed: PlacedMark) -> None:
        """Handle a mark of this session."""

    def close(self) -> None:
        """The run has ended: release its resources."""


def finish_run(
    terminal: TerminalState,
    run: Run,
    reason: DoneReason,
    *,
    raw_end: int | None = None,
    spool_end: int | None = None,
    exit_code: int | None = None,
    exit_code_reason: str | None = None,
    prompt_after: str = "",
    failure: PtyctlError | None = None,
    cancel_reason: str | None = None,
) -> None:
    """Finish a run. Its output ends at the given offsets, or with all output received.

    A command that ended the shell has the shell's exit code.
    """
    stream = terminal.stream
    run.finish(
        reason,
        terminal.now(),
        raw_end=stream.raw_size if raw_end is None else raw_end,
        spool_end=stream.spool_end if spool_end is None else spool_end,
        exit_code=terminal.exit_code() if reason == "eof" and exit_code is None else exit_code,
        exit_code_reason=exit_code_reason,
        prompt_after=prompt_after,
        failure=failure,
        cancel_reason=cancel_reason,
    )


async def type_for_run(terminal: TerminalState, run: Run, text: str, writer: Writer) -> None:
    """Type text for a run. If the writer's lock is lost meanwhile, the remaining text is dropped and the run continues."""
    terminal.stream.command_typed()
    try:
        await terminal.gate.type(text, writer)
    except PtyctlError as error:
        if error.code is not ErrorCode.LOCK_LOST:
            raise
    run.typed()


class UnmarkedPrompt:
    """Detects a prompt that came without the mark of a run's end. Created before the command is typed, at the prompt."""

    def __init__(self, terminal: TerminalState, run: Run) -> None:
        self._terminal = terminal
        self._run = run
        self._line_feeds = terminal.stream.line_feeds
        self._line_editor = terminal.line_editor_active()

    def ends_run(self, *, begun: bool, ended: bool = False) -> bool:
        """Return whether the end of the output is a prompt that ends the run.

        Args:
            begun: the command has begun to run, so the text may be its output.
            ended: the command has ended, and only the mark of the prompt is missing.
        """
        terminal = self._terminal
        quiet_s = terminal.now() - terminal.stream.last_data
        if quiet_s < UNMARKED_PROMPT_S or terminal.stream.line_feeds == self._line_feeds:
            return False
        certainty = terminal.prompt.match(terminal.last_line(), self._run.profile)
        if certainty is None or not begun:
            return certainty is not None
        if self._other_shell():
            return True
        if terminal.line_editor_active() != self._line_editor or terminal.shell_in_foreground() is False:
            return False  # a program that asks has no line editor, and the kernel knows the foreground process group
        return ended or (certainty == "exact" and quiet_s >= UNMARKED_UNSURE_S)

    def next_check(self) -> float | None:
        """Return when `ends_run` may become true if no output arrives."""
        now, since = self._terminal.now(), self._terminal.stream.last_data
        waits = (UNMARKED_PROMPT_S, UNMARKED_UNSURE_S)
        return next((since + wait_s for wait_s in waits if now < since + wait_s), None)

    def _other_shell(self) -> bool:
        """Return whether the command has started another shell.

        If it only may have, bracketed paste must be on: the previous shell turned its own off.
        """
        change = shell_change(self._run.command)
        return change == "yes" or (change == "maybe" and BRACKETED_PASTE in self._terminal.stream.terminal_modes)

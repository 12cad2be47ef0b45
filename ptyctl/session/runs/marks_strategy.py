"""Completion by shell marks: the shell itself reports where a command begins and ends."""

from __future__ import annotations

from ptyctl.api.exec import DoneReason
from ptyctl.core.control_sequences import BRACKETED_PASTE
from ptyctl.core.marker import Marker, as_paste, is_typable
from ptyctl.core.marks import PlacedMark
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.terminal_state import TerminalState

from .long_command import Typeable
from .run import Run
from .run_terminal import finish_run, type_for_run
from .unmarked_prompt import UnmarkedPrompt

NO_MARKS = "a shell without marks is in front (su, sudo, exec, or its prompt's commands were replaced)"


class MarksStrategy:
    """Types the command and lets the marks tell the rest."""

    told_by_marks = True

    def __init__(self, terminal: TerminalState, marker: Marker) -> None:
        self._terminal = terminal
        self._marker = marker
        self._end: PlacedMark | None = None
        self._bare: UnmarkedPrompt | None = None
        self._typeable: Typeable | None = None
        self.look_at: float | None = None
        self.silent = False

    async def type(self, run: Run, writer: Writer) -> None:
        terminal, stream = self._terminal, self._terminal.stream
        run.prompt_before = terminal.last_line()
        run.raw_sent, run.spool_sent = stream.raw_size, stream.spool_end
        self._bare = UnmarkedPrompt(terminal, run)
        self._typeable = Typeable(run.command, self._marker.dialect)
        await type_for_run(terminal, run, self._typed(self._typeable.text) + "\n", writer)

    def look(self, run: Run) -> None:
        assert self._bare is not None
        if self._terminal.stream.ended is not None:
            finish_run(self._terminal, run, "eof")
        elif self._bare.tells_end(runs=run.raw_begin is not None, ended=self._end is not None):
            self._fell_silent(run)
        else:
            self.look_at = self._bare.look_again()

    def over(self) -> None:
        if self._typeable is not None:
            self._typeable.close()

    def _typed(self, command: str) -> str:
        editing = BRACKETED_PASTE in self._terminal.stream.terminal_modes
        if editing and self._marker.dialect != "fish" and is_typable(command):  # fish has no mark for what it refuses to run
            return command
        return as_paste(
            f" {self._marker.eval_command(command)}", editing
        )  # the blank keeps it out of a history that is asked to

    def marked(self, run: Run, placed: PlacedMark) -> None:
        """A mark of this session came by. The prompt ends the run, also one without begin and end; output ends at the end mark.

        Were the run over at its end mark already, the prompt that follows could be taken for the next one's.
        """
        if not run.sent or placed.mark.nonce == self._marker.nonce:
            return
        kind = placed.mark.kind
        if kind == "begin" and run.raw_begin is None:
            run.raw_begin, run.spool_begin = placed.raw_end, placed.spool_end
        elif kind == "end" and run.raw_begin is not None:
            self._end = self._end or placed
        elif kind == "prompt":
            self._prompt(run, placed)

    def _prompt(self, run: Run, placed: PlacedMark) -> None:
        if run.raw_begin is None:  # nothing ran: what was said of the command stands behind its echo
            run.echoed, run.raw_begin, run.spool_begin = True, run.raw_sent, run.spool_sent
        end = self._end or placed
        run.exit_code = placed.mark.status  # what ran before the end mark may have changed the status, but not this one
        reason: DoneReason = "cancelled" if run.stopped else "marks"
        run.finish(reason, self._terminal.now(), raw_end=end.raw_begin, spool_end=end.spool_begin)

    def _fell_silent(self, run: Run) -> None:
        """A prompt stands at the end, and no mark came with it."""
        self.silent = True
        run.prompt_after = self._terminal.last_line()
        if run.raw_begin is None:
            run.echoed, run.raw_begin, run.spool_begin = True, run.raw_sent, run.spool_sent
        run.exit_code_reason = NO_MARKS
        finish_run(self._terminal, run, "prompt")

"""Completion by shell marks: the shell itself reports where a command begins and ends."""

from __future__ import annotations

from ptyctl.api.exec import DoneReason
from ptyctl.core.control_sequences import BRACKETED_PASTE
from ptyctl.core.marker import Marker, as_paste, is_typable
from ptyctl.core.marks import PlacedMark
from ptyctl.core.shells import only_sets_up
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.terminal_state import TerminalState

from .run import Run
from .strategy import ShellStrategy, finish_run, type_for_run

NO_MARKS = "a shell without marks is in front (su, sudo, exec, or its prompt's commands were replaced)"


class MarksStrategy(ShellStrategy):
    """Types the command unchanged or in an eval, and waits for the marks.

    Attributes:
        marks_lost: whether a prompt ended the run without a mark.
    """

    def __init__(self, terminal: TerminalState, marker: Marker) -> None:
        super().__init__(terminal)
        self.marks_lost = False
        self._marker = marker
        self._end: PlacedMark | None = None

    def attach(self) -> None:
        """Attach to a command that a person typed at the prompt, or that an earlier process typed."""
        self._line_editor = True

    async def type(self, run: Run, writer: Writer) -> None:
        command, dialect = self._begin(run, self._marker.dialect), self._marker.dialect
        editing = BRACKETED_PASTE in self._stream.terminal_modes
        if not editing or dialect == "fish" or not is_typable(command):  # fish sends no mark for a command it refuses
            # the blank keeps the line out of the history, if configured
            command = as_paste(f" {self._marker.eval_command(command)}", editing, dialect)
        await type_for_run(self._terminal, run, command + "\n", writer)

    def check(self, run: Run) -> None:
        quiet_s = self._quiet_s()
        if self._stream.ended is not None:
            finish_run(self._terminal, run, "eof")
        elif self._at_unmarked_prompt(run, quiet_s, begun=run.raw_begin is not None, ended=self._end is not None):
            self.marks_lost = True
            run.output_began_with_echo()
            prompt = self._terminal.last_line()
            if prompt.strip() and only_sets_up(run.command):
                self._terminal.learn_prompt(prompt)  # whatever its form: the next command is typed at it
            if self._end is None:
                finish_run(self._terminal, run, "prompt", exit_code_reason=NO_MARKS, prompt_after=prompt)
            else:
                self._finish_at(run, self._end, self._end.mark.status)
        else:
            self._check_question(run)
            self._schedule_check(run, quiet_s)

    def mark_received(self, run: Run, placed: PlacedMark) -> None:
        """Record the begin and end marks; the prompt mark ends the run, also without them.

        The run does not end at its end mark, because the prompt that follows could be taken for the prompt of the next run.
        """
        if not run.sent or placed.mark.nonce == self._marker.nonce:
            return
        kind = placed.mark.kind
        if kind == "begin" and run.raw_begin is None:
            run.output_began(placed.raw_end, placed.spool_end)
        elif kind == "end" and run.raw_begin is not None:
            self._end = self._end or placed
        elif kind == "prompt":
            run.output_began_with_echo()  # if nothing ran: the shell's message follows the echo
            self._finish_at(run, self._end or placed, placed.mark.status)  # hooks may have changed the end mark's status

    def _finish_at(self, run: Run, end: PlacedMark, exit_code: int | None) -> None:
        reason: DoneReason = "cancelled" if run.ended_by_signal(exit_code) else "marks"
        finish_run(self._terminal, run, reason, raw_end=end.raw_begin, spool_end=end.spool_begin, exit_code=exit_code)

"""Completion by a marker: the shell sends a mark before and after the command, which delimit its exact output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import DoneReason
from ptyctl.core.control_sequences import BRACKETED_PASTE
from ptyctl.core.marker import AsciiMarker, Marker, as_paste
from ptyctl.core.marks import PlacedMark
from ptyctl.core.search import Search, compile_pattern
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.io.terminal_state import SETTLE_S, TerminalState

from .run import Run
from .strategy import UNMARKED_PROMPT_S, ShellStrategy, Typing, finish_run, type_for_run

#: Size of the end of the raw output in which the ASCII end mark is searched for (bytes).
_TAIL_BYTES = 128 * 1024
#: How long a program that sends the end mark may need to end (seconds): in mksh printf is one.
MARK_SENDER_S = 0.1
#: Types at an empty line only, as for a command.
_AT_EMPTY_LINE = Writer(system=True, command=True)
_NOT_RUN = "the command was not run: functions in the shell replace the builtin eval and the builtins that could call it"


@dataclass(frozen=True, slots=True)
class _ShownPrompt:
    """A prompt at the end of the output: the raw and the spool offset after it, and its line."""

    raw: int
    spool: int
    line: str

    @classmethod
    def now(cls, terminal: TerminalState) -> Self:
        """Return the prompt that is shown now."""
        stream = terminal.stream
        return cls(stream.raw_size, stream.spool_end + stream.normaliser.held, terminal.last_line())


class MarkerStrategy(ShellStrategy):
    """Wraps the command so that the shell sends a mark before and after it.

    Attributes:
        marker: the marker used.
        defined: whether the shell has the function that sends marks.
    """

    def __init__(
        self,
        terminal: TerminalState,
        marker: Marker,
        *,
        defined: bool,
        nested: bool,
        local: bool,
        program: tuple[int, str] | None = None,
    ) -> None:
        """Create the strategy.

        Args:
            nested: the shell runs inside a shell that has marks.
            local: the shell is a program of this machine.
            program: the shell, as `TerminalState.foreground_program`; None if it is not known.
        """
        super().__init__(terminal)
        self.marker = marker
        self.defined = defined
        self._counter = 0
        self._nested = nested
        self._dialect = marker.dialect if local and not nested else None  # a nested shell may be another user's
        self._program = program
        self._end: PlacedMark | None = None
        self._end_due = 0.0
        self._outer_end: PlacedMark | None = None
        self._ascii_marks: _AsciiMarks | None = None
        self._prompt: _ShownPrompt | None = None

    async def type(self, run: Run, writer: Writer) -> None:
        terminal, stream, marker = self._terminal, self._terminal.stream, self.marker
        self._counter = stream.next_counter(marker.nonce)
        line = marker.line(self._begin(run, self._dialect), self._counter, define=not self.defined)
        if isinstance(marker, AsciiMarker):
            self._ascii_marks = _AsciiMarks(marker, self._counter, stream)
        typed = as_paste(line, BRACKETED_PASTE in stream.terminal_modes, marker.dialect)
        await type_for_run(terminal, run, typed + "\n", writer)

    def check(self, run: Run) -> Typing | None:
        quiet_s = self._quiet_s()
        if self._ascii_marks is not None:
            self._ascii_marks.check(run, self._terminal)
        if self._end is not None:
            if self._shell_is_back() or self._terminal.now() >= self._end_due or self._stream.ended is not None:
                self._finish_at(run, self._end)
            return None
        if self._stream.ended is not None:
            finish_run(self._terminal, run, "eof")
        elif self._lacks_end_mark(run, quiet_s):
            return self._request_end_mark()
        elif self._prompt_without_mark(run, quiet_s):
            self.defined = False
            run.output_began_with_echo()
            why = "interrupted" if run.interrupted else "the shell showed its prompt, and no exit code"
            reason: DoneReason = "cancelled" if run.interrupted else "prompt"
            self._finish_at_prompt(run, reason, self._stream.spool_end, why=why)
        self._check_question(run)
        self._schedule_check(run, quiet_s)
        self.checks_output = self.checks_output or self._ascii_marks is not None
        if run.interrupted and quiet_s < SETTLE_S:
            self.next_check = self._terminal.now() + SETTLE_S - quiet_s
        return None

    def _lacks_end_mark(self, run: Run, quiet_s: float) -> bool:
        """Return whether the shell is certainly back at its prompt without an end mark, and can send one.

        An error may end the line before the end mark: of syntax in mksh, of a special builtin without `command`, or SIGINT.
        """
        may_ask = self._prompt is None and self._ascii_marks is None and not self._terminal.has_unfinished_line
        at_prompt = may_ask and run.raw_begin is not None and not run.interrupted and quiet_s >= UNMARKED_PROMPT_S
        return at_prompt and not self._input_may_be_unread(quiet_s) and self._terminal.waits_at_prompt() is True

    async def _request_end_mark(self) -> None:
        """Type a line that sends the end mark with the status of the command, unless another task has typed into the line."""
        self._prompt, line_feeds = _ShownPrompt.now(self._terminal), self._line_feeds
        self._typed_at, self._line_feeds = self._terminal.now(), self._stream.line_feeds
        try:
            await self._terminal.gate.type(self.marker.end_line(self._counter + 1) + "\n", _AT_EMPTY_LINE)
        except PtyctlError as error:
            if error.code is not ErrorCode.BUSY:
                raise
            self._line_feeds = line_feeds  # the run ends at its prompt, without an exit code

    def mark_received(self, run: Run, placed: PlacedMark) -> None:
        mark = placed.mark
        if mark.nonce != self.marker.nonce:
            if self._nested and run.sent:
                self._outer_mark_received(run, placed)
            return
        if mark.kind == "begin" and mark.counter == self._counter:
            self.defined = True
            run.output_began(placed.raw_end, placed.spool_end)
        elif mark.kind == "end" and mark.counter == self._counter:
            refuse_run(self._terminal, run)
        elif mark.kind == "end" and mark.counter == self._counter + 1 and run.raw_begin is not None:
            if self._shell_is_back():
                self._finish_at(run, placed)
            elif self._end is None:
                self._end, self._end_due = placed, self._terminal.now() + MARK_SENDER_S
                self.checks_output, self.next_check = True, self._end_due

    def _shell_is_back(self) -> bool:
        """Return whether the sender of the end mark has ended, so that the next command is judged and typed at the shell."""
        return self._program is None or self._terminal.foreground_program() == self._program

    def _finish_at(self, run: Run, end: PlacedMark) -> None:
        status = end.mark.status
        reason: DoneReason = "cancelled" if run.ended_by_signal(status) else "marker"
        if self._prompt is None:
            finish_run(self._terminal, run, reason, raw_end=end.raw_begin, spool_end=end.spool_begin, exit_code=status)
        else:
            self._finish_at_prompt(run, reason, end.spool_begin, exit_code=status)

    def _finish_at_prompt(
        self, run: Run, reason: DoneReason, spool_end: int, *, exit_code: int | None = None, why: str | None = None
    ) -> None:
        """Finish a run whose output ends with the prompt; a line that requested the end mark may follow, up to `spool_end`."""
        prompt = self._prompt or _ShownPrompt.now(self._terminal)
        finish_run(
            self._terminal,
            run,
            reason,
            raw_end=prompt.raw,
            spool_end=spool_end,
            output_end=prompt.spool,
            exit_code=exit_code,
            exit_code_reason=why,
            prompt_after=prompt.line,
        )

    def _outer_mark_received(self, run: Run, placed: PlacedMark) -> None:
        """Handle a mark of the outer shell: the nested shell, in which the command was typed, has ended."""
        if placed.mark.kind == "end":
            self._outer_end = placed
        elif placed.mark.kind == "prompt":
            run.output_began_with_echo()
            end = self._outer_end or placed
            finish_run(
                self._terminal, run, "marks", raw_end=end.raw_begin, spool_end=end.spool_begin, exit_code=placed.mark.status
            )

    def _prompt_without_mark(self, run: Run, quiet_s: float) -> bool:
        """Return whether the prompt ends the run without a mark.

        After an interrupt a shell drops the rest of the line with the second mark (bash, dash, zsh). A command that another
        SIGINT ends has the same effect, and a nested shell sends no marks.
        """
        if not run.interrupted:
            return self._at_unmarked_prompt(run, quiet_s, begun=True)
        terminal = self._terminal
        at_prompt = terminal.is_prompt(terminal.last_line(), run.profile)
        return at_prompt and quiet_s >= SETTLE_S


def refuse_run(terminal: TerminalState, run: Run) -> None:
    """End a run whose end mark arrived in place of its begin mark: the shell could not evaluate the command."""
    error = PtyctlError(ErrorCode.UNSUPPORTED, _NOT_RUN, hint="remove one of these functions: unset -f eval")
    run.output_began_with_echo()
    finish_run(terminal, run, "cancelled", failure=error, cancel_reason=error.message)


class _AsciiMarks:
    """Searches the spool for marks in ASCII form."""

    def __init__(self, marker: AsciiMarker, counter: int, stream: OutputStream) -> None:
        self._stream = stream
        self._begin = Search(compile_pattern(marker.pattern("B", counter), "marker"), stream.spool_end)
        self._refused = Search(compile_pattern(marker.pattern("E", counter), "marker"), stream.spool_end)
        self._end: Search | None = None
        self._end_pattern = compile_pattern(marker.pattern("E", counter + 1), "marker")
        self._raw = stream.raw_size

    def check(self, run: Run, terminal: TerminalState) -> None:
        if self._end is None:
            found = self._begin.search(self._stream.window)
            if found is None:
                if self._refused.search(self._stream.window) is not None:
                    refuse_run(terminal, run)
                return
            text = self._stream.read(found.start, found.end)
            position = self._stream.read_raw(self._raw, self._stream.raw_size).find(text)
            run.output_began(self._raw + max(position, 0) + len(text), found.end)
            self._end = Search(self._end_pattern, found.end)
        found = self._end.search(self._stream.window)
        if found is not None:
            text = self._stream.read(found.start, found.end)
            exit_code = int(self._end_pattern.search(text).group(1))
            finish_run(terminal, run, "marker", raw_end=self._raw_end(text), spool_end=found.start, exit_code=exit_code)

    def _raw_end(self, mark: bytes) -> int:
        """Return the raw offset of the end mark. printf writes it in one call, so it is contiguous."""
        begin = max(self._raw, self._stream.raw_size - _TAIL_BYTES)
        return begin + max(self._stream.read_raw(begin, self._stream.raw_size).rfind(mark), 0)

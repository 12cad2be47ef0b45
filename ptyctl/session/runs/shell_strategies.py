"""Completion strategies for shells, by marks that the shell sends or by a marker typed around the command."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.api.exec import DoneReason
from ptyctl.core.control_sequences import BRACKETED_PASTE, ESC
from ptyctl.core.hidden_ranges import ERASE_ROW, TypedLines, shown_command
from ptyctl.core.marker import FISH_CHECK_KEY, AsciiMarker, Marker, as_paste, is_pastable, is_typable, paste
from ptyctl.core.marks import OSC_NUMBER, PlacedMark
from ptyctl.core.renderer import render
from ptyctl.core.search import Search, compile_pattern
from ptyctl.core.shells import Dialect, may_end_shell, only_sets_up, quote_word, reads_lines, shell_change
from ptyctl.files import write_memory_file
from ptyctl.platforms.device_profile import PAGER_LINE, QUESTION
from ptyctl.policy.shell_end import is_read_as_given
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.output_stream import LINE_BYTES, OutputStream
from ptyctl.session.io.terminal_state import SETTLE_S, TerminalState

from .run import Question, Run
from .strategy import CompletionStrategy, Typing, finish_run, has_echoed, type_for_run

#: Settle times of a prompt without a mark (seconds): with an active line editor, after a command that may have started another
#: shell, and for text that may be a program's question.
UNMARKED_PROMPT_S = 0.25
UNMARKED_NESTED_S = 0.5
UNMARKED_UNSURE_S = 2.0
#: Silence after which a question is reported (seconds); `responses` answer sooner.
QUESTION_S = 0.5
#: Times of silence after which a prompt without a mark is checked again (seconds).
_UNMARKED_TIMES_S = (UNMARKED_PROMPT_S, UNMARKED_NESTED_S, 1.0, UNMARKED_UNSURE_S)
#: Longest command that is typed in fish (characters), which takes 20 ms. Longer ones are sourced from a file in memory: fish
#: lays out the whole line again about every hundred keys, so that typing 100 KB took 50 s.
_FISH_TYPED_LIMIT = 500
NO_MARKS = "a shell without marks is in front (su, sudo, exec, or its prompt's commands were replaced)"
#: Size of the end of the raw output in which the ASCII end mark is searched for (bytes).
_TAIL_BYTES = 128 * 1024
#: How long a program that sends the end mark may need to end (seconds): in mksh printf is one.
MARK_SENDER_S = 0.1
#: Types at an empty line only, as for a command.
_AT_EMPTY_LINE = Writer(system=True, command=True)
_OTHER_SHELL = "another shell reads than at the end of the last command of this task: it ended before the command began"
_NOT_RUN = "the command was not run: functions in the shell replace the builtin eval and the builtins that could call it"


#: The characters that `string escape` of fish puts a backslash before, in a text with quotes.
_FISH_ESCAPED = re.compile(r"""[\\&$ #;<>()\[\]{}?*|~%'"]""")
_BACKSLASH = r"\\\g<0>"


class ShellStrategy(CompletionStrategy):
    """Base of the strategies for shells that send marks. Also recognises a prompt that was shown without the expected mark."""

    ends_by_marks = True
    _command_file: Path | None = None
    _is_wrapped = False
    _line_feeds = 0
    _typed_at = 0.0
    _line_editor = False
    _asked_raw = -1

    def close(self) -> None:
        if self._is_wrapped:
            self._stream.release()
        if self._command_file is not None:
            self._command_file.unlink(missing_ok=True)

    def attach(self, typed_raw: int | None = None) -> None:
        """Attach to a command that this process did not type.

        Args:
            typed_raw: the offset in output.raw at which an earlier process typed it: until its echo has ended, the prompt is
                that at which it was typed. None for a command that a person typed, whose begin mark was received.
        """
        if typed_raw is not None:
            self._typed_at = self._terminal.now()
            self._line_feeds = -1 if has_echoed(self._stream, typed_raw) else self._stream.line_feeds

    def _begin(self, run: Run, dialect: Dialect | None) -> str:
        """Record the state at the prompt, and return the command to type.

        A long command in fish is read from a file. `dialect` is None for a shell that cannot read the files of this process:
        it belongs to another user, or runs on another machine.
        """
        stream = self._stream
        run.typing(stream.raw_size, stream.spool_end, self._terminal.last_line())
        self._line_feeds, self._typed_at = stream.line_feeds, self._terminal.now()
        self._line_editor = self._terminal.line_editor_active()
        self._terminal.learn_prompt_wait()
        if dialect != "fish" or len(run.command) <= _FISH_TYPED_LIMIT:
            return run.command
        self._command_file = write_memory_file(run.command.replace("\r\n", "\n").encode("utf-8", "surrogateescape"))
        return f"source {quote_word(str(self._command_file))}"

    async def _type_wrapped(
        self, run: Run, text: str, writer: Writer, before: Callable[[], None] | None, *, stop: bytes | None = None
    ) -> None:
        """Type a line that runs the command. Viewers see the command in its place. `stop`: a begin mark in ASCII form."""
        self._is_wrapped = True
        lines = self._hold(run)
        lines.expect(text, stop=stop)
        lines.shown = self._shown(run)
        await type_for_run(self._terminal, run, text, writer, before)

    def _hold(self, run: Run) -> TypedLines:
        return self._stream.hold(run.prompt_before or self._terminal.learned_prompt or "")

    def _output_began(self, run: Run, begin: PlacedMark) -> None:
        """Record a begin mark: it follows the echo."""
        run.output_began(begin.raw_end, begin.spool_end)
        if self._is_wrapped:
            self._stream.show(end=begin.raw_end, mark=begin.raw_begin)

    def _shown(self, run: Run) -> bytes:
        """Return what viewers see of the line: the command, after the prompt if it is part of the held output."""
        prompt = "" if run.prompt_before else self._terminal.learned_prompt or ""
        return prompt.encode() + shown_command(_as_given(run))

    def _quiet_s(self) -> float:
        """Return the time since the last byte, or since the command was typed."""
        return self._terminal.now() - max(self._stream.last_data, self._typed_at)

    def _at_unmarked_prompt(self, run: Run, quiet_s: float, *, begun: bool, ended: bool = False) -> bool:
        """Return whether the end of the output is a prompt that ends the run.

        Args:
            quiet_s: the time without output.
            begun: the command has begun to run, so the text may be its output.
            ended: the command has ended, and only the mark of the prompt is missing.
        """
        terminal = self._terminal
        if quiet_s < UNMARKED_PROMPT_S or terminal.stream.line_feeds == self._line_feeds:
            return False
        certainty = terminal.prompt_certainty(run.profile)
        if certainty is None or self._input_may_be_unread(quiet_s):
            return False
        if not begun:
            return certainty not in ("editor", "wait") and quiet_s >= UNMARKED_NESTED_S
        # if the command only may have started another shell, bracketed paste must be on: the previous shell turned its own off
        editing = BRACKETED_PASTE in terminal.stream.terminal_modes
        change = shell_change(run.command)
        if change == "yes" or (change == "maybe" and editing):
            return editing or quiet_s >= UNMARKED_NESTED_S
        if (at_prompt := terminal.waits_at_prompt()) is not None:
            return at_prompt
        if terminal.line_editor_active() != self._line_editor or terminal.shell_in_foreground() is False:
            return False  # a program that asks a question has no line editor, and another foreground process group
        if ended:
            return True
        if reads_lines(run.command):  # with any prompt, perhaps the text of the shell's
            return False
        line = terminal.last_line()
        same = certainty == "exact" or self._preceded_command(run, line)
        if editing and (same or self._editor_is_of_shell(run, line)):
            return True
        return quiet_s >= UNMARKED_UNSURE_S and (same or (editing and not run.profile.may_ask(line)))

    def _editor_is_of_shell(self, run: Run, line: str) -> bool:
        """Return whether the active line editor is that of the shell at its prompt, because no program can be running."""
        return only_sets_up(run.command) or (
            self._terminal.shell_in_foreground() is True and not run.profile.may_ask(line) and bool(line.strip())
        )

    def _input_may_be_unread(self, quiet_s: float) -> bool:
        """Return whether the shell may not have read the command yet, because it was not scheduled.

        After UNMARKED_UNSURE_S of silence the answer is False: some programs wait for input in a way that the kernel does not
        report.
        """
        return quiet_s < UNMARKED_UNSURE_S and self._terminal.input_is_read() is False

    def _preceded_command(self, run: Run, line: str) -> bool:
        """Return whether the prompt at which the command was typed was this line, in a shell that marks its prompts."""
        if run.raw_begin is None or not line.strip():
            return False
        mark = ESC + b"]" + OSC_NUMBER
        before_begin = self._stream.read_raw(max(run.raw_begin - LINE_BYTES, 0), run.raw_begin).rpartition(mark)[0]
        shown = render(before_begin[max(before_begin.rfind(mark), 0) :], self._terminal.width())
        return any(before.startswith(line) for before in shown.split("\n"))

    def _check_question(self, run: Run) -> None:
        """Report a question at the end of the output, once: soon if the kernel shows it, others after a time of silence."""
        terminal, stream = self._terminal, self._terminal.stream
        if run.question is not None and stream.raw_size != self._asked_raw:
            run.output_followed()
        quiet_s = terminal.now() - max(stream.last_data, run.answered_at)
        if run.result is not None or run.raw_begin is None or quiet_s < UNMARKED_PROMPT_S or stream.raw_size == self._asked_raw:
            return
        line = terminal.last_line()
        silence_s, certain = self._question_silence(run, line)
        if silence_s is not None and quiet_s >= silence_s:
            self._asked_raw = stream.raw_size
            run.asked(Question(line, certain=certain))
            stream.notify_waiters()

    def _question_silence(self, run: Run, line: str) -> tuple[float | None, bool]:
        """Return the silence after which the last line is reported as a question, in seconds, and whether it certainly is one.

        None if it is no question. A program that may be a shell can be at its prompt, which is recognised sooner.
        """
        terminal = self._terminal
        editing, in_program = terminal.line_editor_active(), terminal.shell_in_foreground() is False
        echo_off = bool(line.strip()) and terminal.echo_off()
        reads_line = self._command_reads_line(in_program)
        if echo_off or (reads_line and not (in_program and terminal.shell_may_read())):
            return 0.0, True
        edits_line = (in_program or terminal.waits_at_prompt() is False) and terminal.line_editor_began()
        if edits_line or run.profile.asks(line) or QUESTION.matches(line):
            return QUESTION_S, True
        prompts = run.profile.is_prompt(line) and (in_program or reads_lines(run.command))
        if prompts and editing:
            return QUESTION_S, False
        is_pausing = self._may_wait_for_key(in_program, line)
        if prompts or reads_line or is_pausing or (run.profile.may_ask(line) and (not editing or self._may_relay())):
            return UNMARKED_UNSURE_S, reads_line
        return None, False

    def _may_wait_for_key(self, in_program: bool, line: str) -> bool:
        """Return whether a program that is silent waits for a key.

        The system tells it of a local program; of one on another machine its alternate screen, or the last line of a pager.
        """
        terminal = self._terminal
        is_full_screen, is_pager = terminal.shows_alternate_screen(), PAGER_LINE.matches(line)
        if terminal.shell_in_foreground() is None:
            is_pager = is_pager or terminal.ends_in_reverse_video()
            return is_full_screen or (is_pager and not terminal.line_editor_active())
        if in_program and (is_full_screen or (is_pager and terminal.relays_shell())) and terminal.waits_for_input() is True:
            return True
        return (in_program or terminal.waits_at_prompt() is False) and terminal.reads_key()

    def _may_relay(self) -> bool:
        """Return whether a program may relay the terminal of another one (ssh): it is no shell, and shows no line editor."""
        terminal = self._terminal
        edits_line = BRACKETED_PASTE in terminal.stream.terminal_modes
        return terminal.foreground_is_shell() is False and not (edits_line or terminal.shows_alternate_screen())

    def _command_reads_line(self, in_program: bool) -> bool:
        """Return whether the kernel reports that a program of the command, or the shell in the command, reads a line."""
        if not self._terminal.reads_line() or self._terminal.has_unread_output():  # the text of its question, for example
            return False
        at_prompt = self._terminal.waits_at_prompt()
        return in_program or at_prompt is False or (at_prompt is None and self._line_editor)

    def _schedule_check(self, run: Run, quiet_s: float) -> None:
        """Set the time of the next check of `_at_unmarked_prompt`. Shortly after output, further output only postpones it.

        A local program may begin to read without any output, so it is checked again and again.
        """
        self.checks_output = run.interrupted or quiet_s >= UNMARKED_PROMPT_S
        for stay_s in _UNMARKED_TIMES_S:
            if quiet_s < stay_s:
                self.next_check = self._terminal.now() + stay_s - quiet_s
                return
        is_local = self._terminal.shell_in_foreground() is not None
        self.next_check = self._terminal.now() + UNMARKED_UNSURE_S if is_local else None


class MarksStrategy(ShellStrategy):
    """Types the command as given if the shell runs all of it, otherwise in an eval, and waits for the marks.

    Attributes:
        marks_lost: whether a prompt ended the run without a mark.
    """

    def __init__(self, terminal: TerminalState, marker: Marker) -> None:
        super().__init__(terminal)
        self.marks_lost = False
        self._marker = marker
        self._end: PlacedMark | None = None

    def attach(self, typed_raw: int | None = None) -> None:
        super().attach(typed_raw)
        self._line_editor = True

    async def type(self, run: Run, writer: Writer) -> None:
        command, dialect = self._begin(run, self._marker.dialect), self._marker.dialect
        note = self._ending_note(run, "marks") if run.noted_untyped else None
        editing = BRACKETED_PASTE in self._stream.terminal_modes
        if editing and dialect != "fish" and is_typable(command):
            await type_for_run(self._terminal, run, command + "\n", writer, note)
            return
        if editing and dialect == "fish" and self._command_file is None and is_pastable(command, dialect):
            line = paste(command) + FISH_CHECK_KEY
            for escaped in (self._marker.eval_command(command), f"eval {_FISH_ESCAPED.sub(_BACKSLASH, command)}"):
                self._hold(run).expect(f" {escaped}")  # what the key makes of an incomplete command
        elif editing and dialect != "fish" and is_pastable(command, dialect) and is_read_as_given(command, dialect):
            line = paste(command)
        else:  # the blank keeps the line out of the history, if configured
            line = as_paste(f" {self._marker.eval_command(command)}", editing, dialect)
        await self._type_wrapped(run, line + "\n", writer, note)

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
            self._output_began(run, placed)
        elif kind == "end" and run.raw_begin is not None:
            self._end = self._end or placed
        elif kind == "prompt":
            run.output_began_with_echo()  # if nothing ran: the shell's message follows the echo
            self._finish_at(run, self._end or placed, placed.mark.status)  # hooks may have changed the end mark's status

    def _finish_at(self, run: Run, end: PlacedMark, exit_code: int | None) -> None:
        reason: DoneReason = "cancelled" if run.ended_by_signal(exit_code) else "marks"
        finish_run(self._terminal, run, reason, raw_end=end.raw_begin, spool_end=end.spool_begin, exit_code=exit_code)


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
        defined_at: the counter of the line that has defined it; None if it is not known.
    """

    def __init__(
        self,
        terminal: TerminalState,
        marker: Marker,
        *,
        defined: bool,
        defined_at: int | None = None,
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
        self._gate = terminal.gate
        self.marker = marker
        self.defined, self.defined_at = defined, defined_at if defined else None
        self._bound_to: int | None = None
        self._typed_raw = 0
        self._counter = 0
        self._nested = nested
        self._dialect = marker.dialect if local and not nested else None  # a nested shell may be another user's
        self._program = program
        self._end: PlacedMark | None = None
        self._end_due = 0.0
        self._outer_end: PlacedMark | None = None
        self._outer_prompt: PlacedMark | None = None
        self._ascii_marks: _AsciiMarks | None = None
        self._prompt: _ShownPrompt | None = None

    async def type(self, run: Run, writer: Writer) -> None:
        stream, marker = self._stream, self.marker
        self._counter = stream.next_counter(marker.nonce)
        line = marker.line(self._begin(run, self._dialect), self._counter, define=not self.defined, defined_at=self.defined_at)
        self._bound_to, self._typed_raw = self.defined_at, stream.raw_size
        if not self.defined:
            self.defined_at = self._counter
        note = self._ending_note(
            run, "marker", counter=self._counter, dialect=marker.dialect, nested=self._nested, program=self._program,
            ascii=[marker.prefix, marker.suffix] if isinstance(marker, AsciiMarker) else None,
        )  # fmt: skip
        if isinstance(marker, AsciiMarker):
            self._ascii_marks = _AsciiMarks(marker, self._counter, stream)
        typed = as_paste(line, BRACKETED_PASTE in stream.terminal_modes, marker.dialect)
        stop = marker.start("B", self._counter) if isinstance(marker, AsciiMarker) else None
        await self._type_wrapped(run, typed + "\n", writer, note, stop=stop)

    def resume(self, counter: int, end: PlacedMark | None, begin: tuple[int, int]) -> None:
        """Attach to a command that an earlier process typed.

        Args:
            counter: of its begin mark.
            end: its end mark, if that was received.
            begin: offsets in output.raw and in the spool before its marks.
        """
        self.attach(begin[0])
        self._counter, self.defined = counter, True
        if isinstance(self.marker, AsciiMarker):
            self._ascii_marks = _AsciiMarks(self.marker, counter, self._stream, begin)
        if end is not None:
            self._end, self._end_due = end, self._terminal.now() + MARK_SENDER_S

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
        elif self._outer_prompt is not None and quiet_s >= SETTLE_S:
            if may_end_shell(run.command) or shell_change(run.command) != "no":
                self._finish_at_outer(run, self._outer_prompt)
            else:
                self._refuse_other_shell(run)
            return None
        elif self._lacks_end_mark(run, quiet_s):
            return self._request_end_mark()
        elif self._prompt_without_mark(run, quiet_s):
            self.defined = False
            if self._was_read_by_another_shell(run):
                self._refuse_other_shell(run)
                return None
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
        line = self.marker.end_line(self._counter + 1) + "\n"
        lines = self._stream.hold(self._prompt.line)
        lines.expect(line)
        lines.shown = ERASE_ROW  # the prompt follows again in the row of the one that has been shown
        try:
            await self._gate.type(line, _AT_EMPTY_LINE)
        except PtyctlError as error:
            if error.code is not ErrorCode.BUSY:
                raise
            self._stream.release()
            self._line_feeds = line_feeds  # the run ends at its prompt, without an exit code

    def mark_received(self, run: Run, placed: PlacedMark) -> None:
        mark = placed.mark
        if mark.nonce != self.marker.nonce:
            if self._nested and run.sent:
                self._outer_mark_received(run, placed)
            return
        if mark.kind == "begin" and mark.counter == self._counter:
            self.defined = True
            self._output_began(run, placed)
        elif mark.kind == "end" and mark.counter == self._counter:
            _refuse_run(self._terminal, run)
        elif mark.kind == "end" and mark.counter == self._counter + 1 and run.raw_begin is not None:
            self._stream.show(end=placed.raw_end, mark=placed.raw_begin)
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
            if self._was_read_by_another_shell(run):
                self._refuse_other_shell(run)
                return
            if self._bound_to is not None and run.raw_begin is None and not run.interrupted and self._outer_prompt is None:
                self._outer_prompt = placed  # the outer shell has yet to read and to refuse the line
                self.checks_output, self.next_check = True, self._terminal.now() + SETTLE_S
                return
            self._finish_at_outer(run, placed)

    def _finish_at_outer(self, run: Run, placed: PlacedMark) -> None:
        run.output_began_with_echo()
        end = self._outer_end or placed
        finish_run(self._terminal, run, "marks", raw_end=end.raw_begin, spool_end=end.spool_begin, exit_code=placed.mark.status)

    def _was_read_by_another_shell(self, run: Run) -> bool:
        """Return whether a shell has refused the line because it was for another one, which has ended."""
        if self._bound_to is None or run.raw_begin is not None:
            return False
        output = self._stream.read_raw(self._typed_raw, self._stream.raw_size)
        return Marker.refusal(self._bound_to) in output

    def _refuse_other_shell(self, run: Run) -> None:
        """End a run whose command was not evaluated, because the shell below has read it."""
        error = PtyctlError(ErrorCode.BUSY, _OTHER_SHELL, {"reason": "other_shell"}, hint=NextStep.CHECK_SHELL)
        self.defined, self.defined_at = False, None
        if self._terminal.foreground_shell() == "fish":  # it keeps a line that it refuses in its editor
            self._terminal.unfinished_line.doubt(self._stream.raw_size)
        run.output_began_with_echo()
        finish_run(self._terminal, run, "cancelled", failure=error, cancel_reason=error.message)

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


def _as_given(run: Run) -> str:
    """Return the command as the caller gave it, after the change to the directory that it goes with."""
    if run.submitted is None:
        return run.command
    return run.submitted if run.cwd is None else f"cd {quote_word(run.cwd)} && {run.submitted}"


def _refuse_run(terminal: TerminalState, run: Run) -> None:
    """End a run whose end mark arrived in place of its begin mark: the shell could not evaluate the command."""
    error = PtyctlError(ErrorCode.UNSUPPORTED, _NOT_RUN, hint="remove one of these functions: unset -f eval")
    run.output_began_with_echo()
    finish_run(terminal, run, "cancelled", failure=error, cancel_reason=error.message)


class _AsciiMarks:
    """Searches the spool for marks in ASCII form."""

    def __init__(self, marker: AsciiMarker, counter: int, stream: OutputStream, begin: tuple[int, int] | None = None) -> None:
        """Search from offsets in output.raw and in the spool; by default from the end of the output."""
        self._stream = stream
        self._raw, spool = begin or (stream.raw_size, stream.spool_end)
        self._begin = Search(compile_pattern(marker.pattern("B", counter), "marker"), spool)
        self._refused = Search(compile_pattern(marker.pattern("E", counter), "marker"), spool)
        self._end: Search | None = None
        self._end_pattern = compile_pattern(marker.pattern("E", counter + 1), "marker")

    def check(self, run: Run, terminal: TerminalState) -> None:
        if self._end is None:
            found = self._begin.search(self._stream.window)
            if found is None:
                if self._refused.search(self._stream.window) is not None:
                    _refuse_run(terminal, run)
                return
            text = self._stream.read(found.start, found.end)
            position = self._stream.read_raw(self._raw, self._stream.raw_size).find(text)
            raw_begin = self._raw + max(position, 0) + len(text)
            run.output_began(raw_begin, found.end)
            self._stream.show(end=raw_begin, mark=raw_begin - len(text))
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

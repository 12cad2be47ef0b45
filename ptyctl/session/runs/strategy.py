"""Base of the completion strategies, which detect the end of a command."""

from __future__ import annotations

import shlex
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import DoneReason
from ptyctl.core.control_sequences import BRACKETED_PASTE, ESC
from ptyctl.core.marks import OSC_NUMBER, PlacedMark
from ptyctl.core.renderer import render
from ptyctl.core.shells import Dialect, only_sets_up, reads_lines, shell_change
from ptyctl.files import write_memory_file
from ptyctl.platforms.device_profile import QUESTION
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.output_stream import LINE_BYTES
from ptyctl.session.io.terminal_state import TerminalState

from .run import Question, Run, RunResult
from .run_output import kept_error_lines

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

#: A coroutine that types input for a run.
Typing = Coroutine[Any, Any, object]


class CompletionStrategy:
    """Types one run's command and detects its end.

    Attributes:
        ends_by_marks: whether the shell reports the end; if so, a caller's wait condition does not end the run.
        checks_output: whether to check after each batch of output; otherwise `next_check` is set and is soon enough.
        next_check: when to check again if no output arrives, on the loop's clock.
    """

    ends_by_marks = False
    checks_output = True

    def __init__(self, terminal: TerminalState) -> None:
        self.next_check: float | None = None
        self._terminal = terminal
        self._stream = terminal.stream

    async def type(self, run: Run, writer: Writer) -> None:
        """Type the command."""
        raise NotImplementedError

    def check(self, run: Run) -> Typing | None:
        """Finish the run if it has ended. Otherwise return input that must be typed, if any; check again after that."""
        raise NotImplementedError

    def mark_received(self, run: Run, placed: PlacedMark) -> None:
        """Handle a mark of this session."""

    def close(self) -> None:
        """Release the resources of the run, which has ended."""


class ShellStrategy(CompletionStrategy):
    """Base of the strategies for shells that send marks. Also recognises a prompt that was shown without the expected mark."""

    ends_by_marks = True
    _command_file: Path | None = None
    _line_feeds = 0
    _typed_at = 0.0
    _line_editor = False
    _asked_raw = -1

    def close(self) -> None:
        if self._command_file is not None:
            self._command_file.unlink(missing_ok=True)

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
        return f"source {shlex.quote(str(self._command_file))}"

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
        if prompts or reads_line or (run.profile.may_ask(line) and not editing):
            return UNMARKED_UNSURE_S, reads_line
        return None, False

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


def finish_run(
    terminal: TerminalState,
    run: Run,
    reason: DoneReason,
    *,
    raw_end: int | None = None,
    spool_end: int | None = None,
    output_end: int | None = None,
    exit_code: int | None = None,
    exit_code_reason: str | None = None,
    prompt_after: str = "",
    failure: PtyctlError | None = None,
    cancel_reason: str | None = None,
) -> None:
    """Finish a run. Its output ends at the given offsets, or with all output received; see `RunResult`.

    If the command ended the shell, the exit code is that of the shell.
    """
    stream = terminal.stream
    if reason == "eof" and exit_code is None:
        exit_code = terminal.exit_code()
    if output_end is None:
        output_end = spool_end if raw_end is not None and spool_end is not None else stream.spool_end + stream.normaliser.held
    result = RunResult(
        reason,
        round((terminal.now() - run.started) * 1000),
        raw_end=stream.raw_size if raw_end is None else raw_end,
        spool_end=stream.spool_end if spool_end is None else spool_end,
        output_end=output_end,
        exit_code=exit_code,
        exit_code_reason=None if exit_code is not None else exit_code_reason or run.exit_code_reason,
        prompt_after=prompt_after,
        error_hints=kept_error_lines(stream, run, output_end),
        failure=failure,
        cancel_reason=cancel_reason,
    )
    run.finish(result)


async def type_for_run(terminal: TerminalState, run: Run, text: str, writer: Writer) -> None:
    """Type text for a run. If the writer's lock is lost meanwhile, the remaining text is dropped and the run continues.

    Raises:
        PtyctlError: as `Gate.type`; LOCK_LOST if nothing was typed.
    """
    terminal.stream.command_typed()
    try:
        await terminal.gate.type(text, writer)
    except PtyctlError as error:
        if error.code is not ErrorCode.LOCK_LOST or not error.details.get("bytes_written"):
            raise
    run.typed()

"""Completion by the prompt of a device, or by silence without a prompt. Types the lines of a command one by one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from ptyctl.api.exec import ExecRequest, FailedLine
from ptyctl.core.marks import PlacedMark
from ptyctl.core.renderer import render_line
from ptyctl.session.device.exchange import OTHER_HOST_SETTLE_S, prompt_stay_s
from ptyctl.session.device.output_end import classify_line
from ptyctl.session.device.prompt_guard import PromptGuard
from ptyctl.session.device.typed_line import FreeText, TypedLine
from ptyctl.session.io.gate import SYSTEM, Writer
from ptyctl.session.io.output_stream import LINE_BYTES
from ptyctl.session.io.terminal_state import ANSWER_S, SETTLE_S, TerminalState

from .run import Question, Run
from .run_output import error_lines_between
from .strategy import CompletionStrategy, Typing, finish_run, has_echoed, type_for_run

#: Silence that ends a run on a device and in a local program without a known prompt or an idle time of the caller (seconds).
DEFAULT_IDLE_S = 2.0
LOCAL_IDLE_S = 1.0
#: Silence after which a question is reported (`responses` answer sooner), and a prompt that log lines hide is requested again.
QUIET_S = 0.5
#: Silence after which text that may be a question is reported (seconds).
UNSURE_S = 2.0

#: Silence after which any other text without a line feed is reported: longer than the probes of a traceroute (seconds).
UNFINISHED_S = 5.0

#: Message about text that may be a pager, a question or another prompt.
UNKNOWN_TEXT = (
    "the output ends in {!r}, which is neither the known prompt nor a known pager: answer it, press Enter to see whether it is "
    "a prompt, or wait for the command"
)

#: State of the end of the output. "text": the device reads the next line of a text. "quiet": no known end. "maybe_question":
#: no known end, and no prompt that log lines hide; "unfinished": text of which nothing is known, such as an unknown pager.
OutputState = Literal["prompt", "text", "pager", "quiet", "maybe_question", "unfinished"]
#: How long a state without a known end must last (seconds).
_SILENCES_S: dict[OutputState, float] = {"quiet": QUIET_S, "maybe_question": UNSURE_S, "unfinished": UNFINISHED_S}


class PromptStrategy(CompletionStrategy):
    """Types lines one by one. A line ends with the prompt or with silence, a line of a text with its echo."""

    def __init__(self, terminal: TerminalState, lines: list[str], idle_s: float | None) -> None:
        """Create the strategy. `idle_s`: silence that ends a line (seconds); with None only the prompt does."""
        super().__init__(terminal)
        self._lines = lines
        self._number = 0
        self._idle_s = idle_s

    async def type(self, run: Run, writer: Writer) -> None:
        run.typing_on_device(self._stream.raw_size, self._stream.spool_end, self._terminal.last_line())
        self._text = FreeText(self._terminal, run.profile)
        await self._type_next(run, writer)

    async def _type_next(self, run: Run, writer: Writer) -> None:
        if self._terminal.has_unfinished_line and self._text.request is None:
            await PromptGuard(self._terminal, run.profile).clear_device_line()
        line = self._lines[self._number]
        self._number += 1
        note = self._ending_note(
            run, "prompt", prompt=run.prompt_before, idle_s=self._idle_s, lines_left=len(self._lines) - self._number
        )
        self._writer = writer
        run.typing_line(self._number)
        self._text.type(line)
        self._typed = TypedLine(self._terminal, run.profile, line, only_line=len(self._lines) == 1)
        await type_for_run(self._terminal, run, line + "\n", writer, note)

    def mark_received(self, run: Run, placed: PlacedMark) -> None:
        if placed.mark.kind == "end" and self._number:
            self._typed.end_mark_received(placed.raw_begin)

    def check(self, run: Run) -> Typing | None:
        terminal, stream, typed = self._terminal, self._terminal.stream, self._typed
        if typed.receive():
            self._take_in(run)
        line, now, last = terminal.last_line(), terminal.now(), stream.last_data
        state = self._state(run, line)
        since = max(last, run.answered_at) if state in _SILENCES_S else last
        due = None if state is None else since + self._stay_s(run, state, line)
        idle_due = None if self._idle_s is None else max(last, typed.typed_at) + self._idle_s
        if stream.ended is not None:
            finish_run(terminal, run, "eof")
        elif state is not None and due is not None and now >= due:
            if stream.signal.request_settled():  # otherwise a signal follows when nothing more can be read
                return self._act(run, state, line)
            due = None
        elif idle_due is not None and now >= idle_due:
            by_caller = run.request is not None and run.request.until_idle_ms is not None
            finish_run(terminal, run, "until_idle" if by_caller else "idle")
        self.next_check = due if idle_due is None or (due is not None and due < idle_due) else idle_due
        return None

    def _take_in(self, run: Run) -> None:
        """Handle received bytes: output follows a question, and the output of the command may begin."""
        run.output_followed()
        typed = self._typed
        if typed.output is not None and typed.spool_output is not None and run.spool_begin is None:
            run.device_output_began(typed.spool_output, typed.output if len(self._lines) == 1 else None)
            self._stream.notify_waiters()  # for callers that wait for the output to begin

    def _act(self, run: Run, state: OutputState, line: str) -> Typing | None:
        """Handle a state that has settled; return input that must be typed, if any."""
        terminal, typed = self._terminal, self._typed
        if state == "prompt":
            return self._end_line(run, line)
        if state == "pager":
            run.page_shown()
            typed.answer_pager()
            pager = run.profile.pager(line)
            return terminal.gate.interrupt(pager.key.encode() if pager is not None else b"", SYSTEM)
        if state == "text" or (self._text.find_request(typed) and self._text_continues):
            return self._type_next(run, self._writer)
        if state != "quiet" or self._text.request or run.profile.asks(line):
            typed.reported(line)
            run.asked(Question(self._text.request or line, certain=state == "quiet"))
            terminal.stream.notify_waiters()
        elif not terminal.has_unfinished_line and typed.find_buried_prompt():
            return terminal.gate.type("\n", SYSTEM)
        return self.check(run)

    def _end_line(self, run: Run, last_line: str) -> Typing | None:
        """End a line whose prompt is shown: type the next line, or end the run."""
        typed = self._typed
        self._text.end()
        end, stream = typed.output_end(), self._terminal.stream
        prompt = typed.possible_prompt(last_line)
        behind = b"" if last_line.endswith(prompt) else stream.last_line().partition(prompt.encode())[2]  # a user's next line
        self._terminal.learn_prompt(prompt)
        spool_end, output_end = stream.spool_end - len(behind), stream.spool_offset(end)
        ends = partial(finish_run, self._terminal, run, "prompt", raw_end=end, spool_end=spool_end, output_end=output_end)
        if run.request is None or run.request.lines is None:
            if self._number < len(self._lines):
                return self._type_next(run, self._writer)
            ends()
            return None
        return self._continue(run, run.request, typed.output or typed.raw, end, ends)

    async def _continue(self, run: Run, request: ExecRequest, begin: int, end: int, ends: Callable[[], None]) -> None:
        """Record a line whose output has error messages. Type the next line, or end the run.

        Lines after a refused one may be meant for a mode that was not entered, so the caller chooses with `on_error`.
        """
        errors = await error_lines_between(self._terminal.stream, run.profile, begin, end)
        if run.result is not None:
            return
        if errors:
            run.line_failed(FailedLine(number=self._number, line=self._lines[self._number - 1], said=errors))
        if self._number < len(self._lines) and (not errors or request.on_error == "continue"):
            await self._type_next(run, self._writer)
        else:
            ends()

    def _state(self, run: Run, line: str) -> OutputState | None:
        """Return the state of the end of the output; None if it needs no action."""
        typed = self._typed
        if typed.output is not None:  # before that the cursor may be in the command's line, where a repaint shows the prompt
            prompt, learned = typed.possible_prompt(line), self._terminal.learned_prompt
            end = classify_line(prompt, run.profile, learned)
            is_prompt = end.kind == "prompt" and (prompt == learned or typed.may_be_prompt(prompt))
            if is_prompt or (self._terminal.line_editor_began() and not run.profile.asks(line)):
                return "prompt"
            if end.kind == "pager" and typed.pager.erased:
                return "pager"
        if self._text_continues:
            return "text"
        if run.question is not None:
            return None
        if not typed.prompt_looked_for:
            return "quiet"
        if typed.output is None or self._idle_s is not None or self._terminal.begins_with_prompt(line):
            return None  # without a known prompt, silence ends the run
        if run.profile.may_ask(line) or run.profile.is_prompt(line):
            return "maybe_question"
        return "unfinished" if run.profile.is_unfinished(line) else None

    @property
    def _text_continues(self) -> bool:
        return self._number < len(self._lines) and self._text.next_line_expected(self._typed)

    def _stay_s(self, run: Run, state: OutputState, line: str) -> float:
        """Return for how long a state must remain unchanged before it is handled (seconds)."""
        typed, requested_s = self._typed, run.profile.settle_s
        if state in _SILENCES_S:
            return max(_SILENCES_S[state], requested_s or 0.0)
        if state != "prompt":
            return typed.pace.stay_s if requested_s is None else requested_s
        any_host = typed.renames or self._terminal.line_editor_began()
        prompt = typed.possible_prompt(line)
        stay_s = prompt_stay_s(self._terminal.prompt, prompt, run.profile, typed.pace_s(prompt), any_host=any_host)
        if not line.startswith(prompt):  # output precedes it, and may contain the prompt's text
            stay_s = max(stay_s, OTHER_HOST_SETTLE_S if run.profile.is_log_line(line) else SETTLE_S)
        if requested_s is None and stay_s > ANSWER_S and typed.prompt_follows_echo():
            return max(ANSWER_S, typed.pace_s(prompt))
        return stay_s


def may_wait_for_key(terminal: TerminalState, run: Run) -> bool:
    """Return whether a device is silent at text without a line feed, which may be a pager or a question."""
    line, is_silent = terminal.last_line(), terminal.now() >= terminal.stream.last_data + UNSURE_S
    return run.on_device and is_silent and not terminal.begins_with_prompt(line) and run.profile.is_unfinished(line)


class ResumedPromptStrategy(CompletionStrategy):
    """Ends a run that an earlier process typed: with the prompt at which it was typed, or with silence."""

    def __init__(self, terminal: TerminalState, prompt: str, idle_s: float | None, lines_left: int, typed_raw: int) -> None:
        """Create the strategy.

        Args:
            lines_left: the number of lines that the earlier process did not type.
            typed_raw: the offset in output.raw at which it typed the last line; a prompt is an end only after its echo.
        """
        super().__init__(terminal)
        self._prompt, self._idle_s, self._lines_left = prompt, idle_s, lines_left
        self._begin, self._typed_raw, self._has_echoed = terminal.now(), typed_raw, False

    async def type(self, run: Run, writer: Writer) -> None:
        """Nothing is typed."""

    def check(self, run: Run) -> None:
        terminal, stream = self._terminal, self._stream
        since, line = max(stream.last_data, self._begin, run.answered_at), terminal.last_line()
        if not self._has_echoed:
            self._end_echo(run)
        is_prompt = self._has_echoed and line.strip() != "" and (line == self._prompt or run.profile.is_prompt(line))
        silence_s = (SETTLE_S if line == self._prompt else UNSURE_S) if is_prompt else self._idle_s
        self.next_check = None if silence_s is None else since + silence_s
        if stream.ended is not None:
            finish_run(terminal, run, "eof")
        elif silence_s is not None and terminal.now() >= since + silence_s:
            if is_prompt:
                terminal.learn_prompt(line)
            if self._lines_left:
                why = f"the server ended before it typed the last {self._lines_left} lines"
                finish_run(terminal, run, "cancelled", cancel_reason=why)
            else:
                finish_run(terminal, run, "prompt" if is_prompt else "idle", prompt_after=line if is_prompt else "")

    def _end_echo(self, run: Run) -> None:
        """Recognise the end of the line's echo. The output of a command of one line begins there."""
        self._has_echoed = has_echoed(self._stream, self._typed_raw)
        if self._has_echoed and run.raw_begin == self._typed_raw:
            echo = self._stream.read_raw(self._typed_raw, min(self._typed_raw + LINE_BYTES, self._stream.raw_size)).partition(
                b"\n"
            )[0]
            if render_line(echo) == run.command:
                begin = self._typed_raw + len(echo) + 1
                run.device_output_began(self._stream.spool_offset(begin), begin)


def unanswered_line(run: Run) -> str | None:
    """Describe the line of a run that the device has not answered yet, or unknown text that may be a pager; None otherwise."""
    lines = run.command.split("\n")
    if len(lines) < 2 or not run.line:
        if run.on_device and run.question is not None and not run.question.certain:
            return UNKNOWN_TEXT.format(run.question.text.strip()[-80:])
        return None
    what = "asks a question" if run.question is not None else "has brought no prompt yet"
    return (
        f"line {run.line} of {len(lines)} ({lines[run.line - 1]!r}) {what}, and no later line was typed; answer the question, "
        "or wait for the run"
    )

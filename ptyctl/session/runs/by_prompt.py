"""Ways 3 and 4: the prompt, or quiet where there is none (design, section 6)."""

from __future__ import annotations

from typing import Literal

from ptyctl.core.marks import PlacedMark
from ptyctl.core.prompt import POSSIBLE_QUESTION
from ptyctl.core.search import compile_pattern
from ptyctl.session.io.gate import SYSTEM, Writer
from ptyctl.session.io.terminal_state import ANSWER_S, SETTLE_S, TerminalState

from .config_lines import check_line
from .free_text import FreeText
from .run import Run
from .run_terminal import finish_run, type_for_run
from .strategy import Typing
from .typed_line import TypedLine

#: Where nothing tells the end, and the caller names no time, so much quiet is taken for it.
DEFAULT_IDLE_S = 2.0
#: After so much quiet callers hear of a question (what answers by itself was faster), and a prompt that the device's log has
#: pushed away is asked for again.
QUIET_S = 0.5
#: And after so much, of what only looks like one by its last character.
UNSURE_S = 2.0
_ASKING = compile_pattern(POSSIBLE_QUESTION, "question")

#: What the output ends in; "text": the next line of a text is awaited; "unsure": what may be a question in words that are not
#: known; "quiet": something else.
Sight = Literal["prompt", "text", "pager", "quiet", "unsure"]


class ByPrompt:
    """Lines are typed one after another, each answered by the prompt, or by quiet; those of a text by their echo."""

    told_by_marks = False

    def __init__(self, terminal: TerminalState, lines: list[str], idle_s: float | None) -> None:
        """`idle_s` None: only the prompt ends a line."""
        self._terminal = terminal
        self._lines = lines
        self._number = 0
        self._idle_s = idle_s
        self._text = FreeText(terminal)
        self.look_at: float | None = None

    async def type(self, run: Run, writer: Writer) -> None:
        run.device = run.echoed = True
        run.prompt_before = self._terminal.last_line()
        run.raw_begin = self._terminal.stream.raw_size
        await self._type_next(run, writer)

    async def _type_next(self, run: Run, writer: Writer) -> None:
        line = self._lines[self._number]
        self._number += 1
        self._writer = writer
        run.line = self._number
        self._text.typing(line)
        self._typed = TypedLine(self._terminal, line, alone=len(self._lines) == 1)
        await type_for_run(self._terminal, run, line + "\n", writer)

    def look(self, run: Run) -> Typing | None:
        terminal, stream, typed = self._terminal, self._terminal.stream, self._typed
        typed.look(run)
        line, now, last = terminal.last_line(), terminal.now(), stream.last_data
        sight = self._sight(run, line)
        since = max(last, run.answered) if sight in ("quiet", "unsure") else last
        due = None if sight is None else since + self._stay_s(run, sight, line)
        idle_due = None if self._idle_s is None else max(last, typed.at) + self._idle_s
        if stream.ended is not None:
            finish_run(terminal, run, "eof")
        elif sight is not None and due is not None and now >= due:
            if stream.signal.request_settled():  # otherwise it is looked at again once nothing more is to be read
                return self._act(run, sight, line)
            due = None
        elif idle_due is not None and now >= idle_due:
            asked = run.request is not None and run.request.until_idle_ms is not None
            finish_run(terminal, run, "until_idle" if asked else "idle")
        self.look_at = min((when for when in (due, idle_due) if when is not None), default=None)
        return None

    def _act(self, run: Run, sight: Sight, line: str) -> Typing | None:
        """What is to be typed now that it has stayed."""
        terminal, typed = self._terminal, self._typed
        if sight == "prompt":
            return self._answered(run, line)
        if sight == "pager":
            run.pages += 1
            typed.key_sent()
            return terminal.gate.interrupt((run.expect.pager(line) or "").encode(), SYSTEM)
        if sight == "text" or (self._text.listen(run, typed) and self._text_goes_on):
            return self._type_next(run, self._writer)
        if sight == "unsure" or self._text.told or run.expect.profile.asks(line):
            run.question, run.unsure = self._text.told or line, sight == "unsure"
            run.ended.notify()
            terminal.stream.signal.notify()
        elif typed.lost_prompt(run):
            return terminal.gate.type("\n", SYSTEM)
        return self.look(run)

    def _answered(self, run: Run, last_line: str) -> Typing | None:
        """The prompt is there again: the line is over."""
        terminal, typed = self._terminal, self._typed
        self._text.over()
        end = typed.output_end(run)
        terminal.prompt.learn(typed.prompt(last_line))
        line, number = self._lines[self._number - 1], self._number
        taken = check_line(run, number, line, terminal.stream, typed.output or typed.raw, end)
        if taken and number < len(self._lines):
            return self._type_next(run, self._writer)
        finish_run(terminal, run, "prompt", raw_end=end)
        return None

    def marked(self, run: Run, placed: PlacedMark) -> None:
        """Marks are not what tells here."""

    def over(self) -> None: ...

    def _sight(self, run: Run, line: str) -> Sight | None:
        """None while nothing is to be done about it."""
        prompt, typed = self._terminal.prompt, self._typed
        # the cursor may not have left the line of the command yet: a repaint shows the prompt there too
        if typed.output is not None:
            if prompt.match(typed.prompt(line), run.expect) is not None:
                return "prompt"
            if typed.pager_gone and run.expect.pager(line) is not None:
                return "pager"
        if self._text_goes_on:
            return "text"
        if run.question is not None:
            return None
        if not typed.looked_for_prompt:
            return "quiet"
        return "unsure" if typed.output is not None and self._may_ask(run, line) else None

    @property
    def _text_goes_on(self) -> bool:
        """Whether the device awaits a line of a text, and there is one."""
        return self._number < len(self._lines) and self._text.awaits(self._typed)

    def _may_ask(self, run: Run, line: str) -> bool:
        if self._idle_s is not None:  # quiet ends it
            return False
        return _ASKING.search(line.encode()) is not None and not run.expect.profile.is_log(line)

    def _stay_s(self, run: Run, sight: Sight, line: str) -> float:
        """How long it must stay the end of the output to be what it looks like."""
        if sight in ("quiet", "unsure"):
            return max(QUIET_S if sight == "quiet" else UNSURE_S, run.expect.settle_s)
        stays_s = max(SETTLE_S if sight == "prompt" and line != self._terminal.prompt.learned else 0.0, run.expect.settle_s)
        asked = run.expect.settle_s > run.expect.profile.settle_s  # for longer than the family needs: that is kept to
        answered = sight == "prompt" and stays_s and not asked and self._typed.answered(run)
        return min(stays_s, ANSWER_S) if answered else stays_s

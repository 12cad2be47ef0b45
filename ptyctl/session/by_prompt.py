"""Ways 3 and 4: the prompt, or quiet where there is none (design, section 6)."""

from __future__ import annotations

from typing import Literal

from ptyctl.core.prompt import ASKING
from ptyctl.core.search import compile_pattern

from .config_lines import check_line
from .free_text import FreeText
from .gate import SYSTEM, Writer
from .run import Run
from .terminal import ANSWER_S, SETTLE_S, Terminal
from .typed_line import TypedLine

#: Where nothing tells the end, and the caller names no time, so much quiet is taken for it.
DEFAULT_IDLE_S = 2.0
#: After so much quiet callers hear of a question (what answers by itself was faster), and a prompt that the device's log has
#: pushed away is asked for again.
QUIET_S = 0.5
#: And after so much, of what only looks like one by its last character.
UNSURE_S = 2.0
_ASKING = compile_pattern(ASKING, "question")

#: What the output ends in; "text": the next line of a text is awaited; "unsure": what may be a question in words that are not
#: known; "quiet": something else.
Sight = Literal["prompt", "text", "pager", "quiet", "unsure"]


class ByPrompt:
    """Lines are typed one after another, each answered by the prompt, or by quiet; those of a text by their echo."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._text = FreeText(terminal)
        self._last = True

    async def drive(self, run: Run, writer: Writer, lines: list[str], idle_s: float | None) -> None:
        """`idle_s` None: only the prompt ends a line. Comes back when the run is over."""
        terminal, stream = self._terminal, self._terminal.stream
        run.device = run.echoed = True
        run.prompt_before = terminal.last_line()
        run.raw_begin = end = stream.normaliser.raw
        for number, line in enumerate(lines, 1):
            run.line, self._last = number, number == len(lines)
            typed = TypedLine(terminal, line, alone=len(lines) == 1)
            self._text.typing(line)
            await terminal.type(run, line + "\n", writer)
            sight = await self._answered(run, typed, idle_s)
            if sight is None:
                return
            if sight == "text":
                continue
            self._text.over()
            end = typed.output_end(run)
            terminal.prompt.learn(typed.prompt(terminal.last_line()))
            if not check_line(run, number, line, stream, typed.output or typed.raw, end):
                break
        terminal.finish(run, "prompt", raw_end=end)

    async def _answered(self, run: Run, typed: TypedLine, idle_s: float | None) -> Sight | None:
        """Waits for the prompt after one line, or until the next one of a text is awaited; None when the run is over by
        something else."""
        terminal, stream = self._terminal, self._terminal.stream
        while run.done_reason is None:
            typed.look(run)
            sight = self._sight(run, typed)
            if sight == "unsure" and idle_s is not None:  # quiet ends it
                sight = None
            since = max(stream.last_data, run.answered) if sight in ("quiet", "unsure") else stream.last_data
            due = None if sight is None else since + self._stay_s(sight, run, typed)
            idle_due = None if idle_s is None else max(stream.last_data, typed.at) + idle_s
            if stream.ended is not None:
                terminal.finish(run, "eof")
            elif due is not None and terminal.now() >= due and await terminal.nothing_more():
                if sight in ("prompt", "text"):
                    return sight
                await self._answer(run, typed, sight)
            elif idle_due is not None and terminal.now() >= idle_due:
                terminal.finish(run, "idle")
            else:
                await stream.pulse.wait(min((when for when in (due, idle_due) if when is not None), default=None), gather=True)
        return None

    def _sight(self, run: Run, typed: TypedLine) -> Sight | None:
        """None while nothing is to be done about it."""
        prompt, line = self._terminal.prompt, self._terminal.last_line()
        # the cursor may not have left the line of the command yet: a repaint shows the prompt there too
        if typed.output is not None:
            if prompt.match(typed.prompt(line), run.expect) is not None:
                return "prompt"
            if typed.pager_gone and run.expect.pager(line) is not None:
                return "pager"
        if not self._last and self._text.awaits(typed):
            return "text"
        if run.question is not None:
            return None
        if not typed.looked_for_prompt:
            return "quiet"
        return "unsure" if typed.output is not None and self._may_ask(run, line) else None

    def _may_ask(self, run: Run, line: str) -> bool:
        return _ASKING.search(line.encode()) is not None and not run.expect.manners.is_log(line)

    def _stay_s(self, sight: Sight, run: Run, typed: TypedLine) -> float:
        """How long it must stay the end of the output to be what it looks like."""
        line, learned = self._terminal.last_line(), self._terminal.prompt.learned
        if sight in ("quiet", "unsure"):
            return max(QUIET_S if sight == "quiet" else UNSURE_S, run.expect.settle_s)
        stays_s = max(SETTLE_S if sight == "prompt" and line != learned else 0.0, run.expect.settle_s)
        return min(stays_s, ANSWER_S) if sight == "prompt" and stays_s and typed.answered(run) else stays_s

    async def _answer(self, run: Run, typed: TypedLine, sight: Sight | None) -> None:
        terminal, line = self._terminal, self._terminal.last_line()
        if sight == "pager":
            run.pages += 1
            typed.key_sent()
            await terminal.gate.interrupt((run.expect.pager(line) or "").encode(), SYSTEM)
        elif self._text.listen(run, typed) and not self._last:
            pass  # the next line is the text's
        elif sight == "unsure" or self._text.told or run.expect.manners.asks(line):
            run.question, run.unsure = self._text.told or line, sight == "unsure"
            run.ended.beat()
            terminal.stream.pulse.beat()
        elif typed.lost_prompt(run):
            await terminal.gate.type("\n", SYSTEM)

"""Ways 3 and 4: the prompt, or quiet where there is none (design, section 6)."""

from __future__ import annotations

from typing import Literal

from .config_lines import check_line
from .gate import SYSTEM, Writer
from .run import Run
from .terminal import SETTLE_S, Terminal
from .typed_line import TypedLine

#: Where nothing tells the end, and the caller names no time, so much quiet is taken for it.
DEFAULT_IDLE_S = 2.0
#: After so much quiet callers hear of a question (what answers by itself was faster), and a prompt that the device's log has
#: pushed away is asked for again.
QUIET_S = 0.5

#: What the output ends in; "quiet": something else.
Sight = Literal["prompt", "pager", "quiet"]


class ByPrompt:
    """Lines are typed one after another, each answered by the prompt, or by quiet."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    async def drive(self, run: Run, writer: Writer, lines: list[str], idle_s: float | None) -> None:
        """`idle_s` None: only the prompt ends a line. Comes back when the run is over."""
        terminal, stream = self._terminal, self._terminal.stream
        run.device = run.echoed = True
        run.prompt_before = terminal.last_line()
        run.raw_begin = end = stream.normaliser.raw
        for number, line in enumerate(lines, 1):
            typed = TypedLine(terminal, line, alone=len(lines) == 1)
            await terminal.type(run, line + "\n", writer)
            if not await self._answered(run, typed, idle_s):
                return
            end = typed.output_end(run)
            terminal.prompt.learn(typed.prompt(terminal.last_line()))
            if not check_line(run, number, line, stream, typed.output or typed.raw, end):
                break
        terminal.finish(run, "prompt", raw_end=end)

    async def _answered(self, run: Run, typed: TypedLine, idle_s: float | None) -> bool:
        """Waits for the prompt after one line; False when the run is over by something else."""
        terminal, stream = self._terminal, self._terminal.stream
        while run.done_reason is None:
            typed.look(run)
            sight = self._sight(run, typed)
            since = max(stream.last_data, run.answered) if sight == "quiet" else stream.last_data
            due = None if sight is None else since + self._stay_s(sight, run)
            idle_due = None if idle_s is None else max(stream.last_data, typed.at) + idle_s
            if stream.ended is not None:
                terminal.finish(run, "eof")
            elif due is not None and terminal.now() >= due and await terminal.nothing_more():
                if sight == "prompt":
                    return True
                await self._answer(run, typed, sight)
            elif idle_due is not None and terminal.now() >= idle_due:
                terminal.finish(run, "idle")
            else:
                await stream.pulse.wait(min((when for when in (due, idle_due) if when is not None), default=None), gather=True)
        return False

    def _sight(self, run: Run, typed: TypedLine) -> Sight | None:
        """None while nothing is to be done about it."""
        prompt, line = self._terminal.prompt, self._terminal.last_line()
        # the cursor may not have left the line of the command yet: a repaint shows the prompt there too
        if typed.output is not None:
            if prompt.match(typed.prompt(line), run.expect) is not None:
                return "prompt"
            if typed.pager_gone and run.expect.pager(line) is not None:
                return "pager"
        return None if run.question is not None or typed.looked_for_prompt else "quiet"

    def _stay_s(self, sight: Sight, run: Run) -> float:
        """How long it must stay the end of the output to be what it looks like."""
        line, learned = self._terminal.last_line(), self._terminal.prompt.learned
        least = QUIET_S if sight == "quiet" else SETTLE_S if sight == "prompt" and line != learned else 0.0
        return max(least, run.expect.settle_s)

    async def _answer(self, run: Run, typed: TypedLine, sight: Sight | None) -> None:
        terminal, line = self._terminal, self._terminal.last_line()
        if sight == "pager":
            run.pages += 1
            typed.key_sent()
            await terminal.gate.interrupt((run.expect.pager(line) or "").encode(), SYSTEM)
        elif run.expect.manners.asks(line):
            run.question = line
            run.ended.beat()
            terminal.stream.pulse.beat()
        elif typed.lost_prompt(run):
            await terminal.gate.type("\n", SYSTEM)

"""Ways 3 and 4: the prompt, or quiet where there is none (design, section 6)."""

from __future__ import annotations

from dataclasses import dataclass

from ptyctl.core.normalise import Normaliser

from .gate import SYSTEM, Writer
from .run import Run
from .terminal import SETTLE_S, Terminal

#: Where nothing tells the end, and the caller names no time, so much quiet is taken for it.
DEFAULT_IDLE_S = 2.0
#: Answers a pager: one more page, on every device of the defaults.
PAGER_KEY = b" "
#: The echo of a command is not longer than this.
_ECHO_BYTES = 256 * 1024


class ByPrompt:
    """Lines are typed one after another, each answered by the prompt, or by quiet."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    async def drive(self, run: Run, writer: Writer, lines: list[str], idle_s: float | None) -> None:
        """`idle_s` None: only the prompt ends a line. Comes back when the run is over."""
        terminal, stream = self._terminal, self._terminal.stream
        run.echoed = True
        run.prompt_before = terminal.last_line()
        run.raw_begin = stream.normaliser.raw
        for line in lines:
            typed = _Typed(stream.normaliser.raw, stream.end, stream.normaliser.line_feeds, terminal.now())
            await terminal.type(run, line + "\n", writer)
            if not await self._answered(run, typed, idle_s):
                return
            if self._refused(run, line, typed):
                break
        terminal.finish(run, "prompt")

    async def _answered(self, run: Run, typed: _Typed, idle_s: float | None) -> bool:
        """Waits for the prompt after one line; False when the run is over by something else."""
        terminal, stream = self._terminal, self._terminal.stream
        while run.done_reason is None:
            self._note_output(run, typed)
            if stream.ended is not None:
                terminal.finish(run, "eof")
            elif await self._answer_pager(run):
                continue
            elif await self._prompt_is_there(run, typed):
                return True
            elif run.done_reason is None:
                await self._wait(run, typed, idle_s)
        return False

    async def _wait(self, run: Run, typed: _Typed, idle_s: float | None) -> None:
        terminal, stream = self._terminal, self._terminal.stream
        due = self._prompt_due(run, typed)
        idle_due = None if idle_s is None else max(stream.last_data, typed.at) + idle_s
        if idle_due is not None and terminal.now() >= idle_due:
            terminal.finish(run, "idle")
        else:
            await stream.pulse.wait(min((when for when in (due, idle_due) if when is not None), default=None), gather=True)

    def _note_output(self, run: Run, typed: _Typed) -> None:
        """The output begins behind the line of the echo: what a caller waits for is not looked for in there."""
        stream = self._terminal.stream
        if run.spool_begin is None and stream.normaliser.line_feeds > typed.line_feeds:
            seen = stream.transcript.raw.read(typed.raw, min(typed.raw + _ECHO_BYTES, stream.normaliser.raw))
            echo = seen[: seen.find(b"\n") + 1]
            run.spool_begin = typed.spool + len(Normaliser().feed(echo))
            stream.pulse.beat()  # whoever waits for the output to begin heard only of its bytes

    async def _prompt_is_there(self, run: Run, typed: _Typed) -> bool:
        terminal = self._terminal
        due = self._prompt_due(run, typed)
        if due is None or terminal.now() < due or not await terminal.nothing_more():
            return False
        run.prompt_after = terminal.last_line()
        terminal.prompt.learn(run.prompt_after)
        return True

    def _prompt_due(self, run: Run, typed: _Typed) -> float | None:
        """When the last line, should it stay, is the prompt; None while it is none."""
        terminal, stream = self._terminal, self._terminal.stream
        if stream.normaliser.line_feeds == typed.line_feeds:
            return None  # the cursor has not left the line of the command yet: a repaint shows the prompt there too
        certainty = terminal.prompt.match(terminal.last_line(), run.expect)
        if certainty is None:
            return None
        return stream.last_data + (0 if certainty == "exact" else SETTLE_S)

    async def _answer_pager(self, run: Run) -> bool:
        terminal, stream = self._terminal, self._terminal.stream
        line = terminal.last_line()
        if line == terminal.prompt.learned or not run.expect.pager(line) or not await terminal.nothing_more():
            return False
        run.pages += 1
        end = stream.end
        await terminal.gate.interrupt(PAGER_KEY, SYSTEM)
        while stream.end == end and stream.ended is None and run.done_reason is None:
            await stream.pulse.wait()
        return True

    def _refused(self, run: Run, line: str, typed: _Typed) -> bool:
        """Whether to stop after a line that the device refused; that is asked of several lines only."""
        if run.request is None or run.request.lines is None:
            return False
        stream = self._terminal.stream
        said = Normaliser().feed(stream.transcript.raw.read(typed.raw, stream.normaliser.raw))
        if not run.expect.error_lines(said.decode("utf-8", "replace")):
            return False
        run.failed_line = run.failed_line or line
        return run.request.on_error != "continue"


@dataclass(frozen=True, slots=True)
class _Typed:
    """Where the stream stood when a line was typed; `at` is on the loop's clock."""

    raw: int
    spool: int
    line_feeds: int
    at: float

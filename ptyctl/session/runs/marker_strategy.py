"""CompletionStrategy 2: two marks typed around the command; what is between them is the output, exactly (design, section 6)."""

from __future__ import annotations

from ptyctl.api.exec import DoneReason
from ptyctl.core.control_sequences import BRACKETED_PASTE
from ptyctl.core.marker import AsciiMarker, Marker, as_paste
from ptyctl.core.marks import PlacedMark
from ptyctl.core.search import Search, compile_pattern
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.io.terminal_state import SETTLE_S, TerminalState

from .long_command import Typeable
from .run import Run
from .run_terminal import finish_run, type_for_run
from .unmarked_prompt import UnmarkedPrompt

#: The last mark is looked for in so much of the raw end.
_TAIL_BYTES = 128 * 1024


class MarkerStrategy:
    """Wraps the command; the shell sends the marks around it."""

    told_by_marks = True

    def __init__(self, terminal: TerminalState, marker: Marker, *, defined: bool, inner: bool, near: bool) -> None:
        """`defined`: the shell knows how to send a mark. `inner`: it runs in a shell that announces itself. `near`: it is a
        program of this machine."""
        self._terminal = terminal
        self.marker = marker
        self._counter = 0
        self._inner = inner
        self._near = marker.dialect if near and not inner else None  # the inner one may be another user's
        self._outer_end: PlacedMark | None = None
        self._bare: UnmarkedPrompt | None = None
        self._typeable: Typeable | None = None
        self._watch: _AsciiWatch | None = None
        self.look_at: float | None = None
        self.defined = defined

    async def type(self, run: Run, writer: Writer) -> None:
        terminal, stream, marker = self._terminal, self._terminal.stream, self.marker
        self._counter = stream.next_counter(marker.nonce)
        self._typeable = Typeable(run.command, self._near)
        line = marker.line(self._typeable.text, self._counter, define=not self.defined)
        run.prompt_before = terminal.last_line()
        run.raw_sent, run.spool_sent = stream.raw_size, stream.spool_end
        self._bare = UnmarkedPrompt(terminal, run)
        if isinstance(marker, AsciiMarker):
            self._watch = _AsciiWatch(marker, self._counter, stream)
        await type_for_run(terminal, run, as_paste(line, BRACKETED_PASTE in stream.terminal_modes) + "\n", writer)

    def look(self, run: Run) -> None:
        terminal = self._terminal
        assert self._bare is not None
        if self._watch is not None:
            self._watch.look(run, terminal)
        if terminal.stream.ended is not None:
            finish_run(terminal, run, "eof")
        elif self._prompt_alone(run, self._bare):
            self.defined = False
            run.prompt_after = terminal.last_line()
            if run.raw_begin is None:
                run.echoed, run.raw_begin, run.spool_begin = True, run.raw_sent, run.spool_sent
            run.exit_code_reason = "interrupted" if run.interrupted else "the shell showed its prompt, and no exit code"
            finish_run(terminal, run, "cancelled" if run.interrupted else "prompt")
        self.look_at = self._look_again(run, self._bare)

    def over(self) -> None:
        if self._typeable is not None:
            self._typeable.close()

    def marked(self, run: Run, placed: PlacedMark) -> None:
        """A mark of this session came by."""
        mark = placed.mark
        if mark.nonce != self.marker.nonce:
            if self._inner and run.sent:
                self._outer(run, placed)
            return
        if mark.kind == "begin" and mark.counter == self._counter:
            self.defined = True
            run.raw_begin, run.spool_begin = placed.raw_end, placed.spool_end
        elif mark.kind == "end" and mark.counter == self._counter + 1 and run.raw_begin is not None:
            run.exit_code = mark.status
            reason: DoneReason = "cancelled" if run.stopped else "marker"
            run.finish(reason, self._terminal.now(), raw_end=placed.raw_begin, spool_end=placed.spool_begin)

    def _outer(self, run: Run, placed: PlacedMark) -> None:
        """A shell that announces itself is back: the one within it, to which the command was typed, has ended."""
        if placed.mark.kind == "end":
            self._outer_end = placed
        elif placed.mark.kind == "prompt":
            run.exit_code = placed.mark.status
            if run.raw_begin is None:
                run.echoed, run.raw_begin, run.spool_begin = True, run.raw_sent, run.spool_sent
            end = self._outer_end or placed
            run.finish("marks", self._terminal.now(), raw_end=end.raw_begin, spool_end=end.spool_begin)

    def _prompt_alone(self, run: Run, bare: UnmarkedPrompt) -> bool:
        """Whether the prompt is there, and tells the end without a mark.

        After an interrupt a shell drops the rest of the line, the second mark too (bash, dash, zsh). It does the same when a
        command dies by SIGINT without our doing; a shell within the shell never knew of the mark, nor of how to send one.
        """
        if not run.interrupted:
            return bare.tells_end(runs=True)
        terminal = self._terminal
        there = terminal.prompt.match(terminal.last_line(), run.profile) is not None
        return there and terminal.now() >= terminal.stream.last_data + SETTLE_S

    def _look_again(self, run: Run, bare: UnmarkedPrompt) -> float | None:
        settled = self._terminal.stream.last_data + SETTLE_S
        return settled if run.interrupted and self._terminal.now() < settled else bare.look_again()


class _AsciiWatch:
    """Finds the marks of the ASCII form in the spool."""

    def __init__(self, marker: AsciiMarker, counter: int, stream: OutputStream) -> None:
        self._stream = stream
        self._begin = Search(compile_pattern(marker.pattern("B", counter), "marker"), stream.spool_end)
        self._end: Search | None = None
        self._end_pattern = compile_pattern(marker.pattern("E", counter + 1), "marker")
        self._raw = stream.raw_size

    def look(self, run: Run, terminal: TerminalState) -> None:
        if self._end is None:
            found = self._begin.search(self._stream.window)
            if found is None:
                return
            text = self._stream.read(found.start, found.end)
            run.spool_begin = found.end
            run.raw_begin = self._raw + max(self._stream.read_raw(self._raw, self._stream.raw_size).find(text), 0) + len(text)
            self._end = Search(self._end_pattern, found.end)
        found = self._end.search(self._stream.window)
        if found is not None:
            text = self._stream.read(found.start, found.end)
            run.exit_code = int(self._end_pattern.search(text).group(1))
            run.finish("marker", terminal.now(), raw_end=self._raw_end(text), spool_end=found.start)

    def _raw_end(self, mark: bytes) -> int:
        """Where the end mark stands in output.raw: printf writes it in one piece, so nothing stands within it."""
        begin = max(self._raw, self._stream.raw_size - _TAIL_BYTES)
        return begin + max(self._stream.read_raw(begin, self._stream.raw_size).rfind(mark), 0)

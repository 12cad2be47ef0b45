"""Way 2: two marks around the command; what is between them is the output, exactly (design, section 6)."""

from __future__ import annotations

from ptyctl.core.control import BRACKETED_PASTE
from ptyctl.core.marker import AsciiMarker, Mark, Marker, typed
from ptyctl.core.search import Search, compile_pattern

from .gate import Writer
from .run import Run
from .stream import Stream
from .terminal import SETTLE_S, Terminal

#: The last mark is looked for in so much of the raw end.
_TAIL_BYTES = 128 * 1024
#: The very prompt of before, with nothing behind it for so long, ends a run whose mark does not come.
PROMPT_ALONE_S = 1.0


class ByMarker:
    """Way 2: two marks around the command; what is between them is the output, exactly."""

    def __init__(self, terminal: Terminal, marker: Marker) -> None:
        self._terminal = terminal
        self.marker = marker

    async def drive(self, run: Run, writer: Writer) -> None:
        terminal, stream = self._terminal, self._terminal.stream
        key = run.block_id.partition("_")[0]
        line = self.marker.line(run.command, key)
        text = typed(line, BRACKETED_PASTE in stream.normaliser.modes)
        watch = _AsciiWatch(self.marker, key, stream) if isinstance(self.marker, AsciiMarker) else None
        await terminal.type(run, text + "\n", writer)
        while run.done_reason is None:
            if watch is not None:
                watch.look(run, terminal)
            if stream.ended is not None:
                terminal.finish(run, "eof")
            elif (due := self._prompt_due(run)) is not None and terminal.now() >= due:
                run.prompt_after = terminal.last_line()
                run.exit_code_reason = "interrupted" if run.interrupted else "the shell showed its prompt, and no exit code"
                terminal.finish(run, "cancelled" if run.interrupted else "prompt")
            if run.done_reason is None:
                await stream.pulse.wait(due)

    def marked(self, run: Run, mark: Mark, raw_begin: int, raw_end: int, spool: int, now: float) -> None:
        """A mark of this session came by."""
        if mark.run != run.block_id.partition("_")[0]:
            return
        if mark.kind == "begin":
            run.raw_begin, run.spool_begin = raw_end, spool
        elif run.raw_begin is not None:
            run.exit_code = mark.status
            run.finish("marker", now, raw_end=raw_begin, spool_end=spool)

    def _prompt_due(self, run: Run) -> float | None:
        """When the prompt, should it stay, tells the end; None while it is not there.

        After an interrupt a shell drops the rest of the line, the second mark too (bash, dash, zsh). It does the same when a
        command dies by SIGINT without our doing, and a shell within the shell never knew of the mark.
        """
        terminal, stream = self._terminal, self._terminal.stream
        if run.interrupted:
            there = terminal.prompt.match(terminal.last_line(), run.expect) is not None
            return stream.last_data + SETTLE_S if there else None
        learned = (terminal.prompt.learned or "").encode()
        begin = stream.end - len(learned)
        if not learned or run.spool_begin is None or begin < run.spool_begin or stream.read(begin, stream.end) != learned:
            return None
        return stream.last_data + PROMPT_ALONE_S if terminal.last_line().encode() == learned else None


class _AsciiWatch:
    """Finds the marks of the ASCII form in the spool."""

    def __init__(self, marker: AsciiMarker, key: str, stream: Stream) -> None:
        self._stream = stream
        self._begin = Search(compile_pattern(marker.pattern(key, "begin"), "marker"), stream.end)
        self._end: Search | None = None
        self._end_pattern = compile_pattern(marker.pattern(key, "end"), "marker")
        self._raw = stream.normaliser.raw

    def look(self, run: Run, terminal: Terminal) -> None:
        if self._end is None:
            found = self._begin.search(self._stream.window)
            if found is None:
                return
            run.spool_begin = found.end
            run.raw_begin = self._raw_place(self._stream.read(found.start, found.end), first=True, end=True)
            self._end = Search(self._end_pattern, found.end)
        found = self._end.search(self._stream.window)
        if found is not None:
            text = self._stream.read(found.start, found.end)
            status = self._end_pattern.search(text)
            run.exit_code = int(status.group(1))
            place = self._raw_place(text, first=False, end=False)
            run.finish("marker", terminal.now(), raw_end=place, spool_end=found.start)

    def _raw_place(self, mark: bytes, *, first: bool, end: bool) -> int:
        """Where the mark stands in output.raw. printf writes it in one piece, so nothing stands within it."""
        log = self._stream.transcript.raw
        raw = log.read(self._raw, log.size) if first else log.read(max(self._raw, log.size - _TAIL_BYTES), log.size)
        base = self._raw if first else max(self._raw, log.size - _TAIL_BYTES)
        at = raw.find(mark) if first else raw.rfind(mark)
        return base + max(at, 0) + (len(mark) if end else 0)

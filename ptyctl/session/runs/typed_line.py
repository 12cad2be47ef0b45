"""One line that was typed at a device, and what came back for it: the echo, the output, pagers, the prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptyctl.core.control_sequences import strip_sequences
from ptyctl.core.echo import echo_end
from ptyctl.core.normaliser import Normaliser
from ptyctl.core.prompt import render_line
from ptyctl.session.io.terminal_state import TerminalState

from .run import Run

#: The echo of a line, and what stands behind a prompt in the log, is not longer than this.
_ECHO_BYTES = 256 * 1024
#: Nor does a pager's eraser have so many bytes.
_ERASER_BYTES = 4096
_PRINTED = re.compile(rb"[^\x00-\x20\x7f]")
#: A prompt's name ends before its mode, or its last character.
_NAME = re.compile(r".[^(>#$%\]]*")
#: After such a line the prompt may be another, which ends as the one before does.
_RENAMES = re.compile(r"(?i)name|identity|commit")


class TypedLine:
    """Made before the line is typed, at the prompt. `raw` is where the stream stood then, `at` the time on the loop's clock;
    `alone`: the run is this line, and its output begins behind the echo.

    `output` is the raw offset behind the echo, None as long as that may go on. `looked_for_prompt` says that nothing came since
    it was looked for in vain.
    """

    def __init__(self, terminal: TerminalState, line: str, *, alone: bool) -> None:
        stream = terminal.stream
        self.raw, self.at = stream.raw_size, terminal.now()
        self.output: int | None = None
        self.looked_for_prompt = False
        self._line, self._alone = line, alone
        self._terminal = terminal
        self._prompt = terminal.last_line()
        self._spool = stream.spool_end
        self._line_feeds = stream.line_feeds
        self._seen = self.raw
        self._key: int | None = None
        self._lost: int | None = None

    def look(self, run: Run) -> None:
        """Takes notice of what came."""
        if self._seen != self._terminal.stream.raw_size:
            self._seen = self._terminal.stream.raw_size
            self.looked_for_prompt, run.question = False, None
            if self.output is None and self._terminal.stream.line_feeds != self._line_feeds:
                self._look_for_echo(run)

    def _look_for_echo(self, run: Run) -> None:
        """The output begins behind it: what a caller waits for is not looked for in there."""
        stream = self._terminal.stream
        came = stream.read_raw(self.raw, min(self.raw + _ECHO_BYTES, stream.raw_size))
        own = came.startswith(self._line.encode())
        log = 0 if own else self._log_before(came, run)  # it pushed the prompt away while the line was typed
        size = echo_end(came[log:], "" if log else self._prompt, self._line, self._terminal.width())
        if size is None:
            return
        size += log
        self.output = self.raw + size
        if self._alone:
            run.raw_begin, run.echoed = self.output, False
        if run.spool_begin is None:
            plain = own and size == len(self._line.encode()) + 2
            run.spool_begin = self._spool + (size - 1 if plain else len(Normaliser().feed(came[:size])))
            stream.signal.notify()  # whoever waits for the output to begin heard only of its bytes

    def _log_before(self, came: bytes, run: Run) -> int:
        """How many bytes are whole lines of the device's log."""
        size = 0
        while (end := came.find(b"\n", size) + 1) and run.expect.profile.is_log(render_line(came[size:end].rstrip(b"\r\n"))):
            size = end
        return size

    def key_sent(self) -> None:
        """A pager was answered: its line still stands there, until the device has wiped it away."""
        self._key = self._terminal.stream.raw_size

    @property
    def pager_gone(self) -> bool:
        """Whether something was printed since then."""
        if self._key is not None:
            stream = self._terminal.stream
            came = strip_sequences(stream.read_raw(self._key, min(self._key + _ERASER_BYTES, stream.raw_kept)))
            if _PRINTED.search(came) or len(came) >= _ERASER_BYTES:
                self._key = None
        return self._key is None

    def prompt(self, line: str) -> str:
        """What of the last line may be the prompt: output that ended without a newline stands before it."""
        if line == self._terminal.prompt.learned:
            return line
        before = "" if _RENAMES.search(self._line) else self._terminal.prompt.text_before(line)
        return line[len(before) :]

    def answered(self, run: Run) -> bool:
        """Whether the prompt stands directly below the echo, and begins as the one did at which the line was typed: the device
        has said nothing to this line. Of a run that is one line, any output may look so."""
        line, stream = self._terminal.last_line(), self._terminal.stream
        if self._alone or self.output is None or not self._prompt.strip() or stream.raw_kept - self.output > _ERASER_BYTES:
            return False
        between = stream.read_raw(self.output, stream.raw_kept).rpartition(b"\n")[0].split(b"\n")
        texts = (render_line(text.rstrip(b"\r")).rstrip() for text in between)
        return line.startswith(_name(self._prompt)) and all(not text or run.expect.profile.is_above(text) for text in texts)

    def output_end(self, run: Run) -> int:
        """The raw offset at which the prompt begins that is at the end; it may have a line above it."""
        assert self.output is not None
        line, raw_line = self._terminal.last_line(), self._terminal.stream.last_raw_line()
        end = self._terminal.stream.raw_size - len(raw_line)
        prompt = self.prompt(line)
        if len(prompt) < len(line):
            return end + max(raw_line.rfind(prompt.encode()), 0)
        if self._lost is not None and self._only_log_behind(self._lost, end, run):
            end = self._lost
        return self._with_line_above(end, run) if run.expect.profile.above else end

    def _with_line_above(self, prompt: int, run: Run) -> int:
        lines = self._lines_back(prompt)
        above, text = next(lines, (prompt, ""))
        if not run.expect.profile.is_above(text.rstrip()):
            return prompt
        free, text = next(lines, (above, ""))
        return above if text.strip() else free  # devices leave a line free before it

    def lost_prompt(self, run: Run) -> bool:
        """Whether the device waits at a prompt behind which it has printed its log, and nothing else. True once only: the
        answer to a single Enter tells."""
        self.looked_for_prompt = True
        if self._lost is None and self.output is not None:
            self._lost = self._prompt_before_log(run)
            return self._lost is not None
        return False

    def _prompt_before_log(self, run: Run) -> int | None:
        """Where it begins."""
        prompt, manners, log = self._terminal.prompt, run.expect.profile, False
        for begin, text in self._lines_back(self._terminal.stream.raw_size):
            behind = text.removeprefix(prompt.learned) if prompt.learned else text
            if manners.is_log(text):
                log = True
            elif len(behind) < len(text) and manners.is_log(behind.lstrip()):
                return begin
            elif text.strip():
                return begin if log and prompt.match(text, run.expect) is not None else None
        return None

    def _only_log_behind(self, prompt: int, end: int, run: Run) -> bool:
        """Whether nothing else came between a prompt and the one that was brought back."""
        manners = run.expect.profile
        behind = [text for begin, text in self._lines_back(end) if begin > prompt]
        return all(not text.strip() or manners.is_log(text) or manners.is_above(text.rstrip()) for text in behind)

    def _lines_back(self, end: int) -> Iterator[tuple[int, str]]:
        """The lines of the output before a raw offset, last first: where each begins, and what it shows."""
        begin = max(self.output or self.raw, end - _ECHO_BYTES)
        data = self._terminal.stream.read_raw(begin, end)
        if data.endswith(b"\n"):
            data, end = data[:-1], end - 1
        while data:
            line = data[data.rfind(b"\n") + 1 :]
            end -= len(line)
            yield end, render_line(line.rstrip(b"\r"))
            if len(line) == len(data):
                return
            data, end = data[: -len(line) - 1 or None], end - 1


def _name(prompt: str) -> str:
    match = _NAME.match(prompt)
    return match.group() if match is not None else prompt

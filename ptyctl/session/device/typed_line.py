"""The output of one line typed at a device: its echo, pagers and log lines, up to the next prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptyctl.core.echo import echo_end
from ptyctl.core.renderer import EXAMINED_LINE_BYTES, render_line
from ptyctl.platforms import DeviceProfile
from ptyctl.session.io.prompt import host_name
from ptyctl.session.io.terminal_state import TerminalState

from .exchange import Pace, may_lead_elsewhere, may_rename, rendered, shows, text_behind_prompt
from .output_end import only_blank_or_above, skip_log_lines
from .pager import AnsweredPager

#: Largest size of the echo of a line.
_ECHO_BYTES = 256 * 1024
#: How a line editor erases the prompt before it prints a log line.
_ERASED = re.compile(rb"\r\x1b\[0?[JK]")
#: Largest distance of a prompt directly below the echo.
_ANSWER_BYTES = 4096
#: Size of the end of the output in which a request for text is searched.
_REQUEST_BYTES = 512


class TypedLine:
    """A line that is typed at a device. The object is created at the prompt, before the line is typed.

    Attributes:
        raw, typed_at: the raw offset and the time (loop's clock) before the line was typed.
        output, spool_output: the raw and spool offsets after the echo; None until the echo is complete.
        pager: the pager that was answered last.
        pace: the device's pace in the echo and in the output; the silence between the two is its work.
        prompt_looked_for: whether nothing was received since the last call of `find_buried_prompt`.
        renames: whether the line may change the host name in the prompt.
    """

    def __init__(self, terminal: TerminalState, profile: DeviceProfile, line: str, *, only_line: bool) -> None:
        stream = terminal.stream
        self.raw, self.typed_at = stream.raw_size, terminal.now()
        self.output: int | None = None
        self.spool_output: int | None = None
        self.prompt_looked_for = False
        self._line, self._only_line = line, only_line
        self.pager = AnsweredPager(terminal)
        self.pace = Pace()
        self.renames = may_rename(line)
        self._terminal, self._stream, self._profile = terminal, terminal.stream, profile
        self._prompt, self._prompt_before = terminal.prompt, terminal.last_line()
        self._spool, self._spool_held = stream.spool_end, stream.normaliser.held
        self._line_feeds = stream.line_feeds
        self._received = self.raw
        self._buried_prompt: int | None = None
        self._end_mark: int | None = None
        #: Raw offset and text of a line that was reported, because it may be a prompt.
        self._reported: tuple[int, str] | None = None
        #: The lines before this raw offset were examined for erased prompts.
        self._followed = 0
        #: Raw offset at which a prompt followed by log lines only was first shown, and its text.
        self._erased_prompt: tuple[int, str] | None = None

    def end_mark_received(self, raw: int) -> None:
        """Record the raw offset of the mark with which a shell ends the line's command."""
        self._end_mark = raw

    def answer_pager(self) -> None:
        """Record that a key was sent to the pager."""
        self.pager.answered()
        self.pace.typed()

    def receive(self) -> bool:
        """Examine received output for the end of the echo. Return whether anything was received since the last call."""
        stream = self._stream
        if self._received == stream.raw_size:
            return False
        self._received = stream.raw_size
        self.prompt_looked_for = False
        self.pace.received(stream.last_data)
        if self.output is None and stream.line_feeds != self._line_feeds:
            self._find_echo_end()
            if self.output == stream.raw_size:
                self.pace.typed()
        if self.output is not None and self._profile.log_lines:
            self._follow_erased_prompts()
        return True

    def _find_echo_end(self) -> None:
        stream = self._stream
        data = stream.read_raw(self.raw, min(self.raw + _ECHO_BYTES, stream.raw_size))
        echoed = data.startswith(self._line.encode())
        log = 0 if echoed else self._log_size(data)  # log lines may have interrupted the prompt while the line was typed
        size = echo_end(data[log:], "" if log else self._prompt_before, self._line, self._terminal.width())
        if size is None:
            return
        size += log
        self.output = self.raw + size
        # the normaliser changes nothing but the line end of such an echo
        plain = echoed and size == len(self._line.encode()) + 2 and not self._spool_held and "  " not in f" {self._line}"
        self.spool_output = self._spool + size - 1 if plain or not size else stream.spool_offset(self.output)

    def _log_size(self, data: bytes) -> int:
        size = 0
        while (end := data.find(b"\n", size) + 1) and self._profile.is_log_line(render_line(data[size:end].rstrip(b"\r\n"))):
            size = end
        return size

    def possible_prompt(self, line: str) -> str:
        """Return the part of the last line that may be the prompt.

        Output without a final newline may precede it, and text that a user types meanwhile may follow it.
        """
        prompt = self._prompt
        if line == prompt.learned:
            return line
        if self._terminal.has_unfinished_line and self._names_device(line):
            line = line.removesuffix(text_behind_prompt(self._terminal, self._profile, line))
        may_end_text = not prompt.is_distinctive and self._terminal.input_is_read() is None
        before = "" if self.renames or may_end_text else prompt.text_before(line)
        return line[len(before) :]

    def pace_s(self, line: str) -> float:
        """Return for how long the device's pace demands that the last line remains the end of the output (seconds).

        A prompt that the device has erased for log lines and shown again is not output: a flood of them must not delay it.
        """
        return 0.0 if self._erased_prompt is not None and self._erased_prompt[1] == line else self.pace.stay_s

    def may_be_prompt(self, line: str) -> bool:
        """Return whether a line that looks like a prompt may be this device's.

        Where nobody has described its prompts, a pager or a question may look so too. Another line than the learned prompt then
        counts if it is that prompt in another mode, which no command that shows something enters, or if the typed line names
        the new host or leads to another command line.
        """
        if not self._profile.guesses_prompts:
            return True
        if self._prompt.match(line, self._profile) != "other_host" and self._prompt.is_mode(line, is_same=shows(self._line)):
            return True
        if self._terminal.input_is_read() is not None or may_lead_elsewhere(self._line) or self._shown_again(line):
            return True  # a program of this machine pages with programs that are known
        named = host_name(line) in self._line.split() or "commit" in self._line
        return self.renames and named and self._prompt.is_renamed(line)

    def reported(self, line: str) -> None:
        """Record that a caller was told of a line that looks like a prompt."""
        self._reported = self._stream.raw_size, line

    def _shown_again(self, line: str) -> bool:
        """Return whether a reported line is directly below itself, after Enter; a pager shows more output first."""
        if self._reported is None or self._reported[1] != line:
            return False
        first, *lines = rendered(self._stream, self._reported[0], self._stream.raw_size).split("\n")
        return bool(lines) and lines[-1] == line and not first.strip() and only_blank_or_above(lines[:-1], self._profile)

    def prompt_follows_echo(self) -> bool:
        """Return whether the prompt, with the same device name, is directly below the echo: the line had no output.

        Always False if this is the only line, because its output may look like a prompt.
        """
        stream = self._stream
        if (
            self._only_line
            or self.output is None
            or not self._prompt_before.strip()
            or stream.raw_size - self.output > _ANSWER_BYTES
        ):
            return False
        between = stream.read_raw(self.output, stream.raw_size).rpartition(b"\n")[0].split(b"\n")
        lines = (render_line(text.rstrip(b"\r")) for text in between)
        return self._names_device(self._terminal.last_line()) and only_blank_or_above(lines, self._profile)

    def _names_device(self, line: str) -> bool:
        """Return whether the line begins with the same device name as the previous prompt."""
        host = host_name(self._prompt_before)
        return host_name(line) == host if host else line.startswith(self._prompt_before)

    def output_end(self) -> int:
        """Return the raw offset at which the last prompt begins, including the line above that belongs to it."""
        if self._end_mark is not None:
            return self._end_mark
        line, raw_line = self._terminal.last_line(), self._stream.last_raw_line()
        end = self._stream.raw_size - len(raw_line)
        prompt = self.possible_prompt(line)
        if len(prompt) < len(line) and line.endswith(prompt):
            return end + max(raw_line.rfind(prompt.encode()), 0)
        if self._buried_prompt is not None and self._only_log_between(self._buried_prompt, end):
            end = self._buried_prompt
        elif self._profile.log_lines:
            end = self._first_erased_prompt(prompt, end)
        return self._with_line_above(end) if self._profile.above else end

    def _first_erased_prompt(self, prompt: str, end: int) -> int:
        """Return where this prompt was first shown if the device has only erased it for log lines since, as readline does."""
        self._follow_erased_prompts()
        erased = self._erased_prompt
        return erased[0] if erased is not None and erased[1] == prompt and self._followed == end else end

    def _follow_erased_prompts(self) -> None:
        """Find erased prompts in the received lines. Each line is examined once, because a flood of log lines is unbounded."""
        stream = self._stream
        begin = self._followed = max(self._followed, self.output or 0)
        data = stream.read_raw(begin, stream.raw_size)
        if self._erased_prompt is None:
            first = _ERASED.search(data)
            skipped = data.rfind(b"\n", 0, first.start() if first is not None else len(data)) + 1
            begin, data = begin + skipped, data[skipped:]
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._erased_prompt = self._erased_prompt_at(line, begin)
            begin += len(line) + 1
        self._followed = begin if len(rest) <= EXAMINED_LINE_BYTES else begin + len(rest)

    def _erased_prompt_at(self, line: bytes, begin: int) -> tuple[int, str] | None:
        """Return the erased prompt after a line that begins at a raw offset, and the offset at which it was first shown."""
        known, erased = self._erased_prompt, _ERASED.search(line)
        if (known is None and erased is None) or not self._profile.is_log_line(render_line(line.rstrip(b"\r"))):
            return None
        if erased is None:
            return known  # several log lines may follow an erased prompt
        prompt = render_line(line[: erased.start()])
        return known if known is not None and known[1] == prompt else (begin, prompt)

    def _with_line_above(self, prompt: int) -> int:
        lines = self._lines_back(prompt)
        above, text = next(lines, (prompt, ""))
        if not self._profile.is_above(text.rstrip()):
            return prompt
        blank, text = next(lines, (above, ""))
        return above if text.strip() else blank  # devices print a blank line before it

    def find_buried_prompt(self) -> bool:
        """Return whether the device waits at a prompt that is followed by log lines only.

        Returns True only once for a line: the response to a single Enter decides.
        """
        self.prompt_looked_for = True
        if self._buried_prompt is None and self.output is not None:
            self._buried_prompt = self._prompt_before_log()
            return self._buried_prompt is not None
        return False

    def _prompt_before_log(self) -> int | None:
        prompt = self._prompt
        found = skip_log_lines(self._lines_back(self._stream.raw_size), self._profile)
        if found is None:
            return None
        begin, text, has_log = found
        behind = text.removeprefix(prompt.learned) if prompt.learned else text
        if len(behind) < len(text) and self._profile.is_log_line(behind.lstrip()):
            return begin
        certainty = prompt.match(text, self._profile)
        known = certainty is not None and (certainty != "other_host" or self.renames)
        return begin if has_log and known else None

    def _only_log_between(self, prompt: int, end: int) -> bool:
        """Return whether only log lines are between a buried prompt and the repeated prompt at `end`."""
        lines = (text for begin, text in self._lines_back(end) if begin > prompt)
        return only_blank_or_above((text for text in lines if not self._profile.is_log_line(text)), self._profile)

    def _lines_back(self, end: int) -> Iterator[tuple[int, str]]:
        """Yield the lines of the output before a raw offset, last first: raw offset of the line, and its text."""
        begin = max(self.output or self.raw, end - _ECHO_BYTES)
        data = self._stream.read_raw(begin, end)
        if data.endswith(b"\n"):
            data, end = data[:-1], end - 1
        while data:
            line = data[data.rfind(b"\n") + 1 :]
            end -= len(line)
            yield end, render_line(line.rstrip(b"\r"))
            if len(line) == len(data):
                return
            data, end = data[: -len(line) - 1 or None], end - 1


class FreeText:
    """A text that a device reads line by line, without prompts, until a terminator is typed: a banner, a certificate.

    `request` is the line with which the device requested the text; None while it reads commands.
    """

    def __init__(self, terminal: TerminalState, profile: DeviceProfile) -> None:
        self._terminal, self._stream, self._profile = terminal, terminal.stream, profile
        self._terminator = ""
        self.request: str | None = None

    def type(self, line: str) -> None:
        """Record a typed line. A terminator of one character ends the text anywhere in a line, a longer one as a whole line."""
        if self._terminator in line if len(self._terminator) == 1 else line.strip() == self._terminator:
            self.end()

    def end(self) -> None:
        self._terminator, self.request = "", None

    def next_line_expected(self, typed: TypedLine) -> bool:
        """Return whether the device reads the next line of the text: an empty line follows the complete echo."""
        return self.request is not None and self._at_empty_line(typed)

    def find_request(self, typed: TypedLine) -> bool:
        """Return whether the device reads text, because the line above the empty cursor line requests it."""
        if self.request is None and self._at_empty_line(typed):
            stream = self._stream
            data = stream.read_raw(max(typed.output or 0, stream.raw_size - _REQUEST_BYTES), stream.raw_size)
            above = data.rstrip().rpartition(b"\n")[2]
            request = render_line(above.rstrip(b"\r"))
            terminator = self._profile.text_terminator(request)
            if terminator is not None:
                self._terminator, self.request = terminator, request
        return self.request is not None

    def _at_empty_line(self, typed: TypedLine) -> bool:
        return typed.output is not None and not self._terminal.last_line().strip()

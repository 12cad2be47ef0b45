"""Text that a device reads line by line without a prompt between, until its terminator is typed: a banner, a certificate."""

from __future__ import annotations

from ptyctl.core.renderer import render_line
from ptyctl.platforms import DeviceProfile
from ptyctl.session.io.terminal_state import TerminalState

from .typed_line import TypedLine

#: The request for text is in this many bytes at the end of the output.
_REQUEST_BYTES = 512


class FreeText:
    """`request` is the line with which the device asked for text; None while it reads commands."""

    def __init__(self, terminal: TerminalState, profile: DeviceProfile) -> None:
        self._terminal, self._profile = terminal, profile
        self._terminator = ""
        self.request: str | None = None

    def type(self, line: str) -> None:
        """A line is typed now. A terminator of one character ends the text anywhere in a line, a word only on its own line."""
        if self._terminator in line if len(self._terminator) == 1 else line.strip() == self._terminator:
            self.end()

    def end(self) -> None:
        self._terminator, self.request = "", None

    def next_line_expected(self, typed: TypedLine) -> bool:
        """Whether the device reads the next line of the text: the last one's echo is complete, and nothing follows it."""
        return self.request is not None and self._at_empty_line(typed)

    def find_request(self, typed: TypedLine) -> bool:
        """Whether the device reads text: the line above the empty one with the cursor may ask for it."""
        if self.request is None and self._at_empty_line(typed):
            stream = self._terminal.stream
            data = stream.read_raw(max(typed.output or 0, stream.raw_kept - _REQUEST_BYTES), stream.raw_kept)
            above = data.rstrip().rpartition(b"\n")[2]
            request = render_line(above.rstrip(b"\r"))
            terminator = self._profile.text_terminator(request)
            if terminator is not None:
                self._terminator, self.request = terminator, request
        return self.request is not None

    def _at_empty_line(self, typed: TypedLine) -> bool:
        return typed.output is not None and not self._terminal.last_line().strip()

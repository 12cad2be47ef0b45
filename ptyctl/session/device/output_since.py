"""The output since the session typed something itself, as a wide terminal shows it."""

from __future__ import annotations

from ptyctl.core.renderer import render
from ptyctl.session.io.output_stream import OutputStream

#: Limits of what is rendered: the output before a prompt, and one line.
_MOST_BYTES = 64 * 1024
_LINE_BYTES = 4096
#: A device's lines are matched unwrapped, whatever the terminal's width.
_WIDE = 10_000


class OutputSince:
    """The output since the raw offset `begin`, or since the last `restart`."""

    def __init__(self, stream: OutputStream, begin: int) -> None:
        self._stream = stream
        self._begin = self._typed = begin
        self._answered = 0

    def restart(self) -> None:
        """Begin with the cursor's line, because something is typed now and its echo appears there."""
        end = self._stream.raw_size
        line = self._stream.read_raw(max(end - _LINE_BYTES, self._begin), end)
        self._begin = end - len(line) + line.rfind(b"\n") + 1
        self._typed = end
        self._answered = 1

    @property
    def has_data(self) -> bool:
        """Whether anything was received since the restart."""
        return self._stream.raw_size > self._typed

    def text(self) -> str:
        """The lines from the cursor's line at the restart; empty if nothing was received."""
        return rendered(self._stream, self._begin, self._stream.raw_size) if self.has_data else ""

    def new_lines(self) -> list[str]:
        """The lines below the cursor's line at the restart; all lines without a restart."""
        return self.text().split("\n")[self._answered :]


def rendered(stream: OutputStream, begin: int, end: int) -> str:
    """The text of raw bytes, at most the last 64 KiB, as a wide terminal shows it."""
    return render(stream.read_raw(max(begin, end - _MOST_BYTES), end), _WIDE)


def lines_before(stream: OutputStream, raw_end: int) -> list[str]:
    """The last three lines before a raw offset in this incarnation: enough to recognise a prompt of two lines."""
    begin = max(stream.incarnation_raw, raw_end - _LINE_BYTES)
    return rendered(stream, begin, raw_end).split("\n")[-3:]

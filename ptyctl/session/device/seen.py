"""What a terminal shows since something was typed: what a login and a way between modes go by."""

from __future__ import annotations

from ptyctl.core.renderer import render
from ptyctl.session.io.output_stream import OutputStream

#: A flood before a prompt says nothing of it; and a line is not longer than this.
_MOST_BYTES = 64 * 1024
_LINE_BYTES = 4096
#: The lines of a device are matched whole, whatever the terminal's width.
_WIDE = 10_000


class Seen:
    """Begins with what came since the raw offset `begin`. What a pager wiped away, and what a CR repainted, is gone."""

    def __init__(self, stream: OutputStream, begin: int) -> None:
        self._stream = stream
        self._begin = self._typed = begin
        self._answered = 0

    def typed(self) -> None:
        """Something is typed now: what was seen before is answered. The cursor's line is seen again: the echo is there."""
        end = self._stream.raw_size
        line = self._stream.read_raw(max(end - _LINE_BYTES, self._begin), end)
        self._begin = end - len(line) + line.rfind(b"\n") + 1
        self._typed = end
        self._answered = 1

    @property
    def something(self) -> bool:
        """Whether anything came since then."""
        return self._stream.raw_size > self._typed

    def text(self) -> str:
        """The lines from the one on which the last text was typed; empty where nothing came."""
        return shown_lines(self._stream, self._begin, self._stream.raw_size) if self.something else ""

    def new_lines(self) -> list[str]:
        """The lines below the one on which the last text was typed; all, where nothing was."""
        return self.text().split("\n")[self._answered :]


def shown_lines(stream: OutputStream, begin: int, end: int) -> str:
    """The text of raw bytes, its last 64 KiB, as a wide terminal shows it."""
    return render(stream.read_raw(max(begin, end - _MOST_BYTES), end), _WIDE)


def lines_before(stream: OutputStream, raw_end: int, begin: int) -> list[str]:
    """The last lines in front of a raw offset, none from before `begin`: enough to tell a prompt of two lines."""
    begin = max(begin, raw_end - _LINE_BYTES)
    return shown_lines(stream, begin, raw_end).split("\n")[-3:]

"""The echo of a line that a user writes, after which a pattern is searched for."""

from __future__ import annotations

from ptyctl.core.echo import echo_end, may_continue_echo
from ptyctl.session.io.terminal_state import TerminalState

#: Limits of the echo that is recognised: bytes, bytes for each one of the line, and rows for each 40 columns. All output of a
#: hostile far end is drawn within them.
_LEAST_BYTES, _MOST_BYTES, _BYTES_FACTOR = 512, 4096, 8
_LEAST_ROWS, _MOST_ROWS, _ROW_COLUMNS = 3, 16, 40


class WrittenLine:
    """A line that is about to be written at the end of the output, and the place after its echo."""

    def __init__(self, terminal: TerminalState, line: str) -> None:
        stream = terminal.stream
        self._terminal, self._stream, self._line = terminal, stream, line
        self._prompt, self._raw, self._spool = terminal.last_line(), stream.raw_size, stream.spool_end
        self._line_feeds = stream.line_feeds
        columns = len(self._prompt) + len(line)
        self._limit = min(_LEAST_BYTES + _BYTES_FACTOR * columns, _MOST_BYTES)
        self._rows = min(_LEAST_ROWS + 2 * columns // _ROW_COLUMNS, _MOST_ROWS)

    def echo_end(self) -> int | None:
        """Return the spool offset after the echo; None while the output may be a part of it.

        A line editor may wrap or repaint the echo. If the output does not begin with it, this is where the output begins.
        """
        stream, plain = self._stream, f"{self._line}\n".encode()
        seen = stream.read(self._spool, min(stream.spool_end, self._spool + len(plain)))
        if seen == plain:
            return self._spool + len(plain)
        if stream.ended is None and plain.startswith(seen):
            return None
        size = self._size(stream.read_raw(self._raw, min(self._raw + self._limit, stream.raw_size)))
        if size is None and stream.ended is None:
            return None
        return stream.spool_offset(self._raw + size) if size else self._spool

    def _size(self, data: bytes) -> int | None:
        """Return the size of the echo in `data`; 0 if there is none, None while it may be incomplete."""
        stream, where = self._stream, (self._prompt, self._line, self._terminal.width())
        if stream.line_feeds != self._line_feeds:  # each line feed may end it
            self._line_feeds = stream.line_feeds
            size = echo_end(data, *where, self._rows)
            if size is not None:
                return size
        return None if len(data) < self._limit and may_continue_echo(data, *where) else 0

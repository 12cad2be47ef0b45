"""The echo of a line that a user writes, after which a pattern is searched for."""

from __future__ import annotations

from ptyctl.core.echo import received_echo_end
from ptyctl.session.io.terminal_state import TerminalState

#: The echo is searched for in this many received bytes.
_ECHO_BYTES = 8192


class WrittenLine:
    """A line that is about to be written at the end of the output, and the place after its echo."""

    def __init__(self, terminal: TerminalState, line: str) -> None:
        stream = terminal.stream
        self._terminal, self._stream, self._line = terminal, stream, line
        self._prompt, self._raw, self._spool = terminal.last_line(), stream.raw_size, stream.spool_end

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
        end = min(self._raw + _ECHO_BYTES, stream.raw_size)
        size = received_echo_end(stream.read_raw(self._raw, end), self._prompt, self._line, self._terminal.width())
        if size is None and stream.ended is None and end == stream.raw_size:
            return None
        return stream.spool_offset(self._raw + size) if size else self._spool

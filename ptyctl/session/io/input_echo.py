"""The echo of typed keys: how long the far end takes for it, and whether it has handled the keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .terminal_state import TerminalState

#: Silence after which the echo of keys has settled: on this machine, and on another one (seconds).
ECHO_QUIET_S = 0.05
REMOTE_ECHO_QUIET_S = 0.15
#: The longest wait for the first echo, and until it has settled (seconds).
ECHO_WAIT_S = 1.0
SETTLE_WAIT_S = 5.0
#: Interval at which a local program is asked whether it has read the input (seconds).
POLL_S = 0.005


class InputEcho:
    """Follows the echo of the keys that users type in one terminal."""

    def __init__(self, terminal: TerminalState, is_line_empty: Callable[[], bool], awaits_line: Callable[[], bool]) -> None:
        """Create the object.

        Args:
            is_line_empty: returns whether nothing was typed since the last line ended: the output of a command is no echo.
            awaits_line: returns whether the shell will report text that its hooks put into the line.
        """
        self._terminal = terminal
        self._stream = terminal.stream
        self._is_line_empty = is_line_empty
        self._awaits_line = awaits_line
        #: The output and the time when a key was last typed, the time of the first one without output since, and its delay.
        self._typed_raw = 0
        self._typed_at = self._unanswered_at = self._delay_s = 0.0
        #: The wake-ups of the program in the foreground before the next keys are sent, and before the last ones were.
        self._wakeups: int | None = None
        self._typed_wakeups: int | None = None

    def sending(self, wakeups: int | None) -> None:
        """Record the wakeups of the foreground program before keys are sent; see `TerminalState.wakeups`."""
        self._wakeups = wakeups

    def typed(self) -> None:
        """Record the time of a key that was sent, and the delay of the echo of the previous keys."""
        stream, now = self._stream, self._terminal.now()
        if stream.raw_size != self._typed_raw:
            if not self._is_line_empty():
                self._note_delay(stream.last_data)
            self._unanswered_at = now
        self._typed_raw, self._typed_at, self._typed_wakeups = stream.raw_size, now, self._wakeups

    def _note_delay(self, at: float) -> None:
        self._delay_s = min(max(at - self._unanswered_at, 0.0), ECHO_WAIT_S)

    async def settled(self) -> bool:
        """Wait until the far end has probably handled the typed keys; return False if it has not at the deadline."""
        terminal, stream = self._terminal, self._stream
        deadline = terminal.now() + SETTLE_WAIT_S
        quiet_s = ECHO_QUIET_S
        if terminal.input_is_read() is None:
            await self._first_output()
            quiet_s = max(REMOTE_ECHO_QUIET_S, 1.5 * self._delay_s)
        if not await terminal.line_reported(SETTLE_WAIT_S, self._awaits_line):
            return False
        while stream.ended is None and terminal.now() < deadline:
            if terminal.input_is_read() is False or self._is_asleep():
                await asyncio.sleep(POLL_S)
            elif terminal.now() < (due := max(stream.last_data, self._typed_at) + quiet_s):
                await stream.wait(min(due, deadline))
            elif await terminal.read_pending():  # nothing is read during the query
                return True
        return False

    async def _first_output(self) -> None:
        """Wait for output after the last key."""
        stream, deadline = self._stream, self._terminal.now() + ECHO_WAIT_S
        while stream.raw_size == self._typed_raw and stream.ended is None and self._terminal.now() < deadline:
            await stream.wait(deadline)
            if stream.raw_size != self._typed_raw:
                self._note_delay(stream.last_data)

    def _is_asleep(self) -> bool:
        """Return whether the foreground program, which reads single keys, was not woken since the last keys."""
        wakeups = self._terminal.wakeups()
        if wakeups is None or wakeups != self._typed_wakeups or self._is_line_empty():
            return False
        return self._terminal.takes_keys()

    async def continues(self, raw: int) -> bool:
        """Return whether a far end on another machine sends more output than `raw`: a busy one may pause within an echo."""
        terminal, stream = self._terminal, self._stream
        if terminal.input_is_read() is not None:
            return False
        deadline = terminal.now() + ECHO_WAIT_S
        while stream.raw_size == raw and stream.ended is None and terminal.now() < deadline:
            await stream.wait(deadline)
        return stream.raw_size != raw

"""Input that the session types itself, and the wait until the output's end has settled."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TypeVar

from ptyctl.session.io.gate import SYSTEM, SYSTEM_SECRET
from ptyctl.session.io.prompt import Prompt
from ptyctl.session.io.terminal_state import SETTLE_S, TerminalState

from .output_since import OutputSince

_End = TypeVar("_End")


class Exchange:
    """Types as the session itself, so that it finishes what it began even if the lock changes hands meanwhile.

    `output` is what was received since the last text was typed.
    """

    def __init__(self, terminal: TerminalState) -> None:
        self.output = OutputSince(terminal.stream, terminal.stream.incarnation_raw)
        self._terminal = terminal
        self._typed_at = terminal.now()
        self._echo = ""

    async def type(self, text: str, *, enter: bool = True, secret: bool = False, echo: str = "") -> None:
        """Type text, and Enter unless told otherwise. `echo` is the text that the device is expected to echo."""
        self.output.restart()
        self._echo = echo
        await self._send(text, enter, secret)

    async def press_enter(self) -> None:
        """Type a single Enter to have the prompt shown again; `output` keeps what was received before."""
        await self._send("", True, False)

    async def _send(self, text: str, enter: bool, secret: bool) -> None:
        writer = SYSTEM_SECRET if secret else SYSTEM
        if enter:
            await self._terminal.gate.type(text + "\n", writer)
        else:
            await self._terminal.gate.write(text.encode(), writer)
        self._typed_at = self._terminal.now()

    def lines_below_echo(self) -> list[str] | None:
        """The lines below the complete echo of the text typed last; None without an echo."""
        typed, *lines = self.output.text().split("\n")
        return lines if self._echo and typed.endswith(self._echo) else None

    async def settled(self, look: Callable[[], tuple[_End, float]], deadline: float = inf) -> _End | None:
        """Wait until what `look` returns has been the end of the output for as many seconds as it returns with it.

        None if the far end closed or the deadline passed first.
        """
        terminal, stream = self._terminal, self._terminal.stream
        while stream.ended is None and terminal.now() < deadline:
            end, stay_s = look()
            due = max(stream.last_data, self._typed_at) + stay_s
            if terminal.now() >= due and await terminal.nothing_more():
                return end
            await stream.wait(min(due, deadline))
        return None


def prompt_stay_s(prompt: Prompt, line: str, settle_s: float) -> float:
    """Return how long a prompt must remain the end of the output; longer if only its pattern is known."""
    return max(0.0 if line == prompt.learned else SETTLE_S, settle_s)

"""Input that the session types itself, the output that follows it, and the wait until the output's end has settled."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf
from typing import TypeVar

from ptyctl.core.renderer import EXAMINED_LINE_BYTES, render, render_before_cursor
from ptyctl.platforms import DeviceProfile
from ptyctl.session.io.gate import SYSTEM, SYSTEM_SECRET
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.io.prompt import Prompt
from ptyctl.session.io.terminal_state import SETTLE_S, TerminalState

from .pager import AnsweredPager

#: Limit of the output that is rendered (bytes).
_MOST_BYTES = 64 * 1024
#: Width in which lines of a device are rendered, so that they are matched without wrapping.
_WIDE = 10_000

#: Characters that belong to the prompt after a bracket, as in "Menu [1-9]: ".
_ENDS_OF_QUESTIONS = " :?"

#: Settle time of a prompt with another host name than the learned one (seconds): more often it is an incomplete line of output,
#: such as `S>` in a table of routes.
OTHER_HOST_SETTLE_S = 2.0
#: A command with one of these words may change the host name.
_RENAMES = re.compile(r"(?i)name|identity|commit")

#: A command that begins with one of these words may lead to another command line, or back from it.
_LEADS_ELSEWHERE = re.compile(
    r"(?i)\s*(?:exit|quit|logout|logoff|end|disconnect|su|sudo|ssh|slogin|mosh|telnet|rlogin|connect|console|session|attach|start"
    r"|shell|cli|vtysh|[bd]?ash|[kct]{0,2}[cz]sh|ksh|fish|python[\d.]*|docker|podman|kubectl|lxc|incus)\b"
)

#: A command that only shows something: it enters no other mode.
_SHOWS = re.compile(r"(?i)\s*(?:do\s+|run\s+)?(?:sho?w?|disp?l?a?y?|dir|more|cat|ls|get|list|info)\s+[^\s/.-]")

_End = TypeVar("_End")


class Pace:
    """The device's own pace: the silences within the echo and within the output of one typed line.

    A device that sends its output in one go shows none, and its prompt ends the line at once. On a slow line, and from a device
    that pauses within its output, a line that equals the prompt may be where the output was cut. It then has to stay the end
    for twice the longest silence that has occurred twice, or for twice a single one that is shorter than SETTLE_S. Longer ones
    are the work of the device, and cannot be waited out.
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self._longest = self._second = 0.0

    def typed(self) -> None:
        """Leave out the silence up to the next output: the device has not begun its answer, and reads or works."""
        self._last = None

    def received(self, at: float) -> None:
        """Record that output was received, at a time on the loop's clock."""
        silence = 0.0 if self._last is None else at - self._last
        self._last = at
        if self._second < silence < OTHER_HOST_SETTLE_S / 2:
            self._second, self._longest = sorted((silence, self._longest))

    @property
    def stay_s(self) -> float:
        """How long a known line must remain the end of the output (seconds); 0 if the output came in one go."""
        once = min(2 * self._longest, SETTLE_S) if self._longest < SETTLE_S else 0.0
        return max(once, 2 * self._second)


class Exchange:
    """Types as the session itself, which needs no lease: an exchange is completed even if the lock changes.

    The output begins with the line in which text was typed last, because the echo appears there; before any text is typed, with
    the incarnation. `pager` is the pager that was answered last, `pace` that of the output since the last line was typed.
    """

    def __init__(self, terminal: TerminalState) -> None:
        self.pager = AnsweredPager(terminal)
        self.pace = Pace()
        self._terminal, self._stream, self._gate = terminal, terminal.stream, terminal.gate
        self._begin = self._typed = terminal.stream.incarnation_raw
        self._typed_at = terminal.now()
        self._first_new_line = 0
        self._echo = ""

    async def type(self, text: str, *, enter: bool = True, secret: bool = False, echo: str = "") -> None:
        """Type text, followed by Enter unless `enter` is False. `echo` is the expected echo of the text."""
        end = self._stream.raw_size
        line = self._stream.read_raw(max(end - EXAMINED_LINE_BYTES, self._begin), end)
        self._begin, self._typed = end - len(line) + line.rfind(b"\n") + 1, end
        self._first_new_line, self._echo = 1, echo
        self.pace = Pace()
        await self._send(text, enter, secret)

    async def press_enter(self) -> None:
        """Press Enter so that the prompt is shown again. The output so far is kept."""
        await self._send("", True, False)

    async def answer_pager(self, key: str) -> None:
        """Press a pager's key. The output continues in the pager's line, which the device erases."""
        self.pager.answered()
        self.pace.typed()
        await self._send(key, False, False)

    async def _send(self, text: str, enter: bool, secret: bool) -> None:
        writer = SYSTEM_SECRET if secret else SYSTEM
        if enter:
            await self._gate.type(text + "\n", writer)
        else:
            await self._gate.write(text.encode(), writer)
        self._typed_at = self._terminal.now()

    @property
    def has_output(self) -> bool:
        """Whether anything was received since text was typed."""
        return self._stream.raw_size > self._typed

    def output(self, encoding: str = "utf-8") -> str:
        """Return the output as a wide terminal shows it; empty if nothing was received."""
        return rendered(self._stream, self._begin, self._stream.raw_size, encoding=encoding) if self.has_output else ""

    def new_lines(self) -> list[str]:
        """Return the lines of the output below the line with the typed text."""
        return self.output().split("\n")[self._first_new_line :]

    def lines_below_echo(self) -> list[str] | None:
        """Return the lines below the complete echo of the text typed last; None without an echo."""
        typed, *lines = self.output().split("\n")
        return lines if self._echo and typed.endswith(self._echo) else None

    async def settled(self, look: Callable[[], tuple[_End, float]], deadline: float = inf) -> _End | None:
        """Wait until the end of the output has settled.

        Args:
            look: returns the current end, and for how long it must remain unchanged (seconds).

        Returns:
            The end; None if the far end closed or the deadline passed first.
        """
        terminal, stream, received = self._terminal, self._stream, self._stream.raw_size
        while stream.ended is None and terminal.now() < deadline:
            if received != stream.raw_size:
                received = stream.raw_size
                self.pace.received(stream.last_data)
                if received <= self._typed + len(self._echo) + len("\r\n"):
                    self.pace.typed()
            end, stay_s = look()
            due = max(stream.last_data, self._typed_at) + stay_s
            if terminal.now() >= due and await terminal.nothing_more():
                return end
            await stream.wait(min(due, deadline))
        return None


def may_rename(command: str) -> bool:
    """Return whether a command may change the host name in the prompt."""
    return _RENAMES.search(command) is not None


def shows(command: str) -> bool:
    """Return whether a command only shows something: the prompt after it is that before it."""
    return _SHOWS.match(command) is not None


def may_lead_elsewhere(command: str) -> bool:
    """Return whether the prompt of another host may follow a command."""
    return _LEADS_ELSEWHERE.match(command) is not None


def rendered(stream: OutputStream, begin: int, end: int, width: int = _WIDE, encoding: str = "utf-8") -> str:
    """Return the text of raw bytes, at most the last 64 KiB, as a terminal of this width shows it. Wrapped lines are joined."""
    data = stream.read_raw(max(begin, end - _MOST_BYTES), end)
    return render(data if encoding == "utf-8" else data.decode(encoding, "replace").encode(), width)


def lines_before(stream: OutputStream, raw_end: int, width: int = _WIDE) -> list[str]:
    """Return the last three lines before a raw offset in this incarnation: enough to recognise a prompt of two lines.

    The line editors of shells draw a line for the `width` of their terminal; devices often do not know it.
    """
    begin = max(stream.incarnation_raw, raw_end - EXAMINED_LINE_BYTES)
    return rendered(stream, begin, raw_end, width).split("\n")[-3:]


def text_before_cursor(stream: OutputStream, raw_end: int, width: int) -> str:
    """Return the line of the cursor up to the cursor at a raw offset, in a terminal of this width: without a right prompt."""
    begin = max(stream.incarnation_raw, raw_end - EXAMINED_LINE_BYTES)
    return render_before_cursor(stream.read_raw(begin, raw_end), width)


def prompt_stay_s(prompt: Prompt, line: str, profile: DeviceProfile, pace_s: float, *, any_host: bool) -> float:
    """Return how long a prompt must remain the end of the output (seconds): the learned one only as the pace demands.

    Args:
        pace_s: how long the learned prompt must remain the end; see `Pace`.
        any_host: another host name than in the learned prompt is expected.
    """
    settle_s = pace_s if profile.settle_s is None else profile.settle_s
    if line == prompt.learned:
        return settle_s
    least_s = SETTLE_S if any_host or prompt.of_known_host(line) else OTHER_HOST_SETTLE_S
    return max(least_s, settle_s, profile.family_settle_s if profile.settle_s is None else 0.0)


def text_behind_prompt(terminal: TerminalState, profile: DeviceProfile, line: str) -> str:
    """Return the text after the prompt in the current line; empty if there is none, and for a log line."""
    learned, text = terminal.learned_prompt or "", ""
    if line == learned or profile.asks(line) or profile.pager(line) is not None or profile.is_prompt(line):
        return ""
    if terminal.begins_with_prompt(line):
        text = line[len(learned) :]
    elif (before := profile.prompt_before_text(lines_before(terminal.stream, terminal.stream.raw_size))) is not None:
        text = before[1]
    return "" if not text.strip(_ENDS_OF_QUESTIONS) or profile.is_log_line(text.lstrip()) else text

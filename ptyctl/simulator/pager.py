"""Paged output, and the pagers of the device families: their prompts, how they erase them, and their keys."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from .line_editor import INTERRUPTS, Key


class PagedText:
    """Text that is output page by page."""

    def __init__(self, text: str) -> None:
        self._lines = deque(text.splitlines(keepends=True))
        self._total = len(self._lines)

    @property
    def done(self) -> bool:
        return not self._lines

    @property
    def percent(self) -> int:
        """Percentage of the lines that were output."""
        return 100 - 100 * len(self._lines) // self._total if self._total else 100

    def next_page(self, length: int, width: int) -> str:
        """Return the lines that fit above the pager prompt, at least one.

        Args:
            length: Rows of the screen; 0 returns the remaining text.
            width: Columns of the screen; 0 means that lines do not wrap.
        """
        if length == 0:
            return self._take(len(self._lines))
        rows = length - 1
        count = 0
        for line in self._lines:
            columns = len(line.rstrip("\n"))
            rows -= max(1, -(-columns // width)) if width else 1
            if rows < 0 and count:
                break
            count += 1
        return self._take(count)

    def next_line(self) -> str:
        return self._take(1)

    def _take(self, count: int) -> str:
        return "".join(self._lines.popleft() for _ in range(min(count, len(self._lines))))


@dataclass(frozen=True, slots=True)
class PagerStyle:
    """The pager of one device family. Space shows the next page, Enter the next line.

    Args:
        text: The prompt. `{percent}` is the percentage that was output.
        eraser: Output that erases the prompt. `{rows}` is the height of the screen.
        quit_keys: Keys that end the output, in addition to the interrupt keys. None: every key without another meaning.
    """

    text: str
    eraser: str
    quit_keys: frozenset[str] | None = None

    @property
    def prompt(self) -> str:
        """The prompt at 0 percent."""
        return self.prompt_at(0)

    def prompt_at(self, percent: int) -> str:
        return self.text.replace("{percent}", str(percent))

    def erase(self, rows: int) -> str:
        return self.eraser.replace("{rows}", str(rows))

    def quits(self, key: Key | str) -> bool:
        """Return whether a key other than Space and Enter ends the output."""
        return self.quit_keys is None or key in INTERRUPTS or key in self.quit_keys


def _blanks(columns: int) -> str:
    return f"\r{' ' * columns}\r"


def _cursor_back(columns: int) -> str:
    """Overwrite with blanks, using CUB (ECMA-48)."""
    return f"\x1b[{columns}D{' ' * columns}\x1b[{columns}D"


#: CR and EL (ECMA-48).
_ERASE_LINE = "\r\x1b[K"
_Q = frozenset("qQ")

IOS_PAGER = PagerStyle(" --More-- ", "\b" * 9 + " " * 8 + "\b" * 9)

PAGER_STYLES = {
    "cisco_ios": IOS_PAGER,
    "cisco_nxos": PagerStyle("\x1b[7m--More--\x1b[27m", _blanks(8), _Q),
    "cisco_xr": PagerStyle(" --More-- ", _blanks(10)),
    "arista_eos": PagerStyle("\x1b[7m --More-- \x1b[27m", _ERASE_LINE, _Q),
    "juniper_junos": PagerStyle("---(more {percent}%)---", _blanks(40), _Q),
    "huawei_vrp": PagerStyle("  ---- More ----", _cursor_back(42), _Q),
    "hp_comware": PagerStyle("---- More ----", _cursor_back(16), _Q),
    "hp_procurve": PagerStyle(
        "-- MORE --, next page: Space, next line: Enter, quit: Control-C", "\x1b[{rows};1H\x1b[2K\x1b[{rows};1H", frozenset()
    ),
    "mikrotik_routeros": PagerStyle("-- [Q quit|D dump|down]", _ERASE_LINE, _Q),
    "nokia_sros": PagerStyle("Press any key to continue (Q to quit)", _blanks(37), _Q),
    "aruba_aoscx": PagerStyle("-- MORE --, next page: Space, next line: Enter, quit: q", _ERASE_LINE, _Q),
    "fortinet_fortios": PagerStyle("--More-- ", _blanks(9), _Q),
    "vyos": PagerStyle(":", _ERASE_LINE, _Q),
    "frr": PagerStyle(" --More-- \0", "\b" * 10 + " " * 10 + "\b" * 10, _Q),
}

"""The pagers of the families: what each shows, how it takes that away again, and which keys it knows."""

from __future__ import annotations

from dataclasses import dataclass

from .keys import INTERRUPTS, Key


@dataclass(frozen=True, slots=True)
class PagerStyle:
    """One family's pager. The space bar is a page, Enter a line.

    Args:
        text: the prompt; `{percent}` is how much was shown.
        eraser: what is sent before what comes next; `{rows}` is the screen's height.
        quits: the keys that end it, beside the interrupts; None: every key that has no other meaning.
    """

    text: str
    eraser: str
    quits: frozenset[str] | None = None

    @property
    def prompt(self) -> str:
        """As it looks at the beginning."""
        return self.at(0)

    def at(self, percent: int) -> str:
        return self.text.replace("{percent}", str(percent))

    def erase(self, rows: int) -> str:
        return self.eraser.replace("{rows}", str(rows))

    def ends(self, key: Key | str) -> bool:
        """Whether a key that is no page and no line ends it."""
        return self.quits is None or key in INTERRUPTS or key in self.quits


def _backed_over(columns: int) -> str:
    """Steps back, blanks, steps back."""
    return "\b" * columns + " " * columns + "\b" * columns


def _blanked(columns: int) -> str:
    """CR, blanks, CR."""
    return f"\r{' ' * columns}\r"


def _moved_over(columns: int) -> str:
    """Cursor to the left (ECMA-48, CUB), blanks, cursor to the left."""
    return f"\x1b[{columns}D{' ' * columns}\x1b[{columns}D"


#: CR and erase in line (ECMA-48, EL).
_CLEARED = "\r\x1b[K"
_Q = frozenset("qQ")

IOS = PagerStyle(" --More-- ", "\b" * 9 + " " * 8 + "\b" * 9)

STYLES = {
    "cisco_ios": IOS,
    "cisco_nxos": PagerStyle("\x1b[7m--More--\x1b[27m", _blanked(8), _Q),
    "cisco_xr": PagerStyle(" --More-- ", _blanked(10)),
    "arista_eos": PagerStyle("\x1b[7m --More-- \x1b[27m", _CLEARED, _Q),
    "juniper_junos": PagerStyle("---(more {percent}%)---", _blanked(40), _Q),
    "huawei_vrp": PagerStyle("  ---- More ----", _moved_over(42), _Q),
    "hp_comware": PagerStyle("---- More ----", _moved_over(16), _Q),
    "hp_procurve": PagerStyle(
        "-- MORE --, next page: Space, next line: Enter, quit: Control-C", "\x1b[{rows};1H\x1b[2K\x1b[{rows};1H", frozenset()
    ),
    "mikrotik_routeros": PagerStyle("-- [Q quit|D dump|down]", _CLEARED, _Q),
    "nokia_sros": PagerStyle("Press any key to continue (Q to quit)", _blanked(37), _Q),
    "aruba_aoscx": PagerStyle("-- MORE --, next page: Space, next line: Enter, quit: q", _CLEARED, _Q),
    "fortinet_fortios": PagerStyle("--More-- ", _blanked(9), _Q),
    "vyos": PagerStyle(":", _CLEARED, _Q),
    "frr": PagerStyle(" --More-- \0", _backed_over(10), _Q),
}

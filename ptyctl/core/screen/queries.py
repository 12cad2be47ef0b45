"""Finds, in raw bytes, what asks the terminal for an answer.

A session that nobody looks at is not folded. But a program that asks waits for its answer, so the session has every piece of
raw bytes looked at by a `QueryReader`: only when that says that a query has ended in this piece is the model fed up to here,
and what it then has in `answers` is typed. A reader may say yes where the model has no answer; it never says no to a query.
"""

from __future__ import annotations

import re

from ptyctl.core.control import ESC

#: Longest string sequence (OSC, DCS) that is looked at as a query.
_MAX_QUERY = 4096

#: DSR, DA, DECRQM, XTVERSION, DECREQTPARM, window reports, kitty's keyboard flags; OSC with a `?`; DECRQSS and XTGETTCAP.
_QUERY = re.compile(
    rb"\x1b(?:\[[^\x40-\x7e\x18\x1a\x1b]*[cnpqtux]"
    rb"|\][^\x07\x18\x1a\x1b]*\?[^\x07\x18\x1a\x1b]*(?:\x07|\x1b\\)"
    rb"|P[0-9;]*[$+]q[^\x18\x1a\x1b]*\x1b\\"
    rb"|Z)"
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[^\x40-\x7e\x18\x1a\x1b]*|[\]P][^\x18\x1a\x1b]*\x1b?)?\Z")


class QueryReader:
    """Tells whether a query ended in a piece of the stream, however the stream is cut. `behind` is how many bytes of the piece
    stand behind the last one."""

    def __init__(self) -> None:
        self.behind = 0
        self._rest = b""

    @property
    def open(self) -> bool:
        """Whether what comes next may end a query even without an ESC in it."""
        return bool(self._rest)

    def ends_in(self, data: bytes) -> bool:
        """Whether `data`, which follows on all that was given before, may end a query."""
        if ESC not in data and not self._rest:
            return False
        text = self._rest + data
        self._rest = _unfinished(text)
        end = max((found.end() for found in _QUERY.finditer(text)), default=-1)
        self.behind = len(text) - end
        return end >= 0


def _unfinished(text: bytes) -> bytes:
    """What may become a query with what comes next; the last ESC may be the first half of a string's terminator."""
    last = text.rfind(ESC)
    for begin in (text.rfind(ESC, 0, max(last, 0)), last):
        if begin >= 0 and len(text) - begin <= _MAX_QUERY and _UNFINISHED.match(text, begin):
            return text[begin:]
    return b""

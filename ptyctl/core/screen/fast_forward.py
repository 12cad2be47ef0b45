"""Text that has provably scrolled off need not be drawn.

Take a run of bytes that only draw text, move down or within the line, or change how text looks, and a carriage return in it
with n line feeds behind it, on a screen of R rows that scrolls as a whole and keeps H lines. Draw only what comes after that
return, with the cursor on the last row and the style of that point. From the true row, whatever it was, R - 1 line feeds come
to the last row too; from then on both scroll alike, and after R more every row on the screen was begun after the cut, after H
more so was every line that is kept. So n >= 2R - 1 + H is enough. Fewer is not: while the cursor walks down, it writes over old
rows. What a line draws depends only on the column (0 after the return), modes, style and character set, which the run does not
change but for the style: the SGRs before the cut, from the last reset on, are done.
"""

from __future__ import annotations

import re

from .tokens import MAX_SEQUENCE

#: ESC that is not SGR, a shift of the character set. All other controls act within the line, or down, or not at all.
_SHIFTS = (b"\x0e", b"\x0f")
_NOT_SGR = re.compile(rb"\x1b(?!\[[0-9;:]*m)")
_SGR = re.compile(rb"\x1b\[[0-9;:]*m")
_BEGUN = re.compile(rb"\x1b(?:\[[0-9;:]*)?")
_MAX_BEGUN_BYTES = 64
_RESETS = (b"\x1b[m", b"\x1b[0m", b"\x1b[0;")


def run_end(data: bytes, begin: int) -> int:
    """Where the run of such bytes ends that begins at `begin`, between two sequences."""
    end = len(data)
    if data.find(b"\x1b", begin) >= 0 and (other := _NOT_SGR.search(data, begin)) is not None:
        end = other.start()
    return shift(data, begin, end)


def shift(data: bytes, begin: int, end: int) -> int:
    """Where the character set is shifted first; or `end`."""
    for control in _SHIFTS:
        found = data.find(control, begin, end)
        end = found if found >= 0 else end
    return end


def unfinished(data: bytes) -> int:
    """Where a sequence begins at the end of `data` that may become SGR with what comes next; or the end."""
    begin = data.rfind(b"\x1b", max(0, len(data) - _MAX_BEGUN_BYTES))
    return begin if begin >= 0 and _BEGUN.fullmatch(data, begin) is not None else len(data)


def cut(data: bytes, begin: int, end: int, line_feeds: int) -> int:
    """The last place in the run, behind a carriage return, that has so many line feeds behind it; or `begin`."""
    position = end
    if end - begin <= line_feeds:
        return begin
    for _ in range(line_feeds):
        position = data.rfind(b"\n", begin, position)
        if position < 0:
            return begin
    return max(begin, data.rfind(b"\r", begin, position) + 1)


def styling(data: bytes, begin: int, end: int) -> bytes:
    """The SGRs of this part of a run that still count at its end."""
    found: list[bytes] = []
    while (position := data.rfind(b"\x1b", begin, end)) >= 0:
        sgr = _SGR.match(data, position)
        if sgr is not None and sgr.end() - position <= MAX_SEQUENCE:  # what is longer does nothing
            found.append(sgr[0])
            if sgr[0].startswith(_RESETS):
                break
        end = position
    return b"".join(reversed(found))

"""Finds the echo of a typed line in rendered output of a device, and removes echo and prompt.

Line editors wrap, repaint, truncate and double characters of a line that reaches the edge. Their width may differ from the
terminal's.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from .renderer import render

#: Widths that devices assume regardless of the terminal: the default, and no limit.
_ASSUMED_WIDTHS = (80, 1 << 30)
#: Limit of the rows that an echo takes.
_MAX_ROWS = 64
#: A line feed, or motions up (CUU, RI) and the line feeds after them. fish goes to a column of its last row with both, for
#: each word of a line: without the motions up, the line feeds of a line of three rows would be more than the limit of rows.
_LINE_FEEDS = re.compile(rb"((?:\x1b(?:\[\d{0,4}A|M))+)[\r\n]*|\n")
_UP = re.compile(rb"\[(\d*)A|M")


def echo_end(data: bytes, prompt: str, line: str, width: int, max_rows: int = _MAX_ROWS) -> int | None:
    """Return the offset in `data` after the echo of `line`, typed at `prompt`, and its line end.

    `data` is the output since the line was typed. Returns None if the echo may be incomplete, 0 if the device does not echo,
    or if it takes more than `max_rows`.
    """
    ends = _line_ends(data)
    end = next(ends, None)
    if end is None:
        return None
    if data[:end].rstrip(b"\r\n") == line.encode():
        return end
    first_end, incomplete, matched = end, False, 0
    for _ in range(max_rows):
        rendered = [render(prompt.encode() + data[:end], columns) for columns in _widths(width)]
        echo = next((text for text in rendered if _is_echo(_joined(text), prompt, line)), None)
        if echo is not None and echo.endswith("\n"):
            return end
        matched = matched or (end if echo is not None else 0)
        whole, shown = prompt + line, {_joined(text) for text in rendered}
        # without a row below the echo, the line end is a motion of an editor that draws wrapped rows again (fish)
        incomplete = echo is not None or any(text and text != whole and whole.startswith(text) for text in shown)
        following = next(ends, None)
        if not incomplete or following is None:
            break
        end = following
    if incomplete or matched:
        return None if incomplete else matched
    typed = render(data[:first_end], width).strip()
    return first_end if not typed or typed == prompt.strip() else 0


def _line_ends(data: bytes) -> Iterator[int]:
    """Return the offset after each line feed of `data` that may end the echo: not of those that undo a motion up."""
    for found in _LINE_FEEDS.finditer(data):
        undone = sum(int(up[1] or 1) for up in _UP.finditer(found[1] or b""))
        feeds = (offset for offset in range(found.start(), found.end()) if data[offset] == 0x0A)
        yield from (offset + 1 for offset in itertools.islice(feeds, undone, None))


def may_continue_echo(data: bytes, prompt: str, line: str, width: int) -> bool:
    """Return whether `data` may be the start of an echo. `echo_end` waits for a line end, which other output may not have."""
    rendered = (_joined(render(prompt.encode() + data, columns)) for columns in _widths(width))
    return any(_is_part_of_echo(shown.rstrip(), prompt, line) for shown in rendered)


def _widths(terminal: int) -> Iterable[int]:
    """Return the widths that a device may assume, each once, beginning with that of the terminal."""
    return dict.fromkeys((terminal, *_ASSUMED_WIDTHS))


def _is_part_of_echo(shown: str, prompt: str, line: str) -> bool:
    """Return whether a line shows the start of the echo, or a part of it between `$`, as devices cut long lines."""
    if (prompt + line).startswith(shown):
        return True
    visible = shown.removeprefix(prompt.rstrip()).strip()
    part = visible.strip("$")
    return 0 < len(part) < len(visible) and part in line


def _joined(text: str) -> str:
    """Join rows to one line."""
    return text.replace("\n", "")


def _is_echo(shown: str, prompt: str, line: str) -> bool:
    shown, whole, command = shown.rstrip(), (prompt + line).rstrip(), line.strip()
    if shown == whole or (command and shown.endswith(command)):  # a repainted prompt may differ, for example in its time
        return True
    if not shown.startswith(prompt.rstrip()) or len(shown) >= len(whole):
        return False
    visible = shown[len(prompt.rstrip()) :].lstrip()
    cut_at_end = len(visible) > 1 and visible.endswith("$") and command.startswith(visible[:-1])
    cut_at_start = len(visible) > 1 and visible.startswith("$") and command.endswith(visible[1:])
    return cut_at_end or cut_at_start


def strip_echo(text: str, prompt: str, command: str) -> str:
    """Return rendered output without the line on which the command was typed.

    `text` begins with the prompt. Without an echo of the command, only the prompt is removed.
    """
    first, newline, rest = text.partition("\n")
    typed = first.removeprefix(prompt)
    if typed.strip() == command.strip() or first.strip().endswith(command.strip()):
        return rest
    if not typed.strip():
        return rest if newline else ""
    return typed + newline + rest


def strip_prompt(text: str, prompt: str) -> str:
    """Return rendered output without the prompt in its last line."""
    head, _, last = text.rpartition("\n")
    if last == prompt or not last.strip():
        return head + "\n" if head or len(text) > len(last) else ""
    return text

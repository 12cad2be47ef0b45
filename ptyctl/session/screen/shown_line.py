"""The line that a line editor shows, read from the screen: what Enter would submit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptyctl.core.screen import ScreenSnapshot
from ptyctl.policy.typed_line import COMMENT

#: The most rows above the cursor that may belong to the line.
_MAX_ROWS = 24
#: Characters that prompts end in, with the blanks behind them.
_PROMPT_END = re.compile(r"[#$%>❯➜λ»:)\]]\s*")
#: A prompt may stand at the right edge of the first row (zsh, fish), separated by blanks.
_RIGHT_PROMPT = re.compile(r"\s{3,}\S.*$")
#: How editors and terminals show a control character, which the shell may ignore, and a quoted line end.
_CONTROL = re.compile(r"\^[@-_]")
_LINE_END = re.compile(r"\^[JM]")
#: What bash shows instead of its prompt while a count is typed.
_COUNT = re.compile(r"^\(arg: -?\d+\) ", re.MULTILINE)


def shown_lines(screen: ScreenSnapshot, prompt: str | None) -> list[str]:
    """Return the readings of the line at the cursor; empty if it cannot be read.

    The prompt ends somewhere: at the end of the known prompt, otherwise possibly at each character that prompts end in. Text
    that was typed before it was shown may precede it, and the known one may be that of an earlier line. What follows the
    cursor may be typed text or a suggestion, so that the text up to the cursor is a reading too.
    """
    row, column = screen.cursor
    if row >= len(screen.rows):
        return []
    first = _first_row(screen, row, prompt)
    if first is None:
        return []
    last = _last_row(screen, row)
    whole = _joined(screen, first, last)
    before = _joined(screen, first, row, column)
    texts = [text for line in (whole, before) for text in _without_prompt(line, prompt)]
    if prompt and prompt.strip():
        texts += [line[at:].strip() for line in (whole, before) for at in _ends_of(prompt, line)]
        if (start := _first_row(screen, row, None) or 0) > first:  # the row has perhaps another prompt
            own = (_joined(screen, start, last), _joined(screen, start, row, column))
            texts += [text for line in own for text in _without_prompt(line, None)]
    texts += [_RIGHT_PROMPT.sub("", text) for text in texts]
    texts += [_LINE_END.sub("\n", text) for text in texts]
    texts += [_COUNT.sub("", text) for text in texts]
    texts += [COMMENT.sub("", text) for text in texts]
    return list(dict.fromkeys([*texts, *(_CONTROL.sub("", text) for text in texts)]))


def text_after(prompt: str, line: str) -> str | None:
    """Return what follows a prompt in a line, whose blanks at the end may be missing; None if it begins differently."""
    if line.startswith(prompt):
        return line[len(prompt) :]
    return "" if line.rstrip() == prompt.rstrip() else None


def shows_only(screen: ScreenSnapshot, prompt: str | None, text: str) -> bool:
    """Return whether the cursor's row has the known prompt and this text, and the cursor is behind it."""
    row, column = screen.cursor
    line = f"{prompt or ''}{text}"
    return bool(prompt) and row < len(screen.rows) and column == len(line) and screen.rows[row] == line.rstrip()


def _first_row(screen: ScreenSnapshot, row: int, prompt: str | None) -> int | None:
    """Return the row of the prompt; without a known prompt, the first row of the cursor's line."""
    start = prompt if prompt and prompt.strip() else ""
    for at in range(row, max(row - _MAX_ROWS, -1), -1):
        if start and text_after(start, screen.rows[at]) is not None:
            return at
        if not start and at and len(screen.rows[at - 1]) < screen.cols:
            return at
        if not start and at == 0:  # rows of the same line may have scrolled away
            return at if row == 0 else None
    return _first_row(screen, row, None) if start else None


def _last_row(screen: ScreenSnapshot, row: int) -> int:
    while row + 1 < len(screen.rows) and len(screen.rows[row]) >= screen.cols:
        row += 1
    return row


def _joined(screen: ScreenSnapshot, first: int, last: int, column: int | None = None) -> str:
    """Return the text of rows: a full row continues in the next one, a shorter one ends a line."""
    text = ""
    for at in range(first, last + 1):
        row = screen.rows[at]
        if at == last:
            return text + (row if column is None else row[:column].ljust(column))
        text += row if len(row) >= screen.cols else f"{row}\n"
    return text


def _ends_of(prompt: str, line: str) -> Iterator[int]:
    """Yield the places behind a prompt that is not at the beginning of a line."""
    at = line.find(prompt, 1)
    while at >= 0:
        yield at + len(prompt)
        at = line.find(prompt, at + 1)


def _without_prompt(line: str, prompt: str | None) -> list[str]:
    text = text_after(prompt, line) if prompt and prompt.strip() else None
    if text is not None:
        return [text.strip()]
    return [line[match.end() :].strip() for match in _PROMPT_END.finditer(line)]

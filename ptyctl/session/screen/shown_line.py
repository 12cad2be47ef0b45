"""The line at the cursor, which Enter would submit, on the screen: its rows, its possible prompts, and its readings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, product

from wcwidth import wcswidth

from ptyctl.core.renderer import render, render_line
from ptyctl.core.screen import ScreenModel, ScreenSnapshot
from ptyctl.policy.pending_line import COMMENT
from ptyctl.session.device.exchange import lines_before, rendered, text_before_cursor
from ptyctl.session.io.prompt import PROMPT_BYTES, without_right_prompt
from ptyctl.session.io.terminal_state import FarEnd, TerminalState

#: Largest cost (in cells of about 10 ns) of finding the line's first row, and the largest screen for that search.
MAX_COST = 1 << 19
MAX_SCREEN_CELLS = 1 << 17
#: The most rows above the cursor that may belong to the line.
_MAX_ROWS = 24
#: The most rows that may end before their last column, and the most of them that are read in all combinations.
_MAX_SHORT_ROWS = 12
_MAX_COMBINED_ROWS = 3
#: Characters that end a prompt, with the blanks after them.
_PROMPT_END = re.compile(r"[#$%>❯➜λ»:)\]]\s*")
#: How editors and terminals show a control character, which the shell may ignore, and a quoted line end.
_CONTROL = re.compile(r"\^[@-_]")
_LINE_END = re.compile(r"\^[JM]")
#: Blanks with which fish indents the rows of a command of several lines: they are not in its text.
_INDENTATION = re.compile(r"(?<=\n) +")
#: Text that bash shows instead of its prompt while a numeric argument is typed.
_COUNT = re.compile(r"^\(arg: -?\d+\) ", re.MULTILINE)
#: What a shell may remove from the text that its editor shows, or put in its place.
_CHANGES = (
    partial(_LINE_END.sub, "\n"),
    partial(_INDENTATION.sub, ""),
    partial(_COUNT.sub, ""),
    partial(COMMENT.sub, ""),
    partial(_CONTROL.sub, ""),
)
#: The longest texts that are searched for readings, and the longest readings, in characters, all together: a verdict takes up
#: to 20 µs a character.
_MAX_TEXTS = 1 << 18
_MAX_READINGS = 1 << 16
#: The most output since the prompt that is searched for the first row of the line, in bytes.
LINE_BYTES = 32 * 1024
#: What zsh and fish show behind output without a line end, before they move to the next row.
_LINE_END_MARKS = frozenset(("", "%", "#", "\u23ce", "\u00b6"))
#: The most output since the last Enter that is searched for the prompt, in bytes.
_SCREEN_BYTES = 8192


class LineLocation:
    """Finds the line at the cursor of one terminal, by the marks of its shell or by the last Enter."""

    def __init__(self, terminal: TerminalState, far_end: FarEnd) -> None:
        self._terminal, self._far_end = terminal, far_end
        self._stream, self._typed, self._prompt = terminal.stream, terminal.unfinished_line, terminal.prompt

    def shows_prompt_since_enter(self) -> bool:
        """Return whether a prompt was shown since the last line was submitted. Earlier text is not in the editor yet."""
        entered, stream = self._terminal.entered_raw, self._stream
        if entered < 0:
            return True
        if self._far_end.has_marks():
            return not self._far_end.is_running() and stream.shell_returned_raw >= entered and not stream.line_follows
        if self._far_end.is_device():
            return True
        learned = self._terminal.learned_prompt or ""
        begin, width = max(entered, stream.raw_size - _SCREEN_BYTES), self._terminal.width()
        shown = rendered(stream, begin, stream.raw_size, width).split("\n")
        return not learned.strip() or any(text_after(learned, line) is not None for line in shown)

    def begins_row(self) -> bool:
        """Return whether the prompt of a shell begins in the first column, as far as the output shows.

        Elsewhere, behind output without a line end or text that was typed ahead, bash redraws a line in wrong columns.
        """
        return self._marked_prompt_begins_row() if self._far_end.is_at_marked_prompt() else self._prompt_begins_row()

    def _marked_prompt_begins_row(self) -> bool:
        stream, returned = self._stream, self._stream.shell_returned_raw
        before = stream.read_raw(max(returned - PROMPT_BYTES, stream.incarnation_raw), returned)
        if before.endswith(b"\r") or not render_line(before.rpartition(b"\n")[2]):
            return True
        behind = stream.read_raw(returned, min(returned + PROMPT_BYTES, stream.raw_size))
        return b"\r" in behind and render_line(behind.partition(b"\r")[0]).strip() in _LINE_END_MARKS

    def _prompt_begins_row(self) -> bool:
        """Compare the row of the first key with the learned prompt, or with the row of the last Enter."""
        stream, typed, learned = self._stream, self._typed, self._terminal.learned_prompt or ""
        width = self._terminal.width()
        shown = lines_before(stream, typed.raw, width)[-1]
        if not shown.strip() or shown == learned:
            return shown == learned or stream.raw_size == typed.raw
        known = learned if learned.strip() else lines_before(stream, max(typed.entered_raw, 0), width)[-1]
        # another prompt, for example of another folder, begins like the one before
        return not known.strip() or (shown[0] == known[0] and not shown.endswith(known))

    def top_row(self, screen: ScreenSnapshot) -> int | None:
        """Return the first row that may belong to the line at the cursor; None if it is not on the screen, or not known."""
        stream, row, returned = self._stream, screen.cursor[0], self._stream.shell_returned_raw
        entered = max(stream.reader_changed_raw, self._terminal.entered_raw)
        is_marked = returned == entered or self._far_end.is_at_marked_prompt()
        begin = returned if is_marked else entered
        if begin < stream.incarnation_raw:
            return row if self._far_end.is_device() else 0  # a device's line has no line end
        is_short = stream.raw_size - begin <= LINE_BYTES
        above = rows_above(screen, stream.read_shown(begin, stream.raw_size)) if is_short else None
        if above is None:
            return None if is_marked else 0
        top = row - above
        if is_marked:
            return top if top >= 0 else None
        return top + 1  # the first row shows the line before

    def first_key_place(self, screen: ScreenSnapshot) -> tuple[int, int] | None:
        """Return row and column of the cursor when the first key of the line was typed; None if they are not known.

        Without a key, the line is in the cursor's row.
        """
        stream, raw, width = self._stream, self._typed.raw, self._terminal.width()
        if raw < stream.incarnation_raw:
            return screen.cursor[0], 0
        if stream.raw_size - raw > LINE_BYTES:
            return None
        column = _width(text_before_cursor(stream, raw, width)) % width
        above = rows_above(screen, b"\x1b[%dG" % (column + 1) + stream.read_shown(raw, stream.raw_size))
        return None if above is None else (max(screen.cursor[0] - above, 0), column)

    def prompts(self, screen: ScreenSnapshot, top: int) -> list[str | None]:
        """Return the possible prompts of the line at the cursor, which begins at the row `top` or below it.

        The text of the last row when the first key was typed is the prompt, unless that key was typed ahead. The learned
        prompt may belong to an earlier line, and a row of the line may look like it: it counts only in the same row after the
        prompt mark, or if the line has one row. None stands for an unknown prompt.
        """
        stream, prompt, typed = self._stream, self._prompt, self._typed
        if self._far_end.is_device():
            return [prompt.learned]
        rows, returned = screen.rows[max(top, 0) : screen.cursor[0] + 1], stream.shell_returned_raw
        is_marked = self._far_end.is_at_marked_prompt()
        is_behind = typed.raw > (returned if is_marked else typed.entered_raw)
        width = self._terminal.width()
        shown = lines_before(stream, typed.raw, width)[-1] if is_behind else ""
        before = text_before_cursor(stream, typed.raw, width) if shown.strip() else ""  # a right prompt may follow
        if before.strip() and shown == prompt.learned:
            return [before]
        if before.strip() and any(text_after(before, row) is not None for row in rows):
            return [prompt.learned, before, None]
        is_there = is_marked and self._begins_with_learned_prompt(screen, rows)
        return [prompt.learned] if is_there or len(rows) <= 1 else []

    def _begins_with_learned_prompt(self, screen: ScreenSnapshot, rows: Sequence[str]) -> bool:
        """Return whether the rows since the prompt mark begin with all rows of the learned prompt."""
        learned, raw = self._prompt.learned, self._prompt.learned_raw
        if learned is None or raw is None or raw[1] - raw[0] > PROMPT_BYTES:
            return False
        output = self._stream.read_raw(*raw)
        above = rows_above(screen, output)
        if above is None or above >= len(rows) or text_after(learned, rows[above]) is None:
            return False
        drawn = render(output, screen.cols).split("\n")[:above]
        return [row.rstrip() for row in drawn] == [row.rstrip() for row in rows[:above]]


def shown_lines(screen: ScreenSnapshot, prompt: str | None, top: int | None = None, *, is_device: bool = False) -> list[str]:
    """Return the readings of the line at the cursor; empty if it cannot be read.

    The prompt ends at the end of the known prompt; otherwise it may end at each character that ends prompts. Type-ahead may
    precede the prompt, and the known prompt may be that of an earlier line. Text after the cursor, also in the rows below, may
    belong to the line or be a suggestion, so that the text up to the cursor is a reading, too. A row that ends before the last
    column may end a line, or blanks may follow.

    Args:
        top: the first row that may belong to the line, if known. The line may begin in each row from there on that looks like
            the prompt. The line of a shell does not begin above it.
        is_device: whether the far end is a device rather than a POSIX shell.
    """
    row = screen.cursor[0]
    if row >= len(screen.rows):
        return []
    first = _first_row(screen, row, prompt)
    highest = min(top or 0, row)  # a program that has cleared the screen has moved the line up
    if first is not None and not is_device and first < highest:
        first = _row_with_prompt(screen, prompt, highest)
    if first is None:
        return []
    if _has_scrolled_on_device(screen, prompt, first) if is_device else _has_scrolled(screen, first):
        return []
    firsts = dict.fromkeys([first, *_rows_of_prompt(screen, prompt, row if top is None else top)])
    if not _has_few_short_rows(screen, min(firsts)):
        return []
    return _as_submitted(text for begin in firsts for text in _texts(screen, prompt, begin))


def lines_from(screen: ScreenSnapshot, first: int, column: int) -> list[str]:
    """Return the readings of the line at the cursor that begins in a row, in this column or behind a prompt that is not known.

    Empty if the line may have too many rows.
    """
    if first > screen.cursor[0] or screen.cursor[0] >= len(screen.rows) or not _has_few_short_rows(screen, first):
        return []
    lines = _whole_and_before(screen, first, screen.rows[first][:column])
    return _as_submitted(text for line in lines for text in (line[column:].strip(), *_without_prompt(line, None)))


def _as_submitted(texts: Iterable[str]) -> list[str]:
    """Return different texts of the screen as the shell may get them: without what editors show or remove.

    Empty if they are too long together.
    """
    readings = _first_texts(texts)
    for remove in _CHANGES:
        readings = list(dict.fromkeys([*readings, *map(remove, readings)]))
        if sum(map(len, readings)) > _MAX_READINGS:
            return []
    return readings


def _first_texts(texts: Iterable[str]) -> list[str]:
    """Return the different ones of some texts; empty if they are too long together, repeated ones included."""
    found, size = dict[str, None](), 0
    for text in texts:
        size += len(text) + 1
        if size > _MAX_TEXTS:
            return []
        found[text] = None
    return list(found)


def may_be_hidden(screen: ScreenSnapshot, readings: list[str]) -> bool:
    """Return whether the screen perhaps shows nothing of the line: it is empty, or its editor does not echo."""
    row, column = screen.cursor
    return "" in readings and not screen.rows[row][column:].strip()


def rows_above(screen: ScreenSnapshot, output: bytes) -> int | None:
    """Return the number of rows from the row in which the last output began to the row of the cursor.

    None if drawing costs more than `MAX_COST`.
    """
    if 2 * screen.rows_count * screen.cols > MAX_SCREEN_CELLS:
        return None
    model = ScreenModel(screen.cols, 2 * screen.rows_count, scrollback=0)
    for _ in chain(model.steps(output), model.settle()):
        if model.cost > MAX_COST:
            return None
    return model.snapshot().cursor[0]


def text_after(prompt: str, line: str) -> str | None:
    """Return the text after a prompt in a line; None without the prompt. Blanks at the prompt's end may be missing."""
    if line.startswith(prompt):
        return line[len(prompt) :]
    return "" if line.rstrip() == prompt.rstrip() else None


def first_row_of(screen: ScreenSnapshot, prompt: str | None, text: str) -> int | None:
    """Return the row where the known prompt begins, if the screen shows it and this text alone up to the cursor; else None."""
    line, (row, column) = f"{prompt or ''}{text}", screen.cursor
    rows, rest = divmod(len(line), screen.cols)
    first = row - rows
    if not prompt or column != rest or first < 0 or row >= len(screen.rows) or (rows and not _is_narrow(line)):
        return None
    shown = [line[begin : begin + screen.cols].rstrip() for begin in range(0, len(line) + 1, screen.cols)]
    return first if list(screen.rows[first : row + 1]) == shown else None


def _is_narrow(text: str) -> bool:
    """Return whether each character of a text is certainly drawn in one column."""
    return text.isascii() and text.isprintable()


def _texts(screen: ScreenSnapshot, prompt: str | None, first: int) -> Iterator[str]:
    """Yield the readings of the line at the cursor if it begins in a row."""
    row = screen.cursor[0]
    lines = _whole_and_before(screen, first, prompt)
    for line in lines:
        yield from _without_prompt(line, prompt)
    if prompt and prompt.strip():
        for line in lines:
            yield from (line[at:].strip() for at in _ends_of(prompt, line))
        if (start := _first_row(screen, row, None) or 0) > first:  # the row has perhaps another prompt
            for line in _whole_and_before(screen, start, None):
                yield from _without_prompt(line, None)


def _whole_and_before(screen: ScreenSnapshot, first: int, prompt: str | None) -> list[str]:
    """Return the possible texts of the rows from `first` on: of the whole line, up to the cursor, and with all rows below."""
    row, column = screen.cursor
    rows = screen.rows[first : _last_shown_row(screen) + 1]
    ends = dict.fromkeys((_last_row(screen, row) + 1 - first, len(rows)))
    before = [*rows[: row - first], rows[row - first][:column].ljust(column)]
    parts = [*(rows[:end] for end in ends), before]
    parts += [[_without_right_prompt(part[0], prompt), *part[1:]] for part in parts]
    return list(dict.fromkeys(text for part in parts for text in _joined(part, screen.cols)))


def _without_right_prompt(row: str, prompt: str | None) -> str:
    """Return the first row of a line without a possible right prompt: the line does not continue behind that."""
    text = (text_after(prompt, row) if prompt else None) or row
    begin = len(row) - len(text.lstrip())
    return row[:begin] + without_right_prompt(row[begin:])


def _rows_of_prompt(screen: ScreenSnapshot, prompt: str | None, top: int) -> list[int]:
    """Return the rows from `top` to the cursor that begin with the known prompt."""
    if not prompt or not prompt.strip():
        return []
    return [at for at in range(max(top, 0), screen.cursor[0] + 1) if text_after(prompt, screen.rows[at]) is not None]


def _first_row(screen: ScreenSnapshot, row: int, prompt: str | None) -> int | None:
    """Return the row of the prompt; without a known prompt, the first row of the cursor's line."""
    start = prompt if prompt and prompt.strip() else ""
    for at in range(row, max(row - _MAX_ROWS, -1), -1):
        if start and text_after(start, screen.rows[at]) is not None:
            return at
        if not start and at and not _is_full(screen, at - 1):
            return at
        if not start and at == 0:  # rows of the same line may have scrolled away
            return at if row == 0 else None
    return _first_row(screen, row, None) if start else None


def _has_scrolled(screen: ScreenSnapshot, first: int) -> bool:
    """Return whether a line editor perhaps shows only a part of the line, in one row: `<` and `>` mark hidden parts."""
    row = screen.cursor[0]
    ends = [each for each in screen.rows[first : _last_row(screen, row) + 1] if each.endswith(">")]
    is_cut = any(len(each) >= screen.cols - 1 or not each.isascii() for each in ends)  # characters may be two columns wide
    return is_cut or screen.rows[row].startswith("<")


def _has_scrolled_on_device(screen: ScreenSnapshot, prompt: str | None, first: int) -> bool:
    """Return whether a device perhaps shows only a part of the line: `$` marks the hidden part (Cisco IOS)."""
    texts = _without_prompt(screen.rows[first], prompt)
    return any(text.startswith("$") for text in texts) or screen.rows[screen.cursor[0]].startswith("$")


def _row_with_prompt(screen: ScreenSnapshot, prompt: str | None, top: int) -> int | None:
    """Return the row `top` if the known prompt is in it, after text that was typed ahead."""
    return top if prompt and prompt.strip() and prompt in screen.rows[top] else None


def _last_row(screen: ScreenSnapshot, row: int) -> int:
    while row + 1 < len(screen.rows) and _is_full(screen, row):
        row += 1
    return row


def _has_few_short_rows(screen: ScreenSnapshot, first: int) -> bool:
    return sum(not _is_full(screen, at) for at in range(first, _last_shown_row(screen))) <= _MAX_SHORT_ROWS


def _last_shown_row(screen: ScreenSnapshot) -> int:
    """Return the last row that is not empty, at or below the cursor: the cursor may be anywhere in the line."""
    row = screen.cursor[0]
    return max((at for at in range(row, len(screen.rows)) if screen.rows[at]), default=row)


def _is_full(screen: ScreenSnapshot, at: int) -> bool:
    """Return whether a row has a character in its last column."""
    return _width(screen.rows[at]) >= screen.cols


def _width(row: str) -> int:
    """Return the number of columns that a row takes."""
    return len(row) if row.isascii() else wcswidth(row)


def _joined(rows: Sequence[str], cols: int) -> Iterator[str]:
    """Yield the possible texts of rows. A full row continues in the next one; a shorter one ends a line, or blanks follow."""
    short = [at for at, row in enumerate(rows[:-1]) if _width(row) < cols]
    for ends in _combinations([["\n", *_blanks_after(rows[at], cols)] for at in short]):
        behind = dict(zip(short, ends, strict=True))
        yield "".join(row + behind.get(at, "") for at, row in enumerate(rows))


def _combinations(ends: Sequence[Sequence[str]]) -> Iterable[Sequence[str]]:
    """Return the possible combinations of what ends each row. The first possibility of each is a line end, the last one blanks.

    Of many rows, at most one differs from the others: a command of many rows is found if all rows behind its first one wrap.
    """
    if len(ends) <= _MAX_COMBINED_ROWS:
        return product(*ends)
    line_ends, blanks = tuple(each[0] for each in ends), tuple(each[-1] for each in ends)
    different = [
        (*same[:at], end, *same[at + 1 :]) for same in (line_ends, blanks) for at in range(len(ends)) for end in ends[at]
    ]
    return dict.fromkeys([line_ends, blanks, *different])


def _blanks_after(row: str, cols: int) -> list[str]:
    """Return what may follow a row up to its last column: blanks, or nothing if its characters may be wide."""
    blanks = " " * (cols - _width(row))
    return [blanks] if row.isascii() else ["", blanks]


def _ends_of(prompt: str, line: str) -> Iterator[int]:
    """Yield the places after a prompt that is not at the beginning of a line."""
    at = line.find(prompt, 1)
    while at >= 0:
        yield at + len(prompt)
        at = line.find(prompt, at + 1)


def _without_prompt(line: str, prompt: str | None) -> Iterator[str]:
    text = text_after(prompt, line) if prompt and prompt.strip() else None
    if text is not None:
        yield text.strip()
    else:
        yield from (line[match.end() :].strip() for match in _PROMPT_END.finditer(line))

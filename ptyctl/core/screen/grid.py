"""The cells of one screen: a string of characters and one of styles for each row."""

from __future__ import annotations

from .cells import BLANK, STUB


class Grid:
    """Columns and rows are 0-based, ends exclusive, and the caller keeps them in bounds. A wide character of which one half is
    overwritten leaves a blank in place of the other."""

    __slots__ = ("cols", "styles", "text")

    def __init__(self, cols: int, rows: int, style: str) -> None:
        self.cols = cols
        self.text = [BLANK * cols] * rows
        self.styles = [style * cols] * rows

    def put(self, y: int, x: int, text: str, style: str) -> None:
        end = x + len(text)
        row = self.text[y]
        if STUB in row:
            row = _split(_split(row, x), end)
        self.text[y] = row[:x] + text + row[end:]
        styles = self.styles[y]
        self.styles[y] = styles[:x] + style * len(text) + styles[end:]

    def erase(self, y: int, x: int, end: int, style: str) -> None:
        self.put(y, x, BLANK * (end - x), style)

    def erase_rows(self, begin: int, end: int, style: str) -> None:
        count = max(0, end - begin)
        self.text[begin:end] = [BLANK * self.cols] * count
        self.styles[begin:end] = [style * self.cols] * count

    def insert(self, y: int, x: int, count: int, style: str) -> None:
        """Blanks at `x`; what is moved past the right end is lost."""
        count = min(count, self.cols - x)
        row = _split(_split(self.text[y], x), self.cols - count)
        self.text[y] = row[:x] + BLANK * count + row[x : self.cols - count]
        styles = self.styles[y]
        self.styles[y] = styles[:x] + style * count + styles[x : self.cols - count]

    def delete(self, y: int, x: int, count: int, style: str) -> None:
        """What stands right of them closes up; blanks come in at the right end."""
        count = min(count, self.cols - x)
        row = _split(_split(self.text[y], x), x + count)
        self.text[y] = row[:x] + row[x + count :] + BLANK * count
        styles = self.styles[y]
        self.styles[y] = styles[:x] + styles[x + count :] + style * count

    def scroll_up(self, top: int, end: int, count: int, style: str) -> list[str]:
        """Rows leave at `top`, blank ones come in before `end`. The answer is what left."""
        count = min(count, end - top)
        gone = self.text[top : top + count]
        for rows, blank in ((self.text, BLANK * self.cols), (self.styles, style * self.cols)):
            del rows[top : top + count]
            rows[end - count : end - count] = [blank] * count
        return gone

    def scroll_down(self, top: int, end: int, count: int, style: str) -> None:
        count = min(count, end - top)
        for rows, blank in ((self.text, BLANK * self.cols), (self.styles, style * self.cols)):
            del rows[end - count : end]
            rows[top:top] = [blank] * count

    def resize(self, cols: int, rows: int, cursor_row: int, style: str) -> list[str]:
        """Lines are not flowed anew (as xterm). A lower screen loses rows below the cursor first, then rows at its top; the
        answer is the latter. A higher one gets blank rows at its end."""
        lower = max(0, len(self.text) - rows)
        gone = max(0, lower - (len(self.text) - 1 - cursor_row))
        if cols < self.cols:
            self.text = [_split(row, cols) for row in self.text]
        left = self.text[:gone]
        for content, blank in ((self.text, BLANK), (self.styles, style)):
            del content[len(content) - (lower - gone) :]
            del content[:gone]
            content[:] = [row[:cols] + blank * (cols - len(row)) for row in content]
            content += [blank * cols] * (rows - len(content))
        self.cols = cols
        return left

    def copy(self) -> Grid:
        other = Grid(self.cols, 0, BLANK)
        other.text, other.styles = self.text.copy(), self.styles.copy()
        return other


def _split(row: str, at: int) -> str:
    """A wide character that spans the border before column `at` becomes two blanks."""
    return row[: at - 1] + BLANK * 2 + row[at + 1 :] if row[at : at + 1] == STUB else row

"""Rows of a terminal of unlimited width."""

from __future__ import annotations


def screen_rows(text: str) -> list[str]:
    """Return the rows that a terminal of unlimited width shows for `text`, without trailing blanks."""
    rows: list[list[str]] = [[]]
    column = 0
    for char in text:
        match char:
            case "\b":
                column = max(0, column - 1)
            case "\r":
                column = 0
            case "\n":
                rows.append([])
            case _:
                rows[-1] += " " * (column + 1 - len(rows[-1]))
                rows[-1][column] = char
                column += 1
    return ["".join(row).rstrip() for row in rows]

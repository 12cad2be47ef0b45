"""The contents of a screen as values, and as an HTML page."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from .attributes import Style, rgb
from .cells import split_columns
from .emulator import DEFAULT_STYLE, Emulator

_STYLED = re.compile(rf"([^{DEFAULT_STYLE}])\1*")


@dataclass(frozen=True, slots=True)
class StyledRun:
    """Columns of a row (`begin` to `end`, exclusive, 0-based) that share a style other than the default one.

    A colour is `default`, a name (`red`, `brightred`), one of 256 (`color208`), or `#rrggbb`.
    """

    begin: int
    end: int
    fg: str = "default"
    bg: str = "default"
    bold: bool = False
    faint: bool = False
    italics: bool = False
    underline: bool = False
    blink: bool = False
    reverse: bool = False
    hidden: bool = False
    strikethrough: bool = False


@dataclass(frozen=True, slots=True)
class ScreenSnapshot:
    """The visible screen. `rows` have no trailing blanks; `cursor` is (row, column), 0-based."""

    rows: tuple[str, ...]
    cursor: tuple[int, int]
    cursor_visible: bool
    title: str
    alt_screen: bool
    cols: int
    rows_count: int
    #: The styled runs of each row; None if they were not requested.
    attributes: tuple[tuple[StyledRun, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class Scrollback:
    """Lines that scrolled off the main screen, oldest first, without trailing blanks. `first` is the number of the first one.

    `oldest` is the number of the oldest line that can be read, `end` the number after the newest.
    """

    first: int
    lines: tuple[str, ...]
    oldest: int
    end: int
    #: The styled runs of each line; None if they were not requested.
    attributes: tuple[tuple[StyledRun, ...], ...] | None = None


def take_scrollback(emulator: Emulator, first: int | None, limit: int, *, attributes: bool) -> Scrollback:
    end = emulator.scrolled
    oldest = end - len(emulator.history)
    first = min(max(oldest, end - limit if first is None else first), end)
    kept = list(islice(emulator.history, first - oldest, first - oldest + limit))
    runs = tuple(_styled_runs(emulator, styles) for _, styles in kept) if attributes else None
    return Scrollback(first, tuple(text for text, _ in kept), oldest, end, runs)


def stored_scrollback(emulator: Emulator) -> dict[str, Any]:
    """Return the scrollback as values for JSON.

    `scrollback_runs` has, for each line, start, end and style of each styled run; `scrollback_styles` the attributes by style.
    """
    rows = [styles for _, styles in emulator.history]
    used = {str(ord(style)): list(emulator.styles.value(style)) for style in set().union(*rows) - {DEFAULT_STYLE}}
    return {
        "scrollback": [text for text, _ in emulator.history],
        "scrollback_first": emulator.scrolled - len(rows),
        "scrollback_runs": [[(run.start(), run.end(), ord(run[1])) for run in _STYLED.finditer(styles)] for styles in rows],
        "scrollback_styles": used,
    }


def restore_scrollback(emulator: Emulator, stored: dict[str, Any]) -> None:
    """Replace the scrollback by a stored one. Raises KeyError, TypeError or ValueError if it is invalid."""
    chars = {
        style: emulator.styles.char(Style(*values)._replace(protection=""))  # nothing is erased in the scrollback
        for style, values in stored["scrollback_styles"].items()
    }
    emulator.history.clear()
    for text, runs in zip(stored["scrollback"], stored["scrollback_runs"], strict=True):
        styles = ""
        for begin, end, style in runs:
            styles = styles.ljust(begin, DEFAULT_STYLE) + chars[str(style)] * (end - begin)
        emulator.history.append((text, styles))
    emulator.scrolled = stored["scrollback_first"] + len(emulator.history)


def take_snapshot(emulator: Emulator, *, attributes: bool) -> ScreenSnapshot:
    cursor = emulator.cursor
    return ScreenSnapshot(
        rows=tuple(map(emulator.plain, emulator.grid.text)),
        cursor=(cursor.y, emulator.column),
        cursor_visible=not cursor.hidden,
        title=emulator.title,
        alt_screen=emulator.alternate,
        cols=emulator.columns,
        rows_count=emulator.lines,
        attributes=tuple(_styled_runs(emulator, styles) for styles in emulator.grid.styles) if attributes else None,
    )


def _styled_runs(emulator: Emulator, styles: str) -> tuple[StyledRun, ...]:
    if emulator.protection_used:  # cells that differ in their protection only look alike
        styles = "".join(map(emulator.unprotected, styles))
    return tuple(StyledRun(run.start(), run.end(), *emulator.styles.value(run[1])[:-1]) for run in _STYLED.finditer(styles))


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ background: #1b1b1b; margin: 1em; }}
pre {{ background: #000; color: #e5e5e5; font: 14px/1.2 monospace; padding: 0.5em; width: {cols}ch; }}
</style>
</head>
<body>
<pre>
{text}
</pre>
</body>
</html>
"""
_FOREGROUND, _BACKGROUND = "#e5e5e5", "#000000"
_DECLARATIONS = {
    "bold": "font-weight:bold",
    "faint": "opacity:0.6",
    "italics": "font-style:italic",
    "hidden": "visibility:hidden",
}
_DECORATIONS = {"underline": "underline", "strikethrough": "line-through", "blink": "blink"}


def html_page(title: str, scrollback: Iterable[str], snapshot: ScreenSnapshot) -> str:
    """Return a self-contained HTML document: the scrollback as plain text, then the screen with its attributes."""
    rows = zip(snapshot.rows, snapshot.attributes or ((),) * len(snapshot.rows), strict=True)
    lines = [*map(html.escape, scrollback), *("".join(_html_row(split_columns(text), runs)) for text, runs in rows)]
    return _PAGE.format(title=html.escape(title), cols=snapshot.cols, text="\n".join(lines).rstrip("\n"))


def _html_row(cells: list[str], runs: Iterable[StyledRun]) -> Iterator[str]:
    at = 0
    for run in runs:
        cells += [" "] * (run.end - len(cells))
        yield html.escape("".join(cells[at : run.begin]))
        yield f'<span style="{_css(run)}">{html.escape("".join(cells[run.begin : run.end]))}</span>'
        at = run.end
    yield html.escape("".join(cells[at:]))


def _css(run: StyledRun) -> str:
    front, back = rgb(run.fg), rgb(run.bg)
    if run.reverse:
        front, back = back or _BACKGROUND, front or _FOREGROUND
    declarations = [declaration for name, declaration in _DECLARATIONS.items() if getattr(run, name)]
    if decorations := [value for name, value in _DECORATIONS.items() if getattr(run, name)]:
        declarations.append(f"text-decoration:{' '.join(decorations)}")
    declarations += [f"color:{front}"] if front else []
    declarations += [f"background:{back}"] if back else []
    return ";".join(declarations)

"""A screen as a page of HTML, with its colours and what has scrolled off above it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator

from .cells import columns
from .picture import Picture, Run
from .style import rgb

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
_LINES = {"underline": "underline", "strikethrough": "line-through", "blink": "blink"}


def page(title: str, scrollback: Iterable[str], picture: Picture) -> str:
    """A whole document, which needs nothing else. `picture` has its attributes; what has scrolled off is plain text."""
    rows = zip(picture.rows, picture.attributes or ((),) * len(picture.rows), strict=True)
    lines = [*map(html.escape, scrollback), *(_row(text, runs) for text, runs in rows)]
    return _PAGE.format(title=html.escape(title), cols=picture.cols, text="\n".join(lines).rstrip("\n"))


def _row(text: str, runs: Iterable[Run]) -> str:
    return "".join(_pieces(columns(text), runs))


def _pieces(cells: list[str], runs: Iterable[Run]) -> Iterator[str]:
    at = 0
    for run in runs:
        cells += [" "] * (run.end - len(cells))
        yield html.escape("".join(cells[at : run.begin]))
        yield f'<span style="{_style(run)}">{html.escape("".join(cells[run.begin : run.end]))}</span>'
        at = run.end
    yield html.escape("".join(cells[at:]))


def _style(run: Run) -> str:
    front, back = rgb(run.fg), rgb(run.bg)
    if run.reverse:
        front, back = back or _BACKGROUND, front or _FOREGROUND
    declarations = [declaration for name, declaration in _DECLARATIONS.items() if getattr(run, name)]
    if lines := [line for name, line in _LINES.items() if getattr(run, name)]:
        declarations.append(f"text-decoration:{' '.join(lines)}")
    declarations += [f"color:{front}"] if front else []
    declarations += [f"background:{back}"] if back else []
    return ";".join(declarations)

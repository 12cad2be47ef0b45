"""A row of a screen in colours, as SGR."""

from __future__ import annotations

from ptyctl.api.screen import AttributeRun
from ptyctl.core.screen.attributes import PLAIN, Style, sgr
from ptyctl.core.screen.cells import split_columns


def coloured(row: str, runs: list[AttributeRun]) -> str:
    """The runs' columns as they look; the row is as wide as it has to be."""
    cells = split_columns(row)
    cells += [" "] * (max((run.end for run in runs), default=0) - len(cells))
    parts, at = [], 0
    for run in runs:
        style = Style(**{name: value for name, value in run.payload().items() if name not in ("begin", "end")})
        parts += [*cells[at : run.begin], sgr(style).decode(), *cells[run.begin : run.end], sgr(PLAIN).decode()]
        at = run.end
    return "".join([*parts, *cells[at:]])

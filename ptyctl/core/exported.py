"""A recording without its times: as text, or as a page of the last screen."""

from __future__ import annotations

from .recording import Take
from .render import render
from .screen import ScreenModel
from .screen.html import page

#: Lines that have scrolled off, at most so many.
_SCROLLBACK_LINES = 100_000


def text(take: Take) -> str:
    """All that a person would have read, from the first line on."""
    pieces, resizes, size = [], [], 0
    for moment in take.moments:
        if moment.size is not None:
            resizes.append((size, moment.size[0]))
        pieces.append(moment.data)
        size += len(moment.data)
    return render(b"".join(pieces), take.cols, resizes)


def html(take: Take) -> str:
    model = played(take)
    return page(take.title, model.scrollback(_SCROLLBACK_LINES), model.picture(attributes=True))


def played(take: Take) -> ScreenModel:
    """The screen at the end."""
    model = ScreenModel(take.cols, take.rows, _SCROLLBACK_LINES)
    for moment in take.moments:
        if moment.size is not None:
            model.resize(*moment.size)
        model.feed(moment.data)
        model.answers.clear()
    return model

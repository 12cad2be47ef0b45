"""Session recordings, and their export as an asciicast (asciinema file format, version 2), as text and as HTML."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .renderer import render
from .sanitizer import TerminalSanitizer
from .screen import ScreenModel
from .screen.snapshot import html_page

#: Cancels an unfinished sequence (CAN) and resets the terminal (RIS); inserted where a new connection begins.
RESET = b"\x18\x1bc"
#: Limit of the lines above the screen in the HTML export.
_SCROLLBACK_LINES = 100_000


@dataclass(frozen=True, slots=True)
class RecordingFrame:
    """Bytes received, or a new terminal size (columns, rows), at `ts` (epoch ms)."""

    ts: int
    data: bytes = b""
    size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """The initial terminal, and what it received from then on, in order. `started_at` is epoch ms."""

    cols: int
    rows: int
    term: str
    title: str
    started_at: int
    frames: Iterable[RecordingFrame]


def asciicast(recording: Recording) -> Iterator[str]:
    """Yield the lines of an asciicast. Sanitizes the output; bytes that are not UTF-8 become U+FFFD."""
    yield _json(
        {
            "version": 2,
            "width": recording.cols,
            "height": recording.rows,
            "timestamp": recording.started_at // 1000,
            "title": recording.title,
            "env": {"TERM": recording.term},
        }
    )
    sanitizer, decoder, now = TerminalSanitizer(), codecs.getincrementaldecoder("utf-8")("replace"), 0.0
    for frame in recording.frames:
        now = max((frame.ts - recording.started_at) / 1000, now)
        if frame.size is not None:
            yield _json([now, "r", "{}x{}".format(*frame.size)])
        text = decoder.decode(sanitizer.feed(frame.data))
        if text:
            yield _json([now, "o", text])
    if rest := decoder.decode(b"", final=True):
        yield _json([now, "o", rest])


def plain_text(recording: Recording) -> str:
    """Return the rendered text of the whole recording."""
    pieces, resizes, size = [], [], 0
    for frame in recording.frames:
        if frame.size is not None:
            resizes.append((size, frame.size[0]))
        pieces.append(frame.data)
        size += len(frame.data)
    return render(b"".join(pieces), recording.cols, resizes)


def html(recording: Recording) -> str:
    """Return an HTML page with the final screen and the lines that scrolled off it."""
    model = final_screen(recording)
    return html_page(recording.title, model.scrollback(_SCROLLBACK_LINES), model.snapshot(attributes=True))


def final_screen(recording: Recording) -> ScreenModel:
    """Return the screen after the last frame."""
    model = ScreenModel(recording.cols, recording.rows, _SCROLLBACK_LINES)
    for frame in recording.frames:
        if frame.size is not None:
            model.resize(*frame.size)
        model.feed(frame.data)
        model.responses.clear()
    return model


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)

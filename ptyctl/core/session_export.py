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
    """The initial terminal, and its output and resizes in order. `started_at` is epoch ms."""

    cols: int
    rows: int
    term: str
    title: str
    started_at: int
    frames: Iterable[RecordingFrame]


def asciicast(recording: Recording) -> Iterator[str]:
    """Yield the lines of an asciicast. Sanitizes the output; bytes that are not UTF-8 become U+FFFD."""
    writer = AsciicastWriter(recording.started_at)
    yield writer.header(recording.cols, recording.rows, recording.term, recording.title)
    for frame in recording.frames:
        yield from writer.lines(frame)
    yield from writer.finish()


class AsciicastWriter:
    """Writes an asciicast line by line; `started_at` is epoch ms."""

    def __init__(self, started_at: int) -> None:
        self._started_at = started_at
        self._sanitizer = TerminalSanitizer()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._now = 0.0

    def header(self, cols: int, rows: int, term: str, title: str) -> str:
        """Return the first line."""
        timestamp = self._started_at // 1000
        fields = {"version": 2, "width": cols, "height": rows, "timestamp": timestamp, "title": title, "env": {"TERM": term}}
        return _json(fields)

    def lines(self, frame: RecordingFrame) -> Iterator[str]:
        """Yield the lines of a frame."""
        self._now = max((frame.ts - self._started_at) / 1000, self._now)
        if frame.size is not None:
            yield _json([self._now, "r", "{}x{}".format(*frame.size)])
        if text := self._decoder.decode(self._sanitizer.feed(frame.data)):
            yield _json([self._now, "o", text])

    def finish(self) -> Iterator[str]:
        """Yield the line of an incomplete UTF-8 character at the end, if any."""
        if rest := self._decoder.decode(b"", final=True):
            yield _json([self._now, "o", rest])


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
        model.take_responses()
    return model


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)

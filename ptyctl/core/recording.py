"""What a terminal received, with its times; and the same as an asciicast (asciinema's format, version 2)."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .harmless import Harmless

#: A fresh terminal in the same place: whatever sequence was open is cancelled (CAN), and the terminal reset (RIS).
FRESH = b"\x18\x1bc"


@dataclass(frozen=True, slots=True)
class Moment:
    """At `ts` (epoch ms) bytes came, or the terminal got another `size` (columns, rows)."""

    ts: int
    data: bytes = b""
    size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Take:
    """A recording: the terminal as it was at the begin, and what happened from then on, in order."""

    cols: int
    rows: int
    term: str
    title: str
    begun_at: int
    moments: Iterable[Moment]


def asciicast(take: Take) -> Iterator[str]:
    """The lines. What must not reach the terminal of whoever plays it is left out; bytes that are no UTF-8 become U+FFFD."""
    yield _line(
        {
            "version": 2,
            "width": take.cols,
            "height": take.rows,
            "timestamp": take.begun_at // 1000,
            "title": take.title,
            "env": {"TERM": take.term},
        }
    )
    harmless, decoder, now = Harmless(), codecs.getincrementaldecoder("utf-8")("replace"), 0.0
    for moment in take.moments:
        now = max((moment.ts - take.begun_at) / 1000, now)
        if moment.size is not None:
            yield _line([now, "r", "{}x{}".format(*moment.size)])
        text = decoder.decode(harmless.feed(moment.data))
        if text:
            yield _line([now, "o", text])
    if rest := decoder.decode(b"", final=True):
        yield _line([now, "o", rest])


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)

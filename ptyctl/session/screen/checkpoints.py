"""Places from which a screen can be made again without all that came before: on disk, as the bytes that paint it.

screen.snapshot.json is the newest, with the scrollback, and can be read by hand. screen.checkpoints.jsonl has earlier ones,
one for each `CHECKPOINT_S` that the fold took: so a screen of long ago is as far away as that, and there are few where the
output is quickly passed over.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from bisect import bisect_right
from pathlib import Path
from typing import Any

from ptyctl.core.screen import ScreenModel, ScreenSnapshot
from ptyctl.session.transcript.appender import Appender

from .fold import Fold

#: Seconds of folding between two checkpoints.
CHECKPOINT_S = 0.5
#: Lines that have left the main screen are remembered up to this number.
SCROLLBACK_LINES = 1000
_FILE_MODE = 0o600


class Checkpoints:
    """Of one session's folder. `new` says that the folder is this process's own and holds none yet."""

    def __init__(self, folder: Path, *, new: bool) -> None:
        self._folder = folder
        self._path = folder / "screen.checkpoints.jsonl"
        self._file: Appender | None = None
        self._snapshot = not new
        self._places: list[tuple[int, int]] | None = [] if new else None  # (raw, where its line begins)

    def add(self, fold: Fold) -> None:
        """One more place; on a full disk there is none."""
        if self._file is None:
            self._file = Appender(self._path)
        place = self._file.size
        line = json.dumps({**_place(fold), "ts": _now_ms()}, separators=(",", ":")).encode() + b"\n"
        self._file.append(line)
        self._file.flush()
        if self._file.size == place + len(line) and self._places is not None:
            self._places.append((fold.raw, place))
        fold.spent = 0.0

    async def before(self, raw: int, steps: int, size: tuple[int, int]) -> Fold:
        """The nearest place at or before an offset, or the begin, in that size; `steps` is how many are known."""
        if self._places is None:
            self._places = await asyncio.to_thread(_places_in, self._path)
        number = bisect_right(self._places, (raw, 1 << 62))
        if number:
            line = await asyncio.to_thread(_line_at, self._path, self._places[number - 1][1])
            fold = _fold_of(line, steps)
            if fold is not None:
                return fold
        return begin(size)

    async def newest(self, raw: int, steps: int, size: tuple[int, int]) -> Fold:
        """The last place, as the snapshot tells it; the begin where there is none of the present output."""
        if not self._snapshot:
            return begin(size)
        fold = _fold_of(await asyncio.to_thread(_json_in, self._folder / "screen.snapshot.json"), steps)
        return fold if fold is not None and fold.raw <= raw else begin(size)

    def write_snapshot(self, fold: Fold) -> bool:
        """Replaces the snapshot atomically; False where the disk is full, and the old one stays."""
        snapshot = {**shown(fold.model.snapshot()), "ts": _now_ms(), **_place(fold)}
        snapshot["scrollback"] = fold.model.scrollback(SCROLLBACK_LINES)
        draft = self._folder / "screen.snapshot.json.new"
        try:
            draft.touch(_FILE_MODE)
            draft.write_text(json.dumps(snapshot, ensure_ascii=False), "utf-8")
            draft.replace(self._folder / "screen.snapshot.json")
        except OSError:
            draft.unlink(missing_ok=True)
            return False
        self._snapshot = True
        return True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def begin(size: tuple[int, int]) -> Fold:
    """The screen before the first byte."""
    return Fold(ScreenModel(*size, scrollback=SCROLLBACK_LINES))


def shown(picture: ScreenSnapshot) -> dict[str, Any]:
    """A picture as the specification's screen_snapshot has it."""
    return {
        "rows": list(picture.rows),
        "cursor": {"row": picture.cursor[0], "col": picture.cursor[1]},
        "title": picture.title,
        "alt_screen": picture.alt_screen,
        "cols": picture.cols,
        "rows_count": picture.rows_count,
    }


def _place(fold: Fold) -> dict[str, Any]:
    paint = base64.b64encode(fold.model.serialize()).decode()
    return {"raw_offset": fold.raw, "step": fold.step, "size": [fold.model.cols, fold.model.rows], "paint_b64": paint}


def _fold_of(told: Any, steps: int) -> Fold | None:
    """What was kept, as a fold; None where it is not ours, or of a timeline that was not kept."""
    try:
        if told["step"] > steps:
            return None
        cols, rows = told["size"]
        lines = told.get("scrollback", [])
        paint = base64.b64decode(told["paint_b64"], validate=True)
        fold = Fold(_painted(cols, rows, lines, paint), told["raw_offset"], told["step"])
    except (KeyError, TypeError, ValueError):
        return None
    return fold


def _painted(cols: int, rows: int, lines: list[str], paint: bytes) -> ScreenModel:
    """The lines of the scrollback are printed on a terminal that is wide enough, and scrolled off."""
    width = max(
        (len(line) if line.isascii() else 2 * len(line) for line in lines), default=0
    )  # a character has two cells at most
    model = ScreenModel(max(cols, width), rows, scrollback=SCROLLBACK_LINES)
    if lines:
        model.feed("".join(f"{line}\r\n" for line in lines).encode() + b"\n" * (rows - 1))
        model.resize(cols, rows)
    model.feed(paint)
    model.responses.clear()
    return model


def _places_in(path: Path) -> list[tuple[int, int]]:
    found, place = [], 0
    if path.exists():
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    found.append((int(json.loads(line)["raw_offset"]), place))
                place += len(line)
    return found


def _line_at(path: Path, place: int) -> Any:
    with path.open("rb") as file:
        file.seek(place)
        return json.loads(file.readline())


def _json_in(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _now_ms() -> int:
    return int(time.time() * 1000)

"""Checkpoints of the screen on disk: stored states of the emulator, which resumes there without the earlier output.

screen.snapshot.json is the newest state, with the scrollback, in a readable form. screen.checkpoints.jsonl holds earlier ones:
one per `CHECKPOINT_S` of replaying, so an earlier screen is at most that far away, and output that replays quickly has few.
Reading an earlier screen adds missing checkpoints; once the files are released, these stay in memory.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from bisect import bisect_left, insort
from pathlib import Path
from typing import Any

from ptyctl.core.screen import ScreenModel, ScreenSnapshot
from ptyctl.files import open_for_reading, parse_json, read_json, replace_file
from ptyctl.session.transcript.append_file import AppendFile
from ptyctl.session.transcript.jsonl import read_rows_backwards
from ptyctl.session.transcript.raw_log import MAX_OFFSET

from .screen_replay import ScreenReplay

#: Processor time of replaying between two checkpoints (seconds).
CHECKPOINT_S = 0.06
#: Size of the checkpoints in memory.
_MEMORY_BYTES = 1 << 20
#: The largest stored screen that is read, and the largest number of cells of one.
_MAX_SNAPSHOT_BYTES, _MAX_CELLS = 256 * 1024 * 1024, 16_000_000
#: Lines kept after they scrolled off the main screen.
SCROLLBACK_LINES = 1000


class Checkpoints:
    """The checkpoints in one session's folder."""

    def __init__(self, folder: Path, *, new: bool) -> None:
        """Create the checkpoints. `new`: whether this process has created the folder, which has no checkpoints yet."""
        self._folder = folder
        self._path = folder / "screen.checkpoints.jsonl"
        self._file: AppendFile | None = None
        self._has_snapshot = not new
        #: (raw offset, file offset of the line), in order; or (raw offset, the line in memory).
        self._known: list[tuple[int, int | bytes]] | None = [] if new else None
        self._memory_bytes = 0

    def add(self, replay: ScreenReplay, line: bytes) -> None:
        """Append the checkpoint line of a replay. No effect on a full disk."""
        if self._file is None:
            self._file = AppendFile(self._path)
        offset = self._file.size
        self._file.append(line)
        self._file.flush()
        if self._file.size == offset + len(line):
            self._insert(replay.raw, offset)

    def add_in_memory(self, replay: ScreenReplay, line: bytes) -> None:
        """Keep the checkpoint line of a replay, unless there are too many."""
        if self._memory_bytes + len(line) <= _MEMORY_BYTES:
            self._memory_bytes += len(line)
            self._insert(replay.raw, line)

    async def before(self, raw: int, steps: int, size: tuple[int, int]) -> ScreenReplay:
        """Return the nearest checkpoint before a raw offset, or an empty screen of `size`.

        One at the offset is not used: it may be later than a resize at that offset.
        `steps` is the number of known timeline steps.
        """
        if self._known is None:
            self._known = await asyncio.to_thread(_read_offsets, self._path)
        number = bisect_left(self._known, raw, key=_raw_offset)
        if number:
            place = self._known[number - 1][1]
            replay = await asyncio.to_thread(lambda: _replay_from(_read_line(self._path, place), steps))
            if replay is not None:
                return replay
        return empty_replay(size)

    async def newest(self, raw: int, steps: int, size: tuple[int, int]) -> ScreenReplay:
        """Return the snapshot's state if it lies within the first `raw` bytes, otherwise an empty screen of `size`."""
        if not self._has_snapshot:
            return empty_replay(size)
        path = self._folder / "screen.snapshot.json"
        replay = await asyncio.to_thread(lambda: _replay_from(_read_json(path), steps))
        return replay if replay is not None and replay.raw <= raw else empty_replay(size)

    def write_snapshot(self, replay: ScreenReplay) -> bool:
        """Replace the snapshot atomically. Return False, and keep the old one, if the disk is full."""
        snapshot = {**snapshot_fields(replay.model.snapshot()), "ts": _now_ms(), **_state(replay)}
        snapshot |= replay.model.stored_scrollback()
        fields = [f'"{name}": {_json(value)}' for name, value in snapshot.items()]
        try:
            replace_file(self._folder / "screen.snapshot.json", f"{{{', '.join(fields)}}}")
        except OSError:
            return False
        self._has_snapshot = True
        return True

    def close(self) -> None:
        """Close the file of checkpoints."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _insert(self, raw: int, place: int | bytes) -> None:
        if self._known is not None:
            insort(self._known, (raw, place), key=_raw_offset)


def empty_replay(size: tuple[int, int]) -> ScreenReplay:
    """Return the screen before the first byte; `size` is columns and rows."""
    return ScreenReplay(ScreenModel(*size, scrollback=SCROLLBACK_LINES))


def snapshot_fields(snapshot: ScreenSnapshot) -> dict[str, Any]:
    """Return a snapshot's fields in the form of screen.snapshot.json (docs/files.md)."""
    return {
        "rows": list(snapshot.rows),
        "cursor": {"row": snapshot.cursor[0], "col": snapshot.cursor[1]},
        "title": snapshot.title,
        "alt_screen": snapshot.alt_screen,
        "cols": snapshot.cols,
        "rows_count": snapshot.rows_count,
    }


def checkpoint_line(replay: ScreenReplay) -> bytes:
    """Return the line of a checkpoint."""
    return json.dumps({**_state(replay), "ts": _now_ms()}, separators=(",", ":")).encode() + b"\n"


def _json(value: Any) -> str:
    """Return a value as JSON. A list is encoded by element: the interpreter lock is held during each encoding."""
    if isinstance(value, list):
        return f"[{', '.join(json.dumps(each, ensure_ascii=False) for each in value)}]"
    return json.dumps(value, ensure_ascii=False)


def _state(replay: ScreenReplay) -> dict[str, Any]:
    paint = base64.b64encode(replay.model.serialize()).decode()
    size = [replay.model.cols, replay.model.rows]
    return {"raw_offset": replay.raw, "step": replay.step, "size": size, "paint_b64": paint}


def _replay_from(state: Any, steps: int) -> ScreenReplay | None:
    """Return the replay of a stored state; None if it is invalid or belongs to steps that were lost."""
    try:
        cols, rows = state["size"]
        if not _are_sizes(state["step"], state["raw_offset"]) or not 0 < cols * rows <= _MAX_CELLS or state["step"] > steps:
            return None
        model = ScreenModel(cols, rows, scrollback=SCROLLBACK_LINES)
        model.feed(base64.b64decode(state["paint_b64"], validate=True))
        model.take_responses()
        if "scrollback_runs" in state:
            model.restore_scrollback(state)
        return ScreenReplay(model, state["raw_offset"], state["step"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
        return None


def _are_sizes(*values: object) -> bool:
    return all(type(value) is int and 0 <= value <= MAX_OFFSET for value in values)


def _raw_offset(known: tuple[int, int | bytes]) -> int:
    return known[0]


def _read_offsets(path: Path) -> list[tuple[int, int | bytes]]:
    return [*sorted((row["raw_offset"], offset) for offset, row in read_rows_backwards(path, is_row=_is_checkpoint))]


def _is_checkpoint(row: dict[str, Any]) -> bool:
    return _are_sizes(row.get("raw_offset"))


def _read_line(path: Path, place: int | bytes) -> Any:
    if isinstance(place, bytes):
        return parse_json(place)
    with open_for_reading(path) as file:
        file.seek(place)
        return parse_json(file.readline())


def _read_json(path: Path) -> Any:
    try:
        return read_json(path, _MAX_SNAPSHOT_BYTES)
    except (OSError, ValueError):
        return None


def _now_ms() -> int:
    return int(time.time() * 1000)

"""A session's recording, read from its folder: what viewers saw, with the times and sizes of the timeline.

Reading needs no lock and changes nothing, so it also works while a server holds the session.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.hidden_ranges import HiddenRanges
from ptyctl.core.session_export import RESET, Recording, RecordingFrame
from ptyctl.files import NotRegularFileError, open_for_reading, read_file
from ptyctl.session.spec import SPECS

from .jsonl import read_rows
from .meta_file import read_meta
from .recovery import read_hidden_ranges
from .timeline import is_timeline_row, parse_step

_PIECE_BYTES = 1 << 16


def read_recording(folder: Path) -> Recording:
    """Return the recording of a session so far.

    Raises:
        PtyctlError: NOT_FOUND; IO_ERROR if meta.json cannot be read.
    """
    try:
        meta = read_meta(folder)
        spec = SPECS.validate_python(meta["spec"])
    except FileNotFoundError:
        raise PtyctlError(ErrorCode.NOT_FOUND, f"no stored session {folder.name}", {"session_id": folder.name}) from None
    except (OSError, ValueError, KeyError):
        raise PtyctlError(ErrorCode.IO_ERROR, f"{folder / 'meta.json'} cannot be read or is not valid") from None
    title = " ".join(part for part in (spec.device_id, spec.host, folder.name) if part)
    frames = _read_frames(folder, meta["created_at"])
    return Recording(spec.pty.cols, spec.pty.rows, spec.pty.term, title, meta["created_at"], frames)


def _received_size(folder: Path) -> int:
    """Return the size of output.raw without room allocated ahead."""
    try:
        (position,) = struct.unpack_from("=Q", read_file(folder / "output.end", 1024))
    except (FileNotFoundError, NotRegularFileError, ValueError, struct.error):
        return (folder / "output.raw").stat().st_size
    return min(int(position), (folder / "output.raw").stat().st_size)


def _read_frames(folder: Path, started_at: int) -> Iterator[RecordingFrame]:
    end, at, ts = _received_size(folder), 0, started_at
    hidden = HiddenRanges(read_hidden_ranges(folder))
    with open_for_reading(folder / "output.raw") as log:
        for row in read_rows(folder / "timeline.jsonl", 0, is_timeline_row):
            for data in _read_pieces(log, min(row["raw"], end) - at, hidden):
                yield RecordingFrame(ts, data)
            at, ts = max(at, min(row["raw"], end)), max(ts, row["ts"])
            step = None if row["kind"] == "data" else parse_step(row)
            if step is not None and (step.size is not None or at):
                yield RecordingFrame(ts, size=step.size) if step.size is not None else RecordingFrame(ts, RESET)
        for data in _read_pieces(log, end - at, hidden):
            yield RecordingFrame(ts, data)


def _read_pieces(log: BinaryIO, size: int, hidden: HiddenRanges) -> Iterator[bytes]:
    begin = log.tell()
    while size > 0 and (data := log.read(min(size, _PIECE_BYTES))):
        yield hidden.show(begin, data)
        size -= len(data)
        begin += len(data)

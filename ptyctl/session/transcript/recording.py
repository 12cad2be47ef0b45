"""A session's recording as it stands on disk: what it received, with the times and the sizes of its timeline.

It is read beside the server that may hold the session, and changes nothing.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.recording import RESET, Recording, RecordingFrame
from ptyctl.session.spec import SPECS

from .jsonl import rows
from .timeline import step_of

_PIECE_BYTES = 1 << 16


def recorded(folder: Path) -> Recording:
    """The recording of the session in that folder, so far.

    Raises:
        PtyctlError: NOT_FOUND; IO_ERROR where it cannot be read.
    """
    try:
        meta = json.loads((folder / "meta.json").read_bytes())
        spec = SPECS.validate_python(meta["spec"])
    except FileNotFoundError:
        raise PtyctlError(ErrorCode.NOT_FOUND, f"no session {folder.name} is kept", {"session_id": folder.name}) from None
    except (OSError, ValueError, KeyError):
        raise PtyctlError(ErrorCode.IO_ERROR, f"{folder / 'meta.json'} cannot be read, or does not say what it was") from None
    title = " ".join(part for part in (spec.device_id, spec.host, folder.name) if part)
    frames = _frames(folder, meta["created_at"])
    return Recording(spec.pty.cols, spec.pty.rows, spec.pty.term, title, meta["created_at"], frames)


def received_bytes(folder: Path) -> int:
    """How many bytes of output.raw count: it may have room allocated behind them."""
    try:
        (counted,) = struct.unpack("=Q", (folder / "output.end").read_bytes())
    except (FileNotFoundError, struct.error):
        return (folder / "output.raw").stat().st_size
    return min(int(counted), (folder / "output.raw").stat().st_size)


def _frames(folder: Path, started_at: int) -> Iterator[RecordingFrame]:
    end, at, ts = received_bytes(folder), 0, started_at
    with (folder / "output.raw").open("rb") as log:
        for row in rows(folder / "timeline.jsonl"):
            for data in _pieces(log, min(row["raw"], end) - at):
                yield RecordingFrame(ts, data)
            at, ts = max(at, min(row["raw"], end)), max(ts, row["ts"])
            step = None if row["kind"] == "data" else step_of(row)
            if step is not None and (step.size is not None or at):
                yield RecordingFrame(ts, size=step.size) if step.size is not None else RecordingFrame(ts, RESET)
        for data in _pieces(log, end - at):
            yield RecordingFrame(ts, data)


def _pieces(log: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0 and (data := log.read(min(size, _PIECE_BYTES))):
        size -= len(data)
        yield data

"""All sessions that are kept on disk, and the end of one: what its folder says, without opening it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: A folder that is on its way out: no id begins so.
_GOING = ".gone-"


@dataclass(frozen=True, slots=True)
class StoredSession:
    """`meta` is its meta.json; `disk_bytes` what its files take, with what is allocated ahead; `last_used_at` epoch ms."""

    session_id: str
    meta: dict[str, Any]
    disk_bytes: int
    last_used_at: int

    @property
    def closed(self) -> bool:
        """Whether it was closed in order. What was not may still be gone on with."""
        return self.meta.get("state") == "closed"


def stored_sessions(sessions: Path) -> list[StoredSession]:
    """Those whose meta.json can be read, the oldest first; there may be thousands, so not for an event loop's thread."""
    if not sessions.is_dir():
        return []
    kept = [_kept(folder) for folder in sessions.iterdir() if not folder.name.startswith(".")]
    return sorted((session for session in kept if session), key=lambda session: (session.last_used_at, session.session_id))


def remove_stored(folder: Path) -> bool:
    """Removes a session for good; False, and nothing done, where it is alive in any server. Should we be killed in between,
    `remove_rest` does the rest.

    Raises:
        OSError
    """
    try:
        log = os.open(folder / "output.raw", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        going = folder.with_name(_GOING + folder.name)
        folder.rename(going)
        shutil.rmtree(going)
    except BlockingIOError:
        return False
    finally:
        os.close(log)
    return True


def remove_rest(sessions: Path) -> None:
    """What earlier removals have left."""
    for folder in sessions.glob(f"{_GOING}*"):
        shutil.rmtree(folder)


def _kept(folder: Path) -> StoredSession | None:
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return None
        meta = json.loads((folder / "meta.json").read_bytes())
        files = [file.lstat() for file in folder.rglob("*")]
    except (OSError, ValueError):
        return None
    if not isinstance(meta, dict):
        return None
    last_used_at = max(int(status.st_mtime * 1000) for status in files)
    return StoredSession(folder.name, meta, sum(status.st_blocks * 512 for status in files), last_used_at)


def was_closed(folder: Path) -> bool:
    """Whether the session was closed in order, or is not there: nobody can go on with it."""
    kept = _kept(folder)
    return kept is None or kept.closed

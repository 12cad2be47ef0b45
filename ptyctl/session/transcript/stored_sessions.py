"""The sessions on disk: lists and removes their folders without opening the sessions."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptyctl.files import open_file

from .meta_file import read_meta

#: A folder is renamed to this prefix before it is removed. No session id begins with it.
_REMOVED_PREFIX = ".gone-"


@dataclass(frozen=True, slots=True)
class StoredSession:
    """One session folder.

    Attributes:
        meta: the content of meta.json.
        disk_bytes: space that its files take, including room allocated ahead.
        last_used_at: epoch ms.
    """

    session_id: str
    meta: dict[str, Any]
    disk_bytes: int
    last_used_at: int

    @property
    def closed(self) -> bool:
        """Whether the session was closed cleanly. Otherwise it can still be continued."""
        return self.meta.get("state") == "closed"


def stored_sessions(sessions: Path) -> list[StoredSession]:
    """Return the sessions with a readable meta.json, the least recently used first.

    Blocks: there may be thousands.
    """
    if not sessions.is_dir():
        return []
    found = [_read_stored(folder) for folder in sessions.iterdir() if not folder.name.startswith(".")]
    return sorted((session for session in found if session), key=lambda session: (session.last_used_at, session.session_id))


def remove_stored(folder: Path) -> bool:
    """Remove a session's folder. Return False, and change nothing, if a server holds the session or the folder is missing.

    `finish_removals` completes a removal that was interrupted.

    Raises:
        OSError
    """
    try:
        log = open_file(folder / "output.raw")
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        removed = folder.with_name(_REMOVED_PREFIX + folder.name)
        folder.rename(removed)
        shutil.rmtree(removed)
    except BlockingIOError:
        return False
    finally:
        os.close(log)
    return True


def finish_removals(sessions: Path) -> None:
    """Remove the folders of interrupted removals."""
    for folder in sessions.glob(f"{_REMOVED_PREFIX}*"):
        shutil.rmtree(folder)


def was_closed(folder: Path) -> bool:
    """Return whether the session was closed cleanly or has no folder, so that it cannot be continued."""
    session = _read_stored(folder)
    return session is None or session.closed


def _read_stored(folder: Path) -> StoredSession | None:
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return None
        meta = read_meta(folder)
        files = [file.lstat() for file in folder.rglob("*")]
    except (OSError, ValueError):
        return None
    last_used_at = max(int(status.st_mtime * 1000) for status in files)
    return StoredSession(folder.name, meta, sum(status.st_blocks * 512 for status in files), last_used_at)

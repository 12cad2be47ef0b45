"""Removal of old transcripts: by age first, then by total size, oldest first. Live sessions are never removed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.operator import GcEntry, GcReply, GcRequest
from ptyctl.session.transcript.stored_sessions import StoredSession, finish_removals, remove_stored, stored_sessions

from .settings import Settings

_DAY_MS = 86_400_000


async def remove_old_sessions(
    settings: Settings, request: GcRequest, live: frozenset[str], forget: Callable[[str], None]
) -> GcReply:
    """Remove the sessions that exceed the limits of the request or the settings.

    Args:
        live: the ids of the sessions that this process holds.
        forget: called with the id of each removed session.

    Raises:
        PtyctlError: IO_ERROR for files that cannot be removed; POLICY_DENIED for a folder that is not the user's own.
    """
    folder = settings.sessions_dir()
    max_age_days = settings.gc_max_age_days if request.max_age_days is None else request.max_age_days
    max_bytes = settings.gc_max_bytes if request.max_bytes is None else request.max_bytes
    stored = await asyncio.to_thread(stored_sessions, folder)
    removed = []
    try:
        for session, why in list(select_removals(stored, live, int(time.time() * 1000), max_age_days, max_bytes)):
            if request.dry_run or await asyncio.to_thread(remove_stored, folder / session.session_id):
                removed.append(
                    GcEntry(session_id=session.session_id, why=why, bytes=session.disk_bytes, last_used_at=session.last_used_at)
                )
                if not request.dry_run:
                    forget(session.session_id)
        if not request.dry_run:
            await asyncio.to_thread(finish_removals, folder)
    except OSError as error:
        raise PtyctlError(
            ErrorCode.IO_ERROR, f"{error.filename} cannot be removed: {error.strerror}", hint="check the file and its folder"
        ) from None
    removed_bytes = sum(entry.bytes for entry in removed)
    return GcReply(
        removed=removed,
        removed_bytes=removed_bytes,
        kept=len(stored) - len(removed),
        kept_bytes=sum(session.disk_bytes for session in stored) - removed_bytes,
        dry_run=request.dry_run,
    )


def select_removals(
    stored: Sequence[StoredSession], live: frozenset[str], now_ms: int, max_age_days: float, max_bytes: int
) -> Iterator[tuple[StoredSession, Literal["age", "size"]]]:
    """Yield the sessions to remove, and why.

    A session that was not closed cleanly may still be resumed, so only its age counts.

    Args:
        stored: all sessions, oldest first.
        max_age_days, max_bytes: 0 means no limit.
    """
    total = sum(session.disk_bytes for session in stored)
    removable = []
    for session in stored:
        if session.session_id in live:
            continue
        if max_age_days and now_ms - session.last_used_at > max_age_days * _DAY_MS:
            total -= session.disk_bytes
            yield session, "age"
        elif session.closed:
            removable.append(session)
    for session in removable:
        if not max_bytes or total <= max_bytes:
            return
        total -= session.disk_bytes
        yield session, "size"

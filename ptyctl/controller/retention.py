"""Which transcripts are kept: by age, then by size, the oldest go first. A live session never goes, whatever its age."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.operator import GcEntry, GcReply, GcRequest
from ptyctl.session.transcript.stored_sessions import StoredSession, remove_rest, remove_stored, stored_sessions

from .settings import Settings

_DAY_MS = 86_400_000

Doomed = tuple[StoredSession, Literal["age", "size"]]


async def collect(settings: Settings, request: GcRequest, live: frozenset[str], forget: Callable[[str], None]) -> GcReply:
    """Removes what is too old or too much. `live` are the sessions of this server, `forget` is told what went.

    Raises:
        PtyctlError: IO_ERROR for files that cannot be removed; POLICY_DENIED for a folder that is not the user's own.
    """
    folder = settings.sessions_dir()
    max_age_days = settings.gc_max_age_days if request.max_age_days is None else request.max_age_days
    max_bytes = settings.gc_max_bytes if request.max_bytes is None else request.max_bytes
    kept = await asyncio.to_thread(stored_sessions, folder)
    went = []
    try:
        for session, why in list(doomed(kept, live, int(time.time() * 1000), max_age_days, max_bytes)):
            if request.dry_run or await asyncio.to_thread(remove_stored, folder / session.session_id):
                went.append(_entry(session, why))
                if not request.dry_run:
                    forget(session.session_id)
        if not request.dry_run:
            await asyncio.to_thread(remove_rest, folder)
    except OSError as error:
        raise PtyctlError(ErrorCode.IO_ERROR, f"cannot remove {error.filename}: {error.strerror}; look at it by hand") from None
    removed_bytes = sum(entry.bytes for entry in went)
    return GcReply(
        removed=went,
        removed_bytes=removed_bytes,
        kept=len(kept) - len(went),
        kept_bytes=sum(session.disk_bytes for session in kept) - removed_bytes,
        dry_run=request.dry_run,
    )


def doomed(
    kept: Sequence[StoredSession], live: frozenset[str], now_ms: int, max_age_days: float, max_bytes: int
) -> Iterator[Doomed]:
    """`kept` are the oldest first, a limit of 0 is none. What was not closed may be gone on with: only its age counts."""
    total = sum(session.disk_bytes for session in kept)
    young = []
    for session in kept:
        if session.session_id in live:
            continue
        if max_age_days and now_ms - session.last_used_at > max_age_days * _DAY_MS:
            total -= session.disk_bytes
            yield session, "age"
        elif session.closed:
            young.append(session)
    for session in young:
        if not max_bytes or total <= max_bytes:
            return
        total -= session.disk_bytes
        yield session, "size"


def _entry(session: StoredSession, why: Literal["age", "size"]) -> GcEntry:
    return GcEntry(session_id=session.session_id, why=why, bytes=session.disk_bytes, last_used_at=session.last_used_at)

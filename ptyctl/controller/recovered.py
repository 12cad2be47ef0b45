"""Sessions of earlier servers, found by id in the state directory: their history is served, whatever ended the server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.session.session import Session
from ptyctl.session.spec import SPECS, Limits, Spec
from ptyctl.session.transcript.block_recovery import write_outputs
from ptyctl.session.transcript.raw_log import RawLog
from ptyctl.session.transcript.recovery import TranscriptState, recover
from transports.channel import Channel

#: An id is the name of a folder, and never a way to another one.
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


async def recovered(sessions: Path, session_id: str, limits: Limits, *, hold: bool) -> Session | None:
    """The session of that id: closed, where it was closed in order, and lost otherwise; None where there is no such folder.

    `hold` keeps the files of a lost one to go on with it; without it they are let go once they are whole, for any server.

    Raises:
        PtyctlError: POLICY_DENIED where it is another user's or open to others; BUSY where it is alive in another server;
            IO_ERROR.
    """
    folder = sessions / session_id
    if not _SESSION_ID.fullmatch(session_id):
        return None
    left = await asyncio.to_thread(_left, folder, limits)
    if left is None:
        return None
    log = left.kept.raw
    if left.kept.without_output:
        asyncio.get_running_loop().run_in_executor(None, write_outputs, left.kept.without_output, log.path, log.kept)
    with _faults_told(folder), _closed_unless_whole(log):
        session = Session(session_id, left.spec, folder, limits, left.kept)
        session.restore(left.meta)
    if session.held and not hold:
        session.release_files()
    return session


async def gone_on(sessions: Path, session_id: str, limits: Limits, channel: Channel, secrets: bytes = b"") -> Session:
    """The session of that id, open as it was: the program behind `channel` has outlived the server that held it. It may show
    `secrets`, a line each, which are masked.

    Raises:
        PtyctlError: as `recovered`; NOT_FOUND where its folder was removed.
    """
    folder = sessions / session_id
    left = await asyncio.to_thread(_left, folder, limits, lives_on=True)
    if left is None:
        raise PtyctlError(ErrorCode.NOT_FOUND, f"{folder} holds no session (any more)")
    with _faults_told(folder), _closed_unless_whole(left.kept.raw):
        session = Session(session_id, left.spec, folder, limits, left.kept)
        session.restore_values(left.meta)
    session.stream.mask(secrets)
    await session.resume(channel, left.kept.running)
    return session


class _Left(NamedTuple):
    spec: Spec
    meta: dict[str, Any]
    kept: TranscriptState


def _left(folder: Path, limits: Limits, *, lives_on: bool = False) -> _Left | None:
    if not os.path.lexists(folder):
        return None
    with _faults_told(folder):
        _check(folder)
        kept_meta = _meta(folder)
        if kept_meta is None:
            return None
        spec = SPECS.validate_python(kept_meta["spec"])
        return _Left(spec, kept_meta, recover(folder, kept_meta, limits.quota_bytes, lives_on=lives_on))


@contextmanager
def _closed_unless_whole(log: RawLog) -> Iterator[None]:
    """A session that could not be made again is held by nobody."""
    try:
        yield
    except BaseException:
        log.close()
        raise


@contextmanager
def _faults_told(folder: Path) -> Iterator[None]:
    """What a folder can have that is wrong, as a PtyctlError."""
    try:
        yield
    except BlockingIOError:
        raise PtyctlError(
            ErrorCode.BUSY,
            f"session {folder.name} is alive in another server on this machine; use it there, or end that server first",
            {"session_id": folder.name},
        ) from None
    except OSError as error:
        raise PtyctlError(
            ErrorCode.IO_ERROR, f"the transcript in {folder} cannot be read: {error.strerror}; look at its files"
        ) from None
    except (ValueError, KeyError):
        raise PtyctlError(
            ErrorCode.IO_ERROR, f"{folder / 'meta.json'} does not say what the session was; its other files can be read by hand"
        ) from None


def _meta(folder: Path) -> dict[str, Any] | None:
    """It is replaced as a whole, so it is there and whole, or the session never was."""
    try:
        kept = json.loads((folder / "meta.json").read_bytes())
    except FileNotFoundError:
        return None
    if not isinstance(kept, dict):
        raise ValueError("no JSON object")
    return kept


def _check(folder: Path) -> None:
    """Nothing of another user's is opened, nor what others can read or could have put there."""
    for path in (folder, *folder.iterdir()):
        status = path.lstat()
        if status.st_uid != os.geteuid():
            raise PtyctlError(ErrorCode.POLICY_DENIED, f"{path} belongs to another user; nothing of it is read")
        if stat.S_ISLNK(status.st_mode):
            raise PtyctlError(ErrorCode.POLICY_DENIED, f"{path} is a link, and transcripts have none; remove it")
        if status.st_mode & 0o077:
            raise PtyctlError(
                ErrorCode.POLICY_DENIED,
                f"{path} can be read by others, and transcripts hold what devices print; run: chmod go= {path}",
                {"path": str(path)},
            )

"""Removal of old sessions through the controller."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ptyctl.api import Controller, ErrorCode, GcReply, GcRequest
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import read, refused

DAY_S = 86_400


async def gc(controller: Controller, **fields: object) -> GcReply:
    return await controller.gc(GcRequest.of(fields))


def folder(handle: SessionHandle, tmp_path: Path) -> Path:
    return tmp_path / "state" / "sessions" / handle.session_id


def age(path: Path, days: float) -> None:
    """Set the time of all files back."""
    for file in (path, *path.rglob("*")):
        status = file.stat()
        os.utime(file, (status.st_atime, status.st_mtime - days * DAY_S))


async def ended(controller: Controller, tmp_path: Path, days: float) -> SessionHandle:
    handle = await SessionHandle.open(controller, protocol="local", command=("echo", "x" * 1000))
    await handle.close()
    age(folder(handle, tmp_path), days)
    return handle


@pytest.mark.also_remote("reply of gc")
async def test_session_over_max_age_is_removed(controller: Controller, tmp_path: Path) -> None:
    old, young = await ended(controller, tmp_path, 40), await ended(controller, tmp_path, 1)
    reply = await gc(controller, max_age_days=30)
    assert [(entry.session_id, entry.why) for entry in reply.removed] == [(old.session_id, "age")]
    assert (reply.kept, reply.dry_run) == (1, False)
    assert reply.removed_bytes == reply.removed[0].bytes > 0
    assert not folder(old, tmp_path).exists()
    assert folder(young, tmp_path).exists()
    with refused(ErrorCode.NOT_FOUND):
        await read(old, mode="tail")


async def test_oldest_sessions_over_max_bytes_are_removed(controller: Controller, tmp_path: Path) -> None:
    sessions = [await ended(controller, tmp_path, days) for days in (3, 9, 6)]
    all_bytes = (await gc(controller)).kept_bytes
    reply = await gc(controller, max_bytes=all_bytes - 1)
    assert [(entry.session_id, entry.why) for entry in reply.removed] == [(sessions[1].session_id, "size")]
    assert reply.kept_bytes < all_bytes
    assert [entry.session_id for entry in (await gc(controller, max_bytes=1)).removed] == [
        sessions[2].session_id, sessions[0].session_id,
    ]  # fmt: skip


async def test_live_session_is_never_removed(controller: Controller, bash: SessionHandle, tmp_path: Path) -> None:
    age(folder(bash, tmp_path), 1000)
    reply = await gc(controller, max_age_days=1, max_bytes=1)
    assert (reply.removed, reply.kept) == ([], 1)
    assert (await bash.exec("echo still here")).stdout == "still here\n"


async def test_dry_run_removes_nothing(controller: Controller, tmp_path: Path) -> None:
    old = await ended(controller, tmp_path, 40)
    reply = await gc(controller, dry_run=True)
    assert ([entry.session_id for entry in reply.removed], reply.kept, reply.dry_run) == ([old.session_id], 0, True)
    assert folder(old, tmp_path).exists()
    assert [entry.session_id for entry in (await gc(controller)).removed] == [old.session_id]


async def test_zero_limits_keep_everything(controller: Controller, tmp_path: Path) -> None:
    await ended(controller, tmp_path, 4000)
    assert (await gc(controller, max_age_days=0, max_bytes=0)).removed == []


@pytest.mark.parametrize("limit", [{"max_age_days": -1}, {"max_bytes": -1}])
def test_negative_limit_is_refused(limit: dict[str, int]) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, next(iter(limit))):
        GcRequest.of(limit)

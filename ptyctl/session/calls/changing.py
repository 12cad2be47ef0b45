"""Modes and saving, as callers ask for them: held against the lock, and done even when the caller goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ptyctl.api.errors import unsupported
from ptyctl.platforms import Shown
from ptyctl.session.device import modes
from ptyctl.session.device.command_line import CommandLine
from ptyctl.session.io.gate import Writer
from ptyctl.session.session import Session

from .arriving import command_line

_Result = TypeVar("_Result")


async def change_mode(session: Session, mode: str, writer: Writer) -> str:
    """Goes to a mode of the session's platform; the mode that it is in then.

    Raises:
        PtyctlError: LOCKED, LOCK_REQUIRED, BUSY; UNSUPPORTED without a platform; see `modes.walk`.
    """
    shown = await _typing(session, writer, f"the way to mode {mode}", lambda line, may: modes.walk(line, mode, may))
    return shown.mode


async def save(session: Session, writer: Writer) -> tuple[str, str]:
    """Saves the device's configuration: the mode that it is in then, and what the device said.

    Raises:
        PtyctlError: as `change_mode`; see `modes.save`.
    """
    shown, said = await _typing(session, writer, "saving", lambda line, may: modes.save(line, may))
    return shown.mode, said


def mode_at(session: Session, raw_end: int | None = None) -> str | None:
    """The mode of the prompt at the end of what came, or at an offset of it. None where there is none, or a POSIX shell may
    be in front, whose prompt can look like anything."""
    shown = _shown(session, raw_end)
    return None if shown is None else shown.mode


def _shown(session: Session, raw_end: int | None) -> Shown | None:
    platform = session.platform
    return None if platform is None or platform.posix_shell else command_line(session, platform).shown(raw_end)


async def _typing(
    session: Session, writer: Writer, what: str, work: Callable[[CommandLine, modes.May], Awaitable[_Result]]
) -> _Result:
    """Nobody begins a run meanwhile. A caller who goes away leaves nothing half done: a password prompt, say."""
    session.gate.check(writer)
    if session.platform is None:
        raise unsupported("modes belong to a platform, and this session has none; open it with one, or type the commands")
    line = command_line(session, session.platform)

    async def typing() -> _Result:
        async with session.runs.reserved(what):
            return await work(line, lambda: session.gate.check(writer))

    task = asyncio.create_task(typing(), name=what)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # it was told to whoever still waited
    return await asyncio.shield(task)

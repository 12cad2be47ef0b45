"""Mode changes and saving for callers: checked against the lock, and finished even if the caller goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ptyctl.api.errors import unsupported
from ptyctl.session.activity import writer_fields
from ptyctl.session.device import modes
from ptyctl.session.device.device_cli import DeviceCli
from ptyctl.session.device.exchange import lines_before
from ptyctl.session.io.gate import Writer
from ptyctl.session.session import Session

_Result = TypeVar("_Result")


async def change_mode(session: Session, mode: str, writer: Writer) -> str:
    """Change to a mode of the session's platform. Return the resulting mode.

    Raises:
        PtyctlError: LOCKED, LOCK_REQUIRED, BUSY; UNSUPPORTED without a platform; see `modes.walk`.
    """
    session.gate.check(writer)
    session.activity.record("mode", **writer_fields(writer), mode=mode)
    shown = await _reserved(session, writer, f"the change to mode {mode}", lambda cli, check: modes.walk(cli, mode, check))
    return shown.mode


async def save(session: Session, writer: Writer) -> tuple[str, str]:
    """Save the device's configuration. Return the mode after the save, and the device's output.

    Raises:
        PtyctlError: as `change_mode`; see `modes.save`.
    """
    session.gate.check(writer)
    session.activity.record("save", **writer_fields(writer))
    shown, output = await _reserved(session, writer, "saving", modes.save)
    return shown.mode, output


def mode_at(session: Session) -> str | None:
    """Return the mode of the prompt at the end of the output.

    None without a prompt, or on a platform with a POSIX shell, whose prompt may be any text.
    """
    platform = session.platform
    if platform is None or platform.posix_shell:
        return None
    shown = platform.profile.shown_prompt(lines_before(session.stream, session.stream.raw_size))
    return None if shown is None else shown.mode


async def _reserved(
    session: Session,
    writer: Writer,
    purpose: str,
    work: Callable[[DeviceCli, modes.CheckCommand], Awaitable[_Result]],
) -> _Result:
    """Perform an operation on the device while no run can begin. It is completed even if the caller is cancelled."""
    session.gate.check(writer)
    if session.platform is None:
        raise unsupported(
            "modes belong to a platform, and this session has none", hint="open it with one, or type the device's commands"
        )
    cli = DeviceCli(session.terminal, session.platform, session.credentials)

    def check(command: str) -> None:
        session.gate.check(writer)
        session.authorization.check_command(command, writer)

    async def reserved_work() -> _Result:
        async with session.runs.reserved(purpose):
            return await work(cli, check)

    task = asyncio.create_task(reserved_work(), name=purpose)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # the caller got the exception, if it waited
    return await asyncio.shield(task)

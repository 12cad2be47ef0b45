"""ptyctl_session_config: what a session is set to, and setting it (CONTRACTS)."""

from __future__ import annotations

import asyncio

from ptyctl.api.config import ConfigReply, ConfigRequest
from ptyctl.api.session import Pace
from ptyctl.session.calls.changing import change_mode, mode_at, save
from ptyctl.session.io.gate import Writer
from ptyctl.session.session import Session


async def configure(session: Session, request: ConfigRequest) -> ConfigReply:
    """QueryResponder one request.

    Raises:
        PtyctlError: INVALID_ARGUMENT for patterns that cannot be; LOCKED, UNSUPPORTED, REMOTE_CLOSED; for a mode, and to save,
            as `session.changing`.
    """
    stdout, writer = None, Writer(request.task_id)
    if request.mode is not None:
        await change_mode(session, request.mode, writer)
    elif request.action == "save":
        _, stdout = await save(session, writer)
    elif request.action == "pace":
        _set_pace(session, request)
    elif request.action == "resize":
        _resize(session, request)
    elif request.expect is not None:
        session.update_expect(request.expect)
    return ConfigReply(
        action=request.action,
        expect=session.expect,
        cols=session.cols if session.spec.pty.enabled else None,
        rows=session.rows if session.spec.pty.enabled else None,
        platform=session.spec.platform,
        mode=mode_at(session),
        stdout=stdout,
        pace=session.gate.pace,
        notices=session.notices.take(request.task_id),
    )


def _set_pace(session: Session, request: ConfigRequest) -> None:
    """Refused only while another task holds the lock: it may be typing."""
    if session.lease() is not None:
        session.leases.check(request.task_id, required=False, now=asyncio.get_running_loop().time())
    pace = Pace(chars_per_s=request.chars_per_s, line_delay_ms=request.line_delay_ms)
    session.set_pace(None if pace == Pace() else pace)


def _resize(session: Session, request: ConfigRequest) -> None:
    """Refused only while another task holds the lock."""
    assert request.cols is not None
    assert request.rows is not None
    if session.lease() is not None:
        session.leases.check(request.task_id, required=False, now=asyncio.get_running_loop().time())
    session.resize(request.cols, request.rows)

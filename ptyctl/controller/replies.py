"""What an answer about a session says of it."""

from __future__ import annotations

from ptyctl.api.session import SessionReply, SessionRequest
from ptyctl.core.lease import Lease
from ptyctl.session.clock import epoch_ms
from ptyctl.session.session import Session


def about(session: Session, request: SessionRequest) -> SessionReply:
    """The session's id, and what the task that asks was not told yet."""
    return SessionReply(action=request.action, session_id=session.session_id, notices=session.notices.take(request.task_id))


def with_lock(session: Session, request: SessionRequest, lease: Lease | None) -> SessionReply:
    """Also who holds the lock until when."""
    reply = about(session, request)
    if lease is not None:
        reply.lock_holder, reply.lock_expires_at, reply.fence = lease.holder, epoch_ms(lease.expires_at), lease.fence
    return reply


def opened(session: Session, request: SessionRequest, lease: Lease | None, next_cursor: int) -> SessionReply:
    """What an open answers; reading goes on from `next_cursor`."""
    channel = session.channel
    assert channel is not None
    return with_lock(session, request, lease).model_copy(
        update={
            "protocol": session.spec.protocol,
            "state": session.state,
            "pty_enabled": channel.pty_enabled,
            "next_cursor": str(next_cursor),
            "security_warning": channel.security_warning,
            "server_banner": channel.server_banner,
            "platform": session.spec.platform,
            "message": session.login_notice,
        }
    )

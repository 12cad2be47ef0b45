"""What an answer about a session says of it."""

from __future__ import annotations

from typing import Literal

from ptyctl.api.session import SessionReply
from ptyctl.core.lease import Lease
from ptyctl.session.meta import epoch_ms
from ptyctl.session.session import Session


def with_lock(
    action: Literal["open", "lock", "unlock", "heartbeat", "status"], session: Session, lease: Lease | None
) -> SessionReply:
    """The session's id, and who holds its lock until when."""
    return SessionReply(
        action=action,
        session_id=session.session_id,
        lock_holder=lease.holder if lease else None,
        lock_expires_at=epoch_ms(lease.expires_at) if lease else None,
        fence=lease.fence if lease else None,
    )


def opened(session: Session, lease: Lease | None, next_cursor: int) -> SessionReply:
    """What an open answers; reading goes on from `next_cursor`."""
    channel = session.channel
    assert channel is not None
    return with_lock("open", session, lease).model_copy(
        update={
            "protocol": session.spec.protocol,
            "state": session.state,
            "pty_enabled": channel.pty_enabled,
            "next_cursor": str(next_cursor),
            "security_warning": channel.security_warning,
            "server_banner": channel.server_banner,
            "platform": session.spec.platform,
            "message": session.arrival,
        }
    )

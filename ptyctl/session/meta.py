"""meta.json: what a session is and how far its files go; also its row in `list` (CONTRACTS, sessions[])."""

from __future__ import annotations

import asyncio
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptyctl.api.session import SessionEntry
from ptyctl.core.lease import Lease

from .spec import SPECS

if TYPE_CHECKING:
    from .session import Session


def entry(session: Session) -> SessionEntry:
    spec, lease = session.spec, session.lease()
    return SessionEntry(
        session_id=session.session_id,
        protocol=spec.protocol,
        host=spec.host,
        port=spec.port,
        username=spec.username,
        session_type=spec.session_type,
        device=spec.device,
        device_id=spec.device_id,
        conversation_id=spec.conversation_id,
        client_id=spec.client_id,
        platform=spec.platform,
        state=session.state,
        mode=session.runs.mode,
        pty=spec.pty.model_copy(update={"cols": session.cols, "rows": session.rows}),
        lock_holder=lease.holder if lease else None,
        lock_expires_at=epoch_ms(lease.expires_at) if lease else None,
        observers=len(session.observers()),
        created_at=session.created_at,
        last_activity_at=session.usage.last_activity_at,
        bytes_received=session.stream.normaliser.raw,
        bytes_sent=session.gate.bytes_sent,
        spool_size=session.stream.end,
        disk_bytes=session.stream.transcript.disk_bytes(),
        incarnation=session.incarnation,
    )


def meta(session: Session) -> dict[str, Any]:
    """The row, and what an earlier process needs to have told whoever goes on with the session."""
    spec = SPECS.dump_python(session.spec, mode="json", exclude_defaults=True)
    closed = {"closed_reason": session.closed_why} if session.state == "closed" else {}
    lease = session.lease()
    lock = {"lock_clock": _boot_id(), "lock_until": lease.expires_at} if lease else {}
    return {**entry(session).payload(), "fence": session.leases.fence, **lock, "spec": spec, **closed}


def recall(session: Session, kept: dict[str, Any]) -> None:
    """Takes over what an earlier process wrote; a lock that it gave out lasts until its time is over."""
    session.created_at, session.usage.last_activity_at = kept["created_at"], kept["last_activity_at"]
    session.cols, session.rows = kept["pty"]["cols"], kept["pty"]["rows"]
    session.gate.bytes_sent = kept["bytes_sent"]
    lease = None
    if "lock_holder" in kept:
        lease = Lease(kept["lock_holder"], _lock_until(kept), kept["fence"])
    session.leases.restore(lease, kept["fence"])


def _lock_until(kept: dict[str, Any]) -> float:
    """On the loop's clock, which is the machine's (CLOCK_MONOTONIC) and goes on as long as that is up."""
    if kept["lock_clock"] == _boot_id():
        return float(kept["lock_until"])
    left_s: float = kept["lock_expires_at"] / 1000 - time.time()
    return asyncio.get_running_loop().time() + left_s


@cache
def _boot_id() -> str:
    """Differs each time the machine is started (Linux random(4))."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def epoch_ms(monotonic_s: float) -> int:
    """A time of the loop's clock as epoch ms, for those outside."""
    return int((time.time() + monotonic_s - asyncio.get_running_loop().time()) * 1000)

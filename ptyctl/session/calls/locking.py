"""The lock as a call asks for it: at once, in the queue, or by force (design, section 7)."""

from __future__ import annotations

import asyncio

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.lease import Lease
from ptyctl.session.session import Session


async def lock(session: Session, task_id: str, ttl_s: float, wait_s: float = 0.0) -> Lease:
    """Takes or extends the lock; another's is waited for, in the order of asking.

    Raises:
        PtyctlError: LOCKED, after `wait_s` without it; `details.queue_position` is the place that is kept for a moment.
    """
    try:
        return _kept(session, session.leases.acquire(task_id, ttl_s, _now()))
    except PtyctlError:
        if wait_s <= 0:
            raise
    return await _wait(session, task_id, ttl_s, _now() + wait_s)


def take_over(session: Session, task_id: str, ttl_s: float, reason: str | None) -> Lease:
    """Takes the lock from whoever holds it; all who use the session are told, with the reason."""
    lease, loser = session.leases.take_over(task_id, ttl_s, _now())
    if loser is not None:
        told = f": {reason}" if reason else "; no reason was given"
        session.notices.post(f"taken over: task {task_id} took the lock from task {loser}{told}")
        session.events.note("lock_taken_over", task_id=task_id, from_task_id=loser, reason=reason)
    return _kept(session, lease)


def unlock(session: Session, task_id: str) -> None:
    """Gives the lock back, or the place in the queue. Where nobody holds it, nothing happens.

    Raises:
        PtyctlError: LOCKED, when another holds it and this task does not wait for it.
    """
    now = _now()
    waited = task_id in session.leases.queue.waiting(now)
    session.leases.queue.leave(task_id)
    lease = session.leases.current(now)
    if not (waited and lease is not None and lease.holder != task_id):
        session.leases.release(task_id, now)
    _changed(session)


def heartbeat(session: Session, task_id: str, ttl_s: float) -> Lease:
    """Raises PtyctlError LOCKED, or LOCK_LOST where the task holds no lock (any more)."""
    lease = session.leases.heartbeat(task_id, ttl_s, _now())
    session.persist_extended_lease()
    _notify(session)
    return lease


async def _wait(session: Session, task_id: str, ttl_s: float, deadline: float) -> Lease:
    leases = session.leases
    leases.queue.join(task_id, _now())
    while True:
        try:
            if session.state == "closed":
                raise session.already_closed()
            return _kept(session, leases.acquire(task_id, ttl_s, _now()))
        except PtyctlError as error:
            if error.code is not ErrorCode.LOCKED:
                leases.queue.leave(task_id)
                raise
            if task_id not in leases.queue.waiting(_now()):
                raise  # another call of the task has given up its place
            if _now() >= deadline:
                leases.queue.pause(task_id, _now())
                _changed(session)
                raise _still_locked(error, leases.queue.waiting(_now()).index(task_id) + 1) from None
        try:
            await session.changes.wait(min(deadline, _next_look(session)))
        except asyncio.CancelledError:
            leases.queue.withdraw(task_id)
            _changed(session)
            raise


def _next_look(session: Session) -> float:
    """When the lock may be free although nobody says so: a lease runs out, or the first in the queue did not come again."""
    now = _now()
    lease, change = session.leases.current(now), session.leases.queue.next_change()
    return min(when for when in (lease.expires_at if lease else None, change, now + 60.0) if when is not None)


def _kept(session: Session, lease: Lease) -> Lease:
    """Another process that goes on with the session finds the lock in its meta.json."""
    _changed(session)
    return lease


def _changed(session: Session) -> None:
    """Write the lock to meta.json and wake all waiters."""
    session.write_meta()
    _notify(session)


def _notify(session: Session) -> None:
    """Wake the calls that wait for the lock, and the calls of a task that has lost it."""
    session.changes.beat()
    session.stream.pulse.beat()
    session.runs.ended.beat()


def _still_locked(error: PtyctlError, position: int) -> PtyctlError:
    return PtyctlError(
        error.code,
        f"{error.message}; you are number {position} in the queue, and your place is kept if you ask again at once",
        {**error.details, "queue_position": position},
    )


def _now() -> float:
    return asyncio.get_running_loop().time()

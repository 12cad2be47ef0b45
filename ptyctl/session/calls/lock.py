"""Lock calls: taking the session's lease at once, from the queue or by force; extending and releasing it."""

from __future__ import annotations

import asyncio

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.lease import Lease, Owner
from ptyctl.session.activity import caller
from ptyctl.session.clients import lock_owner
from ptyctl.session.session import Session

#: A waiting call checks the queue at least this often (seconds).
_RECHECK_S = 60.0


async def lock(session: Session, task_id: str, ttl_s: float, wait_s: float = 0.0) -> Lease:
    """Take or extend the lease. If another task holds it, wait in the queue for up to `wait_s`.

    Raises:
        PtyctlError: LOCKED after `wait_s`; `details.queue_position` is the task's place, which is kept for a short time.
            IO_ERROR if the lease cannot be stored; LIMIT_EXCEEDED if the queue is full; CLAIM_LOST or SESSION_MOVED if another
            node of the fleet may own the console.
    """
    owner = lock_owner(task_id)
    try:
        lease = _acquire(session, owner, ttl_s)
    except PtyctlError as error:
        if wait_s <= 0 or error.code is not ErrorCode.LOCKED:
            raise
    else:
        session.lock_changed()
        return lease
    return await _wait(session, owner, ttl_s, _now() + wait_s)


def take_over(session: Session, task_id: str, ttl_s: float, reason: str | None) -> Lease:
    """Take the lease from its holder. All users of the session get a notice with the reason."""
    owner = lock_owner(task_id)
    _check_ownership(session)
    lease, loser = session.leases.take_over(owner, ttl_s, _now())
    taken_from = {"taken_from": loser.task_id, "taken_from_principal": loser.principal} if loser is not None else {}
    session.activity.record("take_over", **caller(task_id), fence=lease.fence, **taken_from, reason=reason)
    if loser is not None:
        why = f": {reason}" if reason else "; no reason was given"
        session.notices.post(f"taken over: {owner.describe(loser)} took the lock from {loser.describe(owner)}{why}")
        session.events.note("lock_taken_over", task_id=task_id, from_task_id=loser.task_id, reason=reason)
    session.lock_changed()
    return lease


def unlock(session: Session, task_id: str) -> None:
    """Release the lease, or leave the queue. Without a lease in force nothing happens.

    Raises:
        PtyctlError: LOCKED if another task holds the lease and this one does not wait for it.
    """
    now, owner = _now(), lock_owner(task_id)
    queue = session.leases.queue
    waited = owner in queue.waiting(now)
    queue.leave(owner)
    lease = session.leases.current(now)
    if not (waited and lease is not None and lease.holder != owner):
        session.leases.release(owner, now)
    session.lock_released()


def heartbeat(session: Session, task_id: str, ttl_s: float) -> Lease:
    """Extend the lease.

    Raises:
        PtyctlError: LOCKED; LOCK_LOST if the task holds no lease.
    """
    lease = session.leases.heartbeat(lock_owner(task_id), ttl_s, _now())
    session.lease_extended()
    return lease


def _acquire(session: Session, owner: Owner, ttl_s: float) -> Lease:
    _check_ownership(session)
    return session.leases.acquire(owner, ttl_s, _now())


def _check_ownership(session: Session) -> None:
    """Check that no other node may have granted a lock with a greater fence meanwhile. Raises CLAIM_LOST, SESSION_MOVED."""
    if session.state != "closed":
        session.check_ownership()


async def _wait(session: Session, owner: Owner, ttl_s: float, deadline: float) -> Lease:
    queue = session.leases.queue
    waiting = queue.waiting(_now())
    if owner not in waiting:
        session.limits["max_session_queue"].check(len(waiting))
    queue.join(owner, _now())
    while True:
        try:
            if session.state == "closed":
                raise session.already_closed()
            lease = _acquire(session, owner, ttl_s)
        except PtyctlError as error:
            if error.code is not ErrorCode.LOCKED:
                queue.leave(owner)
                raise
            if owner not in queue.waiting(_now()):
                raise  # another call of the task gave up its place
            if _now() >= deadline:
                queue.pause(owner, _now())
                session.lock_changed()
                raise _with_queue_position(error, queue.waiting(_now()).index(owner) + 1) from None
        else:
            session.lock_changed()
            return lease
        try:
            await session.signal.wait(min(deadline, _next_check(session)))
        except asyncio.CancelledError:
            queue.withdraw(owner)
            session.lock_changed()
            raise


def _with_queue_position(error: PtyctlError, position: int) -> PtyctlError:
    return PtyctlError(
        error.code,
        f"{error.message}; you are number {position} in the queue",
        {**error.details, "queue_position": position},
        hint="ask again at once to keep the place in the queue",
    )


def _next_check(session: Session) -> float:
    """Return when the lease may become free without a notification: it expires, or the first in the queue is dropped."""
    now, queue = _now(), session.leases.queue
    lease, change = session.leases.current(now), queue.next_change()
    return min(when for when in (lease.expires_at if lease else None, change, now + _RECHECK_S) if when is not None)


def _now() -> float:
    return asyncio.get_running_loop().time()

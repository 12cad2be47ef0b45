"""The actions on a session's lock: lock, unlock and heartbeat (CONTRACTS, ptyctl_session)."""

from __future__ import annotations

from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.api.session import DEFAULT_LOCK_TTL_MS, SessionReply, SessionRequest
from ptyctl.session.calls import lock

from . import replies
from .registry import Registry


class Locks:
    """Finds the session that a request names, and does what it asks of the lock."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def lock(self, request: SessionRequest) -> SessionReply:
        session = await self._registry.find_live(request.session_id)
        with session.usage.in_use(request.task_id):
            if request.force:
                lease = lock.take_over(session, task(request), ttl_s(request), request.reason)
            else:
                wait_s = min(request.wait_ms or 0, MAX_WAIT_MS) / 1000
                lease = await lock.lock(session, task(request), ttl_s(request), wait_s)
            return replies.with_lock(session, request, lease)

    async def heartbeat(self, request: SessionRequest) -> SessionReply:
        session = await self._registry.find_live(request.session_id)
        with session.usage.in_use(request.task_id):
            return replies.with_lock(session, request, lock.heartbeat(session, task(request), ttl_s(request)))

    async def unlock(self, request: SessionRequest) -> SessionReply:
        session = await self._registry.find_live(request.session_id)
        with session.usage.in_use(request.task_id):
            lock.unlock(session, task(request))
            return replies.with_lock(session, request, session.lease())


def task(request: SessionRequest) -> str:
    assert request.task_id is not None  # the request was held against its table
    return request.task_id


def ttl_s(request: SessionRequest) -> float:
    return (request.lock_ttl_ms or DEFAULT_LOCK_TTL_MS) / 1000

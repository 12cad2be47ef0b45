"""The action open: a new session, or the one that a console has already (CONTRACTS, ptyctl_session)."""

from __future__ import annotations

from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.api.session import SessionReply, SessionRequest
from ptyctl.session.calls import lock
from ptyctl.session.session import Session
from ptyctl.session.spec import Spec

from . import replies
from .destinations import Destination, Destinations
from .left import LeftSessions
from .locks import task, ttl_s
from .making import Maker
from .opening import spec_of
from .registry import Registry


class Opener:
    """One console session for each device_id; `left` finds those of earlier servers."""

    def __init__(self, registry: Registry, maker: Maker, left: LeftSessions, destinations: Destinations) -> None:
        self._registry = registry
        self._maker = maker
        self._left = left
        self._destinations = destinations

    async def open(self, request: SessionRequest) -> SessionReply:
        destination = await self._destinations.of(request)
        spec = spec_of(destination)
        if spec.device_id is None:
            return await self._open_new(destination, spec)
        async with self._registry.opening[spec.device_id]:
            present = await self._console(spec.device_id)
            if present is None:
                return await self._open_new(destination, spec)
            return await self._open_present(destination, spec, present)

    async def _console(self, device_id: str) -> Session | None:
        """The session of a device: one that is here, or the last one, should its server have been killed."""
        present = self._registry.console(device_id)
        session_id = present.session_id if present is not None else await self._left.of_device(device_id)
        if session_id is None:
            return None
        try:
            return await self._registry.find_live(session_id)
        except PtyctlError as error:
            if error.code is ErrorCode.LIMIT_EXCEEDED:
                raise
            return None  # another server has it, or it cannot be read: this one makes its own

    async def _open_new(self, destination: Destination, spec: Spec) -> SessionReply:
        request = destination.request
        session = await self._maker.make(destination, spec)
        lease = await lock.lock(session, task(request), ttl_s(request)) if request.acquire_lock else None
        return replies.opened(session, request, lease, next_cursor=0).model_copy(update={"lock_acquired": lease is not None})

    async def _open_present(self, destination: Destination, spec: Spec, session: Session) -> SessionReply:
        request, is_dead = destination.request, session.state in ("eof", "lost", "reconnecting")
        if not (_same_place(session.spec, spec) or (is_dead and _has_moved(session.spec, spec))):
            old = session.spec
            raise invalid(
                f"console {spec.device_id} is open already as {old.protocol} {old.host}:{old.port}; "
                "open it with the same, or close it first",
                existing_session_id=session.session_id,
            )
        if is_dead:
            await self._maker.connect_again(session, destination)
        reply = replies.opened(session, request, session.lease(), next_cursor=session.stream.spool_end)
        reply.existing_session_id = session.session_id
        reply.lock_acquired = False
        return reply


def _same_place(old: Spec, new: Spec) -> bool:
    return (old.protocol, old.host, old.port) == (new.protocol, new.host, new.port)


def _has_moved(old: Spec, new: Spec) -> bool:
    """Whether the inventory has another address for the same device now."""
    return old.device is not None and (old.device, old.protocol) == (new.device, new.protocol)

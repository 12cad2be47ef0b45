"""The actions of session requests (open, close, list, status, lock, unlock, heartbeat) and the session configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ptyctl.api.config import ConfigReply, ConfigRequest
from ptyctl.api.errors import ErrorCode, PtyctlError, invalid, unsupported
from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.api.session import DEFAULT_LOCK_TTL_MS, Capabilities, GivenUp, Pace, SessionReply, SessionRequest
from ptyctl.cancellation import cancel_and_wait
from ptyctl.clock import epoch_ms
from ptyctl.core.lease import Lease
from ptyctl.platforms import Platforms
from ptyctl.session.activity import caller
from ptyctl.session.calls import lock, termination
from ptyctl.session.calls.mode_change import change_mode, mode_at, save
from ptyctl.session.clients import lock_owner
from ptyctl.session.io.gate import Writer
from ptyctl.session.session import Session
from ptyctl.session.spec import Spec

from .destinations import Destination, Destinations, session_spec
from .recovery import SessionIndex
from .registry import SessionRegistry
from .session_factory import Opening, SessionFactory

_PROTOCOLS = ("local", "ssh", "telnet")
#: Errors with which the far end, or its host key, refuses a login.
_REFUSALS = (ErrorCode.AUTH_FAILED, ErrorCode.HOSTKEY_MISMATCH)
#: Number of failed attempts that are remembered after their callers were answered.
_MAX_FAILURES = 256


class SessionActions:
    """Serves session requests, by their `action`.

    A console device has one session: a second open returns it, connected again if necessary.
    """

    def __init__(
        self,
        registry: SessionRegistry,
        factory: SessionFactory,
        index: SessionIndex,
        destinations: Destinations,
        platforms: Platforms,
    ) -> None:
        self._registry = registry
        self._factory = factory
        self._session_index = index
        self._destinations = destinations
        self._platforms = platforms
        #: Errors of attempts that failed after their call had returned: by session, and by console until its next open.
        self._failures: dict[str, PtyctlError] = {}
        self._console_failures: dict[str, PtyctlError] = {}
        self._actions = {
            "open": self._open,
            "close": self._close,
            "list": self._list,
            "status": self._status,
            "lock": self._change_lock,
            "unlock": self._change_lock,
            "heartbeat": self._change_lock,
        }

    async def handle(self, request: SessionRequest) -> SessionReply:
        """Serve one request. Raises PtyctlError as the action does."""
        return await self._actions[request.action](request)

    async def given_up(self, device_id: str) -> GivenUp | None:
        """Return why the last session of a console is not connected automatically, or None if it may be."""
        if (live := self._registry.console(device_id)) is not None:
            return live.given_up
        return await self._session_index.given_up(device_id)

    async def _close(self, request: SessionRequest) -> SessionReply:
        session = await self._registry.find(request.session_id, hold=True)
        left = await termination.close(session, bool(request.force), request.task_id)
        return _reply(session, request).model_copy(update={"left_running": left})

    async def _list(self, request: SessionRequest) -> SessionReply:
        entries = self._registry.entries(details=bool(request.details))
        return SessionReply(action="list", sessions=entries, capabilities=capabilities(self._platforms.names()))

    async def _status(self, request: SessionRequest) -> SessionReply:
        session = await self._find_opened(request.session_id or "")
        reply = _lock_reply(session, request, session.lease())
        reply.state, reply.mode, reply.observers = self._registry.state(session), session.mode, session.observers()
        reply.exit_code, reply.given_up = session.terminal.exit_code(), session.given_up
        reply.queue = [owner.task_id for owner in session.lock_queue()]
        reply.limits = [use for use in session.limits_in_use() if use.in_use] or None
        reply.policy, reply.pending_approvals = (
            session.authorization.policy_name,
            session.authorization.pending_approvals() or None,
        )
        if session.reconnect is not None:
            reply.message = session.reconnect.describe(asyncio.get_running_loop().time())
        elif reply.state == "lost":
            reply.message = session.given_up.reason if session.given_up is not None else session.internal_error
        if reply.state == "opening":
            reply.message = "the connection or the login is in progress"
        return reply

    async def _change_lock(self, request: SessionRequest) -> SessionReply:
        session = await self._registry.find_live(request.session_id)
        task_id, ttl_s = _lock_holder(request)
        lease: Lease | None
        with session.usage.in_use(task_id, limited=request.action == "lock"):
            if request.action == "unlock":
                lock.unlock(session, task_id)
                lease = session.lease()
            elif request.action == "heartbeat":
                lease = lock.heartbeat(session, task_id, ttl_s)
            elif request.force:
                lease = lock.take_over(session, task_id, ttl_s, request.reason)
            else:
                lease = await lock.lock(session, task_id, ttl_s, min(request.wait_ms or 0, MAX_WAIT_MS) / 1000)
            return _lock_reply(session, request, lease)

    async def _find_opened(self, session_id: str) -> Session:
        """Return a live session. Raises as its open, if that has failed after its caller was answered, or as `find_live`."""
        try:
            return await self._registry.find_live(session_id)
        except PtyctlError:
            await self._registry.attempt_ends(session_id)  # a failed attempt closes its session first
            if (failure := self._failures.get(session_id)) is not None:
                raise failure from None
            raise

    async def _open(self, request: SessionRequest) -> SessionReply:
        """Open a session, or return the existing one of the console. After 55 s its state is `opening`.

        Raises:
            PtyctlError: INVALID_ARGUMENT if the console is open at another address or without its name; as
                `SessionFactory.create`.
        """
        if request.node is not None:
            raise unsupported("this server is not a node of a fleet", hint="leave out node")
        destination = await self._destinations.resolve(request)
        spec, opening = session_spec(destination), Opening(warning=await self._factory.check_program(request, destination))
        attempt = asyncio.create_task(self._attempt(destination, spec, opening), name="open")
        try:
            if await self._registry.ends_in_time(attempt):
                return attempt.result()
            if (session := opening.session) is not None:
                opening.answer()
                self._registry.let_continue(session, attempt)
                return _opening_reply(session, request)
            attempt.cancel()  # it waits for another open of the console
        except asyncio.CancelledError:
            await cancel_and_wait(attempt)
            raise
        finally:
            del attempt  # a failed one has the exception, whose traceback has this frame
        other = self._registry.console(spec.device_id or "")
        if other is None:
            message = f"another open of console {spec.device_id} is in progress"
            raise PtyctlError(ErrorCode.CONNECT_TIMEOUT, message, hint="open it again")
        _check_name(other, spec)
        return _opening_reply(other, request).model_copy(update={"existing_session_id": other.session_id})

    async def _attempt(self, destination: Destination, spec: Spec, opening: Opening) -> SessionReply:
        if spec.device_id is None:
            return await self._open_recorded(destination, spec, None, opening)
        async with self._registry.open_lock(spec.device_id):
            if (failure := self._console_failures.pop(spec.device_id, None)) is not None:
                raise failure
            return await self._open_recorded(destination, spec, await self._find_console(spec.device_id), opening)

    async def _open_recorded(
        self, destination: Destination, spec: Spec, existing: Session | None, opening: Opening
    ) -> SessionReply:
        """Open; an error after the caller was answered is kept for `status` and the console's next open."""
        try:
            if existing is None:
                return await self._open_new(destination, spec, opening)
            return await self._open_existing(destination, spec, existing, opening)
        except PtyctlError as error:
            if opening.answered and opening.session is not None:
                self._failures.pop(opening.session.session_id, None)
                if opening.session.state == "closed":
                    self._failures[opening.session.session_id] = error
                if spec.device_id is not None:
                    self._console_failures[spec.device_id] = error
                if len(self._failures) > _MAX_FAILURES:
                    del self._failures[next(iter(self._failures))]
            raise

    async def _find_console(self, device_id: str) -> Session | None:
        """Return the console's live session, or its last one from disk if that was not closed cleanly.

        Raises:
            PtyctlError: BUSY if another process has the console open; LIMIT_EXCEEDED; IO_ERROR if its files cannot be read at
                present. Another session would ignore its lock.
        """
        live = self._registry.console(device_id)
        session_id = live.session_id if live is not None else await self._session_index.of_device(device_id)
        if session_id is None:
            return None
        try:
            return await self._registry.find_live(session_id)
        except PtyctlError as error:
            if error.code in (ErrorCode.LIMIT_EXCEEDED, ErrorCode.BUSY, ErrorCode.IO_ERROR) and "damaged" not in error.details:
                raise
            return None  # it was removed, or will never be readable: a new session is opened

    async def _open_new(self, destination: Destination, spec: Spec, opening: Opening) -> SessionReply:
        request = destination.request
        session = await self._factory.create(destination, spec, opening)
        lease = await lock.lock(session, *_lock_holder(request)) if request.acquire_lock else None
        reply = _open_reply(session, request, lease, next_cursor=0, lock_acquired=lease is not None)
        reply.message = "; ".join(filter(None, (opening.warning, reply.message))) or None
        return reply

    async def _open_existing(self, destination: Destination, spec: Spec, session: Session, opening: Opening) -> SessionReply:
        request, old, is_dead = destination.request, session.spec, session.state in ("eof", "lost", "reconnecting")
        is_same_address = (old.protocol, old.host, old.port) == (spec.protocol, spec.host, spec.port)
        _check_name(session, spec)
        # the inventory may have a new address for the device
        has_moved = old.device is not None and (old.device, old.protocol) == (spec.device, spec.protocol)
        if not (is_same_address or (is_dead and has_moved)):
            raise invalid(
                f"console {spec.device_id} is open already as {old.protocol} {old.host}:{old.port}",
                hint="open it with the same address, or close it first",
                existing_session_id=session.session_id,
            )
        if is_dead:
            opening.begin(session)
            await self._reconnect(session, destination)
        end, existing = session.stream.spool_end, session.session_id
        return _open_reply(
            session, request, session.lease(), next_cursor=end, existing_session_id=existing, lock_acquired=False
        )

    async def _reconnect(self, session: Session, destination: Destination) -> None:
        """Connect a lost console for a caller. Automatic attempts would be refused as this one: none follows.

        Raises:
            PtyctlError: as `SessionFactory.reconnect`.
        """
        try:
            await self._factory.reconnect(session, destination)
        except PtyctlError as error:
            if error.code in _REFUSALS and session.state != "closed":
                session.stop_reconnecting(error.message, for_good=True)
            raise


def capabilities(platforms: Iterable[str]) -> Capabilities:
    """Return the capabilities of this controller. `platforms`: names of all platforms, including the user's."""
    return Capabilities(
        protocols=list(_PROTOCOLS),
        toolsets=["core", "pty", "blocks", "screen", "approvals", "terminal"],
        platforms=list(platforms),
        supports_split_stdout_stderr=dict.fromkeys(_PROTOCOLS, False),
        supports_exit_code=dict.fromkeys(_PROTOCOLS, True),
        supports_resize=dict.fromkeys(_PROTOCOLS, True),
    )


def resize(session: Session, cols: int, rows: int, task_id: str | None, *, while_locked: bool = False) -> None:
    """Resize the terminal for a caller. Raises PtyctlError LOCKED, UNSUPPORTED, REMOTE_CLOSED; `while_locked`: LOCK_LOST."""
    termination.check_may_end(session, task_id)
    if while_locked:
        session.resize_while_locked(cols, rows, lock_owner(task_id or ""))
    else:
        session.resize(cols, rows)
    session.activity.record("resize", **caller(task_id), cols=cols, rows=rows)


async def configure(session: Session, request: ConfigRequest) -> ConfigReply:
    """Change or read a session's mode, expectations, size or pace.

    Raises:
        PtyctlError: INVALID_ARGUMENT for invalid patterns; LOCKED, UNSUPPORTED, REMOTE_CLOSED; for a mode and for saving also
            the errors of the mode change.
    """
    stdout, writer = None, Writer(request.task_id)
    if request.mode is not None:
        await change_mode(session, request.mode, writer)
    elif request.action == "save":
        _, stdout = await save(session, writer)
    elif request.action == "pace":
        termination.check_may_end(session, request.task_id)
        pace = Pace(chars_per_s=request.chars_per_s, line_delay_ms=request.line_delay_ms)
        session.set_pace(None if pace == Pace() else pace)
    elif request.action == "resize":
        assert request.cols is not None
        assert request.rows is not None
        resize(session, request.cols, request.rows, request.task_id, while_locked=request.while_locked)
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
        policy=writer.review.warning(),
        notices=session.take_notices(request.task_id),
    )


def _check_name(existing: Session, spec: Spec) -> None:
    """Raise PtyctlError INVALID_ARGUMENT unless the console that is opened by its name has the name, and so its rules."""
    if spec.device is not None and existing.spec.device != spec.device:
        raise invalid(
            f"console {spec.device_id} is open already by its address, without the platform and rules of device {spec.device}",
            hint="close the existing session, and open the device by its name",
            existing_session_id=existing.session_id,
        )


def _reply(session: Session, request: SessionRequest) -> SessionReply:
    """Return a reply with the session's id and the notices that the caller's task has not received."""
    return SessionReply(action=request.action, session_id=session.session_id, notices=session.take_notices(request.task_id))


def _lock_reply(session: Session, request: SessionRequest, lease: Lease | None) -> SessionReply:
    """Return a reply with the holder, the expiry and the fence of the lock."""
    reply = _reply(session, request)
    if lease is not None:
        reply.lock_holder, reply.lock_principal = lease.holder.task_id, lease.holder.principal
        reply.lock_expires_at, reply.fence = epoch_ms(lease.expires_at), lease.fence
    return reply


def _open_reply(
    session: Session, request: SessionRequest, lease: Lease | None, *, next_cursor: int, **fields: object
) -> SessionReply:
    """Return the reply to an open. Reading continues at `next_cursor`."""
    channel = session.channel
    assert channel is not None
    return _lock_reply(session, request, lease).model_copy(
        update={
            "protocol": session.spec.protocol,
            "state": session.state,
            "pty_enabled": channel.pty_enabled,
            "next_cursor": str(next_cursor),
            "security_warning": channel.security_warning,
            "server_banner": channel.server_banner,
            "platform": session.spec.platform,
            "message": session.login_notice,
            **fields,
        }
    )


def _opening_reply(session: Session, request: SessionRequest) -> SessionReply:
    reply = _lock_reply(session, request, session.lease())
    reply.protocol, reply.state, reply.pty_enabled = session.spec.protocol, "opening", session.spec.pty.enabled
    reply.next_cursor, reply.lock_acquired = str(session.stream.spool_end), False
    reply.message = (
        "the connection or the login takes longer than one call may wait, and continues: get the result with action status, "
        "or for a console with another open"
    )
    return reply


def _lock_holder(request: SessionRequest) -> tuple[str, float]:
    """Return the task that takes or extends a lock, and the lock's TTL in seconds."""
    assert request.task_id is not None, "SessionRequest requires task_id for lock actions"
    return request.task_id, (request.lock_ttl_ms or DEFAULT_LOCK_TTL_MS) / 1000

"""Connects claims with sessions: a console's session types only while this node holds the claim."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.clock import BOOT_ID_FILE, boot_time
from ptyctl.controller.session_factory import FLEET_STATE
from ptyctl.core.lease import Owner
from ptyctl.files import replace_file
from ptyctl.session.session import Session, StateChanged

from .claim import Claim, ClaimedLock
from .claim_directory import ClaimDirectory
from .console_claims import ClaimedElsewhereError, ConsoleClaims, HeldClaim, moved
from .node_lease import LeaseTimes

_LOG = logging.getLogger(__name__)


class SessionClaims:
    """Implements `ptyctl.controller.session_factory.ConsoleOwnership` with the claims of a fleet."""

    def __init__(self, claims: ConsoleClaims, directory: ClaimDirectory, times: LeaseTimes | None = None) -> None:
        self._claims = claims
        self._directory = directory
        self._delivery_s = (times or LeaseTimes()).delivery_s
        self._held: WeakKeyDictionary[Session, HeldClaim] = WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusal: PtyctlError | None = None
        self._admit: Callable[[Session], Awaitable[None]] | None = None
        self._state_read = asyncio.Lock()
        self._has_state = False

    def admit_only(self, admit: Callable[[Session], Awaitable[None]]) -> None:
        """Claim only consoles of sessions for which `admit` raises no PtyctlError."""
        self._admit = admit

    def refuse(self, refusal: PtyctlError | None) -> None:
        """Claim no more consoles, and raise this error instead; None claims them again."""
        self._refusal = refusal

    def held(self) -> list[tuple[Session, HeldClaim]]:
        """Return the consoles that this node owns."""
        return [(session, held) for session, held in self._held.items() if not held.is_lost]

    async def acquire(self, session: Session, state_dir: Path) -> None:
        """Claim the console of a session; return at once if its claim is held already.

        The lock of the previous owner's session is taken over for its remaining TTL.

        Raises:
            PtyctlError: SESSION_MOVED if another node owns the console; CLAIM_LOST if another process of this node
                does; IO_ERROR.
        """
        held = self._held.get(session)
        if held is not None and not held.is_lost and held.allows(boot_time()):
            return
        if self._refusal is not None:
            raise self._refusal
        if self._admit is not None:
            await self._admit(session)
        device_id = session.spec.device_id
        assert device_id is not None, "only consoles are claimed"
        await self.use_state(state_dir)
        try:
            held = await self._claims.claim(
                device_id, session.session_id, lambda: _lock_of(session), lambda lost: self._lost(session, lost)
            )
        except ClaimedElsewhereError as error:
            if error.claim.node == self._claims.node:
                raise _claimed_by_namesake(error.claim, device_id) from None
            raise moved(error.claim, session.session_id) from None
        if self._refusal is not None:  # a drain has begun meanwhile
            await self._claims.release(held)
            raise self._refusal
        self._use(session, held)
        now, other = asyncio.get_running_loop().time(), held.claim.continues is not None
        if other:
            session.leases.revoke(now)
        session.leases.renew_fence(held.first_fence, now)
        if held.inherited is not None:
            _take_over(session, held.inherited)

    async def use_state(self, state_dir: Path) -> None:
        """Begin the lease of this node, and adopt the claims of an earlier process with the same state directory."""
        async with self._state_read:
            if not self._has_state:
                try:
                    state_id = await asyncio.to_thread(_state_id, state_dir / FLEET_STATE)
                except OSError as error:  # after a restart, the lease of this process must expire first
                    _LOG.warning("the id of the state directory is not stored", extra={"why": error.strerror})
                    state_id = secrets.token_hex(16)
                self._claims.use_state(state_id)
                self._has_state = True

    async def close_line(self, session: Session, held: HeldClaim, why: str) -> ClaimedLock | None:
        """Stop typing on a console, and close its line. Return the lock of its session.

        This node keeps the claim, which the caller hands over or releases.
        """
        self._claims.stop(held)
        lock = _lock_of(session)
        await session.give_up_line(why)
        return lock

    def _use(self, session: Session, held: HeldClaim) -> None:
        if session not in self._held:
            session.subscribe(StateChanged, lambda event: self._state_changed(session))
        self._held[session] = held
        session.set_ownership_check(lambda: self._check(session, held), self._delivery_s)

    def _check(self, session: Session, held: HeldClaim) -> None:
        """Check that this node may type on the console of a session.

        Raises:
            PtyctlError: CLAIM_LOST while a later call can succeed; SESSION_MOVED if another session has the console now;
                REMOTE_CLOSED if none has, and this session is not connected again.
        """
        try:
            held.check(boot_time())
        except PtyctlError as error:
            if not held.is_lost or error.code is not ErrorCode.CLAIM_LOST:
                raise
            owner = self._directory.owner(held.device_id)
            if owner is not None and owner.session_id != session.session_id:
                raise moved(owner, session.session_id) from None
            if _is_over(session):
                raise session.far_end_gone() from None
            raise

    def _state_changed(self, session: Session) -> None:
        """Give up the console of a session that will not be connected again."""
        if session.state in ("closed", "lost", "eof"):
            asyncio.get_running_loop().call_soon(self._release_unused, session)

    def _release_unused(self, session: Session) -> None:
        """Release the claim unless a reconnection has begun, which follows the loss of a line in the same turn of the loop."""
        held = self._held.get(session)
        if held is None or held.is_stopped:
            return
        if _is_over(session):
            self._start(self._claims.release(held))

    def _lost(self, session: Session, held: HeldClaim) -> None:
        if self._held.get(session) is not held:
            return  # not in use yet: the claim reports it; or the session has a new claim
        if held.lost_to is not None:
            session.leases.revoke(asyncio.get_running_loop().time())
        owner = f"node {held.lost_to.node}" if held.lost_to is not None else "another node"
        self._start(session.give_up_line(f"the claim on console {held.device_id} was lost; {owner} may own it now"))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Wait for releases that have begun."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _is_over(session: Session) -> bool:
    """Return whether the session's line is closed, and no attempt to connect it again follows."""
    return session.reconnect is None and session.state in ("closed", "lost", "eof")


def _lock_of(session: Session) -> ClaimedLock | None:
    lease = session.lease()
    if lease is None:
        return None
    rest_s = lease.expires_at - asyncio.get_running_loop().time()
    return ClaimedLock(lease.holder.task_id, lease.holder.principal, rest_s, lease.fence)


def _state_id(path: Path, boot_id: Path = BOOT_ID_FILE) -> str:
    """Return the id of a state directory on this machine since its boot; create it if there is none.

    A copy of the directory, also on a clone of the machine, has another id: both could be in use at once.

    Raises:
        OSError: it cannot be read or stored.
    """
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # of a node that has not kept anything yet
        replace_file(path, secrets.token_hex(16), sync=True)
    file = path.stat()
    parts = [path.read_bytes(), boot_id.read_bytes(), b"%d %d" % (file.st_dev, file.st_ino)]
    return hashlib.sha256(b"\n".join(parts)).hexdigest()[:32]


def _claimed_by_namesake(claim: Claim, device_id: str) -> PtyctlError:
    return PtyctlError(
        ErrorCode.CLAIM_LOST,
        f"a process with the name of this node and another state directory owns console {device_id}",
        {"device_id": device_id, "node": claim.node, "delivery": "not_sent"},
        hint="repeat the call when its lease has expired; a node's file is for one process",
    )


def _take_over(session: Session, lock: ClaimedLock) -> None:
    """Grant the holder of the previous owner's lock its remaining TTL, with a new fence."""
    if lock.expires_in_s > 0 and session.lease() is None:
        now = asyncio.get_running_loop().time()
        session.leases.acquire(Owner(lock.principal, lock.holder), lock.expires_in_s, now)

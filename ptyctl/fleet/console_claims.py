"""Claims of one node on consoles, in the bucket `claims`: taken, in force with the node's lease, handed over and released."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.cancellation import cancel_and_wait
from ptyctl.clock import boot_time

from .buckets import RETRY_S, ConflictError, Entry, encode_key
from .claim import MAX_NUMBER, Claim, ClaimedLock, first_fence, first_number
from .claim_directory import ClaimDirectory, decode_claim
from .node_lease import HeldLease, NodeLease

_LOG = logging.getLogger(__name__)

#: How long a claim waits until the claims and leases of the other nodes are known, while NATS does not answer (seconds).
_KNOWN_S = 10.0
#: How soon a lock that was granted or has ended is written to the claim (seconds).
_LOCK_CHECK_S = 0.5
#: How far the end of a lock must move until it is written to the claim (seconds).
_LOCK_MOVED_S = 5.0
#: Number of claims that are written at once when the node has a new lease.
_WRITES_AT_ONCE = 50


class ClaimedElsewhereError(Exception):
    """Another node holds the claim on a console."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(f"node {claim.node} owns the console")
        self.claim = claim


@dataclass(slots=True, eq=False)
class HeldClaim:
    """This node's claim on a console.

    Attributes:
        device_id: the console.
        claim: the last value that this node wrote.
        revision: of that value.
        lease: of the node, which the stored claim names.
        lock: returns the lock of the console's session.
        on_lost: called once when the claim is lost.
        inherited: the lock of the previous owner's session, with its remaining TTL, once the claim is complete.
        lost_to: the claim of the new owner, once it is known.
        is_lost: whether the claim is over for this node.
        is_stopped: whether this node types no more under this claim.
        is_taking: whether it is not yet this node's turn to type.
        writing: held while the claim's key is written.
    """

    device_id: str
    claim: Claim
    revision: int
    lease: HeldLease
    lock: Callable[[], ClaimedLock | None]
    on_lost: Callable[[HeldClaim], None]
    inherited: ClaimedLock | None = None
    lost_to: Claim | None = None
    is_lost: bool = False
    is_stopped: bool = False
    is_taking: bool = True
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def first_fence(self) -> int:
        """Smaller than the fences of all locks under this claim."""
        return first_fence(self.claim.number)

    def allows(self, now: float) -> bool:
        """Return whether this node may type on the console, or wait for its turn."""
        return not self.is_stopped and self.lease.deadline.allows(now)

    def set_taking(self, is_taking: bool) -> None:
        """Set whether it is not yet this node's turn to type."""
        self.is_taking = is_taking

    def inherit(self, lock: ClaimedLock | None) -> None:
        """Record the lock of the previous owner's session."""
        self.inherited = lock

    def adopt(self, lease: HeldLease) -> None:
        """Assign the claim to a new lease of the node, which the stored claim names."""
        self.lease = lease

    def wrote(self, claim: Claim, revision: int) -> None:
        """Record a value of this node that was stored."""
        self.claim, self.revision = claim, revision

    def follow(self, revision: int) -> None:
        """Record the revision of a value of this node that was stored although the reply was lost."""
        self.revision = revision

    def stop(self) -> None:
        """Let this node type no more under this claim."""
        self.is_stopped = True

    def lose(self, owner: Claim | None = None) -> None:
        """End the claim for this node. `owner` is the claim of the new owner, if it is known."""
        self.is_lost, self.lost_to = True, owner

    def check(self, now: float) -> None:
        """Check that this node may type on the console.

        Raises:
            PtyctlError: CLAIM_LOST; SESSION_MOVED if the new owner is known.
        """
        if self.lost_to is not None:
            raise moved(self.lost_to, self.claim.session_id)
        if self.is_taking or not self.allows(now):
            raise PtyctlError(
                ErrorCode.CLAIM_LOST,
                f"this node could not renew its lease in time; nothing more was typed on console {self.device_id}",
                {"device_id": self.device_id, "node": self.claim.node},
                hint="repeat the call; check the NATS servers with ptyctl fleet doctor",
            )


class _Wait(NamedTuple):
    """The wait of the owner of a new claim for earlier owners.

    Attributes:
        until: at least until then.
        lease_id: the lease of an owner that has not given up the console, which was found absent at `absent_at`.
    """

    until: float = float("-inf")
    lease_id: str | None = None
    absent_at: float = float("-inf")


class ConsoleClaims:
    """Claims consoles for one node. A held claim is in force while the node's lease is."""

    def __init__(self, lease: NodeLease, directory: ClaimDirectory, now: Callable[[], float] = boot_time) -> None:
        self._bucket = directory.bucket
        self._directory = directory
        self._leases = directory.leases
        self._lease = lease
        self._times = lease.times
        self._now = now
        self._held: dict[str, HeldClaim] = {}
        #: Number of calls that claim a console now, by device_id.
        self._taking: Counter[str] = Counter()
        #: Claims with this node's lease that no session holds: their ids, and since when.
        self._orphans: dict[str, tuple[str, float]] = {}
        #: The last claim of this process that waits, or whose wait was interrupted, by device_id: its id, and its wait.
        self._interrupted: dict[str, tuple[str, _Wait]] = {}
        self._checking: asyncio.Task[None] | None = None
        self._adopting: asyncio.Task[None] | None = None
        lease.on_begin(self._lease_begun)
        directory.subscribe(self._received)

    @property
    def node(self) -> str:
        """The name of this node."""
        return self._lease.node

    def use_state(self, state_id: str) -> None:
        """Begin the lease of this node, and adopt the claims of an earlier process with the same state directory."""
        self._lease.start(state_id)

    async def claim(
        self,
        device_id: str,
        session_id: str,
        lock: Callable[[], ClaimedLock | None] = lambda: None,
        on_lost: Callable[[HeldClaim], None] = lambda held: None,
    ) -> HeldClaim:
        """Claim a console. An earlier claim of this node on it ends, without `on_lost`.

        Waits until nothing of an earlier owner can reach the console: the margin, and until the last renewal of that owner's
        lease is old enough. Does not wait for an owner that gave up the console, or has handed it over to this node. During
        the wait the claim is stored as `waiting`: if it is interrupted, the next owner waits too.

        Args:
            lock: returns the lock of the console's session, which is written to the claim when it has changed.
            on_lost: called once when the claim is lost.

        Raises:
            ClaimedElsewhereError: another node holds the claim.
            PtyctlError: IO_ERROR; CLAIM_LOST if this node has no lease, or it ended during the wait; SESSION_MOVED if another
                node has taken the console meanwhile.
        """
        await self._until_claims_are_known()
        self._give_way(device_id)
        self._taking[device_id] += 1
        try:
            held, before, wait = await self._take(device_id, session_id, lock, on_lost)
            try:
                await self._wait_for_earlier_owners(held, wait)
                if held.claim.waiting:
                    await self._write_own(held, waiting=False)
                held.set_taking(False)
                held.check(self._now())
            except BaseException:
                held.set_taking(True)
                await self.release(held)
                raise
        finally:
            self._taking[device_id] -= 1
            self._taking += Counter()  # without those at zero
        self._interrupted.pop(device_id, None)
        held.inherit(self._inherited(before, session_id))
        return held

    def _give_way(self, device_id: str) -> None:
        """End an earlier claim of this process on a console."""
        if (earlier := self._held.get(device_id)) is not None:
            self.stop(earlier)
            earlier.lose()

    async def _take(
        self,
        device_id: str,
        session_id: str,
        lock: Callable[[], ClaimedLock | None],
        on_lost: Callable[[HeldClaim], None],
    ) -> tuple[HeldClaim, Claim | None, _Wait]:
        """Store a new claim on a console. Return it, the previous claim, and the wait for its owner. Raises as `claim`."""
        key = encode_key(device_id)
        while True:
            lease = await self._lease.in_force()
            entry = await self._bucket.get(key)  # before the lease that it names, because an absent lease remains absent
            before = None if entry is None else self._decoded(key, entry)
            wait = await self._wait_after(device_id, before)
            claim = self._new_claim(device_id, session_id, before, lease)
            if self._end_of(wait, lease) > self._now():
                claim = replace(claim, waiting=True)
                self._interrupted[device_id] = claim.claim_id, wait
            try:
                revision = await self._store(key, claim, None if entry is None else entry.revision)
            except ConflictError:
                continue
            self._give_way(device_id)  # of a call at the same time
            held = HeldClaim(device_id, claim, revision, lease, lock, on_lost)
            self._held[device_id] = held
            return held, before, wait

    def _decoded(self, key: str, entry: Entry) -> Claim:
        claim = decode_claim(key, entry)
        if claim is None:
            raise PtyctlError(
                ErrorCode.IO_ERROR,
                f"the key {key} of the bucket of claims holds no claim",
                hint="find out which software wrote it; delete the key while no node has the console",
            )
        return claim

    def _new_claim(self, device_id: str, session_id: str, before: Claim | None, lease: HeldLease) -> Claim:
        seen = self._directory.last(device_id)
        known = [each.number for each in (before, None if seen is None else seen.claim) if each is not None]
        number = max([first_number(self._bucket.created_s), *(number + 1 for number in known)])
        if number >= MAX_NUMBER:
            raise PtyctlError(
                ErrorCode.IO_ERROR,
                f"the claim on console {device_id} has the greatest possible number",
                hint="find out which software wrote it; delete the bucket claims while no node is up: it is created again",
            )
        continues = before.session_id if before is not None and before.session_id != session_id else None
        return Claim(self.node, lease.lease_id, _random_id(), number, session_id, self._now(), continues)

    async def _wait_after(self, device_id: str, before: Claim | None) -> _Wait:
        """Return the wait of the next owner after a claim.

        Raises:
            ClaimedElsewhereError: the claim is in force, or may be.
            PtyctlError: IO_ERROR.
        """
        if before is None:
            is_removed = self._directory.last(device_id) is not None  # by hand: its owner may not know
            return _Wait(self._now() + self._times.quiet_s) if is_removed else _Wait()
        claim_id, interrupted = self._interrupted.get(device_id, ("", _Wait()))
        if before.waiting and before.claim_id == claim_id:
            return interrupted
        wait = _Wait() if before.is_released else await self._wait_after_owner(before)
        if before.waiting:  # its owner has found the leases of earlier owners absent before it wrote this
            first_seen_at = self._directory.first_seen_at(device_id, before)
            wait = wait._replace(until=max(wait.until, first_seen_at + self._times.quiet_s))
        return wait

    async def _wait_after_owner(self, before: Claim) -> _Wait:
        if self._lease.is_own(before.lease_id):
            return _Wait() if before.handed_over else _Wait(self._now() + self._times.margin_s)
        if await self._leases.has(before.node, before.lease_id) or self._leases.is_in_force(before.lease_id):
            # A server that has lost its cluster can find a key expired that the others renew.
            raise ClaimedElsewhereError(before)
        absent_at = self._now()
        return _Wait(absent_at + self._times.margin_s, before.lease_id, absent_at)

    def _end_of(self, wait: _Wait, lease: HeldLease) -> float:
        """Return the currently known end of a wait."""
        if wait.lease_id is None:
            return wait.until
        return max(wait.until, self._leases.quiet_at(wait.lease_id, wait.absent_at, lease))

    async def _wait_for_earlier_owners(self, held: HeldClaim, wait: _Wait) -> None:
        """Wait until no byte of an earlier owner can reach the console; a renewal that arrives meanwhile extends the wait.

        Raises:
            PtyctlError: CLAIM_LOST, SESSION_MOVED.
        """
        while (until := self._end_of(wait, held.lease)) > (now := self._now()):
            if not held.allows(now):
                held.check(now)
            await asyncio.sleep(min(until - now, _LOCK_CHECK_S))

    def _inherited(self, before: Claim | None, session_id: str) -> ClaimedLock | None:
        """Return the lock of the earlier owner's session with its remaining TTL, by the clock of that owner."""
        if before is None or before.is_released or before.lock is None or before.session_id == session_id:
            return None
        if before.handed_over:
            return before.lock
        seen = self._leases.last(before.lease_id)
        if seen is None:
            return None
        age_s = seen.renewal.at - before.at + self._now() - seen.at
        return replace(before.lock, expires_in_s=before.lock.expires_in_s - age_s)

    async def _until_claims_are_known(self) -> None:
        try:
            async with asyncio.timeout(_KNOWN_S):
                await self._directory.wait_until_complete()
        except TimeoutError:
            raise PtyctlError(
                ErrorCode.IO_ERROR,
                "NATS does not report the claims of the other nodes, so no console can be claimed",
                hint="check the servers with ptyctl fleet doctor",
            ) from None

    # Giving up

    async def hand_over(self, held: HeldClaim, node: str, lock: ClaimedLock | None) -> None:
        """Hand a console whose line is closed over to another node, with its lock. No third node can claim it in between.

        Args:
            held: this node's claim. After the first call, this node types nothing on the console. The call can be repeated with
                another node. If the previous node has claimed and released the console, there is nothing to hand over.

        Raises:
            ConflictError: the claim was lost.
            PtyctlError: CONNECT_FAILED if the other node has no lease; IO_ERROR.
        """
        self.stop(held)
        lease_id = await self._leases.of(node)
        if lease_id is None:
            raise PtyctlError(
                ErrorCode.CONNECT_FAILED,
                f"node {node} has no lease",
                {"node": node},
                hint="see the nodes: ptyctl fleet nodes",
            )
        try:
            await self._write(held, node=node, lease_id=lease_id, lock=lock, handed_over=True)
        except ConflictError:
            stored, _ = await self._stored(held.device_id)
            if stored is not None and not stored.is_released:
                raise

    async def release(self, held: HeldClaim) -> None:
        """Release a console, so that another node can claim it at once. Input to it must have ended.

        If NATS does not answer, the claim is released later, or ends with the lease of this node.
        """
        self.stop(held)
        if held.is_lost:
            return
        held.lose()
        with suppress(ConflictError, PtyctlError):
            await self._write(held, node="", lease_id="", lock=None, handed_over=False)

    def lost_to(self, held: HeldClaim, owner: Claim) -> None:
        """Record the new owner of a console that was handed over. Further calls on its old session get SESSION_MOVED."""
        self.stop(held)
        held.lose(replace(owner, handed_over=False))

    def stop(self, held: HeldClaim) -> None:
        """Stop all input under a claim."""
        held.stop()
        if self._held.get(held.device_id) is held:
            del self._held[held.device_id]

    async def aclose(self) -> None:
        """Stop input to all consoles. The claims end with the lease of this node."""
        for held in list(self._held.values()):
            self.stop(held)
        await self._lease.aclose()
        await cancel_and_wait(self._checking, self._adopting)

    # Writes

    async def _store(self, key: str, claim: Claim, revision: int | None) -> int:
        """Write a key that has a revision, or does not exist; return the new revision. Raises ConflictError, PtyctlError."""
        value = claim.encode()
        try:
            if revision is None:
                return await self._bucket.create(key, value)
            return await self._bucket.update(key, value, revision)
        except PtyctlError:  # whether it was stored is unknown
            entry = await self._bucket.get(key)
            if entry is None or entry.value != value:
                raise
            return entry.revision

    async def _write(self, held: HeldClaim, *, only_held: bool = False, **changes: Any) -> None:
        """Write a claim of this node with changed fields.

        Args:
            only_held: do nothing if this node has given up the claim, because another node may have it.

        Raises:
            ConflictError: it is not this node's claim any more.
            PtyctlError: IO_ERROR.
        """
        key = encode_key(held.device_id)
        async with held.writing:
            while not (only_held and held.is_stopped):
                claim = replace(held.claim, at=self._now(), **changes)
                try:
                    revision = await self._store(key, claim, held.revision)
                except ConflictError:  # lost, or an earlier write was stored whose answer was not received
                    stored, revision = await self._stored(held.device_id)
                    if stored is None or stored.claim_id != held.claim.claim_id:
                        raise
                    held.follow(revision)
                else:
                    held.wrote(claim, revision)
                    return

    async def _write_own(self, held: HeldClaim, **changes: Any) -> None:
        """Write a claim that this node holds; lose it if another node has replaced it. Raises PtyctlError IO_ERROR."""
        try:
            await self._write(held, only_held=True, **changes)
        except ConflictError:
            stored, _ = await self._stored(held.device_id)
            self._lose(held, stored)

    async def _stored(self, device_id: str) -> tuple[Claim | None, int]:
        """Return the stored claim on a console, and its revision; None without a valid one. Raises PtyctlError IO_ERROR."""
        key = encode_key(device_id)
        entry = await self._bucket.get(key)
        return (None, 0) if entry is None else (decode_claim(key, entry), entry.revision)

    # Changes

    def _received(self, device_id: str, claim: Claim | None, revision: int | None) -> None:
        """Give up a console whose claim was replaced. Earlier values of its key can arrive late."""
        held = self._held.get(device_id)
        if held is None or (claim is not None and claim.claim_id == held.claim.claim_id):
            return
        is_later = revision is None or revision > held.revision
        if is_later or (claim is not None and claim.number > held.claim.number):
            self._lose(held, claim)

    def _lose(self, held: HeldClaim, claim: Claim | None) -> None:
        if held.is_lost:
            return
        self.stop(held)
        held.lose(None if claim is None or claim.is_released else claim)
        if not held.is_taking:  # otherwise the call that claims it reports it
            held.on_lost(held)

    def _lease_begun(self, lease: HeldLease) -> None:
        if self._checking is None:
            self._checking = asyncio.create_task(self._check_repeatedly(), name="claims of this node")
        if self._adopting is not None:
            self._adopting.cancel()
        self._adopting = asyncio.create_task(self._adopt_all(lease), name="claims under a new lease")

    async def _adopt_all(self, lease: HeldLease) -> None:
        """Let the claims that this node still has name its new lease."""
        at_once = asyncio.Semaphore(_WRITES_AT_ONCE)

        async def adopt(held: HeldClaim) -> None:
            async with at_once:
                await self._adopt(held, lease)

        await asyncio.gather(*(adopt(held) for held in list(self._held.values()) if not held.is_taking))

    async def _adopt(self, held: HeldClaim, lease: HeldLease) -> None:
        while not held.is_stopped:
            try:
                await self._write_own(held, lease_id=lease.lease_id, lock=held.lock())
            except PtyctlError as error:
                _LOG.warning("a claim has not got the new lease yet", extra={"device_id": held.device_id, "why": error.message})
                await asyncio.sleep(RETRY_S)
            else:
                held.adopt(lease)
                return

    async def _check_repeatedly(self) -> None:
        orphans_at = self._now()
        while True:
            await asyncio.sleep(_LOCK_CHECK_S)
            for held in [held for held in self._held.values() if self._is_lock_due(held)]:
                await self._logged(self._write_own(held, lock=held.lock()), held.device_id)
            if self._now() >= orphans_at:
                orphans_at = self._now() + self._times.renew_s
                for device_id, claim in self._orphaned():
                    await self._logged(self._release_orphan(device_id, claim), device_id)

    async def _logged(self, work: Awaitable[None], device_id: str) -> None:
        try:
            await work
        except PtyctlError as error:
            _LOG.warning("a claim was not written", extra={"device_id": device_id, "why": error.message})
        except Exception:  # those of the other consoles are written nevertheless  # noqa: BLE001
            _LOG.exception("a claim was not written", extra={"device_id": device_id})

    def _is_lock_due(self, held: HeldClaim) -> bool:
        """Return whether the lock of a console's session is to be written: its holder has changed, or its end has moved."""
        if held.is_taking or not held.allows(self._now()):
            return False
        lock, stored = held.lock(), held.claim.lock
        if lock is None or stored is None or _owner(lock) != _owner(stored):
            return _owner(lock) != _owner(stored)
        moved_s = self._now() + lock.expires_in_s - (held.claim.at + stored.expires_in_s)
        return abs(moved_s) > _LOCK_MOVED_S

    def _orphaned(self) -> list[tuple[str, Claim]]:
        """Return the claims with this node's lease that no session has held for the TTL of a lease.

        Such a claim was stored after its call had ended, or handed over to this node without an open that followed.
        """
        lease, now = self._lease.current, self._now()
        unheld = {
            device_id: seen.claim
            for device_id, seen in ([] if lease is None else self._directory.named(lease.lease_id))
            if device_id not in self._held and not self._taking[device_id]
        }
        self._orphans = {
            device_id: since
            for device_id, since in self._orphans.items()
            if device_id in unheld and unheld[device_id].claim_id == since[0]
        }
        for device_id, claim in unheld.items():
            self._orphans.setdefault(device_id, (claim.claim_id, now))
        return [(device_id, unheld[device_id]) for device_id, (_, at) in self._orphans.items() if now >= at + self._times.ttl_s]

    async def _release_orphan(self, device_id: str, claim: Claim) -> None:
        stored, revision = await self._stored(device_id)
        if stored is None or stored.claim_id != claim.claim_id or stored.lease_id != claim.lease_id:
            return
        if device_id in self._held or self._taking[device_id]:
            return
        released = replace(stored, node="", lease_id="", lock=None, handed_over=False, at=self._now())
        with suppress(ConflictError):
            await self._store(encode_key(device_id), released, revision)


def _owner(lock: ClaimedLock | None) -> tuple[str, str, int] | None:
    return None if lock is None else (lock.holder, lock.principal, lock.fence)


def _random_id() -> str:
    return secrets.token_hex(8)


def moved(owner: Claim, session_id: str) -> PtyctlError:
    """Return SESSION_MOVED for a session whose console another node owns; CLAIM_LOST before that node has connected it."""
    if owner.handed_over:
        return PtyctlError(
            ErrorCode.CLAIM_LOST,
            f"the console of session {session_id} is being handed over to node {owner.node}",
            {"node": owner.node},
            hint="repeat the call",
        )
    return PtyctlError(
        ErrorCode.SESSION_MOVED,
        f"node {owner.node} owns the console of session {session_id} now",
        {"node": owner.node, "session_id": owner.session_id},
        hint=f"use session {owner.session_id}, or open the device again",
    )

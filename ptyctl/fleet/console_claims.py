"""Claims of one node on consoles: created, renewed and released in the bucket `consoles`."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from ptyctl.api.errors import ErrorCode, PtyctlError

from .boot_clock import boot_time
from .buckets import Bucket, ConflictError, Entry, encode_key
from .claim import MARGIN_S, RENEW_S, TTL_S, Claim, ClaimedLease, WriteDeadline, first_fence
from .fences import FenceCounter

_LOG = logging.getLogger(__name__)

#: How long a claim waits until the other claims are known, while NATS does not answer (seconds).
_KNOWN_S = 10.0
#: How soon a lock that was granted or has ended is written with the claim (seconds).
_LEASE_CHECK_S = 0.5
#: How long a far end may keep the connection of an owner that is gone: TCP keepalives find that after two hours by default
#: (seconds).
_HELD_S = 7200.0
#: Delay before a renewal that NATS did not answer is tried again (seconds).
_RETRY_S = 0.5


@dataclass(frozen=True, slots=True)
class ClaimTimes:
    """Times of the claims of a fleet (seconds); tests use shorter ones."""

    ttl_s: float = TTL_S
    renew_s: float = RENEW_S
    margin_s: float = MARGIN_S


@dataclass(slots=True)
class SeenClaim:
    """The last value of a console's key.

    Attributes:
        at: when this node received it first.
        claimed_at: when this node received the first value of this claim.
        is_released: whether the last change that was received is the deletion of the key.
        is_stale: whether the watch was interrupted since: changes may have been missed.
        earlier_until: until when an owner before this claim may type: one whose key expired early.
    """

    claim: Claim
    revision: int
    at: float
    claimed_at: float
    is_released: bool = False
    is_stale: bool = False
    earlier_until: float = float("-inf")

    def types_until(self, following: Claim, ttl_s: float) -> float:
        """Return until when owners before the claim `following` may type, as far as this node knows."""
        is_handed_over = self.claim.handed_over and self.claim.node == following.node
        if is_handed_over or self.claim.state_id == following.state_id or (self.is_released and not self.is_stale):
            return self.earlier_until
        return max(self.earlier_until, self.at + ttl_s)


class ClaimDirectory:
    """The claims of all nodes, followed by a watch. It keeps the last value of an expired key, which NATS does not."""

    def __init__(self, bucket: Bucket, now: Callable[[], float] = boot_time) -> None:
        self.bucket = bucket
        self._now = now
        self._seen: dict[str, SeenClaim] = {}
        #: Set while the claims are known: after the values at the begin of a watch.
        self.complete = asyncio.Event()
        self.complete_at = float("inf")

    async def follow(self) -> None:
        """Follow the bucket until cancelled, or until NATS does not answer."""
        self.complete.clear()
        for seen in self._seen.values():
            seen.is_stale = True  # it may have been claimed again since, by a claim that has expired
        async for change in self.bucket.watch():
            if change is None:
                self.complete_at = self._now()
                self.complete.set()
            else:
                self._receive(*change)

    def _receive(self, key: str, entry: Entry | None) -> None:
        if entry is None:
            if key in self._seen:
                self._seen[key].is_released, self._seen[key].is_stale = True, False
            return
        known = self._seen.get(key)
        if known is not None and known.revision == entry.revision:
            known.is_stale = False
            return  # repeated at the begin of a watch: it is as old as before
        claim = decode_claim(key, entry)
        if claim is not None:
            now = self._now()
            seen = SeenClaim(claim, entry.revision, now, now, earlier_until=self._earlier_until(known, claim))
            if known is not None and known.claim.claim_id == claim.claim_id:
                seen.claimed_at = known.claimed_at
            self._seen[key] = seen

    def _earlier_until(self, seen: SeenClaim | None, claim: Claim) -> float:
        if seen is None:
            return float("-inf")
        if seen.claim.claim_id == claim.claim_id:
            return seen.earlier_until
        return seen.types_until(claim, self.bucket.ttl_s or TTL_S)

    def earlier_until(self, device_id: str, claim: Claim) -> float:
        """Return until when owners before a new claim may type, as far as this node knows; its own row may not have arrived."""
        return self._earlier_until(self.last(device_id), claim)

    def last(self, device_id: str) -> SeenClaim | None:
        """Return the last claim on a console, in force or not."""
        return self._seen.get(encode_key(device_id))

    def owner(self, device_id: str) -> Claim | None:
        """Return the claim on a console that is in force as far as this node knows."""
        seen = self.last(device_id)
        ttl_s = self.bucket.ttl_s or TTL_S
        return seen.claim if seen is not None and not seen.is_released and self._now() < seen.at + ttl_s else None

    def knows_free(self, device_id: str, margin_s: float) -> bool:
        """Whether no other node can have typed on a console within the margin: it was released, or never claimed."""
        seen = self.last(device_id)
        if seen is not None:
            return seen.is_released and not seen.is_stale and self._now() >= seen.earlier_until + margin_s
        return self._now() >= self.unseen_until() + margin_s

    def may_be_held(self, device_id: str) -> bool:
        """Whether the far end may still have the connection of an owner that did not give up the console."""
        seen = self.last(device_id)
        return seen is not None and self._now() < seen.earlier_until + _HELD_S

    def unseen_until(self) -> float:
        """Return until when an owner may type whose key had expired before this node has followed the claims."""
        return self.complete_at + (self.bucket.ttl_s or TTL_S)


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
        deadline: until when this node may type.
        first_fence: smaller than the fences of all leases under this claim.
        lost_to: the claim of the new owner, once it is known.
        is_lost: whether the claim is over for this node.
        is_stopped: whether this node has ended its renewals.
        is_waiting: whether an earlier owner may type still.
        taken_from: the previous owner's claim, if that has handed the console over.
        renewing: the task that renews it.
    """

    device_id: str
    claim: Claim
    revision: int
    deadline: WriteDeadline
    first_fence: int = 0
    lost_to: Claim | None = None
    is_lost: bool = False
    is_stopped: bool = False
    is_waiting: bool = False
    taken_from: Claim | None = None
    renewing: asyncio.Task[None] | None = None

    def check(self, now: float) -> None:
        """Check that this node may type on the console.

        Raises:
            PtyctlError: CLAIM_LOST; SESSION_MOVED if the new owner is known.
        """
        if self.lost_to is not None:
            raise moved(self.lost_to, self.claim.session_id)
        if not self.deadline.allows(now):
            raise PtyctlError(
                ErrorCode.CLAIM_LOST,
                f"this node could not renew its claim on console {self.device_id} in time; nothing more was typed",
                {"device_id": self.device_id, "node": self.claim.node},
                hint="repeat the call; check the NATS servers with ptyctl fleet doctor",
            )


class ConsoleClaims:
    """Claims consoles for one node. Each held claim is renewed by a task until it is lost or released."""

    def __init__(
        self,
        bucket: Bucket,
        node: str,
        directory: ClaimDirectory,
        fences: FenceCounter,
        times: ClaimTimes | None = None,
        now: Callable[[], float] = boot_time,
    ) -> None:
        self._bucket = bucket
        self._node = node
        self._directory = directory
        self._fences = fences
        self._times = times or ClaimTimes()
        self._now = now
        self._held: dict[str, HeldClaim] = {}
        self._state_id = _random_id()
        #: The `state_id` of claims that wait for an earlier owner: a process that is started again does not take these over.
        self._waiting_id = _random_id()
        #: Until when an earlier owner may type for whose end an interrupted claim of this process was waiting.
        self._unfinished: dict[str, float] = {}

    @property
    def node(self) -> str:
        """The name of this node."""
        return self._node

    def use_state(self, state_id: str) -> None:
        """Take over the claims that an earlier process with the same state directory has left."""
        self._state_id = state_id

    async def claim(
        self,
        device_id: str,
        session_id: str,
        lease: Callable[[], ClaimedLease | None] = lambda: None,
        on_lost: Callable[[HeldClaim], None] = lambda held: None,
    ) -> HeldClaim:
        """Claim a console, and renew the claim from then on. An earlier claim of this node on it ends, without `on_lost`.

        Waits the margin, for bytes of the previous owner that are still on their way, and until the margin after the end of
        the last renewal that this node has seen: a server whose clock was stepped expires keys early. A claim that expired
        before this node has followed the claims (again) counts as renewed then. Does not wait for an owner that gave up the
        console, or has handed it over to this node.

        A claim that is interrupted before the end of its wait is not released: other nodes would take its release for that of
        an owner, before whom nobody can type any more. It expires; this process can claim the console meanwhile.

        Args:
            lease: returns the lease of the console's session, to be written with each renewal.
            on_lost: called once when the claim is lost.

        Raises:
            ClaimedElsewhereError: another node holds the claim.
            PtyctlError: IO_ERROR; CLAIM_LOST or SESSION_MOVED if the claim was lost during the margin.
        """
        await self._until_claims_are_known()
        if (earlier := self._held.get(device_id)) is not None:
            await self.stop(earlier)
            earlier.is_lost = True
        last, is_free = self._directory.last(device_id), self._directory.knows_free(device_id, self._times.margin_s)
        unfinished, started = self._unfinished.get(device_id), self._now()
        unseen_until = self._directory.unseen_until() if last is None or last.is_stale else float("-inf")
        if unfinished is not None and started < unfinished + self._times.margin_s:
            unseen_until, is_free, is_waiting = max(unseen_until, unfinished), False, True
        else:
            is_waiting = not is_free and not self._continues_own(last)
        continues = last.claim.session_id if last is not None and last.claim.session_id != session_id else None
        if is_waiting:
            self._unfinished[device_id] = max(unseen_until, started)
        try:
            held = await self._create(device_id, self._new_claim(session_id, continues, is_waiting=is_waiting))
        except ClaimedElsewhereError:
            self._finish(device_id, unfinished)
            raise
        held.is_waiting = is_waiting
        held.deadline.renew(started)
        self._held[device_id] = held
        held.renewing = asyncio.create_task(self._renew(held, lease, on_lost), name=f"claim on {device_id}")
        try:
            number = await self._fences.next(device_id)
            held.first_fence = first_fence(number.value)
            await self._check_stored(held)
            if number.is_first and last is None:
                held.is_waiting = False
            if held.taken_from is None:
                await self._wait_for_earlier_owners(held, is_free, float("-inf") if number.is_first else unseen_until)
            held.check(self._now())
        except BaseException:
            if held.is_waiting:
                await self.stop(held)
                held.is_lost = True
            else:
                self._finish(device_id)
                await self.release(held)
            raise
        held.is_waiting = False
        self._finish(device_id)
        return held

    def _continues_own(self, last: SeenClaim | None) -> bool:
        """Whether the last claim on a console is one for which this node need not wait: its own, or handed over to it."""
        if last is None or last.is_stale:
            return False
        claim = last.claim
        return claim.state_id == self._state_id or (claim.handed_over and claim.node == self._node)

    def _finish(self, device_id: str, until: float | None = None) -> None:
        """Forget until when a claim waits; with `until`, return to that of an earlier one."""
        if until is not None:
            self._unfinished[device_id] = until
        else:
            self._unfinished.pop(device_id, None)

    def _new_claim(self, session_id: str, continues: str | None, *, is_waiting: bool) -> Claim:
        state_id = self._waiting_id if is_waiting else self._state_id
        return Claim(self._node, session_id, continues, _random_id(), _random_id(), state_id=state_id)

    async def _check_stored(self, held: HeldClaim) -> None:
        """Check that the claim's key is still this one, after the claim has its number.

        A node whose claim has the first number of a console does not wait for an owner that it has not seen: there was none
        with a number. If the key of this claim had expired early, before its number was stored, that node owns the key now.

        Raises:
            PtyctlError: CLAIM_LOST, SESSION_MOVED; IO_ERROR.
        """
        key = encode_key(held.device_id)
        entry = await self._bucket.get(key)
        stored = None if entry is None else decode_claim(key, entry)
        if stored is None or stored.claim_id != held.claim.claim_id:
            held.deadline.end()
            held.is_lost, held.lost_to = True, stored
            held.check(self._now())

    async def _wait_for_earlier_owners(self, held: HeldClaim, is_free: bool, unseen_until: float) -> None:
        """Wait until no byte of an earlier owner can reach the console; a renewal that arrives meanwhile extends the wait."""
        await asyncio.sleep(0 if is_free else self._times.margin_s)
        while held.deadline.allows(now := self._now()):
            until = max(self._directory.earlier_until(held.device_id, held.claim), unseen_until) + self._times.margin_s
            if now >= until:
                return
            await asyncio.sleep(until - now)

    async def _until_claims_are_known(self) -> None:
        try:
            async with asyncio.timeout(_KNOWN_S):
                await self._directory.complete.wait()
        except TimeoutError:
            raise PtyctlError(
                ErrorCode.IO_ERROR,
                "NATS does not report the claims of the other nodes, so no console can be claimed",
                hint="check the servers with ptyctl fleet doctor",
            ) from None

    async def _create(self, device_id: str, claim: Claim) -> HeldClaim:
        """Create the key. One that was handed over to this node is replaced, and one of its state directory."""
        key, taken_from = encode_key(device_id), None
        try:
            revision = await self._bucket.create(key, claim.encode())
        except ConflictError:
            claim, revision, taken_from = await self._replace_own(key, claim)
        except PtyctlError:  # whether the key was written is unknown
            entry = await self._bucket.get(key)
            written = None if entry is None else decode_claim(key, entry)
            if entry is None or written is None or written.claim_id != claim.claim_id:
                raise
            revision = entry.revision
        claim = Claim.decode(claim.encode(), revision)
        deadline = WriteDeadline(self._times.ttl_s, self._times.margin_s)
        return HeldClaim(device_id, claim, revision, deadline, taken_from=taken_from)

    async def _replace_own(self, key: str, claim: Claim) -> tuple[Claim, int, Claim | None]:
        """Return the new claim, its revision, and the claim that was handed over to this node, if it was."""
        while True:
            entry = await self._bucket.get(key)
            with suppress(ConflictError):
                if entry is None:  # it has expired since
                    return claim, await self._bucket.create(key, claim.encode()), None
                other = decode_claim(key, entry)
                if other is None:
                    raise PtyctlError(
                        ErrorCode.IO_ERROR,
                        f"the key {key} of the bucket of consoles holds no claim",
                        hint="find out which software wrote it; it expires by itself",
                    )
                is_own = other.state_id in (self._state_id, self._waiting_id)
                if other.node != self._node or not (other.handed_over or is_own):
                    raise ClaimedElsewhereError(other)
                taken_from = other if other.handed_over else None
                if taken_from is not None:
                    claim = replace(claim, continues=taken_from.session_id)
                return claim, await self._bucket.update(key, claim.encode(), entry.revision), taken_from

    async def hand_over(self, held: HeldClaim, node: str, lease: ClaimedLease | None) -> None:
        """Give a console whose line is closed to another node, with its lease. No third node can claim it in between.

        Args:
            held: from its first call on, this node types nothing on the console. It can be called again with another node: if
                the one before has claimed and released the console, any node can claim it, and there is nothing to hand over.

        Raises:
            ConflictError: the claim was lost.
            PtyctlError: IO_ERROR; the claim expires, unless it is released.
        """
        await self.stop(held)
        key, claim = encode_key(held.device_id), held.claim.given_to(node, _random_id(), lease)
        try:
            held.revision = await self._bucket.update(key, claim.encode(), held.revision)
        except ConflictError:  # a renewal was stored whose answer was not received
            entry = await self._bucket.get(key)
            if entry is None:
                return
            stored = decode_claim(key, entry)
            if stored is None or stored.claim_id != held.claim.claim_id:
                raise
            held.revision = await self._bucket.update(key, claim.encode(), entry.revision)

    async def release(self, held: HeldClaim) -> None:
        """Give up a console, so that another node can claim it at once. Nothing may be typed on it any more."""
        await self.stop(held)
        if held.is_lost:
            return
        held.is_lost = True
        key = encode_key(held.device_id)
        with suppress(ConflictError, PtyctlError):  # lost already, or it expires
            try:
                await self._bucket.delete(key, held.revision)
            except ConflictError:  # a renewal was stored whose answer was not received
                entry = await self._bucket.get(key)
                stored = None if entry is None else decode_claim(key, entry)
                if entry is not None and stored is not None and stored.claim_id == held.claim.claim_id:
                    await self._bucket.delete(key, entry.revision)

    async def lost_to(self, held: HeldClaim, owner: Claim) -> None:
        """Record the new owner of a console that was handed over: calls on its old session get SESSION_MOVED from now on."""
        await self.stop(held)
        held.is_lost, held.lost_to = True, replace(owner, handed_over=False)

    async def stop(self, held: HeldClaim) -> None:
        """End the renewals of a claim: nothing may be typed on its console any more."""
        held.deadline.end()
        held.is_stopped = True
        if self._held.get(held.device_id) is held:
            del self._held[held.device_id]
        if held.renewing is not None and held.renewing is not asyncio.current_task():
            held.renewing.cancel()
            await asyncio.gather(held.renewing, return_exceptions=True)

    async def aclose(self) -> None:
        """End all renewals; the claims expire."""
        for held in list(self._held.values()):
            await self.stop(held)

    async def _renew(
        self, held: HeldClaim, lease: Callable[[], ClaimedLease | None], on_lost: Callable[[HeldClaim], None]
    ) -> None:
        wait_s = self._times.renew_s
        while not held.is_lost:
            await self._wait(held, lease, wait_s)
            try:
                wait_s = self._times.renew_s if await self._renew_once(held, lease()) else 0.0
            except PtyctlError as error:
                _LOG.warning("a claim was not renewed", extra={"device_id": held.device_id, "why": error.message})
                wait_s = _RETRY_S
            except Exception:  # a claim is never left without renewal and without a report  # noqa: BLE001
                _LOG.exception("a claim was not renewed", extra={"device_id": held.device_id})
                wait_s = _RETRY_S
        held.deadline.end()
        if self._held.get(held.device_id) is held:
            del self._held[held.device_id]
        on_lost(held)

    async def _wait(self, held: HeldClaim, lease: Callable[[], ClaimedLease | None], wait_s: float) -> None:
        """Wait for the next renewal; a lock that was granted or has ended is written soon, and the end of the claim's wait."""
        due = self._now() + wait_s
        while (rest_s := due - self._now()) > 0:
            await asyncio.sleep(min(rest_s, _LEASE_CHECK_S))
            if _owner(lease()) != _owner(held.claim.lease) or self._renewed_state_id(held) != held.claim.state_id:
                return

    def _renewed_state_id(self, held: HeldClaim) -> str:
        """Return the `state_id` of a renewal: once the wait is over, a process that is started again takes the claim over."""
        return self._state_id if held.claim.state_id == self._waiting_id and not held.is_waiting else held.claim.state_id

    async def _renew_once(self, held: HeldClaim, lease: ClaimedLease | None) -> bool:
        """Renew a claim; return False if it must be tried again at once, or it is lost. Raises PtyctlError IO_ERROR."""
        key, started = encode_key(held.device_id), self._now()
        claim = replace(held.claim.renewed(_random_id(), lease), state_id=self._renewed_state_id(held))
        try:
            held.revision = await self._bucket.update(key, claim.encode(), held.revision)
        except (ConflictError, PtyctlError) as error:
            stored = await self._stored(held, key)
            if stored is None or stored.attempt != claim.attempt:
                if isinstance(error, PtyctlError):
                    raise
                return False  # lost, or an earlier renewal whose answer was lost: try again with its revision
        held.claim = claim
        held.deadline.renew(started)
        return True

    async def _stored(self, held: HeldClaim, key: str) -> Claim | None:
        """Read a key whose renewal failed: take over its revision if the claim is this one, else mark the claim as lost."""
        entry = await self._bucket.get(key)
        other = None if entry is None else decode_claim(key, entry)
        if entry is not None and other is not None and other.claim_id == held.claim.claim_id:
            held.revision = entry.revision
            return other
        held.is_lost, held.lost_to = True, other
        return None


def decode_claim(key: str, entry: Entry) -> Claim | None:
    """Return the claim of a key; None if its value is none."""
    try:
        return Claim.decode(entry.value, entry.revision)
    except ValueError as error:
        _LOG.warning("a console's key has no valid claim", extra={"key": key, "why": str(error)})
        return None


def _owner(lease: ClaimedLease | None) -> tuple[str, str, int] | None:
    return None if lease is None else (lease.holder, lease.principal, lease.fence)


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

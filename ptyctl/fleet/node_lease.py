"""The lease of a node, which keeps all its claims in force: created, renewed, and replaced after its end; and the leases of all
nodes, as one node follows them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.cancellation import cancel_and_wait
from ptyctl.clock import boot_time

from .buckets import LEASE_TTL_S, RETRY_S, Bucket, ConflictError, Entry, encode_key

_LOG = logging.getLogger(__name__)

#: Interval at which a node renews its lease (seconds).
RENEW_S = 5.0
#: Time before the expiry of its lease in which a node types nothing, and that a new owner waits before it connects (seconds).
MARGIN_S = 3.0
#: How long a claim waits for the lease of its node (seconds).
_IN_FORCE_S = 10.0
#: Number of leases whose last renewals are kept, the most recently renewed ones.
_MAX_SEEN = 4096


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Times of the leases of a fleet (seconds); tests use shorter ones."""

    ttl_s: float = LEASE_TTL_S
    renew_s: float = RENEW_S
    margin_s: float = MARGIN_S

    @property
    def delivery_s(self) -> float:
        """Longest transit of a byte (seconds). The next owner types at the earliest two margins after the write deadline."""
        return 1.5 * self.margin_s

    @property
    def quiet_s(self) -> float:
        """Seconds after the last renewal of a lease from which no byte of its node can reach a console."""
        return self.ttl_s + self.margin_s


@dataclass(frozen=True, slots=True)
class Renewal:
    """The value of a node's key.

    Attributes:
        lease_id: random, made for each lease: it never returns once the key has expired or was replaced.
        state_id: random, of the node's state directory: two processes with the file of one node are two owners.
        attempt: random, made for each write: a node recognises a write whose answer was lost.
        at: when the node began this write, on its clock (seconds of CLOCK_BOOTTIME).
    """

    lease_id: str
    state_id: str
    attempt: str
    at: Annotated[float, Field(allow_inf_nan=False)]

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Renewal:
        """Return the renewal in a key's value. Raises ValueError."""
        return _RENEWAL.validate_json(value, strict=True)


_RENEWAL = TypeAdapter(Renewal)


def decode_renewal(key: str, value: bytes) -> Renewal | None:
    """Return the renewal of a key; None if its value is none: no lease is in force with it."""
    try:
        return Renewal.decode(value)
    except ValidationError as error:
        _LOG.warning("a node's key has no valid lease", extra={"key": key, "why": str(error).splitlines()[0]})
        return None


@dataclass(slots=True)
class WriteDeadline:
    """Until when a node may type on its consoles.

    It counts from the *start* of a renewal: the server may have stored the value at any moment after that, so the key cannot
    expire earlier than `started_at` + ttl. The margin covers clocks of different speed, and bytes that were sent but not yet
    delivered.
    """

    ttl_s: float = LEASE_TTL_S
    margin_s: float = MARGIN_S
    at: float = float("-inf")
    is_over: bool = False

    def renew(self, started_at: float) -> None:
        """Extend the deadline after a renewal that began at `started_at` has succeeded. It never moves back."""
        self.at = max(self.at, started_at + self.ttl_s - self.margin_s)

    def end(self) -> None:
        """End the lease. It remains ended if a renewal succeeds later."""
        self.is_over = True

    def allows(self, now: float) -> bool:
        """Return whether input may be sent at the time `now`."""
        return not self.is_over and now < self.at


@dataclass(slots=True, eq=False)
class HeldLease:
    """A lease of this node, from its creation to its end.

    Attributes:
        revision: of the last renewal that was stored.
        deadline: the write deadline of all consoles whose claims name this lease.
    """

    lease_id: str
    revision: int
    deadline: WriteDeadline

    def renewed(self, revision: int) -> None:
        """Record a renewal that was stored."""
        self.revision = revision

    def is_in_force(self, now: float) -> bool:
        """Return whether input may be sent under this lease."""
        return self.deadline.allows(now)

    def end(self) -> None:
        """Let this node type no more under this lease."""
        self.deadline.end()


class NodeLease:
    """Keeps a lease of one node in force. A lease that has ended is followed by a new one."""

    def __init__(
        self,
        bucket: Bucket,
        node: str,
        times: LeaseTimes | None = None,
        now: Callable[[], float] = boot_time,
    ) -> None:
        self._bucket = bucket
        #: The name of this node.
        self.node = node
        #: Times of this lease and of the leases of other nodes.
        self.times = times or LeaseTimes()
        self._now = now
        self._key = encode_key(node)
        self._state_id: str | None = None
        self._held: HeldLease | None = None
        #: Ids of all leases of this process, and of one before it with the same state directory.
        self._own: set[str] = set()
        self._is_namesake_up = False
        self._changed = asyncio.Event()
        self._begin_listeners: list[Callable[[HeldLease], None]] = []
        self._renewing: asyncio.Task[None] | None = None

    def on_begin(self, listener: Callable[[HeldLease], None]) -> None:
        """Register a listener, which is called with each new lease of this node."""
        self._begin_listeners.append(listener)

    def start(self, state_id: str) -> None:
        """Create a lease, and renew it periodically. Only the first call has an effect.

        A lease of the same `state_id` in the node's key is replaced at once: it is that of an earlier process, which is gone.
        """
        if self._state_id is None:
            self._state_id = state_id
            self._renewing = asyncio.create_task(self._keep(), name=f"lease of {self.node}")

    @property
    def current(self) -> HeldLease | None:
        """The lease that this node renews; None after its end, until there is a new one."""
        return self._held

    def is_own(self, lease_id: str) -> bool:
        """Return whether a lease is or was one of this process, or of an earlier one with the same state directory."""
        return lease_id in self._own

    async def in_force(self) -> HeldLease:
        """Return this node's lease; wait while it has none.

        Raises:
            PtyctlError: CLAIM_LOST if another process of this node has one; IO_ERROR if NATS does not answer in time.
        """
        try:
            async with asyncio.timeout(_IN_FORCE_S):
                while self._held is None or not self._held.is_in_force(self._now()):
                    if self._is_namesake_up:
                        raise self._namesake()
                    self._changed.clear()
                    await self._changed.wait()
                return self._held
        except TimeoutError:
            raise PtyctlError(
                ErrorCode.IO_ERROR,
                "NATS does not renew the lease of this node, so no console can be claimed",
                hint="check the servers with ptyctl fleet doctor",
            ) from None

    async def aclose(self) -> None:
        """Type no more on this node's consoles, and end the renewals; the lease expires."""
        if self._held is not None:
            self._held.end()
        await cancel_and_wait(self._renewing)
        self._end()

    def _namesake(self) -> PtyctlError:
        return PtyctlError(
            ErrorCode.CLAIM_LOST,
            "a process with the name of this node and another state directory keeps the consoles of this node",
            {"node": self.node, "delivery": "not_sent"},
            hint=f"repeat the call when its lease has expired, in {self.times.ttl_s:.0f} s; a node's file is for one process",
        )

    async def _keep(self) -> None:
        while True:
            try:
                wait_s = await (self._begin() if self._held is None else self._renew(self._held))
            except PtyctlError as error:
                _LOG.warning("the lease of this node was not renewed", extra={"why": error.message})
                wait_s = RETRY_S
            except Exception:  # consoles are never left without renewal and without a report  # noqa: BLE001
                _LOG.exception("the lease of this node was not renewed")
                wait_s = RETRY_S
            await asyncio.sleep(wait_s)

    async def _begin(self) -> float:
        """Create a lease; return the seconds until the next step. Raises PtyctlError IO_ERROR."""
        entry = await self._bucket.get(self._key)
        before = None if entry is None else decode_renewal(self._key, entry.value)
        if entry is not None and (before is None or before.state_id != self._state_id):
            self._is_namesake_up = True
            self._changed.set()
            return RETRY_S
        if before is not None:
            self._own.add(before.lease_id)
        started, renewal = self._now(), self._new_renewal(_random_id())
        try:
            if entry is None:
                revision = await self._bucket.create(self._key, renewal.encode())
            else:
                revision = await self._bucket.update(self._key, renewal.encode(), entry.revision)
        except ConflictError:
            return 0.0
        except PtyctlError:  # whether it was stored is unknown
            stored = await self._stored()
            if stored is None or stored[0].attempt != renewal.attempt:
                raise
            revision = stored[1]
        held = HeldLease(renewal.lease_id, revision, WriteDeadline(self.times.ttl_s, self.times.margin_s))
        held.deadline.renew(started)
        self._own.add(held.lease_id)
        self._held, self._is_namesake_up = held, False
        self._changed.set()
        for listener in self._begin_listeners:
            listener(held)
        return self._wait_after(started)

    async def _renew(self, held: HeldLease) -> float:
        """Renew a lease, or end it; return the seconds until the next step. Raises PtyctlError IO_ERROR."""
        started, renewal = self._now(), self._new_renewal(held.lease_id)
        try:
            held.renewed(await self._bucket.update(self._key, renewal.encode(), held.revision))
        except (ConflictError, PtyctlError) as error:
            stored = await self._stored()
            if stored is None or stored[0].lease_id != held.lease_id:
                self._end()
                return 0.0
            held.renewed(stored[1])
            if stored[0].attempt != renewal.attempt:  # that of an earlier attempt whose answer was lost, or of the last success
                if isinstance(error, PtyctlError):
                    raise
                return 0.0
        if self._now() >= held.deadline.at + self.times.margin_s:
            # A server that stores a renewal late may have shown the key as expired before.
            self._end()
            return 0.0
        held.deadline.renew(started)
        self._changed.set()
        return self._wait_after(started)

    def _wait_after(self, started: float) -> float:
        """Return the seconds until the next renewal after a renewal that began at a time."""
        return max(0.0, started + self.times.renew_s - self._now())

    async def _stored(self) -> tuple[Renewal, int] | None:
        """Return the value of the node's key, and its revision. Raises PtyctlError IO_ERROR."""
        entry = await self._bucket.get(self._key)
        renewal = None if entry is None else decode_renewal(self._key, entry.value)
        return None if entry is None or renewal is None else (renewal, entry.revision)

    def _end(self) -> None:
        if self._held is not None:
            self._held.end()
            self._held = None

    def _new_renewal(self, lease_id: str) -> Renewal:
        assert self._state_id is not None
        return Renewal(lease_id, self._state_id, _random_id(), self._now())


def _random_id() -> str:
    return secrets.token_hex(8)


@dataclass(slots=True)
class SeenLease:
    """The last renewal of a lease that was received.

    Attributes:
        at: when this node received it first, on its clock.
        is_stale: whether the watch was interrupted since: renewals may have been missed.
    """

    renewal: Renewal
    revision: int
    at: float
    is_stale: bool = False


class LeaseDirectory:
    """The leases of all nodes, followed by a watch. It keeps the last renewal of an expired lease, which NATS does not."""

    def __init__(self, bucket: Bucket, times: LeaseTimes | None = None, now: Callable[[], float] = boot_time) -> None:
        self.bucket = bucket
        self._times = times or LeaseTimes()
        self._now = now
        self._seen: dict[str, SeenLease] = {}
        #: Set while the leases are known: after the values at the start of a watch.
        self.complete = asyncio.Event()
        self.complete_at = float("inf")

    @property
    def is_complete(self) -> bool:
        """Whether the leases are known."""
        return self.complete.is_set()

    async def wait_until_complete(self) -> None:
        """Wait until the leases are known."""
        await self.complete.wait()

    async def follow(self) -> None:
        """Follow the bucket until cancelled, or until NATS does not answer."""
        self.complete.clear()
        self.complete_at = float("inf")
        for seen in self._seen.values():
            seen.is_stale = True
        async for change in self.bucket.watch():
            if change is None:
                self.complete_at = self._now()
                self.complete.set()
            elif change[1] is not None:
                self._receive(change[0], change[1])

    def _receive(self, key: str, entry: Entry) -> None:
        renewal = decode_renewal(key, entry.value)
        if renewal is None:
            return
        known = self._seen.pop(renewal.lease_id, None)
        if known is not None and known.revision == entry.revision:
            known.is_stale = False  # repeated at the start of a watch: it is as old as before
            self._seen[renewal.lease_id] = known
            return
        self._seen[renewal.lease_id] = SeenLease(renewal, entry.revision, self._now())
        if len(self._seen) > _MAX_SEEN:
            del self._seen[next(iter(self._seen))]

    def last(self, lease_id: str) -> SeenLease | None:
        """Return the last renewal of a lease that was received."""
        return self._seen.get(lease_id)

    async def has(self, node: str, lease_id: str) -> bool:
        """Return whether the servers have a lease of a node. Raises PtyctlError IO_ERROR."""
        return await self.of(node) == lease_id

    async def of(self, node: str) -> str | None:
        """Return the id of a node's lease, as the servers answer; None without one. Raises PtyctlError IO_ERROR."""
        key = encode_key(node)
        entry = await self.bucket.get(key)
        renewal = None if entry is None else decode_renewal(key, entry.value)
        return None if renewal is None else renewal.lease_id

    def is_in_force(self, lease_id: str) -> bool:
        """Return whether a renewal of a lease was received within its TTL."""
        seen = self._seen.get(lease_id)
        return seen is not None and self._now() < seen.at + self._times.ttl_s

    def expires_at(self, lease_id: str, named_at: float) -> float:
        """Return when a lease expires unless it is renewed.

        Args:
            named_at: when a claim that names it was received: a lease that was not seen expires one TTL after that, and
                after the start of the watch.
        """
        seen = self._seen.get(lease_id)
        return (max(self.complete_at, named_at) if seen is None else seen.at) + self._times.ttl_s

    def quiet_at(self, lease_id: str, absent_at: float, own: HeldLease) -> float:
        """Return the currently known time from which no byte of a lease's node can reach a console.

        Args:
            absent_at: when the lease was found absent: it was not renewed later.
            own: the lease of this node. While its last renewal was not received, others may be missing too.
        """
        known = self._seen.get(own.lease_id)
        if known is None or known.is_stale or known.revision < own.revision:
            return absent_at + self._times.quiet_s
        seen = self._seen.get(lease_id)
        last_at = self.complete_at if seen is None else seen.at
        if seen is not None and seen.is_stale:
            last_at = max(last_at, self.complete_at)
        return min(last_at, absent_at) + self._times.quiet_s

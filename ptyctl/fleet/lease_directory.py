"""The leases of all nodes, as one node follows them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from .boot_clock import boot_time
from .buckets import Bucket, Entry, encode_key
from .node_lease import HeldLease, LeaseTimes, Renewal, decode_renewal

#: Number of leases whose last renewals are kept, the most recently renewed ones.
_MAX_SEEN = 4096


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
            named_at: when a claim that names it was received: a lease that was not seen has expired a life after that, and
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

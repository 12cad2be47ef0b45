"""The claims on all consoles of a site, as one node follows them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ptyctl.clock import boot_time

from .buckets import Bucket, Entry, decode_key, encode_key
from .claim import Claim
from .node_lease import LeaseDirectory

_LOG = logging.getLogger(__name__)

#: How long a far end may keep the connection of a dead owner: TCP keepalives detect it after two hours by default
#: (seconds).
_HELD_S = 7200.0


@dataclass(slots=True)
class SeenClaim:
    """The last value of a console's key.

    Attributes:
        claimed_at: when this node received the first value of this claim.
        taken_at: when the console was taken last from an owner that had not given it up.
    """

    claim: Claim
    revision: int
    claimed_at: float
    taken_at: float = float("-inf")


#: Receives the device_id of a changed claim with its value, None if it has no valid one; and its revision, None after a
#: deletion.
Listener = Callable[[str, Claim | None, int | None], None]


class ClaimDirectory:
    """The claims of all nodes, followed by a watch."""

    def __init__(self, bucket: Bucket, leases: LeaseDirectory, now: Callable[[], float] = boot_time) -> None:
        self.bucket = bucket
        #: The leases that keep the claims in force.
        self.leases = leases
        self._now = now
        self._seen: dict[str, SeenClaim] = {}
        self._listeners: list[Listener] = []
        #: Set while the claims are known: after the values at the start of a watch.
        self.complete = asyncio.Event()

    async def wait_until_complete(self) -> None:
        """Wait until the claims and the leases are known."""
        await self.leases.wait_until_complete()
        await self.complete.wait()

    def subscribe(self, listener: Listener) -> None:
        """Call a function with each change."""
        self._listeners.append(listener)

    async def follow(self) -> None:
        """Follow the bucket until cancelled, or until NATS does not answer."""
        self.complete.clear()
        async for change in self.bucket.watch():
            if change is None:
                self.complete.set()
            else:
                self._receive(*change)

    def _receive(self, key: str, entry: Entry | None) -> None:
        claim = None if entry is None else decode_claim(key, entry)
        known = self._seen.get(key)
        if entry is not None and claim is not None:
            self._seen[key] = self._followed_by(known, claim, entry.revision)
        elif entry is None and known is not None:  # deleted by hand, so that no node has it
            known.claim = replace(known.claim, node="", lease_id="")
        for listener in self._listeners:
            listener(decode_key(key), claim, None if entry is None else entry.revision)

    def _followed_by(self, known: SeenClaim | None, claim: Claim, revision: int) -> SeenClaim:
        now = self._now()
        if known is None:
            return SeenClaim(claim, revision, now)
        if known.claim.claim_id == claim.claim_id:
            return SeenClaim(claim, revision, known.claimed_at, known.taken_at)
        is_given_up = known.claim.is_released or known.claim.handed_over or known.claim.node in ("", claim.node)
        return SeenClaim(claim, revision, now, known.taken_at if is_given_up else now)

    def last(self, device_id: str) -> SeenClaim | None:
        """Return the last claim on a console, in force or not."""
        return self._seen.get(encode_key(device_id))

    def owner(self, device_id: str) -> Claim | None:
        """Return the claim on a console that is in force as far as this node knows."""
        seen = self.last(device_id)
        if seen is None or seen.claim.is_released or not self.leases.is_in_force(seen.claim.lease_id):
            return None
        return seen.claim

    def first_seen_at(self, device_id: str, claim: Claim) -> float:
        """Return when this node first received a claim; the current time if it has not."""
        seen = self.last(device_id)
        return seen.claimed_at if seen is not None and seen.claim.claim_id == claim.claim_id else self._now()

    def named(self, lease_id: str) -> Iterator[tuple[str, SeenClaim]]:
        """Yield the claims that name a lease, with their device_ids."""
        return ((decode_key(key), seen) for key, seen in self._seen.items() if seen.claim.lease_id == lease_id)

    def may_be_held(self, device_id: str) -> bool:
        """Return whether the far end may still have the connection of an owner that did not release the console."""
        seen = self.last(device_id)
        return seen is not None and self._now() < seen.taken_at + _HELD_S


def decode_claim(key: str, entry: Entry) -> Claim | None:
    """Return the claim of a key; None if its value is none."""
    try:
        return Claim.decode(entry.value)
    except ValueError as error:
        _LOG.warning("a console's key has no valid claim", extra={"key": key, "why": str(error)})
        return None

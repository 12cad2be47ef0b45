"""A node's claim on a console: its value, its write deadline and its fences. Pure: times are arguments.

Time is seconds of CLOCK_BOOTTIME, which continues while the machine is suspended.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

#: A claim that its node does not renew expires after this time, and another node can take the console (seconds).
TTL_S = 15.0
#: How often a node renews a claim (seconds).
RENEW_S = 5.0
#: A node types nothing in the last part of a claim's life, and a new owner waits as long before it connects (seconds).
MARGIN_S = 3.0

#: Bits of a fence for the number of the lease within a claim, and for the claim's number: together 53, the integers that
#: JavaScript represents exactly.
_LEASE_BITS, _NUMBER_BITS = 26, 27
#: Numbers of claims are below this one.
MAX_NUMBER = 1 << _NUMBER_BITS
#: A new bucket of fences counts from its creation time in this unit, so that numbers grow although the bucket before it is
#: gone: as long as a console had fewer claims than one per unit on average (seconds).
_NUMBER_UNIT_S = 64


@dataclass(frozen=True, slots=True)
class ClaimedLease:
    """The lease of the console's session, for the next owner. `expires_in_s` counts from the claim's renewal."""

    holder: str
    principal: str
    expires_in_s: float
    fence: int


@dataclass(frozen=True, slots=True)
class Claim:
    """The value of a console's key.

    Attributes:
        node: the owner.
        session_id: the console's session on it.
        continues: the session of the previous owner.
        claim_id: random, made for each claim: a node recognises its own claim, and not an earlier one of the same session.
        attempt: random, made for each write: a node recognises a write whose answer was lost.
        epoch: the revision that created the key; 0 in that revision itself.
        handed_over: whether the previous owner has given the console to `node`, which has not connected it yet; `session_id` is
            still the previous owner's session then.
        state_id: random, of the owner's state directory: two processes with the file of one node are two owners.
    """

    node: str
    session_id: str
    continues: str | None = None
    claim_id: str = ""
    attempt: str = ""
    epoch: int = 0
    lease: ClaimedLease | None = None
    handed_over: bool = False
    state_id: str = ""

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes, revision: int) -> Claim:
        """Return the claim in a key's value.

        Raises:
            ValueError: the value is not a claim.
        """
        fields = json.loads(value)
        try:
            lease = None if fields["lease"] is None else ClaimedLease(**fields["lease"])
            claim = cls(**{**fields, "lease": lease})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a console claim: {error}") from None
        if not all(isinstance(text, str) for text in (claim.node, claim.session_id)) or not isinstance(claim.epoch, int):
            raise ValueError("not a console claim: node and session_id are strings, epoch is a number")
        return claim if claim.epoch else replace(claim, epoch=revision)

    def renewed(self, attempt: str, lease: ClaimedLease | None) -> Claim:
        """Return the value of a renewal."""
        return replace(self, attempt=attempt, lease=lease)

    def given_to(self, node: str, attempt: str, lease: ClaimedLease | None) -> Claim:
        """Return the value with which the owner hands the console over to another node."""
        return replace(self, node=node, attempt=attempt, lease=lease, handed_over=True)


@dataclass(slots=True)
class WriteDeadline:
    """Until when a node may type on a console.

    It counts from the *start* of a renewal: the server may have stored the value at any moment after that, so the key cannot
    expire earlier than `started_at` + ttl. The margin covers clocks of different speed, and bytes that were sent but not yet
    delivered.
    """

    ttl_s: float = TTL_S
    margin_s: float = MARGIN_S
    at: float = float("-inf")

    @property
    def delivery_s(self) -> float:
        """How long a byte may be under way (seconds). The next owner types at the earliest two margins after the deadline."""
        return 1.5 * self.margin_s

    def renew(self, started_at: float) -> None:
        """Extend the deadline after a renewal that began at `started_at` has succeeded. It never moves back."""
        self.at = max(self.at, started_at + self.ttl_s - self.margin_s)

    def end(self) -> None:
        """The claim is lost or released."""
        self.at = float("-inf")

    def allows(self, now: float) -> bool:
        """Whether a byte may be sent now."""
        return now < self.at


def first_number(bucket_created_s: int) -> int:
    """Return the smallest number of a claim in a bucket of fences that was created at a time (seconds since 1970)."""
    return bucket_created_s // _NUMBER_UNIT_S


def first_fence(number: int) -> int:
    """Return a number that is smaller than all fences of the claim with a number, and greater than those of all earlier claims.

    A claim has 67 million fences: one lease per second for two years.
    """
    if not 0 <= number < MAX_NUMBER:
        raise ValueError(f"the number {number} of a claim has more than {_NUMBER_BITS} bits")
    return number << _LEASE_BITS

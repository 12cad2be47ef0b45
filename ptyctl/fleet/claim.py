"""A node's claim on a console: its value, and its fences. Pure: times are arguments.

Time is seconds of CLOCK_BOOTTIME of the node that wrote the claim; it continues while the machine is suspended.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

#: Bits of a fence for the number of the lease within a claim, and for the claim's number: together 53, the integers that
#: JavaScript represents exactly.
_LEASE_BITS, _NUMBER_BITS = 26, 27
#: Numbers of claims are below this one.
MAX_NUMBER = 1 << _NUMBER_BITS
#: A new bucket of claims counts from its creation time in this unit, so that numbers grow although the bucket before it is
#: gone: as long as a console had fewer claims than one per unit on average (seconds).
_NUMBER_UNIT_S = 64

_Seconds = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class ClaimedLock:
    """The lock of the console's session, for the next owner. `expires_in_s` counts from the time of the claim's value."""

    holder: str
    principal: str
    expires_in_s: _Seconds
    fence: int


@dataclass(frozen=True, slots=True)
class Claim:
    """The value of a console's key.

    Attributes:
        node: the owner; empty after a release.
        lease_id: the lease of the owner: the claim is in force while that is.
        claim_id: random, made for each claim: a node recognises its own claim, and not an earlier one of the same session.
        number: one more than that of the claim before on this console.
        session_id: the console's session on the owner.
        at: when the owner wrote this value, on its clock.
        continues: the session of the previous owner.
        lock: the lock of the session.
        handed_over: whether the previous owner has given the console to `node`, which has not connected it yet; `session_id` is
            still the previous owner's session then.
        waiting: whether an earlier owner may type still; also in the value of a release.
    """

    node: str
    lease_id: str
    claim_id: str
    number: Annotated[int, Field(ge=0, lt=MAX_NUMBER)]
    session_id: str
    at: _Seconds
    continues: str | None = None
    lock: ClaimedLock | None = None
    handed_over: bool = False
    waiting: bool = False

    @property
    def is_released(self) -> bool:
        """Whether the owner has released the console, so that no node has it."""
        return not self.node

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Claim:
        """Return the claim in a key's value.

        Raises:
            ValueError: the value is not a claim.
        """
        try:
            return _CLAIM.validate_json(value, strict=True)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            raise ValueError(f"{'.'.join(map(str, fault['loc'])) or 'the claim'}: {fault['msg']}") from None


_CLAIM = TypeAdapter(Claim)


def first_number(bucket_created_s: int) -> int:
    """Return the smallest number of a claim in a bucket that was created at a time (seconds since 1970)."""
    return bucket_created_s // _NUMBER_UNIT_S


def first_fence(number: int) -> int:
    """Return the lower bound of the fences of the claim with this number. The fences of earlier claims are smaller.

    A claim has 67 million fences: one lease per second for two years.
    """
    if not 0 <= number < MAX_NUMBER:
        raise ValueError(f"the number {number} of a claim has more than {_NUMBER_BITS} bits")
    return number << _LEASE_BITS

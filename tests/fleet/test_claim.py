"""Claims: values, write deadlines and fences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.fleet.claim import MARGIN_S, MAX_NUMBER, TTL_S, Claim, ClaimedLease, WriteDeadline, first_fence

NAMES = st.text(max_size=20)
LEASES = st.none() | st.builds(ClaimedLease, NAMES, NAMES, st.floats(0, 1e6, allow_nan=False), st.integers(0, 2**100))
CLAIMS = st.builds(
    Claim,
    node=NAMES,
    session_id=NAMES,
    continues=st.none() | NAMES,
    claim_id=NAMES,
    attempt=NAMES,
    epoch=st.integers(1, 2**48 - 1),
    lease=LEASES,
    state_id=NAMES,
)


@given(CLAIMS, st.integers(1))
def test_claim_encoded_and_decoded_is_equal(claim: Claim, revision: int) -> None:
    assert Claim.decode(claim.encode(), revision) == claim


def test_claim_of_the_creating_revision_has_it_as_epoch() -> None:
    assert Claim.decode(Claim("a", "s").encode(), 17).epoch == 17


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'"x"', b"1", b'{"node": 1, "session_id": "s", "lease": null}', b"\xff"])
def test_value_that_is_no_claim_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Claim.decode(value, 1)


@given(st.lists(st.tuples(st.integers(0, MAX_NUMBER - 1), st.integers(1, 2**26 - 1)), min_size=2))
def test_fences_grow_with_claim_then_lease_and_fit_into_53_bits(parts: list[tuple[int, int]]) -> None:
    fences = {part: first_fence(part[0]) + part[1] for part in parts}
    assert sorted(parts) == sorted(parts, key=fences.__getitem__)
    assert len(set(fences.values())) == len(set(parts))
    assert max(fences.values()) < 2**53


@pytest.mark.parametrize("number", [-1, MAX_NUMBER])
def test_fence_of_a_number_beyond_its_bits_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="27 bits"):
        first_fence(number)


@given(st.lists(st.floats(0, 1000), min_size=1))
def test_deadline_is_that_of_the_latest_renewal_start(starts: list[float]) -> None:
    deadline = WriteDeadline()
    assert not deadline.allows(0)
    for start in starts:
        deadline.renew(start)
    assert deadline.at == max(starts) + TTL_S - MARGIN_S
    assert not deadline.allows(deadline.at)
    deadline.end()
    assert not deadline.allows(max(starts))

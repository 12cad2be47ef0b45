"""Claims: values, numbers and fences."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.fleet.claim import MAX_NUMBER, Claim, ClaimedLock, first_fence

NAMES = st.text(max_size=20)
SECONDS = st.floats(-1e9, 1e9)
LOCKS = st.none() | st.builds(ClaimedLock, NAMES, NAMES, SECONDS, st.integers(0, 2**53))
CLAIMS = st.builds(
    Claim,
    node=NAMES,
    lease_id=NAMES,
    claim_id=NAMES,
    number=st.integers(0, MAX_NUMBER - 1),
    session_id=NAMES,
    at=SECONDS,
    continues=st.none() | NAMES,
    lock=LOCKS,
    handed_over=st.booleans(),
    waiting=st.booleans(),
)
CLAIM = Claim("a", "l", "c", 7, "s", 1.5)


@given(CLAIMS)
def test_claim_encoded_and_decoded_is_equal(claim: Claim) -> None:
    assert Claim.decode(claim.encode()) == claim


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'"x"', b"1", b'{"node": 1, "session_id": "s", "lock": null}', b"\xff"])
def test_value_that_is_no_claim_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Claim.decode(value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("number", MAX_NUMBER),
        ("number", -1),
        ("number", "7"),
        ("at", float("nan")),
        ("lease_id", None),
        ("waiting", 1),
        ("lock", {"holder": "t"}),
    ],
)
def test_claim_with_an_invalid_field_is_refused_with_its_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        Claim.decode(json.dumps({**asdict(CLAIM), field: value}).encode())


@pytest.mark.parametrize("field", ["node", "lease_id", "claim_id", "number", "session_id", "at"])
def test_claim_without_a_field_is_refused_with_its_name(field: str) -> None:
    fields = asdict(CLAIM)
    del fields[field]
    with pytest.raises(ValueError, match=field):
        Claim.decode(json.dumps(fields).encode())


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

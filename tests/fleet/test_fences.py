"""Numbers of claims: they grow with each claim on a console, whatever was lost."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.fleet.buckets import encode_key
from ptyctl.fleet.claim import MAX_NUMBER, first_fence
from ptyctl.fleet.fences import FenceCounter
from tests.fleet.fake_bucket import FakeBucket
from tests.fleet.line_history import Typed, Written, find_faults

CREATED_S = 1_780_000_000


def bucket(created_s: int = CREATED_S) -> FakeBucket:
    return FakeBucket(float("inf"), created_s=created_s)


@given(st.lists(st.sampled_from(["claim", "lost answer", "new bucket"]), min_size=1, max_size=20))
def test_fences_of_owners_grow_although_answers_and_the_bucket_are_lost(events: list[str]) -> None:
    async def run() -> list[int]:
        of, numbers = bucket(), []
        for event in events:
            if event == "new bucket":
                of = bucket(of.created_s + 64 * len(events))
            of.losses = 2 if event == "lost answer" else 0  # the answer to the read, or to the write
            try:
                numbers.append((await FenceCounter(of).next("line")).value)
            except PtyctlError as error:
                assert error.code is ErrorCode.IO_ERROR  # noqa: PT017
        return numbers

    fences = [first_fence(number) + 1 for number in asyncio.run(run())]
    typed = [Typed(f"a.{number}", number) for number in range(len(fences))]
    acknowledged = [Written(token.token, fence) for token, fence in zip(typed, fences, strict=True)]
    assert find_faults(typed, acknowledged) == []
    assert all(fence < 2**53 for fence in fences)


async def test_two_nodes_at_once_get_different_numbers() -> None:
    of = bucket()

    class Slow:
        """Answers to reads arrive after both nodes have read."""

        async def get(self, key: str) -> object:
            entry = await of.get(key)
            await asyncio.sleep(0)
            return entry

        def __getattr__(self, name: str) -> object:
            return getattr(of, name)

    counters = [FenceCounter(Slow()), FenceCounter(Slow())]
    numbers = await asyncio.gather(*(counter.next("line") for counter in counters * 3))
    assert len({number.value for number in numbers}) == len(numbers)
    assert sum(number.is_first for number in numbers) == 1


@pytest.mark.parametrize("value", [b"", b"x", b"-1", b"1" * 5000, str(MAX_NUMBER).encode()])
async def test_value_that_is_no_number_is_an_error_with_a_next_step(value: bytes) -> None:
    of = bucket()
    await of.create(encode_key("line"), value)
    with pytest.raises(PtyctlError, match="holds no number") as refused:
        await FenceCounter(of).next("line")
    assert refused.value.code is ErrorCode.IO_ERROR
    assert refused.value.hint is not None

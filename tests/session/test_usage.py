"""Use of a session's limits."""

from __future__ import annotations

from fixtures.memory_channel import MemoryChannel
from tests.cost import lines_of
from tests.session.conftest import Connect


async def test_limits_in_use_of_a_session_with_many_observers_cost_as_much_as_with_one(connect: Connect) -> None:
    session = await connect(MemoryChannel())

    def observers() -> int:
        return next(use.in_use for use in session.limits_in_use() if use.name == "max_session_observers")

    def read(task: str) -> None:
        with session.usage.in_use(task, reading=True):
            pass

    read("first")
    one = lines_of(observers)
    for number in range(100):
        read(str(number))
    assert observers() == 101
    assert lines_of(observers) == one

"""Replaying output and resizes in short steps."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.core.screen import ScreenModel
from ptyctl.session.screen.screen_replay import ScreenReplay
from ptyctl.session.transcript.timeline import TimelineStep
from tests.session.conftest import Connect

#: Text that is deferred, and of which nothing scrolls off.
TEXT = b"overwritten\r" * 50_000


@pytest.mark.parametrize("size", [(30, 5), None], ids=["resize", "incarnation"])
async def test_deferred_text_before_a_timeline_step_is_drawn_in_short_steps(
    connect: Connect, size: tuple[int, int] | None
) -> None:
    source = (await connect(MemoryChannel())).display.source
    model = ScreenModel(20, 4)
    model.feed(TEXT)
    replay, costs = ScreenReplay(model, raw=len(TEXT)), [model.cost]

    def stop() -> bool:
        costs.append(model.cost)
        return True

    steps = [TimelineStep(len(TEXT), size), TimelineStep(len(TEXT), (10, 2))]
    while not replay.advance(source, steps, len(TEXT), stop=stop):
        assert not replay.settled
    whole = costs[-1] - costs[0]
    assert max(after - before for before, after in pairwise(costs)) < whole / 4
    assert (replay.settled, replay.step, model.cols, model.rows) == (True, 2, 10, 2)
    assert model.snapshot().rows[0] == ("" if size is None else "overwritte")

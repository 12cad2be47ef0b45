"""Replaying output and resizes in short steps."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.core.screen import ScreenModel
from ptyctl.core.screen.emulator import STEP_COST
from ptyctl.session.screen.screen_replay import ScreenReplay
from ptyctl.session.transcript.timeline import TimelineStep
from tests.session.conftest import Connect

#: Deferred texts without line feeds, so nothing scrolls off. The model draws only the last redrawn lines.
TEXTS = {"drawn": b"overwritten" + b"\b" * 11, "redrawn lines": b"overwritten\r"}


@pytest.mark.parametrize("text", [repeated * 40_000 for repeated in TEXTS.values()], ids=list(TEXTS))
@pytest.mark.parametrize("size", [(30, 5), None], ids=["resize", "incarnation"])
async def test_deferred_text_before_a_timeline_step_is_drawn_in_short_steps(
    connect: Connect, size: tuple[int, int] | None, text: bytes
) -> None:
    source = (await connect(MemoryChannel())).display.source
    model = ScreenModel(20, 4)
    model.feed(text)
    replay, costs = ScreenReplay(model, raw=len(text)), [model.cost]

    def stop() -> bool:
        costs.append(model.cost)
        return True

    steps = [TimelineStep(len(text), size), TimelineStep(len(text), (10, 2))]
    while not replay.advance(source, steps, len(text), stop=stop):
        assert not replay.settled
    assert costs[-1] - costs[0] > 3 * STEP_COST
    # A step ends after the piece that reaches STEP_COST, and a piece costs up to a little more than that.
    assert max(after - before for before, after in pairwise(costs)) < 2.1 * STEP_COST
    assert (replay.settled, replay.step, model.cols, model.rows) == (True, 2, 10, 2)
    assert model.snapshot().rows[0] == ("" if size is None else "overwritte")

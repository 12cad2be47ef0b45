"""Recorded sessions of real programs: the screens equal the reviewed ones, and tmux draws the same cells."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.captures.golden import path_of, screens, written
from fixtures.captures.record import record
from fixtures.captures.store import Capture, names
from fixtures.servers.programs import require_program
from fixtures.tmux.cells import Difference, Explained, differences, from_snapshot, unexplained
from fixtures.tmux.server import TmuxServer
from ptyctl.core.screen import ScreenModel

CAPTURES = names()
#: Expected differences from tmux, by capture.
EXPLAINED = {
    "top": Explained(
        frozenset({99}),
        "top fills a row and then erases to its end. The cursor is still in the last column (DEC STD 070, xterm), so that cell "
        "is erased; in tmux the cursor is after it and the cell remains.",
    ),
}
#: Number of offsets compared in addition to the ends of the steps.
EXTRA_OFFSETS = 8


def test_captures_include_each_program() -> None:
    assert CAPTURES == ["dialog", "htop", "installer", "less", "python", "tmux", "top", "vim"]


@pytest.mark.parametrize("name", CAPTURES)
def test_capture_draws_expected_screens(name: str) -> None:
    # After an intended change, run python -m fixtures.captures.golden and review the printed difference.
    assert written(Capture.load(name)) == path_of(name).read_text()


@pytest.mark.parametrize("name", CAPTURES)
@settings(max_examples=10)
@given(data=st.data())
def test_screen_does_not_depend_on_chunk_boundaries(name: str, data: st.DataObject) -> None:
    capture = Capture.load(name)
    positions = st.lists(st.integers(0, len(capture.raw)), max_size=40)
    offsets = {step.offset for step in capture.steps}
    cuts = sorted({0, *data.draw(positions), *offsets})
    model = ScreenModel(capture.cols, capture.rows)
    whole = ScreenModel(capture.cols, capture.rows)
    fed = 0
    for begin, end in itertools.pairwise(cuts):
        model.feed(capture.raw[begin:end])
        if end in offsets:
            whole.feed(capture.raw[fed:end])
            fed = end
            assert model.snapshot(attributes=True) == whole.snapshot(attributes=True)


@pytest.mark.parametrize("name", CAPTURES)
def test_tmux_draws_same_cells_as_capture(tmux: TmuxServer, name: str) -> None:
    capture, explained = Capture.load(name), EXPLAINED.get(name)
    ends = {step.offset for step in capture.steps} | set(range(0, len(capture.raw), len(capture.raw) // EXTRA_OFFSETS))
    model = ScreenModel(capture.cols, capture.rows)
    found: dict[int, list[Difference]] = {}
    end = 0
    for place in sorted(ends):
        begin, end = end, max(end, place)
        model.feed(capture.raw[begin:end])
        while not model.settled and end < len(capture.raw):
            model.feed(capture.raw[end : end + 1])
            end += 1
        theirs = tmux.draw(capture.raw[:end], capture.cols, capture.rows)
        found[end] = differences(from_snapshot(model.snapshot(attributes=True)), theirs)
    rest = {place: unexplained(cells, explained) for place, cells in found.items() if cells}
    assert {place: cells for place, cells in rest.items() if cells} == {}
    assert bool(rest) == bool(explained), "remove the explanation: nothing differs"


async def test_recorder_reproduces_stored_capture(tmp_path: Path) -> None:
    """The installer draws the same on every machine, so it verifies the recorder."""
    require_program("bash", "bash")
    require_program("python3", "python3")
    recorded, stored = await record("installer", tmp_path / "meadow"), Capture.load("installer")
    assert [(step.name, step.typed) for step in recorded.steps] == [(step.name, step.typed) for step in stored.steps]
    # Only the last screen: on a slow machine the recorder can take a pause for the end of a step.
    assert list(screens(recorded))[-1] == list(screens(stored))[-1]

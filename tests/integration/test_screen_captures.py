"""Recorded sessions of real programs: the pictures are those that a person checked, and real tmux draws the same cells."""

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


#: By capture.
EXPLAINED = {
    "top": Explained(
        frozenset({99}),
        "top fills a row and then erases to its end. The cursor is still in the last column (DEC STD 070, xterm), so that cell "
        "is erased; tmux has its cursor behind it and leaves the cell.",
    ),
}
#: Besides the steps' ends, so many places in the middle of something are looked at.
PLACES = 8


def test_there_is_a_capture_of_each_program() -> None:
    assert CAPTURES == ["dialog", "htop", "installer", "less", "python", "tmux", "top", "vim"]


@pytest.mark.parametrize("name", CAPTURES)
def test_the_golden_screens(name: str) -> None:
    # After a change that is wanted: python -m fixtures.captures.golden, and look at what it prints.
    assert written(Capture.load(name)) == path_of(name).read_text()


@pytest.mark.parametrize("name", CAPTURES)
@settings(max_examples=10)
@given(data=st.data())
def test_the_picture_does_not_depend_on_how_the_bytes_were_cut(name: str, data: st.DataObject) -> None:
    capture = Capture.load(name)
    places = st.lists(st.integers(0, len(capture.raw)), max_size=40)
    offsets = {step.offset for step in capture.steps}
    cuts = sorted({0, *data.draw(places), *offsets})
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
def test_tmux_draws_the_same_cells(tmux: TmuxServer, name: str) -> None:
    capture, explained = Capture.load(name), EXPLAINED.get(name)
    places = {step.offset for step in capture.steps} | set(range(0, len(capture.raw), len(capture.raw) // PLACES))
    model = ScreenModel(capture.cols, capture.rows)
    found: dict[int, list[Difference]] = {}
    end = 0
    for place in sorted(places):
        begin, end = end, max(end, place)
        model.feed(capture.raw[begin:end])
        while not model.settled and end < len(capture.raw):
            model.feed(capture.raw[end : end + 1])
            end += 1
        theirs = tmux.draw(capture.raw[:end], capture.cols, capture.rows)
        found[end] = differences(from_snapshot(model.snapshot(attributes=True)), theirs)
    rest = {place: unexplained(cells, explained) for place, cells in found.items() if cells}
    assert {place: cells for place, cells in rest.items() if cells} == {}
    assert bool(rest) == bool(explained), "an explanation that nothing needs any more is to go"


async def test_a_program_is_recorded_as_the_captures_were(tmp_path: Path) -> None:
    """Our own installer shows the same on every machine: so the recorder can be trusted with the others."""
    require_program("bash", "bash")
    require_program("python3", "python3")
    recorded, stored = await record("installer", tmp_path / "meadow"), Capture.load("installer")
    assert [(step.name, step.typed) for step in recorded.steps] == [(step.name, step.typed) for step in stored.steps]
    # Only the last: on a slow machine a pause within a screen may have been taken for its end.
    assert list(screens(recorded))[-1] == list(screens(stored))[-1]

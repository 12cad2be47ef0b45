"""A serialised screen, drawn by tmux, equals the screen model."""

from __future__ import annotations

import pytest

from fixtures.captures.store import Capture, names
from fixtures.tmux.cells import differences, from_snapshot
from fixtures.tmux.server import TmuxServer
from ptyctl.core.screen import ScreenModel


@pytest.mark.parametrize("name", names())
def test_serialized_capture_draws_same_screen_in_tmux(tmux: TmuxServer, name: str) -> None:
    capture = Capture.load(name)
    model = ScreenModel(capture.cols, capture.rows)
    begin = 0
    for step in capture.steps:
        model.feed(capture.raw[begin : step.offset])
        begin = step.offset
        theirs = tmux.draw(model.serialize(), capture.cols, capture.rows)
        assert differences(from_snapshot(model.snapshot(attributes=True)), theirs) == [], step


@pytest.mark.parametrize(
    "data",
    [
        b"main\x1b[?1049h\x1b[2;3Hother",
        b"main\x1b[3;5r\x1b[5H\n\n",
        b"\x1b[3;5r\x1b[?6h\x1b[2;2Hx\x1b[2B",
        b"x" * 20 + b"\x1b[44mwait",
        b"y" * 20,
        b"\x1b[1;31mpen",
        b"\x1b(0lqk",
        b"\x1b[3g\x1b[7G\x1bH\r",
        b"\x1b[4habc\r",
        b"ab\x1b7\x1b[5;5H",
        "日本\u2764e\u0301".encode(),
        b"\x1b[?7l",
        b"\x1b[?25lhidden",
    ],
)
def test_serialized_state_affects_later_output_in_tmux(tmux: TmuxServer, data: bytes) -> None:
    """Invisible state is serialised too: margins, tab stops, saved cursor, pending wrap, modes."""
    more = b"q\tw\x1b8z\x1b[2;1H\x1b[Lline\x1b[6H\nend\x1b[?1049lback"
    model = ScreenModel(20, 6)
    model.feed(data)
    assert differences(tmux.draw(model.serialize() + more, 20, 6), tmux.draw(data + more, 20, 6)) == []

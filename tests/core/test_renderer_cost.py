"""The cost of rendering output is linear in its size, whatever the far end sends."""

from __future__ import annotations

import pytest
from hypothesis import example, given

from ptyctl.core.renderer import Renderer, render_line
from tests.core.hostile_output import hostile_output
from tests.cost import assert_cost, lines_of

WIDTH = 120
SIZE = 2048


@given(hostile_output(SIZE))
@example(b"\n" * 6_000 + b"\x1b[999999A\x1b[999999B" * 100)
@example(b"x\x1b[999999b" * 200)
@example(b"abc\t\r\x1b[9999I\x1b[9999Z" * 100)
@example(b"\x1b[9999Cx" + b"\vx" * 1_000)
def test_rendering_hostile_output_costs_a_row_of_cells_a_byte(data: bytes) -> None:
    def rendered() -> None:
        renderer = Renderer(WIDTH)
        for begin in range(0, len(data), 1024):
            renderer.feed(data[begin : begin + 1024])
            renderer.take()
        renderer.finish()

    assert_cost(rendered, len(data), lines_per_byte=3 * WIDTH, memory_per_byte=16 * WIDTH)


@pytest.mark.parametrize("line", [b"\x1b[999999C" * 400 + b"x", b"\x1b[999999b" * 400, b"x\t" * 2_000], ids=str)
def test_rendering_a_line_with_large_motions_takes_little_memory(line: bytes) -> None:
    assert_cost(lambda: render_line(line), len(line), lines_per_byte=50, memory_per_byte=100)


@pytest.mark.parametrize("rows", [60, 1000], ids=str)
@pytest.mark.parametrize(
    "controls",
    [
        b"\x1b[256A\x1b[256B",
        b"\x1b[K\x1b[999Gab\x1b[A\r",
        b"\x1b[2K\x1b[999Gab\x1bM\r",
        b"\x1b[4h\rx\x1b[999b",
        b"\x1b[K\x1bD",
    ],
    ids=str,
)
def test_cost_of_controls_does_not_depend_on_the_rows_of_the_line(rows: int, controls: bytes) -> None:
    renderer = Renderer(WIDTH)
    renderer.feed(b"y" * (WIDTH * rows) + b"\x1b[256A" * 4 + b"\r")
    data = controls * (SIZE // len(controls))
    assert_cost(lambda: renderer.feed(data), len(data), lines_per_byte=WIDTH, memory_per_byte=4 * WIDTH)


@pytest.mark.parametrize(
    "line", ["漢" * 60, "e\u0301" * 120, "漢a" * 40, "a\t" * 15, "\U0001f468\u200d\U0001f469" * 30], ids=ascii
)
def test_motion_over_plain_lines_of_any_characters_costs_little_for_each(line: str) -> None:
    renderer = Renderer(WIDTH)
    renderer.feed(f"{line}\r\n".encode() * 300)
    assert lines_of(lambda: renderer.feed(b"\x1b[256A\r\n")) < 256 * (20 + 20 * len(line))

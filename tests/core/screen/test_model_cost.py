"""The cost of drawing is linear in the output, for a given size of the screen, and each step of it is short."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ptyctl.core.screen import ScreenModel
from ptyctl.core.screen.emulator import STEP_COST
from tests.core.hostile_output import hostile_output
from tests.cost import lines_of

SIZES = st.sampled_from([(80, 24), (3, 100), (500, 2)])
OUTPUT_BYTES = 256
#: Lines that a step executes at most: for its cost, and for the last control function, which may change each row and column.
LINES_PER_STEP = STEP_COST // 3
LINES_PER_ROW, LINES_PER_CELL = 60, 12
SIDES = b"\x1b[?69h\x1b[1;2s"


@settings(deadline=None, max_examples=10)
@given(hostile_output(OUTPUT_BYTES), SIZES)
@example(b"\x1b[1;1;1;1;;*y" * 60, (80, 24))
@example(b"\x1b[2*x\x1b[1;1;99;999;1$r" * 30, (80, 24))
@example(b"x\x1b[999999b" * 60, (80, 24))
@example(SIDES + b"x\x1b[999999b" * 5, (80, 24))
@example(SIDES + b"\xe6\x97\xa5\x1b[999999b" * 5, (3, 100))
@example(SIDES + "e\u0301".encode() * 200, (3, 100))
@example(SIDES + b"\x1b[999H" + b"\n" * 400, (3, 100))
@example(b"\x1b[4\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n;2H" * 20 + SIDES, (3, 100))
@example(b"\x1bH\x1b[C" * 80 + b"\x1b[999999I\x1b[999999Z" * 20, (500, 2))
@example(b'\x1b[1"qx\x1b["q\x1b[?2J' * 20, (80, 24))
@example(b'\x1b[1"qx\x1b[!p' * 40, (80, 24))
@example(b"\x1b['}\x1b['~" * 60, (80, 24))
@example(b"\x1b[?1049h" + b"\x1b[H\x1b[2Jx\x1b[999999b" * 40, (80, 24))
def test_step_of_hostile_output_is_bounded(data: bytes, size: tuple[int, int]) -> None:
    cols, rows = size
    model = ScreenModel(cols, rows)
    model.feed(b"line of text\r\n" * min(rows, 100))
    before = model.cost
    assert_steps_are_bounded(model, data)
    assert model.cost - before <= 600 * (cols + 256) * (rows + 8) * len(data)


@pytest.mark.parametrize("unit", [b"\n", b"\x1b[9S\x1b[9T", b"\x1bM", b"\x1bcx", b"\x1b[4hx\r", b"\x1b7x\x1b8"], ids=repr)
def test_step_of_many_short_controls_is_bounded(unit: bytes) -> None:
    assert_steps_are_bounded(ScreenModel(80, 24), unit * (20_000 // len(unit)))


def assert_steps_are_bounded(model: ScreenModel, data: bytes) -> None:
    def drawing() -> Iterator[None]:
        yield from model.steps(data)
        yield from model.settle()

    steps = drawing()
    longest = 0
    done = False
    while not done:
        ended: list[bool] = []
        longest = max(longest, lines_of(lambda ended=ended: ended.append(next(steps, "end") == "end")))  # type: ignore[misc]
        done = ended[0]
        model.responses.clear()
    assert longest <= LINES_PER_STEP + LINES_PER_ROW * model.rows + LINES_PER_CELL * model.cols * model.rows


@pytest.mark.parametrize(
    "unit",
    [
        b"\x1b[1;1;1;1;;*y",
        b"\x1b[1;1;99;999;1$r",
        b"\x1b['}",
        b"x\x1b[999b",
        b'\x1b[1"qx\x1b[!p',
        b"\t\r",
        b"\x1b[?1049h\x1b[?1049l",
    ],
    ids=repr,
)
def test_cost_of_repeated_sequence_is_linear(unit: bytes) -> None:
    def cost(count: int) -> int:
        model = ScreenModel(80, 24)
        model.feed(unit * count)
        return model.cost

    assert cost(256) <= 20 * cost(16)


def test_checksums_without_room_for_responses_are_not_computed() -> None:
    model = ScreenModel(200, 50)
    model.feed(b"\x1b[1;1;1;1;;*y" * 64)
    cost = model.cost
    model.feed(b"\x1b[1;1;1;1;;*y" * 1000)
    assert len(model.responses) == 64
    assert model.cost - cost < cost


def test_scrollback_of_very_wide_terminal_has_fewer_lines() -> None:
    model = ScreenModel(50_000, 3, scrollback=1000)
    model.feed(b"x\r\n" * 500)
    assert len(model.scrollback(1000)) == 40

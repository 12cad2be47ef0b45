"""The model of the typed line gives the same state for every split of the input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.lease import Owner
from ptyctl.core.unfinished_line import UnfinishedLine

ALICE, BOB, NOBODY = Owner("alice", "t"), Owner("bob", "t"), Owner("alice", "")
PASTE = b"\x1b[200~touch A\ntouch B\x1b[201~"


def typed(*pieces: bytes, owner: Owner = ALICE) -> UnfinishedLine:
    line = UnfinishedLine()
    for number, piece in enumerate(pieces):
        line.typed(piece, owner, number)
    return line


@pytest.mark.parametrize(
    "keys",
    [
        b"",
        b"show\r",
        b"show\n",
        b"show\r\n",
        b"show\x03",
        b"show\x15",
        b"\x1bbf\r",
        b"ab\x7f\x7f",
        b"ab\x08\x08",
        PASTE + b"\r",
    ],
)
def test_typed_line_that_ended_is_empty_at_each_cut(keys: bytes) -> None:
    for cut in range(len(keys) + 1):
        assert typed(keys[:cut], keys[cut:]).empty


@pytest.mark.parametrize(
    ("keys", "characters"),
    [(b"show", 4), ("grün".encode(), 4), (b"x\rshow\x7f", 3), (b"\x1b", 0), (b"ab\x1b[D\x15", 2), (PASTE, 15), (b"\x1b[A", 0)],
)
def test_typed_text_without_enter_is_counted_at_each_cut(keys: bytes, characters: int) -> None:
    for cut in range(len(keys) + 1):
        line = typed(keys[:cut], keys[cut:])
        assert not line.empty
        assert line.characters == characters


@given(st.lists(st.binary(min_size=1, max_size=8)))
def test_typed_pieces_give_the_state_of_the_whole(pieces: list[bytes]) -> None:
    whole, cut = typed(b"".join(pieces) or b"\r"), typed(*pieces or [b"\r"])
    assert (whole.empty, whole.characters, whole.keys) == (cut.empty, cut.characters, cut.keys)


def test_typed_text_of_two_tasks_names_both_and_the_first_offset() -> None:
    line = UnfinishedLine()
    line.typed(b"show", ALICE, 7)
    line.typed(b" clock", NOBODY, 9)
    assert (line.owners, line.raw, line.entered_raw) == ([ALICE, NOBODY], 7, -1)
    line.typed(b"\r", BOB, 11)
    assert (line.empty, line.entered_raw, line.entered_by) == (True, 11, BOB)
    line.clear()
    assert line.entered_raw == -1


def test_command_of_a_run_is_no_line_of_a_user() -> None:
    line = UnfinishedLine()
    line.typed(b"show clock\r", ALICE, 7, command=True)
    assert (line.empty, line.entered_raw) == (True, -1)
    line.typed(b"show clo", ALICE, 8, command=True)
    assert not line.empty


@pytest.mark.parametrize("keys", [b"", b"x\x7f", b"\x15", b"\x7f\x7f\x7f\x7f", b"\x1ba", b"\x1b[200~a\rb"])
def test_text_of_the_shell_stays_in_the_line_at_each_cut_of_keys(keys: bytes) -> None:
    for cut in range(len(keys) + 1):
        line = UnfinishedLine()
        line.fill("grün".encode(), 7)
        line.typed(keys[:cut], ALICE, 8)
        line.typed(keys[cut:], ALICE, 9)
        assert (line.filled, line.raw, line.keys, line.empty, line.untouched) == ("grün".encode(), 7, True, False, False)
        assert line.characters >= 4


@pytest.mark.parametrize("end", [b"\r", b"\n", b"x\r", b"\x03"])
def test_text_of_the_shell_is_gone_after_the_end_of_the_line(end: bytes) -> None:
    line = UnfinishedLine()
    line.fill(b"", 7)
    line.typed(end, ALICE, 8)
    assert (line.filled, line.empty, line.entered_raw) == (None, True, 8)


def test_text_typed_ahead_of_text_of_the_shell_keeps_its_owner_and_offset() -> None:
    line = typed(b"", b"ab")
    line.fill(b"foo", 7)
    assert (line.raw, line.owners, line.characters) == (1, [ALICE], 5)
    line.clear()
    assert (line.filled, line.untouched) == (None, True)


@pytest.mark.parametrize(
    ("data", "lines"), [(b"a\n", 1), (b"a\nb\n", 2), (b"a\rb", 1), (b"\x1b[A\r", 1), (b"a\x03\r", 1), (b"a", 0)]
)
def test_lines_that_users_entered_are_counted_at_each_cut(data: bytes, lines: int) -> None:
    for cut in range(len(data) + 1):
        line = typed(data[:cut], data[cut:])
        line.typed(b"command\n", BOB, 3, command=True)
        assert line.lines == lines
        line.clear()
        assert line.lines == 0


KEYS = st.lists(
    st.sampled_from(
        [b"a", b"\xc3\xa9", b"\r", b"\n", b"\x03", b"\x15", b"\x7f", b"\x1b[A", b"\x1b", b"\x1b[200~", b"\x1b[201~"]
    )
)


@given(KEYS)
def test_restored_line_is_as_it_was(keys: list[bytes]) -> None:
    line, restored = typed(*keys), UnfinishedLine()
    if state := line.state():
        restored.restore(state, ALICE)
    names = (
        "raw",
        "entered_raw",
        "entered_by",
        "interrupted",
        "lines",
        "empty",
        "untouched",
        "keys",
        "pasting",
        "characters",
        "owners",
    )
    assert [getattr(restored, name) for name in names] == [getattr(line, name) for name in names]


@pytest.mark.parametrize(
    ("pieces", "was_read"),
    [
        ([b"it's\r"], True),
        ([b"it", b"'s", b"\r"], True),
        ([b"\x04"], True),
        ([b"a\r", b"b\r", b"\x04"], True),
        ([b"a\rb\r"], False),
        ([b"a\x04"], False),
        ([b"\x1b[A\r"], False),
        ([b"half"], False),
    ],
)
def test_lines_that_a_program_reads_from_the_driver_are_counted(pieces: list[bytes], was_read: bool) -> None:
    line = UnfinishedLine()
    for piece in pieces:
        line.typed_in_driver(piece, ALICE, 7)
    assert line.was_read_by_programs is was_read


@pytest.mark.parametrize("pieces", [["x\r", "'a\r"], ["'a\r", "x\r"], ["'", "a\r"]])
def test_line_is_not_read_by_a_program_if_a_piece_was_not_sent_to_it(pieces: list[str]) -> None:
    line = UnfinishedLine()
    line.typed(pieces[0].encode(), ALICE, 7)
    line.typed_in_driver(pieces[1].encode(), ALICE, 7)
    assert not line.was_read_by_programs
    line.clear()
    line.typed_in_driver(b"a\r", ALICE, 7)
    assert line.was_read_by_programs

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

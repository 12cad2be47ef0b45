"""Escape commands: only at the beginning of a line, for any split of the input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.cli.attach.keyboard import EscapeCommandReader

TYPED = st.lists(st.sampled_from([b"~", b".", b"?", b"w", b"B", b"\r", b"\n", b"a", "é".encode(), b"\x1b[A"]), max_size=20)


def read(*pieces: bytes) -> list[bytes | str]:
    """Return commands, and the typed bytes between them joined."""
    reader, items = EscapeCommandReader(), list[bytes | str]()
    for piece in pieces:
        for item in reader.feed(piece):
            last = items[-1] if items else None
            if isinstance(item, bytes) and isinstance(last, bytes):
                items[-1] = last + item
            else:
                items.append(item)
    return items


@pytest.mark.parametrize(
    ("typed", "items"),
    [
        (b"~.", ["detach"]),
        (b"ls\r~.", [b"ls\r", "detach"]),
        (b"ls\n~?~w~B", [b"ls\n", "help", "lock", "break"]),
        (b"ls ~.", [b"ls ~."]),
        (b"~~.", [b"~."]),
        (b"\r~~~.", [b"\r~~."]),
        (b"~/bin\r", [b"~/bin\r"]),
        (b"~\r~.", [b"~\r", "detach"]),
        (b"~", []),
    ],
)
def test_feed_separates_commands_from_typed_bytes(typed: bytes, items: list[bytes | str]) -> None:
    assert read(typed) == items


@given(TYPED)
def test_feed_split_input_gives_same_items(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    assert read(*pieces) == read(whole) == read(*(bytes([byte]) for byte in whole))


@given(TYPED)
def test_feed_without_tilde_returns_input(pieces: list[bytes]) -> None:
    whole = b"".join(pieces).replace(b"~", b"")
    assert read(whole) == ([whole] if whole else [])


def test_restart_line_after_unsent_bytes_accepts_command() -> None:
    reader = EscapeCommandReader()
    assert reader.feed(b"ls") == [b"ls"]
    assert reader.feed(b"~w") == [b"~w"]
    reader.restart_line()
    assert reader.feed(b"~w") == ["lock"]

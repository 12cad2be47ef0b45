"""Named keys: canonical names, spellings, and the bytes of a VT220 or xterm."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.keys import BREAK, ENTER, INTERRUPTS, KEYS, key_bytes, key_name

WANTED = [
    *("enter", "tab", "backspace", "delete", "home", "end", "esc", "ctrl_backslash", "break"),
    *("up", "down", "left", "right", "page_up", "page_down"),
    *(f"ctrl_{letter}" for letter in string.ascii_lowercase),
    *(f"f{number}" for number in range(1, 13)),
]


def test_keys_include_all_documented_keys() -> None:
    assert set(WANTED) <= set(KEYS)


@given(st.sampled_from(KEYS), st.sampled_from("_-+ "), st.sampled_from([str.lower, str.upper, str.title]))
def test_key_name_accepts_any_spelling(key: str, separator: str, case: object) -> None:
    assert key_name(f" {case(key.replace('_', separator))} ") == key  # type: ignore[operator]


@pytest.mark.parametrize(
    ("alias", "key"),
    [
        ("ctrl+c", "ctrl_c"),
        ("arrow-up", "up"),
        ("arrow_down", "down"),
        ("escape", "esc"),
        ("return", "enter"),
        ("PgUp", "page_up"),
        ("pagedown", "page_down"),
        ("del", "delete"),
        ("ctrl+\\", "ctrl_backslash"),
        ("ctrl-]", "ctrl_right_bracket"),
    ],
)
def test_key_name_resolves_aliases(alias: str, key: str) -> None:
    assert key_name(alias) == key


@given(st.text(max_size=12).map(lambda text: f"x{text}"))
def test_key_name_unknown_key_hint_lists_names(text: str) -> None:
    with pytest.raises(PtyctlError, match="unknown key") as caught:
        key_name(text)
    assert re.search("enter.*ctrl_a to ctrl_z", caught.value.hint or "")
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_key_bytes_of_selected_keys() -> None:
    assert key_bytes("enter", b"\r\x00", False) == b"\r\x00"  # the channel defines Enter
    for letter in string.ascii_lowercase:
        assert key_bytes(f"ctrl_{letter}", b"\r", False) == bytes([ord(letter) & 0x1F])
    assert key_bytes("ctrl_backslash", b"\r", False) == b"\x1c"
    assert key_bytes("backspace", b"\r", False) == b"\x7f"
    assert key_bytes("up", b"\r", False) == b"\x1b[A"
    assert key_bytes("up", b"\r", True) == b"\x1bOA"
    assert key_bytes("f1", b"\r", True) == key_bytes("f1", b"\r", False) == b"\x1bOP"
    assert key_bytes("f12", b"\r", False) == b"\x1b[24~"


def test_key_bytes_differ_between_keys() -> None:
    sent = {key: key_bytes(key, b"\r", False) for key in KEYS if key != BREAK}
    same = {frozenset(key for key in sent if sent[key] == data) for data in sent.values()}
    assert {keys for keys in same if len(keys) > 1} == {frozenset({"tab", "ctrl_i"}), frozenset({ENTER, "ctrl_m"})}


def test_interrupts_are_ctrl_c_ctrl_backslash_and_break() -> None:
    assert {"ctrl_c", "ctrl_backslash", BREAK} == INTERRUPTS

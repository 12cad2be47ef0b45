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


#: Spellings of modifiers, and of a base key of several characters, as browsers, tmux, vim, curses and models write them.
MODIFIERS = {
    "ctrl": ["ctrl_", "Ctrl+", "Control-", "CTRL ", "ctl-", "C-", "c-", "Ctrl + "],
    "alt": ["alt_", "Alt+", "Meta-", "META ", "Option+", "M-", "m-", "A-"],
    "shift": ["shift_", "Shift+", "SHIFT-", "S-", "s-"],
}
SPELLINGS = {
    "enter": ["Enter", "Return", "RET", "CR", "KEY_ENTER", "NumpadEnter"],
    "esc": ["ESC", "Escape"],
    "tab": ["Tab", "TAB"],
    "backspace": ["Backspace", "BSpace", "BS", "back_space", "KEY_BACKSPACE"],
    "delete": ["Delete", "DC", "Del"],
    "insert": ["Insert", "IC", "ins"],
    "space": ["Space", "SPC", "spacebar"],
    "page_up": ["PageUp", "PgUp", "PPage", "page-up", "Page Up"],
    "page_down": ["PageDown", "PgDn", "NPage", "page_down"],
    "home": ["Home", "KEY_HOME"],
    "end": ["End"],
    "up": ["ArrowUp", "Up", "arrow_up", "up-arrow", "KEY_UP"],
    "left": ["ArrowLeft", "LEFT", "left arrow"],
    "f1": ["F1", "f1", "KEY_F(1)"],
    "f12": ["F12", "KEY_F12"],
    "backslash": ["backslash", "\\"],
    "right_bracket": ["right_bracket", "RightBracket", "]"],
    "x": ["x", "KeyX"],
}
CURSOR = {"page_up", "page_down", "home", "end", "up", "left", "f1", "f12", "delete", "insert"}
#: The bases that a terminal has with each set of modifiers.
WITH = {
    frozenset[str](): set(SPELLINGS) - {"backslash", "right_bracket"},
    frozenset({"ctrl"}): CURSOR | {"space", "backslash", "right_bracket", "x"},
    frozenset({"alt"}): set(SPELLINGS) - {"backslash", "right_bracket"},
    frozenset({"shift"}): CURSOR | {"tab"},
    frozenset({"ctrl", "alt"}): CURSOR | {"space", "x"},
    frozenset({"ctrl", "shift"}): CURSOR,
    frozenset({"alt", "shift"}): CURSOR | {"x"},
    frozenset({"ctrl", "alt", "shift"}): CURSOR,
}


@given(st.data())
def test_key_name_accepts_every_spelling_of_modifiers_and_base(data: st.DataObject) -> None:
    modifiers = data.draw(st.sampled_from(sorted(WITH, key=sorted)))
    base = data.draw(st.sampled_from(sorted(WITH[modifiers])))
    canonical = "_".join([*(name for name in ("ctrl", "alt", "shift") if name in modifiers), base])
    order = data.draw(st.permutations(sorted(modifiers)))
    spelling = "".join(data.draw(st.sampled_from(MODIFIERS[name])) for name in order)
    spelling += data.draw(st.sampled_from(SPELLINGS[base]))
    if data.draw(st.booleans()):
        spelling = f"<{spelling}>" if len(spelling) > 1 else spelling
    expected = canonical.replace("_backslash", "_\\").replace("_right_bracket", "_]")
    assert key_name(spelling) in (canonical, expected), spelling
    assert key_bytes(key_name(spelling), b"\r", False) == key_bytes(canonical, b"\r", False)


@given(st.text(max_size=12))
def test_key_name_of_canonical_name_is_the_same_name(text: str) -> None:
    try:
        name = key_name(text)
    except PtyctlError:
        return
    assert key_name(name) == name
    assert name == BREAK or key_bytes(name, b"\r", True)


@pytest.mark.parametrize(
    ("key", "data"),
    [
        ("ArrowUp", b"\x1b[A"),
        ("shift_tab", b"\x1b[Z"),
        ("BTab", b"\x1b[Z"),
        ("alt_x", b"\x1bx"),
        ("M-x", b"\x1bx"),
        ("M-X", b"\x1bX"),
        ("Alt+X", b"\x1bx"),  # the key of a keyboard; with Shift it is alt_shift_x
        ("alt_shift_x", b"\x1bX"),
        ("C-c", b"\x03"),
        ("^C", b"\x03"),
        ("^c", b"\x03"),
        ("^[", b"\x1b"),
        ("^?", b"\x7f"),
        ("CtrlC", b"\x03"),
        ("Control+Shift+C", b"\x03"),
        ("C-M-x", b"\x1b\x18"),
        ("C-Space", b"\0"),
        ("C-@", b"\0"),
        ("C-[", b"\x1b"),
        ("C-_", b"\x1f"),
        ("C-/", b"\x1f"),
        ("C-^", b"\x1e"),
        ("C-Right", b"\x1b[1;5C"),
        ("S-Up", b"\x1b[1;2A"),
        ("Alt+ArrowLeft", b"\x1b[1;3D"),
        ("C-S-End", b"\x1b[1;6F"),
        ("shift_f1", b"\x1b[1;2P"),
        ("shift_f5", b"\x1b[15;2~"),
        ("ctrl+delete", b"\x1b[3;5~"),
        ("alt_enter", b"\x1b\r"),
        ("M-BSpace", b"\x1b\x7f"),
        ("M--", b"\x1b-"),
        ("alt_+", b"\x1b+"),
        ("q", b"q"),
        ("Q", b"Q"),
        (" ", b" "),
        ("KeyQ", b"q"),
        ("Digit1", b"1"),
        ("Shift+KeyA", b"A"),
        ("ç", "ç".encode()),
        ("\x03", b"\x03"),
        ("\r", b"\r"),
        ("{ENTER}", b"\r"),
        ("[Up]", b"\x1b[A"),
        ("\\C-c", b"\x03"),
    ],
)
def test_key_bytes_of_spellings(key: str, data: bytes) -> None:
    assert key_bytes(key_name(key), b"\r", False) == data


@pytest.mark.parametrize(
    ("text", "similar"),
    [
        ("page_dwn", "page_down"),
        ("PageDwn", "page_down"),
        ("entr", "enter"),
        ("bakcspace", "backspace"),
        ("ctrl_rigth", "ctrl_right"),
        ("shift_enter", "enter"),
        ("ctrl_tab", "tab"),
        ("shift_1", "1"),
    ],
)
def test_key_name_unknown_key_names_similar_ones(text: str, similar: str) -> None:
    with pytest.raises(PtyctlError, match="unknown key") as caught:
        key_name(text)
    assert f"did you mean {similar}" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "text", ["", "  ", "hyper", "f13", "ctrl_", "ctrl_1", "metal", "super_x", "ctrl_é", "<>", "shift_enter"]
)
def test_key_name_of_no_terminal_key_is_refused(text: str) -> None:
    with pytest.raises(PtyctlError, match="unknown key"):
        key_name(text)


@given(st.text(max_size=12).map(lambda text: f"xx{text}"))
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

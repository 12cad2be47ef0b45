"""Key bindings that shells report, and what the typed-line model makes of them."""

from __future__ import annotations

import pytest

from ptyctl.policy.key_bindings import KeyBindings, Macro, read_bindings
from ptyctl.policy.pending_line import PendingLine


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (None, KeyBindings()),
        ("", KeyBindings(False)),
        ("vi", KeyBindings(True)),
        ('\ns"\\C-o": "reboot\\C-m"', KeyBindings(False, {b"\x0f": Macro("reboot")})),
        ('\ns"\\e[15~": "a\\"b\\n"', KeyBindings(False, {b"\x1b[15~": Macro('a"b')})),
        ('\ns"\\M-x": "a\\001b\\C-j"', KeyBindings(False, {b"\x1bx": Macro(None)})),
        ('\ns"x": "reboot\\r"', KeyBindings(False, {b"x": Macro(None)})),
        ('\ns"\\C-x\\C-r": "a\\rb\\r"', KeyBindings(False, {b"\x18\x12": Macro(None)})),
        ('\nx"\\C-t": "touch a"', KeyBindings(False, {b"\x14": Macro("touch a", is_command=True)})),
        ('vi\nsbindkey -s "^[l" "ls^J"', KeyBindings(True, {b"\x1bl": Macro("ls")})),
        ('\nsbindkey -s "\\M-^X" "\\\\a^M"', KeyBindings(False, {b"\x1b\x18": Macro("\\a")})),
        ("\ns what is this", KeyBindings(False, is_complete=False)),
        ('\ns"\\C-o": "reboot\\C-m"\n!', KeyBindings(False, {b"\x0f": Macro("reboot")}, is_complete=False)),
        ('\ns"\\C-o": "a\\r"\ns"\\C-o": "a\\r"', KeyBindings(False, {b"\x0f": Macro("a")})),
        ('\ns"\\C-o": "a\\r"\ns"\\C-o": "b\\r"', KeyBindings(False, {b"\x0f": Macro(None)})),
        ('\nsbindkey -s -a "K" "ls^M"', KeyBindings(False, {b"K": Macro(None)})),
    ],
)
def test_report_of_bash_and_zsh_gives_keys_that_submit(report: str | None, expected: KeyBindings) -> None:
    assert read_bindings(report) == expected


def submitted(keys: bytes, report: str | None, *, begin: bytes = b"") -> list[tuple[bytes, str | None]]:
    model = PendingLine()
    model.set_bindings(read_bindings(report))
    list(model.feed(begin))
    return [(piece.data, piece.line) for key in keys for piece in model.feed(bytes((key,))) if piece.submits]


@pytest.mark.parametrize(
    ("report", "keys", "expected"),
    [
        ('\ns"\\C-t": "oad\\r"', b"rel\x14", (b"\x14", "reload")),
        ('\ns"\\el": "oad\\r"', b"rel\x1bl", (b"l", "reload\nrel")),
        ('\ns"\\e[15~": "reload\\r"', b"\x1b[15~", (b"~", "reload")),
        ('\nx"\\C-t": "reload"', b"echo \x14", (b"\x14", "reload")),
        ('\ns"\\C-t": "oad\\r"', b"\x10\x14", (b"\x14", None)),
        ('\ns"j": "reload\\r"', b"j", (b"j", None)),
        ('\ns"\\C-u": "reload\\r"', b"a\x15", (b"\x15", "areload")),
    ],
)
def test_key_bound_to_a_macro_submits_what_the_macro_runs(report: str, keys: bytes, expected: tuple[bytes, str | None]) -> None:
    assert submitted(keys, report)[-1] == expected
    model = PendingLine()
    model.set_bindings(read_bindings(report))
    assert model.may_be_submitted_by(keys[-1:])
    list(model.feed(keys))
    assert model.line is None


@pytest.mark.parametrize(("report", "expected"), [(None, [(b"v", None)]), ("vi", [(b"v", None)]), ("", [])])
def test_character_after_escape_submits_unless_the_editor_is_known_to_have_no_vi_mode(
    report: str | None, expected: list[tuple[bytes, str | None]]
) -> None:
    assert submitted(b"v", report, begin=b"touch x\x1b0") == expected
    model = PendingLine()
    model.set_bindings(read_bindings(report))
    list(model.feed(b"touch x\x1b0"))
    assert not model.is_readable_at(b"v")


@pytest.mark.parametrize("keys", [b"true\x1b\x03v", b"true\x1b0\x03v", b"true\x1b\x15v"])
def test_interrupt_may_leave_the_editor_in_the_command_mode_of_vi(keys: bytes) -> None:
    assert submitted(keys, None)[-1] == (b"v", None)


@pytest.mark.parametrize("kind", ["s", "x"])
@pytest.mark.parametrize(
    ("key", "keys"),
    [
        ("\\C-m", b"\r"),
        ("\\C-j", b"\n"),
        ("\\C-o", b"\x0f"),
        ("\\C-d", b"\x04"),
        ("\\C-z", b"\x1a"),
        ("d\\C-m", b"d\r"),
        ("\\C-x\\C-e", b"\x18\x05"),
        ("\\C-i", b"`\t"),
        ("\\ea", b"`\x1ba"),
    ],
)
def test_report_that_binds_a_key_which_submits_does_not_hide_the_line(kind: str, key: str, keys: bytes) -> None:
    enter = "\\C-m" if kind == "s" else ""
    *_, (_, line) = submitted(keys, f'\n{kind}"{key}": "true{enter}"', begin=b"reload")
    assert line is None


def test_report_that_lacks_keys_makes_each_key_submit_an_unknown_line() -> None:
    assert submitted(b"ls\r", "\n!") == [(b"l", None), (b"s", None), (b"\r", None)]
    model = PendingLine()
    for report in ("\n!", ""):  # a later report may be forged
        model.set_bindings(read_bindings(report))
    assert not any(piece.submits for piece in model.feed(b"\x03"))
    assert not model.is_readable_at(b"\r")
    assert model.may_be_submitted_by(b"l")


def test_key_with_alt_submits_its_macro_and_perhaps_the_pending_line() -> None:
    assert submitted(b"\x1ba", '\nx"\\ea": "true"', begin=b"reload")[-1] == (b"a", "true\nreload")
    assert submitted(b"\x1ba", '\nx"\\ea": "cat <<x"', begin=b"reload")[-1] == (b"a", None)


def test_later_report_does_not_replace_a_macro() -> None:
    model = PendingLine()
    for report in ('\ns"\\C-t": "reload\\r"', "", '\ns"\\C-t": "true\\r"'):
        model.set_bindings(read_bindings(report))
    assert [piece.line for piece in model.feed(b"\x14") if piece.submits] == [None]
    model.reset_keys()
    assert not model.may_be_submitted_by(b"t")


def test_key_that_is_longer_than_what_is_compared_submits_an_unknown_line() -> None:
    keys = "abcdefghijklmnopqrstuvwxyz"
    assert submitted(keys.encode(), f'\ns"\\C-x{keys}": "true\\r"')[-1] == (b"z", None)


@pytest.mark.parametrize(("keys", "submits"), [(b"ls\x1bA v#@", False), (b"ls\x1bi v#@", False), (b"ls\x1b0 v", True)])
def test_key_after_escape_that_enters_the_insert_mode_of_vi_ends_its_commands(keys: bytes, submits: bool) -> None:
    model = PendingLine()
    model.set_bindings(read_bindings("vi"))
    for key in keys[:4]:
        list(model.feed(bytes((key,))))
    assert any(piece.submits for piece in model.feed(keys[4:])) is submits

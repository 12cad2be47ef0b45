"""Command markers: the echo of a marker line contains no marker, and the line can be typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.marker import AsciiMarker, Marker, as_paste, is_typable
from ptyctl.core.marks import MarkReader
from ptyctl.core.normaliser import Normaliser
from ptyctl.core.search import compile_pattern
from ptyctl.core.shells import Dialect


@given(st.text(max_size=60), st.sampled_from(["posix", "zsh", "fish"]), st.booleans())
def test_marker_echo_of_line_contains_no_marker(command: str, dialect: Dialect, define: bool) -> None:
    line = Marker("0123abcd", dialect).line(command, 1, define=define)
    machine = Normaliser(reader=MarkReader("0123abcd"))
    machine.feed(line.encode("utf-8", "replace"))
    assert not machine.marks
    marker = AsciiMarker("0123abcd", dialect)
    text = marker.line(command, 1, define=define).encode("utf-8", "replace")
    assert not compile_pattern(marker.pattern("B", 1), "p").search(text)
    assert not compile_pattern(marker.pattern("E", 2), "p").search(text)


def test_ascii_marker_output_matches_pattern() -> None:
    found = compile_pattern(AsciiMarker("n").pattern("E", 7), "p").search(b"x__PTYCTL_n;7;E;3__")
    assert found
    assert found.group(1) == b"3"


@given(st.text(max_size=600), st.sampled_from(["posix", "zsh", "fish"]))
def test_marker_line_has_no_controls_and_short_lines(command: str, dialect: Dialect) -> None:
    line = Marker("n0nce", dialect).line(command, 1)
    assert not [character for character in line if character != "\n" and (character < " " or character == "\x7f")]
    if dialect != "fish":
        assert max(len(part.encode("utf-8", "replace")) for part in line.split("\n")) < 1024


def test_as_paste_several_lines_are_one_paste() -> None:
    assert as_paste("a\nb", bracketed=True) == "\x1b[200~a\nb\x1b[201~"
    assert as_paste("a\nb", bracketed=False) == "a\nb"
    assert as_paste("plain", bracketed=True) == "plain"


@given(st.lists(st.text("aö\n", max_size=300)).map("".join))
def test_as_paste_in_zsh_is_pastes_of_whole_rows(line: str) -> None:
    typed = as_paste(line, bracketed=True, dialect="zsh")
    assert typed.replace("\x1b[200~", "").replace("\x1b[201~", "") == line
    for number, paste in enumerate(typed.removesuffix("\x1b[201~").split("\x1b[201~") if "\n" in line else []):
        assert paste.startswith("\x1b[200~\n" if number else "\x1b[200~")
        assert len(paste) <= 1006 or paste.count("\n") <= 1


@pytest.mark.parametrize(
    "command",
    [
        "ls", "ls -l /tmp", "git log --oneline", "a=1 b", "echo 'x y' | wc -l && true; pwd", "cd ~/x", "é", "a & kill %1; wait",
        "a &", "echo $x", 'echo "$x: $?"', "ls 2>/dev/null | wc -l > n 2>&1", "a=$b c",
    ],
)  # fmt: skip
def test_is_typable_simple_commands(command: str) -> None:
    assert is_typable(command)


@pytest.mark.parametrize(
    "command",
    [
        "", " ls", "ls ", "ls |", "ls &&", "ls;", "; ls", "if true", "ls; while x", "time", "echo 'a", 'echo "a', "echo a!",
        'echo "${x"', "a\nb", "a\tb", "a # b", "a & & b", "a & ; b", "(a)", "{ a; }", "a\\", "echo $", "echo $(a)", "a <<b",
        "a >", "a <(b)", "> f", "a\x03", "^a^b", "x" * 1000, "[[ a", "a `b", "a || | b",
    ],
)  # fmt: skip
def test_is_typable_rejects_other_commands(command: str) -> None:
    assert not is_typable(command)

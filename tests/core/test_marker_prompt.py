"""Markers that an echo cannot forge, and prompts among look-alikes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.marker import AsciiMarker, Marker, as_paste, is_typable
from ptyctl.core.marks import MarkReader
from ptyctl.core.normaliser import Normaliser
from ptyctl.core.prompt import Expectations, Prompt, render_line, strip_echo, strip_prompt
from ptyctl.core.search import compile_pattern
from ptyctl.core.shells import Dialect, answering_program, shell_dialect

EXPECT = Expectations.of(None, None, None)


@given(st.text(max_size=60), st.sampled_from(["posix", "zsh", "fish"]), st.booleans())
def test_the_echo_of_a_wrapped_command_holds_no_marker(command: str, dialect: Dialect, define: bool) -> None:
    line = Marker("0123abcd", dialect).line(command, 1, define=define)
    machine = Normaliser(reader=MarkReader("0123abcd"))
    machine.feed(line.encode("utf-8", "replace"))
    assert not machine.marks
    marker = AsciiMarker("0123abcd", dialect)
    text = marker.line(command, 1, define=define).encode("utf-8", "replace")
    assert not compile_pattern(marker.pattern("B", 1), "p").search(text)
    assert not compile_pattern(marker.pattern("E", 2), "p").search(text)


def test_the_ascii_form_is_found() -> None:
    found = compile_pattern(AsciiMarker("n").pattern("E", 7), "p").search(b"x__PTYCTL_n;7;E;3__")
    assert found
    assert found.group(1) == b"3"


@pytest.mark.parametrize(
    ("path", "dialect"),
    [("/bin/bash", "posix"), ("-zsh", "zsh"), ("/usr/bin/fish", "fish"), ("python3", None), ("dash", "posix")],
)
def test_shells_by_their_names(path: str, dialect: str | None) -> None:
    assert shell_dialect(path) == dialect


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (("bash",), "bash"),
        (("/bin/bash", "--norc", "-i"), "/bin/bash"),
        (("bash", "--rcfile", "rc", "-o", "vi"), "bash"),
        (("bash", "script.sh"), "script.sh"),
        (("sh", "-c", "cat file"), "cat"),
        (("sh", "-ec", "exec bash --norc"), "bash"),
        (("sh", "-c", "bash script.sh"), "script.sh"),
        (("sh", "-c", "make; bash"), "make;"),
        (("sh", "-c", ""), "sh"),
        (("sh", "-c"), "sh"),
        (("busybox", "ash"), "ash"),
        (("busybox", "cat"), "cat"),
        (("busybox",), "busybox"),
        (("python3", "-c", "code"), "python3"),
    ],
)
def test_the_program_that_answers(argv: tuple[str, ...], program: str) -> None:
    assert answering_program(argv) == program


@given(st.text(max_size=600), st.sampled_from(["posix", "zsh", "fish"]))
def test_no_control_character_is_typed_and_no_line_is_long(command: str, dialect: Dialect) -> None:
    line = Marker("n0nce", dialect).line(command, 1)
    assert not [character for character in line if character != "\n" and (character < " " or character == "\x7f")]
    if dialect != "fish":
        assert max(len(part.encode("utf-8", "replace")) for part in line.split("\n")) < 1024


def test_several_lines_are_one_paste() -> None:
    assert as_paste("a\nb", bracketed=True) == "\x1b[200~a\nb\x1b[201~"
    assert as_paste("a\nb", bracketed=False) == "a\nb"
    assert as_paste("plain", bracketed=True) == "plain"


@pytest.mark.parametrize(
    "line",
    ["Switch>", "Switch#", "R1(config-if)# ", "user@host:~$ ", "[root@box ~]# ", "<HUAWEI>", "[~HUAWEI]", "RP/0/RP0/CPU0:ios#",
     "A:admin@sr1# ", "[admin@MikroTik] > ", "host% ", "$ ", "# ", "bash-5.2$ ", ">>> "],
)  # fmt: skip
def test_prompts_of_many_families(line: str) -> None:
    assert Prompt().match(line, EXPECT) == "regex"


@pytest.mark.parametrize("line", ["", " ", "50%", "Copying 100% ", "plain text", "Password: ", "  indented text >x"])
def test_what_is_no_prompt(line: str) -> None:
    assert Prompt().match(line, EXPECT) is None


def test_the_learned_line_is_exact() -> None:
    prompt = Prompt()
    prompt.learn("R1# ")
    assert prompt.match("R1# ", EXPECT) == "exact"
    assert prompt.match("R1(config)# ", EXPECT) == "regex"


@pytest.mark.parametrize(
    "line",
    [" --More-- ", "--More--", "  ---- More ----", "---(more 40%)---", "---(more)---", "<--- More --->",
     "Press any key to continue (Q to quit)",
     "-- MORE --, next page: Space, next line: Enter, quit: Control-C",
     "[Q quit|D dump|right|down]",
     "--More-- (50%)",
     "the first part of a lo --More-- "],
)  # fmt: skip
def test_pagers_of_many_families(line: str) -> None:
    assert EXPECT.pager(line)


@pytest.mark.parametrize(
    "line", ["", "R1# ", "more or less text goes here and on", "no more", "--more", "--more-verbose", "a --More-- b"]
)
def test_what_is_no_pager(line: str) -> None:
    assert not EXPECT.pager(line)


def test_error_lines() -> None:
    text = "ok\n% Invalid input detected at '^' marker.\nfine 5% done\nError: no such thing\n% [ZEBRA] Unknown command: x\n"
    hints = EXPECT.error_lines(text)
    assert hints == ["% Invalid input detected at '^' marker.", "Error: no such thing", "% [ZEBRA] Unknown command: x"]


def test_echo_and_prompt_are_taken_off() -> None:
    assert strip_echo("R1# show x\none\n", "R1# ", "show x") == "one\n"
    assert strip_echo("R1# \none\n", "R1# ", "show x") == "one\n"
    assert strip_echo("one\ntwo", "R1# ", "show x") == "one\ntwo"
    assert strip_prompt("one\nR1# ", "R1# ") == "one\n"
    assert strip_prompt("R1# ", "R1# ") == ""
    assert strip_prompt("one\ntwo", "R1# ") == "one\ntwo"
    assert render_line(b" --More-- " + b"\b" * 10 + b" " * 10 + b"\b" * 10 + b"R1# ") == "R1# "


@pytest.mark.parametrize(
    "command", ["ls", "ls -l /tmp", "git log --oneline", "a=1 b", "echo 'x y' | wc -l && true; pwd", "cd ~/x", "é"]
)
def test_commands_that_are_typed_as_they_are(command: str) -> None:
    assert is_typable(command)


@pytest.mark.parametrize(
    "command",
    [
        "", " ls", "ls ", "ls |", "ls &&", "ls;", "; ls", "if true", "ls; while x", "time", "echo 'a", 'echo "a', "echo a!",
        'echo "$x"', "a\nb", "a\tb", "a # b", "a &", "(a)", "{ a; }", "a\\", "echo $x", "a <<b", "a\x03", "^a^b", "x" * 1000,
        "[[ a", "a `b", "a || | b",
    ],
)  # fmt: skip
def test_commands_that_are_not(command: str) -> None:
    assert not is_typable(command)

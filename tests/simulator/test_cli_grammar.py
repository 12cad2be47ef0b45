"""The pure parts below the simulated switch's console: keys, the line editor, the command grammar, the pager."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.simulator.editor import MAX_LINE, LineEditor, repaint
from ptyctl.simulator.grammar import (
    AmbiguousCommand,
    Arguments,
    IncompleteCommand,
    InvalidInput,
    build,
    complete,
    help_for,
    parse,
)
from ptyctl.simulator.keys import Key, KeyDecoder
from ptyctl.simulator.pager import Pager
from ptyctl.simulator.pager_styles import IOS


def decoded(*pieces: bytes) -> list[Key | str]:
    decoder = KeyDecoder()
    return [key for piece in pieces for key in decoder.feed(piece)]


def on_screen(text: str) -> list[str]:
    """What a terminal of endless width shows, without trailing blanks."""
    rows, column = [[]], 0
    for char in text:
        match char:
            case "\b":
                column = max(0, column - 1)
            case "\r":
                column = 0
            case "\n":
                rows.append([])
            case _:
                rows[-1] += " " * (column + 1 - len(rows[-1]))
                rows[-1][column] = char
                column += 1
    return ["".join(row).rstrip() for row in rows]


class TestKeys:
    @pytest.mark.parametrize("enter", [b"\r", b"\n", b"\r\n", b"\r\0"])
    def test_one_enter_is_one_key(self, enter: bytes) -> None:
        assert decoded(b"a" + enter + b"b" + enter + enter) == ["a", Key.ENTER, "b", Key.ENTER, Key.ENTER]

    @pytest.mark.parametrize("sequence", [b"\x1b[A", b"\x1bOA", b"\x1b[1;5C", b"\x1b[200~", b"\x1bb", b"\x01", b"\x05", b"\0"])
    def test_keys_without_meaning_give_nothing(self, sequence: bytes) -> None:
        assert decoded(b"a" + sequence + b"b") == ["a", "b"]

    def test_a_lone_escape_does_not_eat_the_enter_behind_it(self) -> None:
        assert decoded(b"\x1b\r\x1b[1\r") == [Key.ENTER, Key.ENTER]

    def test_a_character_beyond_ascii_comes_back_as_its_bytes(self) -> None:
        keys = decoded("ü".encode())
        assert "".join(str(key) for key in keys).encode("utf-8", "surrogateescape") == "ü".encode()

    @given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\0", b"\x1b", b"[", b"O", b"1", b"A", b"\x03", b"\xff"])))
    def test_the_cut_does_not_matter(self, pieces: list[bytes]) -> None:
        assert decoded(*pieces) == decoded(b"".join(pieces))


class TestEditor:
    @given(st.text("ab $", max_size=12), st.text("ab $", max_size=12))
    def test_a_repaint_shows_the_new_text(self, before: str, after: str) -> None:
        assert on_screen(before + repaint(before, after)) == [after.rstrip()]

    @given(st.text("ab $", max_size=12), st.text("ab $", max_size=12))
    def test_a_repaint_leaves_the_cursor_at_the_end(self, before: str, after: str) -> None:
        assert on_screen(before + repaint(before, after) + "|") == [after + "|"]

    @pytest.mark.parametrize(
        ("keys", "line"),
        [
            (["a", "b", Key.BACKSPACE], "a"),
            ([Key.BACKSPACE], ""),
            ([*"ab cd ", Key.CTRL_W], "ab "),
            ([*"ab", Key.CTRL_W, Key.CTRL_W], ""),
            ([*"ab cd", Key.CTRL_U, "e"], "e"),
        ],
    )
    def test_editing(self, keys: list[Key | str], line: str) -> None:
        editor = LineEditor()
        echo = "".join(editor.type(key) for key in keys)
        assert editor.text == line
        assert on_screen(echo + "|") == [line + "|"]

    def test_a_line_has_an_end(self) -> None:
        editor = LineEditor()
        for _ in range(MAX_LINE):
            editor.type("x")
        assert editor.type("y") == "\a"
        assert editor.text == "x" * MAX_LINE


COMMANDS = build(
    (command, command)
    for command in (
        "show version",
        "show interfaces status",
        "show ip",
        "shutdown",
        "terminal length <0-512>",
        "description LINE",
        "ip address A.B.C.D",
        "interface IFNAME",
        "interface IFTYPE IFNUMBER",
        "ping WORD",
        "ping WORD repeat <1-9>",
    )
)


class TestGrammar:
    @pytest.mark.parametrize(
        ("line", "command", "arguments"),
        [
            ("show version", "show version", ()),
            ("  SHO  Ver ", "show version", ()),
            ("sho int st", "show interfaces status", ()),
            ("ter len 0", "terminal length <0-512>", ("0",)),
            ("desc  a  b | c ", "description LINE", ("a  b | c",)),
            ("ip add 10.0.0.255", "ip address A.B.C.D", ("10.0.0.255",)),
            ("int gi1/0/1", "interface IFNAME", ("gi1/0/1",)),
            ("int gi 1/0/1", "interface IFTYPE IFNUMBER", ("gi", "1/0/1")),
            ("ping h r 3", "ping WORD repeat <1-9>", ("h", "3")),
        ],
    )
    def test_a_line_means(self, line: str, command: str, arguments: tuple[str, ...]) -> None:
        run, found = parse(COMMANDS, line)
        assert (run, found.texts) == (command, arguments)

    def test_parameters_know_where_they_stand(self) -> None:
        assert parse(COMMANDS, " int  gi 1/0/1")[1] == Arguments(("gi", "1/0/1"), (6, 9))

    @pytest.mark.parametrize(
        ("line", "offset"),
        [
            ("verzion", 0),
            ("show verzion", 8),
            ("show x", 5),
            ("show version x", 13),
            ("terminal length 513", 16),
            ("terminal length 99999999999", 16),
            ("terminal length -1", 16),
            ("ip address 10.0.0.256", 11),
            ("shx", 2),
        ],
    )
    def test_the_caret_stands_where_it_went_wrong(self, line: str, offset: int) -> None:
        with pytest.raises(InvalidInput) as caught:
            parse(COMMANDS, line)
        assert caught.value.offset == offset
        assert caught.value.report("sw#", line).split("\n")[0] == " " * (3 + offset) + "^"

    @pytest.mark.parametrize("line", ["sh version", "show i", "i"])
    def test_ambiguous(self, line: str) -> None:
        with pytest.raises(AmbiguousCommand) as caught:
            parse(COMMANDS, line)
        assert caught.value.report("sw#", line) == f'% Ambiguous command:  "{line}"\n'

    @pytest.mark.parametrize("line", ["show", "ter len", "ping", "int gi"])
    def test_incomplete(self, line: str) -> None:
        with pytest.raises(IncompleteCommand):
            parse(COMMANDS, line)

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("", ["description", "interface", "ip", "ping", "show", "shutdown", "terminal"]),
            ("sh", ["show", "shutdown"]),
            ("show ", ["interfaces", "ip", "version"]),
            ("show i", ["interfaces", "ip"]),
            ("ping h ", ["repeat", "<cr>"]),
        ],
    )
    def test_help(self, line: str, words: list[str]) -> None:
        assert help_for(COMMANDS, line) == words

    @pytest.mark.parametrize(
        ("line", "completed"),
        [("show v", "show version "), ("sh", None), ("show x", None), ("x y", None), ("show ", None)],
    )
    def test_completion(self, line: str, completed: str | None) -> None:
        assert complete(COMMANDS, line) == completed


class TestPager:
    def test_erasing_leaves_an_empty_row(self) -> None:
        assert on_screen(IOS.prompt + IOS.eraser + "x") == ["x"]

    @given(st.lists(st.text("abc", max_size=30)), st.integers(0, 6), st.integers(0, 12), st.text("pl", min_size=1))
    def test_the_pieces_are_the_text(self, lines: list[str], length: int, width: int, keys: str) -> None:
        text = "".join(line + "\n" for line in lines)
        pager, pieces = Pager(text), []
        for turn in range(len(lines) + 1):
            pieces.append(pager.page(length, width) if keys[turn % len(keys)] == "p" else pager.line())
        assert "".join(pieces) == text
        assert pager.done

    def test_a_page_leaves_a_row_for_the_prompt(self) -> None:
        assert Pager("a\n" * 30).page(10, 80) == "a\n" * 9

    def test_a_line_that_wraps_takes_more_rows(self) -> None:
        assert Pager(("x" * 15 + "\n") * 30).page(10, 10) == ("x" * 15 + "\n") * 4

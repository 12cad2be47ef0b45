"""Echo quirks at the terminal width. They do not change the executed line."""

from __future__ import annotations

import pytest

from ptyctl.simulator import Quirks
from tests.simulator.console_user import LOGIN, ConsoleUser

WIDTH = 20
#: Longer than two rows.
LINE = "description " + "0123456789" * 4


def user(**quirks: bool) -> ConsoleUser:
    found = ConsoleUser(Quirks(**quirks), LOGIN)
    found.console.resize(WIDTH, 24)
    return found


class TestEchoTruncates:
    def test_echo_truncates_replaces_overflow_by_dollar(self) -> None:
        typing = user(echo_truncates=True)
        assert typing.type("x" * 15) == "x" * 15
        assert typing.type("y") == "\b$"
        assert typing.type("zzz") == ""

    def test_echo_truncates_backspace_restores_character(self) -> None:
        typing = user(echo_truncates=True)
        typing.type("x" * 15 + "y")
        assert typing.type("\x7f") == "\bx"


class TestEchoBreaks:
    def test_echo_breaks_inserts_crlf_at_width(self) -> None:
        rows = user(echo_breaks=True).type("x" * 16 + "y" * 20 + "z").split("\r\n")
        assert rows == ["x" * 16, "y" * 20, "z"]

    def test_echo_breaks_without_width_inserts_nothing(self) -> None:
        typing = user(echo_breaks=True)
        typing.type("terminal width 0\r")
        assert "\r" not in typing.type("x" * 100)


def test_echo_doubles_repeats_first_character_of_row() -> None:
    assert user(echo_doubles=True).type("x" * 16 + "yz" + "x" * 18 + "w") == "x" * 16 + "y\ryz" + "x" * 18 + "w\rw"


def test_echo_repaints_sends_prompt_and_line() -> None:
    typing = user(echo_repaints=True)
    assert typing.type("sh") == "\rsw1#s\x1b[K\rsw1#sh\x1b[K"
    assert typing.type("\x7f") == "\rsw1#s\x1b[K"
    assert user(echo_repaints=True, two_line_prompt=True).type("s") == "\rsw1#s\x1b[K"


@pytest.mark.parametrize("quirk", ["echo_wraps", "echo_truncates", "echo_breaks", "echo_doubles", "echo_repaints"])
def test_echo_quirk_executes_whole_line(quirk: str) -> None:
    typing = user(**{quirk: True})
    typing.type(f"conf t\rint gi1/0/1\r{LINE}\rend\rterm len 0\r")
    assert f" {LINE}\r\n" in typing.type("show run\r")

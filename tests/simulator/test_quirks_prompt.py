"""The prompts of a simulated switch with quirks."""

from __future__ import annotations

from ptyctl.simulator import Quirks
from tests.simulator.console_user import LOGIN, ConsoleUser


def test_prompt_prefix() -> None:
    assert ConsoleUser(Quirks(prompt_prefix=True), LOGIN).type("\r") == "\r\nHRP_Asw1#"


def test_unsaved_mark() -> None:
    user = ConsoleUser(Quirks(unsaved_mark=True), LOGIN)
    assert user.type("\r") == "\r\nsw1#"
    assert user.type("conf t\rvlan 7\rend\r").endswith("\r\n*sw1#")
    assert user.type("write\r").endswith("[OK]\r\nsw1#")


class TestPromptTime:
    def test_it_is_never_the_same(self) -> None:
        user = ConsoleUser(Quirks(prompt_time=True), LOGIN)
        assert user.type("\r") == "\r\n00:00:00.000 sw1#"
        assert user.type("\r", now=61.5) == "\r\n00:01:01.500 sw1#"

    def test_the_mark_of_an_error_is_below_the_word(self) -> None:
        user = ConsoleUser(Quirks(prompt_time=True), LOGIN)
        assert "\r\n" + " " * len("00:00:00.000 sw1#show ") + "^\r\n" in user.type("show zzz\r")


class TestTwoLinePrompt:
    def test_a_line_tells_the_mode(self) -> None:
        user = ConsoleUser(Quirks(two_line_prompt=True), LOGIN)
        assert user.type("\r") == "\r\n\r\n{master:0}\r\nsw1#"
        assert user.type("conf t\r").endswith("\r\n[edit]\r\nsw1(config)#")

    def test_the_mark_of_an_error_is_below_the_word(self) -> None:
        user = ConsoleUser(Quirks(two_line_prompt=True), LOGIN)
        assert "\r\n" + " " * len("sw1#show ") + "^\r\n" in user.type("show zzz\r")


def test_coloured_prompt() -> None:
    user = ConsoleUser(Quirks(coloured_prompt=True, two_line_prompt=True), LOGIN)
    assert user.type("\r").endswith("{master:0}\r\n\x1b[1;32msw1#\x1b[0m")


def test_cursor_moves() -> None:
    user = ConsoleUser(Quirks(cursor_moves=True), LOGIN)
    user.console.resize(80, 30)
    assert user.type("\r") == "\r\n\x1b[30;1H\x1b[?25h\x1b[30;1H\x1b[2Ksw1#\x1b[30;5H\x1b[?25h"


def test_bracketed_paste() -> None:
    user = ConsoleUser(Quirks(bracketed_paste=True), LOGIN)
    assert user.type("\r") == "\x1b[?2004l\r\r\n\x1b[?2004hsw1#"


def test_renamed_every() -> None:
    user = ConsoleUser(Quirks(renamed_every=2), keys="admin\rpw\r")
    ends = [user.type("show clock\r").rpartition("\n")[2] for _ in range(5)]
    assert ends == ["sw1>", "sw1-new>", "sw1-new>", "sw1>", "sw1>"]

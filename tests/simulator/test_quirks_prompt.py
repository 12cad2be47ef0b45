"""Prompt quirks."""

from __future__ import annotations

from ptyctl.simulator import Quirks
from tests.simulator.console_user import LOGIN, ConsoleUser


def test_prompt_prefix_precedes_hostname() -> None:
    assert ConsoleUser(Quirks(prompt_prefix=True), LOGIN).type("\r") == "\r\nHRP_Asw1#"


def test_unsaved_mark_is_shown_until_save() -> None:
    user = ConsoleUser(Quirks(unsaved_mark=True), LOGIN)
    assert user.type("\r") == "\r\nsw1#"
    assert user.type("conf t\rvlan 7\rend\r").endswith("\r\n*sw1#")
    assert user.type("write\r").endswith("[OK]\r\nsw1#")


class TestPromptTime:
    def test_prompt_time_changes_prompt(self) -> None:
        user = ConsoleUser(Quirks(prompt_time=True), LOGIN)
        assert user.type("\r") == "\r\n00:00:00.000 sw1#"
        assert user.type("\r", now=61.5) == "\r\n00:01:01.500 sw1#"

    def test_prompt_time_error_mark_is_below_word(self) -> None:
        user = ConsoleUser(Quirks(prompt_time=True), LOGIN)
        assert "\r\n" + " " * len("00:00:00.000 sw1#show ") + "^\r\n" in user.type("show zzz\r")


class TestTwoLinePrompt:
    def test_two_line_prompt_shows_mode_above_prompt(self) -> None:
        user = ConsoleUser(Quirks(two_line_prompt=True), LOGIN)
        assert user.type("\r") == "\r\n\r\n{master:0}\r\nsw1#"
        assert user.type("conf t\r").endswith("\r\n[edit]\r\nsw1(config)#")

    def test_two_line_prompt_error_mark_is_below_word(self) -> None:
        user = ConsoleUser(Quirks(two_line_prompt=True), LOGIN)
        assert "\r\n" + " " * len("sw1#show ") + "^\r\n" in user.type("show zzz\r")


def test_coloured_prompt_wraps_last_line_in_sgr() -> None:
    user = ConsoleUser(Quirks(coloured_prompt=True, two_line_prompt=True), LOGIN)
    assert user.type("\r").endswith("{master:0}\r\n\x1b[1;32msw1#\x1b[0m")


def test_cursor_moves_position_prompt_on_last_row() -> None:
    user = ConsoleUser(Quirks(cursor_moves=True), LOGIN)
    user.console.resize(80, 30)
    assert user.type("\r") == "\r\n\x1b[30;1H\x1b[?25h\x1b[30;1H\x1b[2Ksw1#\x1b[30;5H\x1b[?25h"


def test_bracketed_paste_is_enabled_at_prompt() -> None:
    user = ConsoleUser(Quirks(bracketed_paste=True), LOGIN)
    assert user.type("\r") == "\x1b[?2004l\r\r\n\x1b[?2004hsw1#"


def test_renamed_every_changes_hostname_on_each_nth_command() -> None:
    user = ConsoleUser(Quirks(renamed_every=2), keys="admin\rpw\r")
    ends = [user.type("show clock\r").rpartition("\n")[2] for _ in range(5)]
    assert ends == ["sw1>", "sw1-new>", "sw1-new>", "sw1>", "sw1>"]

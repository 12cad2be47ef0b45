"""Quirks of the console's state when a client connects."""

from __future__ import annotations

import pytest

from ptyctl.simulator import Quirks
from ptyctl.simulator.terminal import CloseConnection
from tests.simulator.console_user import LOGIN, ConsoleUser

GREETED = "\r\n\r\nUser Access Verification\r\n\r\nUsername: "


class TestConsoleServer:
    QUIRKS = Quirks(console_server="ports:server")

    def test_console_server_asks_for_login_before_switch(self) -> None:
        user = ConsoleUser(self.QUIRKS)
        assert user.greeting == "\r\nSimulated console server\r\n\r\nUsername: "
        assert user.type("ports\rserver\r").endswith("Connected to port 7. Escape character is '^]'.\r\n" + GREETED)
        assert user.type(LOGIN).endswith("sw1#")

    def test_console_server_rejects_password_of_switch(self) -> None:
        user = ConsoleUser(self.QUIRKS, keys="admin\rpw\radmin\rpw\r")
        assert user.type("admin\rpw\r").endswith("% Login invalid\r\n\r\n")
        assert CloseConnection() in user.actions

    def test_console_server_with_silent_leads_to_silent_console(self) -> None:
        user = ConsoleUser(Quirks(console_server="ports:server", silent=True))
        assert user.type("ports\rserver\r").endswith("Escape character is '^]'.\r\n")
        assert "Press RETURN" in user.type("\r")
        assert user.type("\r").endswith("Username: ")


class TestLeftOverConfig:
    def test_left_over_config_shows_configuration_prompt(self) -> None:
        user = ConsoleUser(Quirks(left_over_config=True))
        assert user.greeting == "sw1(config-if)#"
        assert user.type("end\r").endswith("sw1#")

    def test_left_over_config_with_silent_shows_prompt_after_enter(self) -> None:
        user = ConsoleUser(Quirks(left_over_config=True, silent=True))
        assert user.greeting == ""
        assert user.type("\r") == "\r\nsw1(config-if)#"


class TestLeftOverLine:
    def test_left_over_line_is_continued_by_typed_text(self) -> None:
        user = ConsoleUser(Quirks(left_over_line=True))
        assert user.greeting == "sw1#show interf"
        assert "% Invalid input" in user.type("show clock\r")

    def test_left_over_line_is_cleared_by_ctrl_u(self) -> None:
        user = ConsoleUser(Quirks(left_over_line=True), keys="\x15")
        assert user.type("show clock\r").startswith("show clock\r\n*00:")

    def test_left_over_line_with_silent_runs_at_enter(self) -> None:
        user = ConsoleUser(Quirks(left_over_line=True, silent=True))
        assert user.greeting == ""
        assert "% Incomplete command" in user.type("\r")

    def test_left_over_line_in_configuration_mode_is_shown(self) -> None:
        assert ConsoleUser(Quirks(left_over_config=True, left_over_line=True)).greeting == "sw1(config-if)#show interf"


class TestLeftOverQuestion:
    def test_left_over_question_is_answered_by_next_key(self) -> None:
        user = ConsoleUser(Quirks(left_over_question=True))
        assert user.greeting == "Clear logging buffer? [y/n]: "
        assert user.type("show clock\r").startswith("\r\nsw1#how clock\r\n")

    def test_left_over_question_with_silent_is_not_shown(self) -> None:
        user = ConsoleUser(Quirks(left_over_question=True, silent=True))
        assert user.greeting == ""
        assert user.type("\r") == "\r\nsw1#"


class TestInitialSetup:
    QUIRKS = Quirks(initial_setup=True)

    @pytest.mark.parametrize("no", ["no", "n", "NO"])
    def test_initial_setup_declined_leads_to_login(self, no: str) -> None:
        user = ConsoleUser(self.QUIRKS)
        assert user.greeting.endswith("initial configuration dialog? [yes/no]: ")
        assert user.type(no + "\r").endswith("Press RETURN to get started!\r\n\r\n")
        assert user.type("\r") == GREETED

    def test_initial_setup_repeats_question_until_answered(self) -> None:
        user = ConsoleUser(self.QUIRKS)
        assert user.type("\r").endswith(
            "% Please answer 'yes' or 'no'.\r\n" + "Would you like to enter the initial configuration dialog? [yes/no]: "
        )
        assert user.type("\x03").endswith("[yes/no]: ")

    def test_initial_setup_accepted_sets_hostname(self) -> None:
        user = ConsoleUser(self.QUIRKS, keys="yes\redge-9\r" + LOGIN)
        assert user.type("\r") == "\r\nedge-9#"


def test_press_return_waits_for_enter() -> None:
    user = ConsoleUser(Quirks(press_return=True))
    assert user.greeting.endswith("\r\nPress RETURN to get started.\r\n\r\n")
    assert user.type("x") == ""
    assert user.type("\r") == GREETED


def test_press_any_key_waits_for_key() -> None:
    user = ConsoleUser(Quirks(press_any_key=True))
    assert user.greeting.endswith("Press any key to continue")
    assert "\x1b[2J" in user.greeting
    assert user.type(" ") == "\x1b[2J\x1b[1;1H" + GREETED

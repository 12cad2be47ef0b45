"""What somebody finds who connects to a simulated switch with quirks."""

from __future__ import annotations

import pytest

from ptyctl.simulator import Quirks
from ptyctl.simulator.actions import Close
from tests.simulator.quirky_user import LOGIN, QuirkyDesk

GREETED = "\r\n\r\nUser Access Verification\r\n\r\nUsername: "


class TestConsoleServer:
    QUIRKS = Quirks(console_server="ports:server")

    def test_there_are_two_layers(self) -> None:
        desk = QuirkyDesk(self.QUIRKS, keys="")
        assert desk.greeting == "\r\nPractice console server\r\n\r\nUsername: "
        assert desk.type("ports\rserver\r").endswith("Connected to port 7. Escape character is '^]'.\r\n" + GREETED)
        assert desk.type(LOGIN).endswith("sw1#")

    def test_the_switchs_password_is_not_the_servers(self) -> None:
        desk = QuirkyDesk(self.QUIRKS, keys="admin\rpw\radmin\rpw\r")
        assert desk.type("admin\rpw\r").endswith("% Login invalid\r\n\r\n")
        assert Close() in desk.actions

    def test_behind_it_the_console_sleeps(self) -> None:
        desk = QuirkyDesk(Quirks(console_server="ports:server", silent=True), keys="")
        assert desk.type("ports\rserver\r").endswith("Escape character is '^]'.\r\n")
        assert "Press RETURN" in desk.type("\r")
        assert desk.type("\r").endswith("Username: ")


class TestLeftOverConfig:
    def test_somebody_is_configuring(self) -> None:
        desk = QuirkyDesk(Quirks(left_over_config=True), keys="")
        assert desk.greeting == "sw1(config-if)#"
        assert desk.type("end\r").endswith("sw1#")

    def test_asleep_it_shows_after_enter(self) -> None:
        desk = QuirkyDesk(Quirks(left_over_config=True, silent=True), keys="")
        assert desk.greeting == ""
        assert desk.type("\r") == "\r\nsw1(config-if)#"


class TestLeftOverLine:
    def test_what_is_typed_is_appended(self) -> None:
        desk = QuirkyDesk(Quirks(left_over_line=True), keys="")
        assert desk.greeting == "sw1#show interf"
        assert "% Invalid input" in desk.type("show clock\r")

    def test_ctrl_u_clears_it(self) -> None:
        desk = QuirkyDesk(Quirks(left_over_line=True), keys="\x15")
        assert desk.type("show clock\r").startswith("show clock\r\n*00:")

    def test_unseen_it_runs_at_enter(self) -> None:
        desk = QuirkyDesk(Quirks(left_over_line=True, silent=True), keys="")
        assert desk.greeting == ""
        assert "% Incomplete command" in desk.type("\r")

    def test_in_configuration_mode(self) -> None:
        assert QuirkyDesk(Quirks(left_over_config=True, left_over_line=True), keys="").greeting == "sw1(config-if)#show interf"


class TestLeftOverQuestion:
    def test_the_next_key_is_its_answer(self) -> None:
        desk = QuirkyDesk(Quirks(left_over_question=True), keys="")
        assert desk.greeting == "Clear logging buffer? [y/n]: "
        assert desk.type("show clock\r").startswith("\r\nsw1#how clock\r\n")

    def test_asleep_it_is_not_seen(self) -> None:
        desk = QuirkyDesk(Quirks(left_over_question=True, silent=True), keys="")
        assert desk.greeting == ""
        assert desk.type("\r") == "\r\nsw1#"


class TestInitialSetup:
    QUIRKS = Quirks(initial_setup=True)

    @pytest.mark.parametrize("no", ["no", "n", "NO"])
    def test_declined(self, no: str) -> None:
        desk = QuirkyDesk(self.QUIRKS, keys="")
        assert desk.greeting.endswith("initial configuration dialog? [yes/no]: ")
        assert desk.type(no + "\r").endswith("Press RETURN to get started!\r\n\r\n")
        assert desk.type("\r") == GREETED

    def test_it_asks_until_it_is_answered(self) -> None:
        desk = QuirkyDesk(self.QUIRKS, keys="")
        assert desk.type("\r").endswith(
            "% Please answer 'yes' or 'no'.\r\n" + "Would you like to enter the initial configuration dialog? [yes/no]: "
        )
        assert desk.type("\x03").endswith("[yes/no]: ")

    def test_accepted(self) -> None:
        desk = QuirkyDesk(self.QUIRKS, keys="yes\redge-9\r" + LOGIN)
        assert desk.type("\r") == "\r\nedge-9#"


def test_press_return() -> None:
    desk = QuirkyDesk(Quirks(press_return=True), keys="")
    assert desk.greeting.endswith("\r\nPress RETURN to get started.\r\n\r\n")
    assert desk.type("x") == ""
    assert desk.type("\r") == GREETED


def test_press_any_key() -> None:
    desk = QuirkyDesk(Quirks(press_any_key=True), keys="")
    assert desk.greeting.endswith("Press any key to continue")
    assert "\x1b[2J" in desk.greeting
    assert desk.type(" ") == "\x1b[2J\x1b[1;1H" + GREETED

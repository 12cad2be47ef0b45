"""How a simulated switch with quirks asks for a login, and what comes before the first prompt."""

from __future__ import annotations

import pytest

from ptyctl.simulator import Quirks
from ptyctl.simulator.console import Console
from ptyctl.simulator.device import Account, Device
from tests.simulator.quirky_user import LOGIN, QuirkyDesk, said

USER = "admin\rpw\r"


@pytest.mark.parametrize(
    ("style", "username", "password"),
    [
        ("unix", "sw1 login: ", "Password: "),
        ("nokia", "Login: ", "Password: "),
        ("lower", "username:", "password:"),
        ("spaced", "User Name:", "Password:"),
        ("putty", "login as: ", "admin@sw1's password: "),
    ],
)
def test_login_prompts(style: str, username: str, password: str) -> None:
    desk = QuirkyDesk(Quirks(login_prompts=style), keys="")
    assert desk.greeting.endswith(f"\r\n{username}")
    assert desk.type("admin\r") == f"admin\r\n{password}"
    assert desk.type("wrong\r").endswith(f"% Login invalid\r\n\r\n{username}")
    assert desk.type(USER).endswith("sw1>")


def test_echoes_password() -> None:
    desk = QuirkyDesk(Quirks(echoes_password=True), keys="admin\r")
    assert desk.type("pw\r") == "pw\r\nsw1>"
    assert desk.type("enable\ren\r") == "enable\r\nPassword: en\r\nsw1#"


def test_bare_cr_after_password() -> None:
    desk = QuirkyDesk(Quirks(bare_cr_after_password=True), keys="admin\r")
    assert desk.type("pw\r") == "\r\n"
    assert desk.type("\r") == "sw1>"


def test_last_login() -> None:
    desk = QuirkyDesk(Quirks(last_login=True), keys="admin\r")
    assert desk.type("pw\r") == "\r\n\r\nLast login: Mon Mar  1 00:00:00 1993 from 192.0.2.77\r\nsw1>"


class TestChangePassword:
    QUIRKS = Quirks(change_password=True)

    def test_declined(self) -> None:
        desk = QuirkyDesk(self.QUIRKS, keys="admin\r")
        assert desk.type("pw\r").endswith("The password needs to be changed. Change now? [Y/N]:")
        assert desk.type("N\r") == "N\r\nsw1>"
        assert desk.console.device.account.password == "pw"

    def test_accepted(self) -> None:
        desk = QuirkyDesk(self.QUIRKS, keys=USER)
        assert desk.type("y\rnew\rnew\r") == "y\r\nEnter new password:\r\nConfirm new password:\r\nsw1>"
        assert desk.console.device.account.password == "new"

    def test_two_that_differ(self) -> None:
        desk = QuirkyDesk(self.QUIRKS, keys=USER)
        assert desk.type("y\rnew\rother\r").endswith("Error: The password was not changed.\r\nsw1>")
        assert desk.console.device.account.password == "pw"


class TestNewPassword:
    def test_ctrl_c_keeps_the_old_one(self) -> None:
        desk = QuirkyDesk(Quirks(new_password=True), keys="admin\r")
        assert desk.type("pw\r").endswith("\r\nnew password> ")
        assert desk.type("\x03") == "^C\r\nsw1>"
        assert desk.console.device.account.password == "pw"

    def test_a_new_one(self) -> None:
        desk = QuirkyDesk(Quirks(new_password=True), keys=USER)
        assert desk.type("n1\rn1\r") == "\r\nrepeat new password> \r\nsw1>"
        assert desk.console.device.account.password == "n1"


class TestLicence:
    def test_declined(self) -> None:
        desk = QuirkyDesk(Quirks(licence=True), keys="admin\r")
        assert desk.type("pw\r").endswith("Do you want to see the software license? [Y/n]: ")
        assert desk.type("n") == "\r\nsw1>"

    def test_enter_shows_it_through_the_pager(self) -> None:
        desk = QuirkyDesk(Quirks(licence=True), keys=USER)
        shown = desk.type("\r")
        assert shown.startswith("\r\n1. This licence")
        assert shown.endswith(" --More-- ")
        assert desk.type("q").endswith("sw1>")


def test_continue_after_login() -> None:
    desk = QuirkyDesk(Quirks(continue_after_login=True), keys="admin\r")
    assert desk.type("pw\r") == "\r\n\r\nPress any key to continue"
    assert desk.type("x") == "\r\nsw1>"


def test_all_of_them_one_after_the_other() -> None:
    quirks = Quirks(
        bare_cr_after_password=True,
        last_login=True,
        change_password=True,
        new_password=True,
        licence=True,
        continue_after_login=True,
    )
    desk = QuirkyDesk(quirks, keys=USER)
    assert "Last login" in desk.type("\r")
    assert desk.type("n\r").endswith("new password> ")
    assert desk.type("\x03").endswith("[Y/n]: ")
    assert desk.type("n").endswith("Press any key to continue")
    assert desk.type(" ").endswith("sw1>")


def test_who_came_by_ssh_is_asked_too() -> None:
    console = Console(Device("sw1", Account("admin", "pw")), quirks=Quirks(licence=True), user="admin")
    assert said(console.start()).endswith("[Y/n]: ")


def test_the_usual_login_is_as_it_was() -> None:
    assert QuirkyDesk(Quirks(), keys=LOGIN).type("\r") == "\r\nsw1#"

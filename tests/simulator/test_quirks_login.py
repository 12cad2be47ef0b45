"""Login quirks."""

from __future__ import annotations

import pytest

from ptyctl.simulator import Quirks
from ptyctl.simulator.device import DeviceAccount, SimulatedDevice
from ptyctl.simulator.quirky_console import QuirkyConsole
from tests.simulator.console_user import LOGIN, ConsoleUser, output_of

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
def test_login_prompts_are_of_chosen_style(style: str, username: str, password: str) -> None:
    user = ConsoleUser(Quirks(login_prompts=style))
    assert user.greeting.endswith(f"\r\n{username}")
    assert user.type("admin\r") == f"admin\r\n{password}"
    assert user.type("wrong\r").endswith(f"% Login invalid\r\n\r\n{username}")
    assert user.type(USER).endswith("sw1>")


def test_echoes_password_shows_passwords() -> None:
    user = ConsoleUser(Quirks(echoes_password=True), keys="admin\r")
    assert user.type("pw\r") == "pw\r\nsw1>"
    assert user.type("enable\ren\r") == "enable\r\nPassword: en\r\nsw1#"


def test_bare_cr_after_password_waits_for_enter() -> None:
    user = ConsoleUser(Quirks(bare_cr_after_password=True), keys="admin\r")
    assert user.type("pw\r") == "\r\n"
    assert user.type("\r") == "sw1>"


def test_last_login_is_shown_after_password() -> None:
    user = ConsoleUser(Quirks(last_login=True), keys="admin\r")
    assert user.type("pw\r") == "\r\n\r\nLast login: Mon Mar  1 00:00:00 1993 from 192.0.2.77\r\nsw1>"


class TestChangePassword:
    QUIRKS = Quirks(change_password=True)

    def test_change_password_declined_keeps_password(self) -> None:
        user = ConsoleUser(self.QUIRKS, keys="admin\r")
        assert user.type("pw\r").endswith("The password needs to be changed. Change now? [Y/N]:")
        assert user.type("N\r") == "N\r\nsw1>"
        assert user.console.device.account.password == "pw"

    def test_change_password_accepted_changes_password(self) -> None:
        user = ConsoleUser(self.QUIRKS, keys=USER)
        assert user.type("y\rnew\rnew\r") == "y\r\nEnter new password:\r\nConfirm new password:\r\nsw1>"
        assert user.console.device.account.password == "new"

    def test_change_password_mismatch_keeps_password(self) -> None:
        user = ConsoleUser(self.QUIRKS, keys=USER)
        assert user.type("y\rnew\rother\r").endswith("Error: The password was not changed.\r\nsw1>")
        assert user.console.device.account.password == "pw"


class TestNewPassword:
    def test_new_password_ctrl_c_keeps_password(self) -> None:
        user = ConsoleUser(Quirks(new_password=True), keys="admin\r")
        assert user.type("pw\r").endswith("\r\nnew password> ")
        assert user.type("\x03") == "^C\r\nsw1>"
        assert user.console.device.account.password == "pw"

    def test_new_password_entered_changes_password(self) -> None:
        user = ConsoleUser(Quirks(new_password=True), keys=USER)
        assert user.type("n1\rn1\r") == "\r\nrepeat new password> \r\nsw1>"
        assert user.console.device.account.password == "n1"


class TestLicence:
    def test_licence_declined_shows_prompt(self) -> None:
        user = ConsoleUser(Quirks(licence=True), keys="admin\r")
        assert user.type("pw\r").endswith("Do you want to see the software license? [Y/n]: ")
        assert user.type("n") == "\r\nsw1>"

    def test_licence_accepted_is_paged(self) -> None:
        user = ConsoleUser(Quirks(licence=True), keys=USER)
        shown = user.type("\r")
        assert shown.startswith("\r\n1. This licence")
        assert shown.endswith(" --More-- ")
        assert user.type("q").endswith("sw1>")


def test_continue_after_login_waits_for_key() -> None:
    user = ConsoleUser(Quirks(continue_after_login=True), keys="admin\r")
    assert user.type("pw\r") == "\r\n\r\nPress any key to continue"
    assert user.type("x") == "\r\nsw1>"


def test_all_login_quirks_apply_in_order() -> None:
    quirks = Quirks(
        bare_cr_after_password=True,
        last_login=True,
        change_password=True,
        new_password=True,
        licence=True,
        continue_after_login=True,
    )
    user = ConsoleUser(quirks, keys=USER)
    assert "Last login" in user.type("\r")
    assert user.type("n\r").endswith("new password> ")
    assert user.type("\x03").endswith("[Y/n]: ")
    assert user.type("n").endswith("Press any key to continue")
    assert user.type(" ").endswith("sw1>")


def test_licence_is_asked_in_ssh_session() -> None:
    console = QuirkyConsole(SimulatedDevice("sw1", DeviceAccount("admin", "pw")), quirks=Quirks(licence=True), user="admin")
    assert output_of(console.start()).endswith("[Y/n]: ")


def test_login_without_quirks_shows_prompt() -> None:
    assert ConsoleUser(Quirks(), keys=LOGIN).type("\r") == "\r\nsw1#"

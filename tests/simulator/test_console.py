"""Console of the simulated switch, without a connection: login, modes, syslog, and split input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.simulator.device import DeviceAccount, SimulatedDevice
from ptyctl.simulator.quirky_console import QuirkyConsole
from ptyctl.simulator.terminal import BroadcastLog, CloseConnection, SendOutput
from tests.simulator.console_user import ConsoleUser


class TestLogin:
    def test_connect_shows_banner_and_username_prompt(self) -> None:
        assert ConsoleUser().greeting == "\r\n\r\nUser Access Verification\r\n\r\nUsername: "

    def test_password_is_not_echoed(self) -> None:
        user = ConsoleUser()
        assert user.type("admin\r") == "admin\r\nPassword: "
        assert user.type("pw\x7fw") == ""
        assert user.type("\r") == "\r\nsw1>"

    def test_three_wrong_logins_close_connection(self) -> None:
        user = ConsoleUser()
        for _ in range(2):
            assert user.type("admin\rwrong\r").endswith("% Login invalid\r\n\r\nUsername: ")
            assert not user.requested(CloseConnection)
        assert user.type("admin\rwrong\r").endswith("% Login invalid\r\n\r\n")
        assert user.requested(CloseConnection)
        assert user.type("admin\rpw\r") == ""

    def test_wrong_username_is_rejected(self) -> None:
        assert "% Login invalid" in ConsoleUser().type("root\rpw\r")

    def test_empty_username_is_asked_again(self) -> None:
        assert ConsoleUser().type("\r\r") == "\r\nUsername: \r\nUsername: "

    def test_ctrl_c_restarts_login(self) -> None:
        user = ConsoleUser()
        assert user.type("admin\r\x03").endswith("^C\r\nUsername: ")
        assert user.type("admin\rpw\r").endswith("sw1>")

    def test_account_without_username_asks_password_only(self) -> None:
        user = ConsoleUser(account=DeviceAccount(None, "pw"))
        assert user.greeting.endswith("Verification\r\n\r\nPassword: ")
        assert user.type("bad\r") == "\r\nPassword: "
        assert user.type("pw\r") == "\r\nsw1>"

    def test_three_wrong_passwords_without_username_close_connection(self) -> None:
        user = ConsoleUser(account=DeviceAccount(None, "pw"))
        assert user.type("a\rb\rc\r").endswith("% Bad passwords\r\n")
        assert user.requested(CloseConnection)

    def test_account_repr_contains_no_secret(self) -> None:
        assert "hush" not in repr(DeviceAccount("admin", "hush", "hush"))


class TestEnable:
    def test_enable_secret_leads_to_privileged_mode(self) -> None:
        user = ConsoleUser().log_in()
        assert user.type("en\r") == "en\r\nPassword: "
        assert user.type("en\r") == "\r\nsw1#"
        assert user.type("enable\r") == "enable\r\nsw1#"
        assert user.type("disable\r") == "disable\r\nsw1>"

    def test_three_wrong_enable_secrets_stay_in_user_mode(self) -> None:
        said = ConsoleUser().log_in().type("enable\rx\ry\rz\r")
        assert said.count("Password: ") == 3
        assert said.endswith("% Bad secrets\r\n\r\nsw1>")

    def test_enable_without_secret_asks_nothing(self) -> None:
        assert ConsoleUser(account=DeviceAccount("admin", "pw")).log_in().type("enable\r") == "enable\r\nsw1#"

    def test_ctrl_c_cancels_enable(self) -> None:
        assert ConsoleUser().log_in().type("enable\r\x03").endswith("^C\r\nsw1>")

    def test_user_mode_rejects_configure(self) -> None:
        said = ConsoleUser().log_in().type("conf t\r")
        assert said == "conf t\r\n    ^\r\n% Invalid input detected at '^' marker.\r\n\r\nsw1>"


class TestModes:
    def test_mode_commands_change_prompt(self) -> None:
        user = ConsoleUser().enable()
        steps = {
            "conf t": "sw1(config)#",
            "interface gi1/0/5": "sw1(config-if)#",
            "int GigabitEthernet 1/0/6": "sw1(config-if)#",
            "vlan 30": "sw1(config-vlan)#",
            "name guests": "sw1(config-vlan)#",
            "exit": "sw1(config)#",
            "interface Vlan30": "sw1(config-if)#",
            "end": "sw1#",
        }
        for line, prompt in steps.items():
            assert user.type(line + "\r").endswith("\r\n" + prompt), line

    def test_exit_in_privileged_mode_closes_connection(self) -> None:
        user = ConsoleUser().enable()
        assert user.type("conf t\rexit\rexit\r").endswith("sw1#exit\r\n")
        assert user.requested(CloseConnection)

    @pytest.mark.parametrize("word", ["exit", "logout", "quit"])
    def test_logout_commands_close_connection(self, word: str) -> None:
        user = ConsoleUser().log_in()
        user.type(word + "\r")
        assert user.requested(CloseConnection)

    @pytest.mark.parametrize("key", ["\x03", "\x1a"])
    def test_interrupt_keys_leave_configuration_without_executing(self, key: str) -> None:
        user = ConsoleUser().enable()
        user.type("conf t\rint gi1/0/1\r")
        assert user.type("shut" + key).endswith("\r\nsw1#")
        assert "shutdown" not in user.type("sh run | section 1/0/1$\r")

    def test_hostname_change_is_visible_in_other_sessions(self) -> None:
        user = ConsoleUser().enable()
        other = ConsoleUser(device=user.device).log_in()
        assert user.type("conf t\rhostname core-7\r").endswith("\r\ncore-7(config)#")
        assert other.type("\r") == "\r\ncore-7>"
        assert user.type("no hostname\r").endswith("\r\nSwitch(config)#")

    def test_invalid_hostname_is_rejected(self) -> None:
        said = ConsoleUser().enable().type("conf t\rhostname a_b\r")
        assert "% Hostname contains one or more illegal characters." in said
        assert said.endswith("sw1(config)#")

    def test_unknown_interface_is_rejected(self) -> None:
        said = ConsoleUser().enable().type("conf t\rint gi 1/0/49\r")
        assert "\r\n" + " " * len("sw1(config)#int gi ") + "^\r\n% Invalid input" in said

    def test_do_runs_exec_commands_in_configuration_mode(self) -> None:
        user = ConsoleUser().enable()
        user.type("conf t\r")
        assert "hostname sw1\r\n" in user.type("do show run | include ^hostname\r")
        assert "\r\n" + " " * len("sw1(config)#do show ") + "^\r\n" in user.type("do show zzz\r")


class TestConsoleLine:
    def test_logout_on_console_resets_it_for_next_user(self) -> None:
        user = ConsoleUser(name="con0")
        user.log_in()
        said = user.type("term len 0\rexit\r")
        assert said.endswith("sw1 con0 is now available\r\n\r\n\r\nPress RETURN to get started.\r\n\r\n")
        assert not user.requested(CloseConnection)
        assert user.type("show clock") == ""
        assert user.type("\r").endswith("Username: ")
        assert user.console.length == 24

    def test_reload_on_console_leads_to_new_login(self) -> None:
        user = ConsoleUser(name="con0").enable()
        user.type("reload\r\r")
        assert "Press RETURN to get started." in user.output_of(user.console.reboot(9.0))
        assert user.type("\r").endswith("Username: ")


class TestSyslog:
    LINE = "*Mar  1 00:01:02.345: %LINK-3-UPDOWN: x"

    def test_vty_shows_syslog_after_terminal_monitor(self) -> None:
        user = ConsoleUser().enable()
        assert user.console.show_syslog(self.LINE) == []
        user.type("terminal monitor\r")
        assert user.output_of(user.console.show_syslog(self.LINE)) == f"\r\n{self.LINE}\r\n"
        user.type("terminal no monitor\r")
        assert user.console.show_syslog(self.LINE) == []

    def test_syslog_does_not_change_typed_line(self) -> None:
        user = ConsoleUser().enable()
        user.type("terminal monitor\rshow cl")
        user.console.show_syslog(self.LINE)
        assert user.type("ock\r").startswith("ock\r\n*00:00:00.000")

    def test_console_shows_syslog_by_default(self) -> None:
        user = ConsoleUser(name="con0")
        assert self.LINE in user.output_of(user.console.show_syslog(self.LINE))

    def test_log_line_contains_timestamp(self) -> None:
        device = SimulatedDevice("sw1", DeviceAccount("admin", "pw"))
        assert device.record("%X-1-Y: z", 62.3456) == "*Mar  1 00:01:02.345: %X-1-Y: z"

    def test_configuration_changes_are_logged(self) -> None:
        user = ConsoleUser().enable()
        user.type("conf t\rint gi1/0/1\r")
        user.type("shutdown\r")
        assert user.requested(BroadcastLog)
        user.type("end\r")
        log = user.type("show logging\r")
        assert "%LINK-5-CHANGED: Interface GigabitEthernet1/0/1, changed state to administratively down" in log
        assert "%SYS-5-CONFIG_I: Configured from console by admin on vty0" in log


SCRIPT = (
    b"admin\r\npw\r\0enable\nen\rterm len 5\rshow ver\r \r\nq"
    b"conf t\rhostname sw2\rint gi1/0/1\rdescr \x1b[Ax\xc3\xbcy\x7f\rend\rping 192.0.2.1\rshow clock\r\x03sh i\rreload\rn\rno\r"
)


class TestCuts:
    def transcript(self, *pieces: bytes) -> bytes:
        console = QuirkyConsole(SimulatedDevice("sw1", DeviceAccount("admin", "pw", "en")))
        actions = console.start()
        for piece in pieces:
            actions += console.feed(piece)
        return b"".join(action.data for action in actions if isinstance(action, SendOutput))

    def test_output_does_not_depend_on_split_position(self) -> None:
        whole = self.transcript(SCRIPT)
        assert b"[confirm]\r\nsw2#" in whole
        for cut in range(1, len(SCRIPT)):
            assert self.transcript(SCRIPT[:cut], SCRIPT[cut:]) == whole
        assert self.transcript(*(bytes([byte]) for byte in SCRIPT)) == whole

    @given(st.binary(max_size=300), st.integers(0, 300))
    def test_output_of_random_input_does_not_depend_on_split_position(self, noise: bytes, cut: int) -> None:
        keys = b"admin\rpw\renable\ren\r" + noise
        assert self.transcript(keys[:cut], keys[cut:]) == self.transcript(keys)

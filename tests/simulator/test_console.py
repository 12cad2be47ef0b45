"""The simulated switch's console as a pure state machine: login, modes, and input cut at every byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.simulator.device import DeviceAccount, SimulatedDevice
from ptyctl.simulator.terminal import BroadcastLog, CloseConnection, SendOutput
from ptyctl.simulator.terminal_lines import create_console
from tests.simulator.console_user import ConsoleUser


class TestLogin:
    def test_greeting(self) -> None:
        assert ConsoleUser().greeting == "\r\n\r\nUser Access Verification\r\n\r\nUsername: "

    def test_the_password_is_not_echoed(self) -> None:
        user = ConsoleUser()
        assert user.type("admin\r") == "admin\r\nPassword: "
        assert user.type("pw\x7fw") == ""
        assert user.type("\r") == "\r\nsw1>"

    def test_three_wrong_passwords_close_the_line(self) -> None:
        user = ConsoleUser()
        for _ in range(2):
            assert user.type("admin\rwrong\r").endswith("% Login invalid\r\n\r\nUsername: ")
            assert not user.requested(CloseConnection)
        assert user.type("admin\rwrong\r").endswith("% Login invalid\r\n\r\n")
        assert user.requested(CloseConnection)
        assert user.type("admin\rpw\r") == ""

    def test_a_wrong_user_is_as_wrong_as_a_wrong_password(self) -> None:
        assert "% Login invalid" in ConsoleUser().type("root\rpw\r")

    def test_an_empty_username_is_asked_again(self) -> None:
        assert ConsoleUser().type("\r\r") == "\r\nUsername: \r\nUsername: "

    def test_ctrl_c_begins_anew(self) -> None:
        user = ConsoleUser()
        assert user.type("admin\r\x03").endswith("^C\r\nUsername: ")
        assert user.type("admin\rpw\r").endswith("sw1>")

    def test_a_password_alone(self) -> None:
        user = ConsoleUser(account=DeviceAccount(None, "pw"))
        assert user.greeting.endswith("Verification\r\n\r\nPassword: ")
        assert user.type("bad\r") == "\r\nPassword: "
        assert user.type("pw\r") == "\r\nsw1>"

    def test_three_wrong_ones_of_a_password_alone(self) -> None:
        user = ConsoleUser(account=DeviceAccount(None, "pw"))
        assert user.type("a\rb\rc\r").endswith("% Bad passwords\r\n")
        assert user.requested(CloseConnection)

    def test_no_secret_is_in_a_repr(self) -> None:
        assert "hush" not in repr(DeviceAccount("admin", "hush", "hush"))


class TestEnable:
    def test_the_secret_opens(self) -> None:
        user = ConsoleUser().log_in()
        assert user.type("en\r") == "en\r\nPassword: "
        assert user.type("en\r") == "\r\nsw1#"
        assert user.type("enable\r") == "enable\r\nsw1#"
        assert user.type("disable\r") == "disable\r\nsw1>"

    def test_three_wrong_ones_do_not(self) -> None:
        said = ConsoleUser().log_in().type("enable\rx\ry\rz\r")
        assert said.count("Password: ") == 3
        assert said.endswith("% Bad secrets\r\n\r\nsw1>")

    def test_without_a_secret_nothing_is_asked(self) -> None:
        assert ConsoleUser(account=DeviceAccount("admin", "pw")).log_in().type("enable\r") == "enable\r\nsw1#"

    def test_ctrl_c_gives_up(self) -> None:
        assert ConsoleUser().log_in().type("enable\r\x03").endswith("^C\r\nsw1>")

    def test_the_user_mode_has_no_configuration(self) -> None:
        said = ConsoleUser().log_in().type("conf t\r")
        assert said == "conf t\r\n    ^\r\n% Invalid input detected at '^' marker.\r\n\r\nsw1>"


class TestModes:
    def test_there_and_back(self) -> None:
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

    def test_exit_from_the_top_ends_the_session(self) -> None:
        user = ConsoleUser().enable()
        assert user.type("conf t\rexit\rexit\r").endswith("sw1#exit\r\n")
        assert user.requested(CloseConnection)

    @pytest.mark.parametrize("word", ["exit", "logout", "quit"])
    def test_words_to_leave(self, word: str) -> None:
        user = ConsoleUser().log_in()
        user.type(word + "\r")
        assert user.requested(CloseConnection)

    @pytest.mark.parametrize("key", ["\x03", "\x1a"])
    def test_keys_to_leave_configuration(self, key: str) -> None:
        user = ConsoleUser().enable()
        user.type("conf t\rint gi1/0/1\r")
        assert user.type("shut" + key).endswith("\r\nsw1#")
        assert "shutdown" not in user.type("sh run | section 1/0/1$\r")

    def test_the_hostname_is_in_the_prompt_of_everybody(self) -> None:
        user = ConsoleUser().enable()
        other = ConsoleUser(device=user.device).log_in()
        assert user.type("conf t\rhostname core-7\r").endswith("\r\ncore-7(config)#")
        assert other.type("\r") == "\r\ncore-7>"
        assert user.type("no hostname\r").endswith("\r\nSwitch(config)#")

    def test_a_bad_hostname(self) -> None:
        said = ConsoleUser().enable().type("conf t\rhostname a_b\r")
        assert "% Hostname contains one or more illegal characters." in said
        assert said.endswith("sw1(config)#")

    def test_a_port_that_is_not_there(self) -> None:
        said = ConsoleUser().enable().type("conf t\rint gi 1/0/49\r")
        assert "\r\n" + " " * len("sw1(config)#int gi ") + "^\r\n% Invalid input" in said

    def test_do(self) -> None:
        user = ConsoleUser().enable()
        user.type("conf t\r")
        assert "hostname sw1\r\n" in user.type("do show run | include ^hostname\r")
        assert "\r\n" + " " * len("sw1(config)#do show ") + "^\r\n" in user.type("do show zzz\r")


class TestConsoleLine:
    def test_leaving_wakes_it_for_the_next(self) -> None:
        user = ConsoleUser(name="con0")
        user.log_in()
        said = user.type("term len 0\rexit\r")
        assert said.endswith("sw1 con0 is now available\r\n\r\n\r\nPress RETURN to get started.\r\n\r\n")
        assert not user.requested(CloseConnection)
        assert user.type("show clock") == ""
        assert user.type("\r").endswith("Username: ")
        assert user.console.length == 24

    def test_a_reload_ends_in_a_new_login(self) -> None:
        user = ConsoleUser(name="con0").enable()
        user.type("reload\r\r")
        assert "Press RETURN to get started." in user.output_of(user.console.reboot(9.0))
        assert user.type("\r").endswith("Username: ")


class TestSyslog:
    LINE = "*Mar  1 00:01:02.345: %LINK-3-UPDOWN: x"

    def test_a_vty_shows_it_when_told(self) -> None:
        user = ConsoleUser().enable()
        assert user.console.show_syslog(self.LINE) == []
        user.type("terminal monitor\r")
        assert user.output_of(user.console.show_syslog(self.LINE)) == f"\r\n{self.LINE}\r\n"
        user.type("terminal no monitor\r")
        assert user.console.show_syslog(self.LINE) == []

    def test_a_typed_line_goes_on_below(self) -> None:
        user = ConsoleUser().enable()
        user.type("terminal monitor\rshow cl")
        user.console.show_syslog(self.LINE)
        assert user.type("ock\r").startswith("ock\r\n*00:00:00.000")

    def test_a_console_always_shows_it(self) -> None:
        user = ConsoleUser(name="con0")
        assert self.LINE in user.output_of(user.console.show_syslog(self.LINE))

    def test_the_log_has_the_time(self) -> None:
        device = SimulatedDevice("sw1", DeviceAccount("admin", "pw"))
        assert device.record("%X-1-Y: z", 62.3456) == "*Mar  1 00:01:02.345: %X-1-Y: z"

    def test_configuring_and_shutting_down_are_logged(self) -> None:
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
        console = create_console(SimulatedDevice("sw1", DeviceAccount("admin", "pw", "en")))
        actions = console.start()
        for piece in pieces:
            actions += console.feed(piece)
        return b"".join(action.data for action in actions if isinstance(action, SendOutput))

    def test_at_every_byte(self) -> None:
        whole = self.transcript(SCRIPT)
        assert b"[confirm]\r\nsw2#" in whole
        for cut in range(1, len(SCRIPT)):
            assert self.transcript(SCRIPT[:cut], SCRIPT[cut:]) == whole
        assert self.transcript(*(bytes([byte]) for byte in SCRIPT)) == whole

    @given(st.binary(max_size=300), st.integers(0, 300))
    def test_of_any_bytes(self, noise: bytes, cut: int) -> None:
        keys = b"admin\rpw\renable\ren\r" + noise
        assert self.transcript(keys[:cut], keys[cut:]) == self.transcript(keys)

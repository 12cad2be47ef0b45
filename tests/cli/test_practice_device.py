"""The practice switch's console as a pure state machine: bytes in, bytes and wishes out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.cli.practice.actions import Action, Close, Log, Output, Reload, Wake
from ptyctl.cli.practice.console import Console
from ptyctl.cli.practice.device import Account, Device
from ptyctl.cli.practice.pager import ERASE, MORE
from ptyctl.cli.practice.terminal import MAX_TYPE_AHEAD

ACCOUNT = Account("admin", "pw", "en")


class Desk:
    """Somebody in front of a console."""

    def __init__(self, name: str = "vty0", *, account: Account = ACCOUNT, device: Device | None = None) -> None:
        self.device = device or Device("sw1", account)
        self.console = Console(self.device, name)
        self.actions: list[Action] = []
        self.greeting = self._said(self.console.start())

    def type(self, keys: str, now: float = 0.0) -> str:
        """Types `keys`; gives what appears."""
        return self._said(self.console.feed(keys.encode(), now))

    def wait(self, now: float = 0.0) -> str:
        """Lets the time pass that the console asked for."""
        return self._said(self.console.wake(now))

    def log_in(self) -> Desk:
        self.type("admin\rpw\r")
        return self

    def enable(self) -> Desk:
        self.log_in().type("enable\ren\r")
        return self

    def asked_for(self, kind: type[Action]) -> bool:
        return any(isinstance(action, kind) for action in self.actions)

    def _said(self, actions: list[Action]) -> str:
        self.actions = actions
        return b"".join(action.data for action in actions if isinstance(action, Output)).decode()


def body(said: str) -> str:
    """Between the echo and the prompt, with plain line ends."""
    return said.replace("\r\n", "\n").split("\n", 1)[1].rpartition("\n")[0]


class TestLogin:
    def test_greeting(self) -> None:
        assert Desk().greeting == "\r\n\r\nUser Access Verification\r\n\r\nUsername: "

    def test_the_password_is_not_echoed(self) -> None:
        desk = Desk()
        assert desk.type("admin\r") == "admin\r\nPassword: "
        assert desk.type("pw\x7fw") == ""
        assert desk.type("\r") == "\r\nsw1>"

    def test_three_wrong_passwords_close_the_line(self) -> None:
        desk = Desk()
        for _ in range(2):
            assert desk.type("admin\rwrong\r").endswith("% Login invalid\r\n\r\nUsername: ")
            assert not desk.asked_for(Close)
        assert desk.type("admin\rwrong\r").endswith("% Login invalid\r\n\r\n")
        assert desk.asked_for(Close)
        assert desk.type("admin\rpw\r") == ""

    def test_a_wrong_user_is_as_wrong_as_a_wrong_password(self) -> None:
        assert "% Login invalid" in Desk().type("root\rpw\r")

    def test_an_empty_username_is_asked_again(self) -> None:
        assert Desk().type("\r\r") == "\r\nUsername: \r\nUsername: "

    def test_ctrl_c_begins_anew(self) -> None:
        desk = Desk()
        assert desk.type("admin\r\x03").endswith("^C\r\nUsername: ")
        assert desk.type("admin\rpw\r").endswith("sw1>")

    def test_a_password_alone(self) -> None:
        desk = Desk(account=Account(None, "pw"))
        assert desk.greeting.endswith("Verification\r\n\r\nPassword: ")
        assert desk.type("bad\r") == "\r\nPassword: "
        assert desk.type("pw\r") == "\r\nsw1>"

    def test_three_wrong_ones_of_a_password_alone(self) -> None:
        desk = Desk(account=Account(None, "pw"))
        assert desk.type("a\rb\rc\r").endswith("% Bad passwords\r\n")
        assert desk.asked_for(Close)

    def test_no_secret_is_in_a_repr(self) -> None:
        assert "hush" not in repr(Account("admin", "hush", "hush"))


class TestEnable:
    def test_the_secret_opens(self) -> None:
        desk = Desk().log_in()
        assert desk.type("en\r") == "en\r\nPassword: "
        assert desk.type("en\r") == "\r\nsw1#"
        assert desk.type("enable\r") == "enable\r\nsw1#"
        assert desk.type("disable\r") == "disable\r\nsw1>"

    def test_three_wrong_ones_do_not(self) -> None:
        said = Desk().log_in().type("enable\rx\ry\rz\r")
        assert said.count("Password: ") == 3
        assert said.endswith("% Bad secrets\r\n\r\nsw1>")

    def test_without_a_secret_nothing_is_asked(self) -> None:
        assert Desk(account=Account("admin", "pw")).log_in().type("enable\r") == "enable\r\nsw1#"

    def test_ctrl_c_gives_up(self) -> None:
        assert Desk().log_in().type("enable\r\x03").endswith("^C\r\nsw1>")

    def test_the_user_mode_has_no_configuration(self) -> None:
        said = Desk().log_in().type("conf t\r")
        assert said == "conf t\r\n    ^\r\n% Invalid input detected at '^' marker.\r\n\r\nsw1>"


class TestModes:
    def test_there_and_back(self) -> None:
        desk = Desk().enable()
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
            assert desk.type(line + "\r").endswith("\r\n" + prompt), line

    def test_exit_from_the_top_ends_the_session(self) -> None:
        desk = Desk().enable()
        assert desk.type("conf t\rexit\rexit\r").endswith("sw1#exit\r\n")
        assert desk.asked_for(Close)

    @pytest.mark.parametrize("word", ["exit", "logout", "quit"])
    def test_words_to_leave(self, word: str) -> None:
        desk = Desk().log_in()
        desk.type(word + "\r")
        assert desk.asked_for(Close)

    @pytest.mark.parametrize("key", ["\x03", "\x1a"])
    def test_keys_to_leave_configuration(self, key: str) -> None:
        desk = Desk().enable()
        desk.type("conf t\rint gi1/0/1\r")
        assert desk.type("shut" + key).endswith("\r\nsw1#")
        assert "shutdown" not in desk.type("sh run | section 1/0/1$\r")

    def test_the_hostname_is_in_the_prompt_of_everybody(self) -> None:
        desk = Desk().enable()
        other = Desk(device=desk.device).log_in()
        assert desk.type("conf t\rhostname core-7\r").endswith("\r\ncore-7(config)#")
        assert other.type("\r") == "\r\ncore-7>"
        assert desk.type("no hostname\r").endswith("\r\nSwitch(config)#")

    def test_a_bad_hostname(self) -> None:
        said = Desk().enable().type("conf t\rhostname a_b\r")
        assert "% Hostname contains one or more illegal characters." in said
        assert said.endswith("sw1(config)#")

    def test_a_port_that_is_not_there(self) -> None:
        said = Desk().enable().type("conf t\rint gi 1/0/49\r")
        assert "\r\n" + " " * len("sw1(config)#int gi ") + "^\r\n% Invalid input" in said

    def test_do(self) -> None:
        desk = Desk().enable()
        desk.type("conf t\r")
        assert "hostname sw1\r\n" in desk.type("do show run | include ^hostname\r")
        assert "\r\n" + " " * len("sw1(config)#do show ") + "^\r\n" in desk.type("do show zzz\r")


class TestConfiguration:
    def test_the_running_configuration_shows_what_was_done(self) -> None:
        desk = Desk().enable()
        desk.type("conf t\rint gi1/0/5\rdescription desk of Zoë | 2nd floor\rswitchport access vlan 30\rshutdown\rend\r")
        assert body(desk.type("show run | section 1/0/5$\r")).splitlines() == [
            "interface GigabitEthernet1/0/5",
            " description desk of Zoë | 2nd floor",
            " switchport access vlan 30",
            " switchport mode access",
            " shutdown",
        ]
        assert "Gi1/0/5   desk of Zoë" in desk.type("terminal length 0\rshow interfaces status\r")

    def test_and_what_was_undone(self) -> None:
        desk = Desk().enable()
        before = desk.type("term len 0\rshow run\r")
        desk.type("conf t\rint gi1/0/5\rdesc x\rsw mode trunk\rsw acc vlan 7\rshut\r")
        desk.type("no desc\rsw mode access\rsw acc vlan 10\rno shut\rend\r")
        assert desk.type("term len 0\rshow run\r") == before

    def test_an_address(self) -> None:
        desk = Desk().enable()
        desk.type("conf t\rint vlan 30\rip address 198.51.100.1 255.255.255.0\rend\r")
        rows = body(desk.type("term len 0\rshow ip interface brief\r")).splitlines()
        assert "Vlan30                 198.51.100.1    YES NVRAM  up                    up      " in rows

    @pytest.mark.parametrize(("interface", "address"), [("gi1/0/1", "10.0.0.1 255.0.0.0"), ("vlan 1", "10.0.0.1 255.0.255.0")])
    def test_a_wrong_address(self, interface: str, address: str) -> None:
        assert "% Invalid input" in Desk().enable().type(f"conf t\rint {interface}\rip address {address}\r")

    def test_the_heading_counts_the_bytes(self) -> None:
        text = body(Desk().enable().type("term len 0\rshow run\r")).partition("\n")[2]
        heading, configuration = text.split("bytes\n")
        assert int(heading.split()[-1]) == len(configuration.rstrip("\n")) + 1

    @pytest.mark.parametrize("save", ["write\r", "write memory\r", "copy run start\r\r", "copy run start\rstartup-config\r"])
    def test_saving(self, save: str) -> None:
        desk = Desk().enable()
        desk.type("conf t\rhostname kept\rend\r")
        assert desk.device.modified
        assert "Building configuration...\r\n[OK]\r\nkept#" in desk.type(save)
        assert not desk.device.modified
        assert "hostname kept" in desk.type("show startup-config | inc host\r")

    def test_copy_asks(self) -> None:
        desk = Desk().enable()
        desk.type("conf t\rhostname x\rend\r")
        assert desk.type("copy running-config startup-config\r").endswith("Destination filename [startup-config]? ")
        assert desk.type("\x03") == "^C\r\nx#"
        assert desk.device.modified


class TestReload:
    def test_it_asks_and_goes(self) -> None:
        desk = Desk().enable()
        assert desk.type("reload\r").endswith("Proceed with reload? [confirm]")
        desk.type("\r")
        assert desk.asked_for(Reload)
        assert desk.type("show clock\r") == ""

    def test_any_other_key_means_no(self) -> None:
        desk = Desk().enable()
        assert desk.type("reload\rn").endswith("[confirm]\r\nsw1#")
        assert not desk.asked_for(Reload)

    @pytest.mark.parametrize(("answer", "hostname"), [("yes", "new"), ("n", "sw1")])
    def test_what_was_not_saved_is_lost(self, answer: str, hostname: str) -> None:
        desk = Desk().enable()
        desk.type("conf t\rhostname new\rend\r")
        assert desk.type("reload\r").endswith("Save? [yes/no]: ")
        assert "% Please answer 'yes' or 'no'." in desk.type("maybe\r")
        desk.type(f"{answer}\ry")
        assert desk.asked_for(Reload)
        desk.device.reload(60.0)
        assert desk.device.hostname == hostname


class TestPager:
    def page(self, command: str, keys: str, length: int) -> tuple[str, str]:
        """The output paged with `keys`, over and over, and the same without a pager."""
        desk = Desk().enable()
        whole = desk.type(f"term len 0\r{command}\r").replace("term len 0\r\nsw1#", "")
        desk.type(f"term len {length}\r")
        said = desk.type(f"{command}\r")
        turn = 0
        while said.endswith(MORE):
            said += desk.type(keys[turn % len(keys)])
            turn += 1
        assert turn > 0
        return said, whole

    @pytest.mark.parametrize("command", ["show running-config", "show interfaces status", "show tech-support"])
    @pytest.mark.parametrize("keys", [" ", "\r", " \r\n\r"])
    @pytest.mark.parametrize("length", [1, 10, 24])
    def test_erased_it_is_the_whole_text(self, command: str, keys: str, length: int) -> None:
        said, whole = self.page(command, keys, length)
        assert said.replace(MORE + ERASE, "") == whole

    def test_a_short_text_has_none(self) -> None:
        assert MORE not in Desk().enable().type("term len 3\rshow clock\r")

    def test_enter_is_a_line_and_space_a_page(self) -> None:
        desk = Desk().enable()
        desk.type("term len 10\rshow run\r")
        assert desk.type("\r").count("\n") == 1
        assert desk.type(" ").count("\n") == 9

    @pytest.mark.parametrize("key", ["q", "Q", "x", "\x03", "\x1e"])
    def test_anything_else_leaves(self, key: str) -> None:
        desk = Desk().enable()
        desk.type("term len 10\rshow run\r")
        assert desk.type(key) == ERASE + "sw1#"

    def test_the_line_feed_of_the_enter_is_no_key(self) -> None:
        desk = Desk().enable()
        desk.type("term len 10\r\nshow run\r")
        assert desk.type("\n") == ""

    def test_the_window_decides_until_it_is_set(self) -> None:
        desk = Desk().enable()
        desk.console.resize(80, 6)
        assert desk.type("show run\r").count("\n") == 1 + 5
        desk.type("qterm len 0\r")
        desk.console.resize(80, 6)
        assert MORE not in desk.type("show run\r")

    def test_a_window_of_unknown_size_changes_nothing(self) -> None:
        desk = Desk().enable()
        desk.console.resize(0, 0)
        assert desk.type("show run\r").count("\n") == 1 + 23


class TestCommandLine:
    def test_errors(self) -> None:
        desk = Desk().enable()
        assert desk.type("show verzion\r") == (
            "show verzion\r\n" + " " * len("sw1#show ver") + "^\r\n% Invalid input detected at '^' marker.\r\n\r\nsw1#"
        )
        assert desk.type("sh i\r") == 'sh i\r\n% Ambiguous command:  "sh i"\r\nsw1#'
        assert desk.type("show\r") == "show\r\n% Incomplete command.\r\n\r\nsw1#"

    def test_an_empty_line_is_a_prompt(self) -> None:
        assert Desk().enable().type("\r\r  \r!x\r") == "\r\nsw1#\r\nsw1#  \r\nsw1#!x\r\nsw1#"

    def test_ctrl_c_is_a_new_prompt(self) -> None:
        desk = Desk().enable()
        assert desk.type("reload\x03") == "reload^C\r\nsw1#"
        assert desk.type("\r") == "\r\nsw1#"

    def test_editing(self) -> None:
        assert "*00:00" in Desk().enable().type("xx\x15show nothing\x17clokc\b\x7f\x08ock\x01\x05\x1b[A\r")

    def test_help(self) -> None:
        desk = Desk().log_in()
        said = desk.type("show ?")
        assert said == "show ?\r\n  clock\r\n  interfaces\r\n  ip\r\n  version\r\n\r\nsw1>show "
        assert desk.type("clock\r").startswith("clock\r\n*00:00:00.000")
        assert "% Invalid input" in desk.type("zzz ?")

    def test_completion(self) -> None:
        assert Desk().log_in().type("sh\tcl\t\r").startswith("show clock \r\n*")

    @pytest.mark.parametrize(
        ("modifier", "lines"),
        [
            ("include ^hostname", ["hostname sw1"]),
            ("i  name (voi|use)", [" name users", " name voice"]),
            ("begin ^line vty", ["line vty 0 15", " login local", " transport input telnet ssh", "!", "end", ""]),
            ("exclude [a-z0-9!]", ["", ""]),
            ("section vlan 99", ["vlan 99", " name management"]),
        ],
    )
    def test_filters(self, modifier: str, lines: list[str]) -> None:
        said = body(Desk().enable().type(f"show run | {modifier}\r"))
        assert said.split("\n") == lines

    def test_a_bad_filter(self) -> None:
        desk = Desk().enable()
        assert " " * len("sw1#show run | include ") + "^\r\n% Invalid" in desk.type("show run | include (\r")
        assert " " * len("sw1#show run | ") + "^\r\n% Invalid" in desk.type("show run | zzz x\r")
        assert "% Incomplete" in desk.type("show run |\r")


class TestPing:
    def test_marks_come_one_by_one(self) -> None:
        desk = Desk().log_in()
        assert desk.type("ping 192.0.2.1\r").endswith("timeout is 2 seconds:\r\n")
        for _ in range(4):
            assert desk.asked_for(Wake)
            assert desk.wait() == "!"
        assert desk.wait().startswith("!\r\nSuccess rate is 100 percent (5/5)")
        assert not desk.asked_for(Wake)

    def test_nobody_answers(self) -> None:
        desk = Desk().log_in()
        desk.type("ping 203.0.113.1 repeat 1\r")
        assert desk.wait() == ".\r\nSuccess rate is 0 percent (0/1)\r\nsw1>"

    def test_no_address(self) -> None:
        assert "% Unrecognized host or address" in Desk().log_in().type("ping nowhere\r")

    @pytest.mark.parametrize("key", ["\x03", "\x1e"])
    def test_an_interrupt_ends_it(self, key: str) -> None:
        desk = Desk().log_in()
        desk.type("ping 192.0.2.1 repeat 1000\r")
        desk.wait()
        assert desk.type(key) == "\r\nSuccess rate is 100 percent (1/1), round-trip min/avg/max = 1/2/4 ms\r\nsw1>"
        assert desk.wait() == ""

    def test_what_is_typed_meanwhile_waits(self) -> None:
        desk = Desk().log_in()
        assert "clock" not in desk.type("ping 192.0.2.1 repeat 1\rshow clock\r")
        assert desk.wait().count("sw1>") == 2

    def test_typing_ahead_has_a_limit(self) -> None:
        desk = Desk().log_in()
        desk.type("ping 192.0.2.1\r")
        assert desk.type("\r" * (MAX_TYPE_AHEAD + 2)) == "\a\a"
        assert desk.type("\x03").count("sw1>") == 1 + MAX_TYPE_AHEAD


class TestSyslog:
    LINE = "*Mar  1 00:01:02.345: %LINK-3-UPDOWN: x"

    def test_a_vty_shows_it_when_told(self) -> None:
        desk = Desk().enable()
        assert desk.console.syslog(self.LINE) == []
        desk.type("terminal monitor\r")
        assert desk._said(desk.console.syslog(self.LINE)) == f"\r\n{self.LINE}\r\n"
        desk.type("terminal no monitor\r")
        assert desk.console.syslog(self.LINE) == []

    def test_a_typed_line_goes_on_below(self) -> None:
        desk = Desk().enable()
        desk.type("terminal monitor\rshow cl")
        desk.console.syslog(self.LINE)
        assert desk.type("ock\r").startswith("ock\r\n*00:00:00.000")

    def test_a_console_always_shows_it(self) -> None:
        desk = Desk("con0")
        assert self.LINE in desk._said(desk.console.syslog(self.LINE))

    def test_the_log_has_the_time(self) -> None:
        device = Device("sw1", Account("admin", "pw"))
        assert device.record("%X-1-Y: z", 62.3456) == "*Mar  1 00:01:02.345: %X-1-Y: z"

    def test_configuring_and_shutting_down_are_logged(self) -> None:
        desk = Desk().enable()
        desk.type("conf t\rint gi1/0/1\r")
        desk.type("shutdown\r")
        assert desk.asked_for(Log)
        desk.type("end\r")
        log = desk.type("show logging\r")
        assert "%LINK-5-CHANGED: Interface GigabitEthernet1/0/1, changed state to administratively down" in log
        assert "%SYS-5-CONFIG_I: Configured from console by admin on vty0" in log


class TestConsoleLine:
    def test_leaving_wakes_it_for_the_next(self) -> None:
        desk = Desk("con0")
        desk.log_in()
        said = desk.type("term len 0\rexit\r")
        assert said.endswith("sw1 con0 is now available\r\n\r\n\r\nPress RETURN to get started.\r\n\r\n")
        assert not desk.asked_for(Close)
        assert desk.type("show clock") == ""
        assert desk.type("\r").endswith("Username: ")
        assert desk.console.length == 24

    def test_a_reload_ends_in_a_new_login(self) -> None:
        desk = Desk("con0").enable()
        desk.type("reload\r\r")
        assert "Press RETURN to get started." in desk._said(desk.console.reboot(9.0))
        assert desk.type("\r").endswith("Username: ")


class TestShows:
    def test_the_clock_starts_in_1993(self) -> None:
        assert "\r\n*01:02:03.500 UTC Mon Mar 1 1993\r\n" in Desk().log_in().type("show clock\r", 3723.5)

    def test_the_uptime(self) -> None:
        said = Desk().log_in().type("term len 0\rshow version\r", 86400.0 + 3600 + 120)
        assert "sw1 uptime is 1 day, 1 hour, 2 minutes\r\n" in said

    def test_the_status_table_is_aligned(self) -> None:
        rows = body(Desk().enable().type("term len 0\rshow interfaces status\r")).splitlines()
        heading = next(row for row in rows if row.startswith("Port"))
        ports = [row for row in rows if row.startswith("Gi")]
        assert len(ports) == 48
        columns = [heading.index(name) for name in ("Name", "Status", "Vlan", "Type")]
        for row in ports:
            assert all(row[column - 1] == " " and row[column] != " " for column in columns[1:]), row
            assert row[columns[1] :].split()[0] in ("connected", "notconnect", "disabled")


SCRIPT = (
    b"admin\r\npw\r\0enable\nen\rterm len 5\rshow ver\r \r\nq"
    b"conf t\rhostname sw2\rint gi1/0/1\rdescr \x1b[Ax\xc3\xbcy\x7f\rend\rping 192.0.2.1\rshow clock\r\x03sh i\rreload\rn\rno\r"
)


class TestCuts:
    def transcript(self, *pieces: bytes) -> bytes:
        console = Console(Device("sw1", Account("admin", "pw", "en")))
        actions = console.start()
        for piece in pieces:
            actions += console.feed(piece)
        return b"".join(action.data for action in actions if isinstance(action, Output))

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

"""What the commands of the simulated switch print and change."""

from __future__ import annotations

import pytest

from ptyctl.simulator.actions import Reload, Wake
from ptyctl.simulator.pager_styles import IOS
from ptyctl.simulator.terminal import MAX_TYPE_AHEAD
from tests.simulator.console_user import Desk, body


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
        while said.endswith(IOS.prompt):
            said += desk.type(keys[turn % len(keys)])
            turn += 1
        assert turn > 0
        return said, whole

    @pytest.mark.parametrize("command", ["show running-config", "show interfaces status", "show tech-support"])
    @pytest.mark.parametrize("keys", [" ", "\r", " \r\n\r"])
    @pytest.mark.parametrize("length", [1, 10, 24])
    def test_erased_it_is_the_whole_text(self, command: str, keys: str, length: int) -> None:
        said, whole = self.page(command, keys, length)
        assert said.replace(IOS.prompt + IOS.eraser, "") == whole

    def test_a_short_text_has_none(self) -> None:
        assert IOS.prompt not in Desk().enable().type("term len 3\rshow clock\r")

    def test_enter_is_a_line_and_space_a_page(self) -> None:
        desk = Desk().enable()
        desk.type("term len 10\rshow run\r")
        assert desk.type("\r").count("\n") == 1
        assert desk.type(" ").count("\n") == 9

    @pytest.mark.parametrize("key", ["q", "Q", "x", "\x03", "\x1e"])
    def test_anything_else_leaves(self, key: str) -> None:
        desk = Desk().enable()
        desk.type("term len 10\rshow run\r")
        assert desk.type(key) == IOS.eraser + "sw1#"

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
        assert IOS.prompt not in desk.type("show run\r")

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

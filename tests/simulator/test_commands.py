"""Commands of the simulated switch: output and effect."""

from __future__ import annotations

import pytest

from ptyctl.simulator.pager import IOS_PAGER
from ptyctl.simulator.terminal import MAX_TYPE_AHEAD, ReloadDevice, WakeAfter
from tests.simulator.console_user import ConsoleUser, command_output


class TestConfiguration:
    def test_interface_commands_change_running_config(self) -> None:
        user = ConsoleUser().enable()
        user.type("conf t\rint gi1/0/5\rdescription desk of Zoë | 2nd floor\rswitchport access vlan 30\rshutdown\rend\r")
        assert command_output(user.type("show run | section 1/0/5$\r")).splitlines() == [
            "interface GigabitEthernet1/0/5",
            " description desk of Zoë | 2nd floor",
            " switchport access vlan 30",
            " switchport mode access",
            " shutdown",
        ]
        assert "Gi1/0/5   desk of Zoë" in user.type("terminal length 0\rshow interfaces status\r")

    def test_no_commands_restore_running_config(self) -> None:
        user = ConsoleUser().enable()
        before = user.type("term len 0\rshow run\r")
        user.type("conf t\rint gi1/0/5\rdesc x\rsw mode trunk\rsw acc vlan 7\rshut\r")
        user.type("no desc\rsw mode access\rsw acc vlan 10\rno shut\rend\r")
        assert user.type("term len 0\rshow run\r") == before

    def test_ip_address_is_shown_in_interface_brief(self) -> None:
        user = ConsoleUser().enable()
        user.type("conf t\rint vlan 30\rip address 198.51.100.1 255.255.255.0\rend\r")
        rows = command_output(user.type("term len 0\rshow ip interface brief\r")).splitlines()
        assert "Vlan30                 198.51.100.1    YES NVRAM  up                    up      " in rows

    @pytest.mark.parametrize(("interface", "address"), [("gi1/0/1", "10.0.0.1 255.0.0.0"), ("vlan 1", "10.0.0.1 255.0.255.0")])
    def test_invalid_ip_address_is_rejected(self, interface: str, address: str) -> None:
        assert "% Invalid input" in ConsoleUser().enable().type(f"conf t\rint {interface}\rip address {address}\r")

    def test_show_running_config_heading_counts_bytes(self) -> None:
        text = command_output(ConsoleUser().enable().type("term len 0\rshow run\r")).partition("\n")[2]
        heading, configuration = text.split("bytes\n")
        assert int(heading.split()[-1]) == len(configuration.rstrip("\n")) + 1

    @pytest.mark.parametrize("save", ["write\r", "write memory\r", "copy run start\r\r", "copy run start\rstartup-config\r"])
    def test_save_commands_copy_running_to_startup_config(self, save: str) -> None:
        user = ConsoleUser().enable()
        user.type("conf t\rhostname kept\rend\r")
        assert user.device.modified
        assert "Building configuration...\r\n[OK]\r\nkept#" in user.type(save)
        assert not user.device.modified
        assert "hostname kept" in user.type("show startup-config | inc host\r")

    def test_copy_asks_for_destination_and_rejects_others(self) -> None:
        user = ConsoleUser().enable()
        user.type("conf t\rhostname x\rend\r")
        assert user.type("copy running-config startup-config\r").endswith("Destination filename [startup-config]? ")
        assert user.type("\x03") == "^C\r\nx#"
        assert user.device.modified


class TestReload:
    def test_reload_with_changes_asks_to_save_and_confirm(self) -> None:
        user = ConsoleUser().enable()
        assert user.type("reload\r").endswith("Proceed with reload? [confirm]")
        user.type("\r")
        assert user.requested(ReloadDevice)
        assert user.type("show clock\r") == ""

    def test_reload_confirmation_other_key_cancels(self) -> None:
        user = ConsoleUser().enable()
        assert user.type("reload\rn").endswith("[confirm]\r\nsw1#")
        assert not user.requested(ReloadDevice)

    @pytest.mark.parametrize(("answer", "hostname"), [("yes", "new"), ("n", "sw1")])
    def test_reload_discards_unsaved_changes(self, answer: str, hostname: str) -> None:
        user = ConsoleUser().enable()
        user.type("conf t\rhostname new\rend\r")
        assert user.type("reload\r").endswith("Save? [yes/no]: ")
        assert "% Please answer 'yes' or 'no'." in user.type("maybe\r")
        user.type(f"{answer}\ry")
        assert user.requested(ReloadDevice)
        user.device.reload(60.0)
        assert user.device.hostname == hostname


class TestPager:
    def page(self, command: str, keys: str, length: int) -> tuple[str, str]:
        """Return the output paged with repeated `keys`, and the output without pager."""
        user = ConsoleUser().enable()
        whole = user.type(f"term len 0\r{command}\r").replace("term len 0\r\nsw1#", "")
        user.type(f"term len {length}\r")
        said = user.type(f"{command}\r")
        turn = 0
        while said.endswith(IOS_PAGER.prompt):
            said += user.type(keys[turn % len(keys)])
            turn += 1
        assert turn > 0
        return said, whole

    @pytest.mark.parametrize("command", ["show running-config", "show interfaces status", "show tech-support"])
    @pytest.mark.parametrize("keys", [" ", "\r", " \r\n\r"])
    @pytest.mark.parametrize("length", [1, 10, 24])
    def test_paged_output_without_prompts_equals_unpaged_output(self, command: str, keys: str, length: int) -> None:
        said, whole = self.page(command, keys, length)
        assert said.replace(IOS_PAGER.prompt + IOS_PAGER.eraser, "") == whole

    def test_short_output_is_not_paged(self) -> None:
        assert IOS_PAGER.prompt not in ConsoleUser().enable().type("term len 3\rshow clock\r")

    def test_pager_enter_shows_line_and_space_shows_page(self) -> None:
        user = ConsoleUser().enable()
        user.type("term len 10\rshow run\r")
        assert user.type("\r").count("\n") == 1
        assert user.type(" ").count("\n") == 9

    @pytest.mark.parametrize("key", ["q", "Q", "x", "\x03", "\x1e"])
    def test_pager_other_key_quits(self, key: str) -> None:
        user = ConsoleUser().enable()
        user.type("term len 10\rshow run\r")
        assert user.type(key) == IOS_PAGER.eraser + "sw1#"

    def test_pager_ignores_line_feed_of_crlf(self) -> None:
        user = ConsoleUser().enable()
        user.type("term len 10\r\nshow run\r")
        assert user.type("\n") == ""

    def test_terminal_length_overrides_window_size(self) -> None:
        user = ConsoleUser().enable()
        user.console.resize(80, 6)
        assert user.type("show run\r").count("\n") == 1 + 5
        user.type("qterm len 0\r")
        user.console.resize(80, 6)
        assert IOS_PAGER.prompt not in user.type("show run\r")

    def test_window_of_unknown_size_keeps_length(self) -> None:
        user = ConsoleUser().enable()
        user.console.resize(0, 0)
        assert user.type("show run\r").count("\n") == 1 + 23


class TestCommandLine:
    def test_invalid_lines_print_ios_errors(self) -> None:
        user = ConsoleUser().enable()
        assert user.type("show verzion\r") == (
            "show verzion\r\n" + " " * len("sw1#show ver") + "^\r\n% Invalid input detected at '^' marker.\r\n\r\nsw1#"
        )
        assert user.type("sh i\r") == 'sh i\r\n% Ambiguous command:  "sh i"\r\nsw1#'
        assert user.type("show\r") == "show\r\n% Incomplete command.\r\n\r\nsw1#"

    def test_empty_lines_and_comments_show_prompt(self) -> None:
        assert ConsoleUser().enable().type("\r\r  \r!x\r") == "\r\nsw1#\r\nsw1#  \r\nsw1#!x\r\nsw1#"

    def test_ctrl_c_shows_new_prompt(self) -> None:
        user = ConsoleUser().enable()
        assert user.type("reload\x03") == "reload^C\r\nsw1#"
        assert user.type("\r") == "\r\nsw1#"

    def test_editing_keys_change_command_line(self) -> None:
        assert "*00:00" in ConsoleUser().enable().type("xx\x15show nothing\x17clokc\b\x7f\x08ock\x01\x05\x1b[A\r")

    def test_question_mark_shows_help_and_keeps_line(self) -> None:
        user = ConsoleUser().log_in()
        said = user.type("show ?")
        assert said == "show ?\r\n  clock\r\n  interfaces\r\n  ip\r\n  version\r\n\r\nsw1>show "
        assert user.type("clock\r").startswith("clock\r\n*00:00:00.000")
        assert "% Invalid input" in user.type("zzz ?")

    def test_tab_completes_keywords(self) -> None:
        assert ConsoleUser().log_in().type("sh\tcl\t\r").startswith("show clock \r\n*")

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
    def test_output_filters_select_lines(self, modifier: str, lines: list[str]) -> None:
        said = command_output(ConsoleUser().enable().type(f"show run | {modifier}\r"))
        assert said.split("\n") == lines

    def test_invalid_output_filter_prints_error(self) -> None:
        user = ConsoleUser().enable()
        assert " " * len("sw1#show run | include ") + "^\r\n% Invalid" in user.type("show run | include (\r")
        assert " " * len("sw1#show run | ") + "^\r\n% Invalid" in user.type("show run | zzz x\r")
        assert "% Incomplete" in user.type("show run |\r")


class TestPing:
    def test_ping_prints_one_mark_per_interval(self) -> None:
        user = ConsoleUser().log_in()
        assert user.type("ping 192.0.2.1\r").endswith("timeout is 2 seconds:\r\n")
        for _ in range(4):
            assert user.requested(WakeAfter)
            assert user.wake() == "!"
        assert user.wake().startswith("!\r\nSuccess rate is 100 percent (5/5)")
        assert not user.requested(WakeAfter)

    def test_ping_of_unreachable_address_fails(self) -> None:
        user = ConsoleUser().log_in()
        user.type("ping 203.0.113.1 repeat 1\r")
        assert user.wake() == ".\r\nSuccess rate is 0 percent (0/1)\r\nsw1>"

    def test_ping_of_invalid_address_prints_error(self) -> None:
        assert "% Unrecognized host or address" in ConsoleUser().log_in().type("ping nowhere\r")

    @pytest.mark.parametrize("key", ["\x03", "\x1e"])
    def test_interrupt_ends_ping(self, key: str) -> None:
        user = ConsoleUser().log_in()
        user.type("ping 192.0.2.1 repeat 1000\r")
        user.wake()
        assert user.type(key) == "\r\nSuccess rate is 100 percent (1/1), round-trip min/avg/max = 1/2/4 ms\r\nsw1>"
        assert user.wake() == ""

    def test_keys_typed_during_ping_run_afterwards(self) -> None:
        user = ConsoleUser().log_in()
        assert "clock" not in user.type("ping 192.0.2.1 repeat 1\rshow clock\r")
        assert user.wake().count("sw1>") == 2

    def test_type_ahead_over_limit_rings_bell(self) -> None:
        user = ConsoleUser().log_in()
        user.type("ping 192.0.2.1\r")
        assert user.type("\r" * (MAX_TYPE_AHEAD + 2)) == "\a\a"
        assert user.type("\x03").count("sw1>") == 1 + MAX_TYPE_AHEAD


class TestShows:
    def test_show_clock_starts_in_1993(self) -> None:
        assert "\r\n*01:02:03.500 UTC Mon Mar 1 1993\r\n" in ConsoleUser().log_in().type("show clock\r", 3723.5)

    def test_show_version_reports_uptime(self) -> None:
        said = ConsoleUser().log_in().type("term len 0\rshow version\r", 86400.0 + 3600 + 120)
        assert "sw1 uptime is 1 day, 1 hour, 2 minutes\r\n" in said

    def test_show_interfaces_status_columns_are_aligned(self) -> None:
        rows = command_output(ConsoleUser().enable().type("term len 0\rshow interfaces status\r")).splitlines()
        heading = next(row for row in rows if row.startswith("Port"))
        ports = [row for row in rows if row.startswith("Gi")]
        assert len(ports) == 48
        columns = [heading.index(name) for name in ("Name", "Status", "Vlan", "Type")]
        for row in ports:
            assert all(row[column - 1] == " " and row[column] != " " for column in columns[1:]), row
            assert row[columns[1] :].split()[0] in ("connected", "notconnect", "disabled")

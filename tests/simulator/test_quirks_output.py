"""Quirks of output, questions and line settings."""

from __future__ import annotations

import pytest

from ptyctl.simulator import Quirks
from ptyctl.simulator.pager import PAGER_STYLES, PagedText
from tests.simulator.console_user import LOGIN, ConsoleUser
from tests.simulator.telnet_client import DO, DONT, ECHO, IAC, SGA, WILL, connected, create_switch

PLAIN = LOGIN + "term len 0\r"


class TestLookAlikes:
    def test_look_alikes_contain_exact_prompt(self) -> None:
        lines = ConsoleUser(Quirks(look_alikes=True), keys=PLAIN).type("show version\r").split("\r\n")
        assert {"sw1#", "sw1>", "[V200R019C00SPC500]", " --More-- ", "Password: ", "Overwrite? [y/n]: "} <= set(lines)
        assert lines[-1] == "sw1#"

    def test_look_alikes_keep_original_lines(self) -> None:
        user = ConsoleUser(Quirks(look_alikes=True), keys=PLAIN)
        plain = ConsoleUser(Quirks(), keys=PLAIN).type("show ip interface brief\r")
        assert [line for line in user.type("show ip interface brief\r").split("\r\n") if line in plain.split("\r\n")][:-2]

    def test_look_alikes_keep_empty_output(self) -> None:
        assert ConsoleUser(Quirks(look_alikes=True), LOGIN).type("term len 0\r") == "term len 0\r\nsw1#"


def test_time_before_output_is_first_line() -> None:
    user = ConsoleUser(Quirks(time_before_output=True), keys=PLAIN)
    assert user.type("show clock\r").startswith("show clock\r\n00:00:00.000 UTC Mon Mar 1 1993\r\n*00:00:00.000")


class TestConfirmsSave:
    @pytest.mark.parametrize("command", ["write", "copy running-config startup-config\r"])
    def test_confirms_save_yes_saves(self, command: str) -> None:
        user = ConsoleUser(Quirks(confirms_save=True), keys=LOGIN + "conf t\rvlan 7\rend\r")
        assert user.type(f"{command}\r").endswith("Continue? [y/n]: ")
        assert user.console.device.modified
        assert user.type("y\r").endswith("[OK]\r\nsw1#")
        assert not user.console.device.modified

    @pytest.mark.parametrize("no", ["n\r", "\x03"])
    def test_confirms_save_no_does_not_save(self, no: str) -> None:
        user = ConsoleUser(Quirks(confirms_save=True), keys=LOGIN + "conf t\rvlan 7\rend\rwrite\r")
        assert user.type(no).endswith("\r\nsw1#")
        assert user.console.device.modified

    def test_confirms_save_other_answer_repeats_question(self) -> None:
        user = ConsoleUser(Quirks(confirms_save=True), keys=LOGIN + "write\r")
        assert user.type("show clock\r").endswith("Continue? [y/n]: ")


class TestAsksToCommit:
    CHANGED = LOGIN + "conf t\rvlan 7\r"

    @pytest.mark.parametrize(
        ("leave", "ends"), [("end\r", "end\r\n"), ("\x1a", "^Z\r\n"), ("exit\rexit\r", "(config)#exit\r\n")]
    )
    def test_asks_to_commit_on_each_way_out(self, leave: str, ends: str) -> None:
        said = ConsoleUser(Quirks(asks_to_commit=True), keys=self.CHANGED).type(leave)
        assert said.endswith(f"{ends}Uncommitted changes found, commit them before exiting(yes/no/cancel)? [cancel]: ")

    @pytest.mark.parametrize(
        ("answer", "prompt", "vlan"), [("yes", "sw1#", True), ("no", "sw1#", False), ("", "sw1(config-vlan)#", True)]
    )
    def test_asks_to_commit_answer_decides(self, answer: str, prompt: str, vlan: bool) -> None:
        user = ConsoleUser(Quirks(asks_to_commit=True), keys=self.CHANGED + "end\r")
        assert user.type(f"{answer}\r").endswith(prompt)
        assert (7 in user.console.device.running.vlans) is vlan
        assert user.console.device.modified is (answer == "")

    def test_asks_to_commit_without_changes_asks_nothing(self) -> None:
        assert ConsoleUser(Quirks(asks_to_commit=True), keys=LOGIN + "conf t\r").type("end\r").endswith("sw1#")


def test_tells_paging_confirms_terminal_length() -> None:
    user = ConsoleUser(Quirks(tells_paging=True), LOGIN)
    assert user.type("term len 0\r").endswith("\r\nPagination disabled.\r\nsw1#")
    assert user.type("term len 30\r").endswith("\r\nPagination set to 30 lines.\r\nsw1#")


class TestPager:
    @pytest.mark.parametrize("family", PAGER_STYLES)
    def test_pager_of_family_shows_pages_and_quits(self, family: str) -> None:
        style = PAGER_STYLES[family]
        user = ConsoleUser(Quirks(pager=family), keys=LOGIN + "term len 9\r")
        assert user.type("show run\r").startswith("show run\r\nBuilding configuration...\r\n")
        said = user.type(" ")
        assert said.startswith(style.erase(9) + "hostname sw1\r\n")
        assert said.count("\n") == 8
        assert user.type("\r").startswith(style.erase(9))
        quit_key = "q" if style.quit_keys is None or "q" in style.quit_keys else "\x03"
        assert user.type(quit_key) == style.erase(9) + "sw1#"

    @pytest.mark.parametrize("family", [name for name, style in PAGER_STYLES.items() if style.quit_keys is not None])
    def test_pager_of_family_ignores_unknown_key(self, family: str) -> None:
        assert ConsoleUser(Quirks(pager=family), keys=LOGIN + "term len 9\rshow run\r").type("x") == ""

    def test_pager_styles_match_documented_families(self) -> None:
        assert PAGER_STYLES["frr"].prompt == " --More-- \0"
        assert PAGER_STYLES["frr"].eraser == "\b" * 10 + " " * 10 + "\b" * 10
        assert PAGER_STYLES["huawei_vrp"].eraser == "\x1b[42D" + " " * 42 + "\x1b[42D"
        assert PAGER_STYLES["hp_procurve"].erase(40).startswith("\x1b[40;1H")

    def test_pager_prompt_shows_percentage(self) -> None:
        user = ConsoleUser(Quirks(pager="juniper_junos"), keys=LOGIN + "term len 9\r")
        first, second = user.type("show run\r"), user.type(" ")
        assert first.endswith("---(more 4%)---")
        assert second.endswith("---(more 7%)---")
        assert PagedText("").percent == 100


class TestPagesOnceSized:
    def test_pages_once_sized_pages_after_resize_only(self) -> None:
        user = ConsoleUser(Quirks(pages_once_sized=True), LOGIN)
        assert user.type("show run\r").endswith("end\r\n\r\nsw1#")
        user.console.resize(80, 10)
        assert user.type("show run\r").endswith(" --More-- ")


def test_counts_each_line_end_takes_crlf_as_two_enters() -> None:
    user = ConsoleUser(Quirks(counts_each_line_end=True), LOGIN)
    assert user.type("\r\n") == "\r\nsw1#\r\nsw1#"
    assert user.type("\r\0") == "\r\nsw1#"


class TestOutputGaps:
    async def test_output_gaps_keep_output_complete(self) -> None:
        async with create_switch(quirks=Quirks(output_gaps=0.05)) as switch, connected(switch) as client:
            await client.log_in()
            await client.run(b"terminal length 0\r", b"sw1#")
            assert (await client.run(b"show version\r", b"sw1#")).count(b"\r\n") > 20

    def test_output_gaps_pause_in_middle_of_long_output(self) -> None:
        console = ConsoleUser(Quirks(output_gaps=2.5)).console
        text = b"".join(b"line %d\r\n" % number for number in range(10))
        assert console.pace(b"sw1#") == [(b"sw1#", 0.0)]
        assert console.pace(text) == [(text[:48], 2.5), (text[48:], 0.0)]

    def test_output_gaps_combine_with_slow_output(self) -> None:
        console = ConsoleUser(Quirks(output_gaps=2.5, slow_output=1000.0)).console
        text = b"line\r\n" * 10
        pieces = console.pace(text)
        assert b"".join(data for data, _ in pieces) == text
        assert max(seconds for _, seconds in pieces) > 2.5
        assert sum(seconds for _, seconds in pieces) == pytest.approx(2.5 + len(text) / 1000)


class TestInsistsOnOptions:
    async def test_insists_on_options_repeats_offer_after_refusal(self) -> None:
        async with create_switch(quirks=Quirks(insists_on_options=True)) as switch, connected(switch) as client:
            await client.until(b"Username: ")
            for option in (ECHO, SGA, ECHO):
                offered = bytes([IAC, WILL, option])
                assert await client.run(bytes([IAC, DONT, option]), offered) == offered
            assert await client.run(bytes([IAC, DO, ECHO]) + b"a", b"a") == b"a"

    async def test_refused_option_without_quirk_is_not_offered_again(self) -> None:
        async with create_switch() as switch, connected(switch) as client:
            await client.until(b"Username: ")
            assert await client.run(bytes([IAC, DONT, ECHO]) + b"a", b"a") == b"a"

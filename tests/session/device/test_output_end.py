"""Log lines, and prompts that log lines follow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.platforms import Platforms
from ptyctl.session.device.output_end import EndKind, classify, classify_line, find_buried_prompt

PLATFORMS = Platforms()

#: The prompt and a log line of each family that prints them.
LOGS = {
    "cisco_ios": ("sw1#", "*Nov 20 17:00:00.123: %SYS-5-CONFIG_I: Configured from console by console"),
    "cisco_nxos": ("n9k# ", "2026 Nov 20 17:00:00 n9k %ETHPORT-5-IF_UP: Interface Ethernet1/1 is up"),
    "cisco_xr": ("RP/0/RP0/CPU0:ios#", "RP/0/RP0/CPU0:Nov 20 17:00:00.123 UTC: config[65739]: %MGBL-SYS-5-CONFIG_I : x"),
    "arista_eos": ("leaf1#", "Nov 20 17:00:00 leaf1 Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface Ethernet1 is up"),
    "juniper_junos": ("admin@mx1> ", "Nov 20 17:00:00  mx1 mgd[1234]: UI_COMMIT: User 'admin' requested 'commit'"),
    "huawei_vrp": ("<HUAWEI>", "Nov 20 2026 17:00:00 HUAWEI %%01SHELL/5/CMDRECORD(s)[12]:Recorded command information."),
    "hp_comware": ("<H3C>", "%Nov 20 17:00:00:123 2026 H3C SHELL/5/SHELL_LOGIN: TTY logged in from aux0."),
    "hp_procurve": ("HP-2530-24G# ", "I 11/20/26 17:00:00 00076 ports: port 1 is now on-line"),
    "mikrotik_routeros": ("[admin@MikroTik] > ", "17:00:00 echo: system,info,account user admin logged in via local"),
    "nokia_sros": ("A:PE1# ", "12 2026/11/20 17:00:00.12 UTC MINOR: SYSTEM #2004 Base port 1/1/1"),
    "aruba_aoscx": ("6300# ", "2026-11-20T17:00:00.123456+00:00 6300 ops-portd[1]: Event|403|LOG_INFO|||Link up"),
    "vyos": ("vyos@vyos:~$ ", "Nov 20 17:00:00 vyos sshd[123]: Accepted password for vyos"),
    "frr": ("R1# ", "2026/11/20 17:00:00 ZEBRA: [VTVCM-Y2NW3] Configuration Read in Took: 00:00:00"),
    "generic": ("box# ", "<189>12: Nov 20 17:00:00: %LINK-3-UPDOWN: Interface up"),
}
#: Lines of output that are not log lines.
OUTPUT = ["", "Interface Status", "% Invalid input detected at '^' marker.", "sw1#", "Nov", "5 minute input rate", "MINOR: x"]


@pytest.mark.parametrize("family", LOGS)
def test_is_log_line_recognises_log_but_not_output(family: str) -> None:
    prompt, log = LOGS[family]
    profile = PLATFORMS.get(family).profile
    assert profile.is_log_line(log)
    assert [line for line in [*OUTPUT, prompt] if profile.is_log_line(line)] == []


@pytest.mark.parametrize("family", LOGS)
@pytest.mark.parametrize("glued", [False, True], ids=["below", "behind"])
def test_buried_prompt_before_log_lines_is_found(family: str, glued: bool) -> None:
    prompt, log = LOGS[family]
    shown = ["some output", prompt + log, log, ""] if glued else ["some output", prompt, log, "", log]
    buried = find_buried_prompt(shown, PLATFORMS.get(family).profile)
    assert buried is not None
    assert buried.prompt.prompt == prompt
    assert buried.line == 1


@pytest.mark.parametrize("family", LOGS)
def test_prompt_at_end_or_before_output_is_not_buried(family: str) -> None:
    prompt, log = LOGS[family]
    profile = PLATFORMS.get(family).profile
    assert find_buried_prompt([log, prompt], profile) is None
    assert find_buried_prompt([prompt, log, "some output", log], profile) is None
    assert find_buried_prompt([prompt + "show version", log], profile) is None
    assert find_buried_prompt([log, log], profile) is None
    assert find_buried_prompt([], profile) is None


@given(st.sampled_from(sorted(LOGS)), st.lists(st.booleans(), min_size=1, max_size=12))
def test_buried_prompt_before_any_number_of_log_lines_is_found(family: str, flood: list[bool]) -> None:
    prompt, log = LOGS[family]
    behind = [log if is_log else "" for is_log in flood]
    buried = find_buried_prompt([log, "output", prompt, *behind], PLATFORMS.get(family).profile)
    assert (buried is not None) == any(flood)
    assert buried is None or (buried.prompt.prompt == prompt and buried.line == 2)


def test_vtysh_lost_messages_report_is_a_log_line() -> None:
    assert PLATFORMS.get("frr").profile.is_log_line("131 log messages from zebra lost (vtysh reading too slowly)")


@pytest.mark.parametrize(
    ("family", "lines", "kind"),
    [
        ("cisco_ios", ["output", "sw1#"], "prompt"),
        ("cisco_ios", ["output", " --More-- "], "pager"),
        ("cisco_ios", ["sw1#enable", "Password: "], "password"),
        ("cisco_ios", ["Destination filename [startup-config]? "], "confirmation"),
        ("cisco_ios", ["Username: "], "question"),
        ("cisco_ios", ["sw1#", "*Nov 20 17:00:00.123: %SYS-5-CONFIG_I: Configured", ""], "buried_prompt"),
        ("cisco_ios", ["plain output"], "unknown"),
        ("cisco_ios", ["output", ""], "unknown"),
        ("cisco_ios", [], "unknown"),
        ("juniper_junos", ["[edit]", "admin@mx1# "], "prompt"),
        ("juniper_junos", ["output", "admin@mx1# "], "unknown"),  # in configuration mode [edit] is required above
        ("generic", ["<--- More --->"], "pager"),  # the default prompt would match as well
        ("generic", ["Proceed with reload? [confirm]"], "confirmation"),  # as above
    ],
)
def test_classify_returns_kind(family: str, lines: list[str], kind: EndKind) -> None:
    assert classify(lines, PLATFORMS.get(family).profile).kind == kind


def test_classify_prefers_question_of_the_dialog() -> None:
    platform = PLATFORMS.get("cisco_ios")
    (enable,) = platform.modes["user"].to["privileged"].dialog
    assert classify(["Password: "], platform.profile, [enable.match]).kind == "dialog"


@pytest.mark.parametrize(
    ("line", "learned", "kind"),
    [
        ("menu: ", "menu: ", "prompt"),
        ("menu: ", None, "unknown"),
        ("box# ", None, "prompt"),
        ("<--- More --->", None, "pager"),
        ("[Q quit|D dump|right|down]", None, "pager"),
        ("Proceed? [confirm]", None, "unknown"),
        ("", "", "unknown"),
    ],
)
def test_classify_line_by_learned_or_any_prompt(line: str, learned: str | None, kind: EndKind) -> None:
    assert classify_line(line, PLATFORMS.get("generic").profile, learned).kind == kind

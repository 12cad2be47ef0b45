"""Pager, error and common question patterns of each family, on examples and counterexamples."""

from __future__ import annotations

import pytest

from ptyctl.platforms.pattern import any_matches
from tests.platforms.families import PLATFORMS, profile_of

PAGERS = {
    "cisco_ios": [" --More-- ", "--More--"],
    "cisco_nxos": ["--More--", "--More--(22%)"],
    "cisco_xr": [" --More-- ", "(END)"],
    "arista_eos": [" --More-- "],
    "juniper_junos": ["---(more)---", "---(more 40%)---"],
    "huawei_vrp": ["  ---- More ----", "---- More ( Press 'Q' to break ) ----"],
    "hp_comware": ["---- More ----"],
    "hp_procurve": ["-- MORE --, next page: Space, next line: Enter, quit: Control-C"],
    "mikrotik_routeros": ["-- [Q quit|D dump|down]", "[Q quit|D dump|right|down]"],
    "nokia_sros": [
        "Press any key to continue (Q to quit)",
        "Press Q to quit, Enter to print next line or any other key to print next page.",
    ],
    "aruba_aoscx": ["-- MORE --, next page: Space, next line: Enter, quit: q"],
    "fortinet_fortios": ["--More-- "],
    "vyos": [":", "(END)"],
    "frr": [" --More-- ", "the first part of a lo --More-- "],
}
NO_PAGERS = ["", "more", "no more", "a --More-- b", "---- more or less ----x", "the end (END) is here"]

ERRORS = {
    "linux": ["bash: foo: command not found", "-sh: 1: foo: not found", "cat: /etc/shadow: Permission denied"],
    "cisco_ios": ["% Invalid input detected at '^' marker.", '% Ambiguous command:  "sh"', "% Incomplete command.",
                  "% Unknown command or computer name", "Command authorization failed.",
                  "% 10.1.1.0 overlaps with GigabitEthernet0/1", "% Class-map x is being used",
                  'Command rejected: An interface whose trunk encapsulation is "Auto" can not be configured to "trunk" mode.',
                  "BGP is already running; AS is 65000", "Bad mask /24 for address 10.0.0.0",
                  "%ERROR: Standby doesn't support this command"],
    "cisco_nxos": ["% Invalid command at '^' marker.", "% Invalid parameter detected at '^' marker.",
                   "% Invalid number at '^' marker.", "% Invalid range at '^' marker.", "Cmd exec error."],
    "cisco_xr": ["% Invalid input detected at '^' marker.", "% Failed to commit one or more configuration items during x"],
    "arista_eos": ["% Invalid input", "% Incomplete command", "% Unavailable command (not supported)",
                   "% Cannot commit session", "% Address 10.0.0.1 is already assigned to interface Ethernet1"],
    "juniper_junos": ["syntax error.", "unknown command.", "             ^\n'sho' is ambiguous.",
                      "syntax error, expecting <command>."],
    "huawei_vrp": ["Error: Unrecognized command found at '^' position.", "Error:Too many parameters found at '^' position."],
    "hp_comware": ["% Unrecognized command found at '^' position.", " % Incomplete command found at '^' position.",
                   "Permission denied."],
    "hp_procurve": ["Invalid input: foo", "Incomplete input: show", "VLAN 5000: invalid"],
    "mikrotik_routeros": ["bad command name foo (line 1 column 1)", "expected end of command (line 1 column 8)",
                          "failure: already have x"],
    "nokia_sros": ["MINOR: MGMT_CORE #2201: Unknown element", "MAJOR: x", "Error: Bad command.", "Bad Command: foo"],
    "aruba_aoscx": ["Invalid input: foo", "% Command incomplete.", "VLAN 7 does not exist"],
    "fortinet_fortios": ["Unknown action 0", "Command fail. Return code -61", "command parse error before 'foo'",
                         "Attribute 'name' MUST be set.", "incomplete command in the end"],
    "vyos": ["Invalid command: [foo]", "Set failed", "Commit failed", "Configuration path: [foo] is not valid",
             "  Nothing to delete (the specified value does not exist)"],
    "frr": ["% [ZEBRA] Unknown command: x", "% Unknown command: x", "% Ambiguous command.", "% Command incomplete."],
}  # fmt: skip
NO_ERRORS = ["", "no errors", "5 minute input rate 0 bits/sec, 0% errors", "0 input errors, 0 CRC", "Errors: 0", "R1# sh err"]


#: Output of one family.
NO_ERRORS_THERE = {"huawei_vrp": ["Error: 0"], "aruba_aoscx": ["Error-control: off"]}
#: Questions and login prompts of several families: a console may show those of another system first.
CONFIRMATIONS = [
    "Continue? [yes/no]: ",
    "Proceed? [y/n]",
    "Are you sure? (y/n) ",
    "Reload? [confirm]",
    "Reboot, yes? [y/N]: ",
    "Do you wish to proceed with this commit anyway? [no]: ",
    "Are you sure you want to continue? [yes]: ",
    "Do you want to continue?[y/n]? [yes]: ",
    "Do you want to save current configuration [y/n/^C]? ",
    "Discard changes and continue? [yes,no] (no) ",
]
WAKING = [
    "Press RETURN to get started!",
    "Press any key to continue",
    "Press ENTER to get started.",
    'Please press "Enter" to continue!',
    "Press <Enter> to continue",
    "Hit Enter to proceed:",
]
USERNAMES = ["login: ", "Username: ", "User Name:", "sw1 login: ", "Login Name: ", "login as: ", "Username (default: admin): "]
PASSWORDS = [
    "Password: ",
    "password:",
    "Password for admin: ",
    "admin@sw1's password: ",
    "Password (admin): ",
    "Enter PASSCODE: ",
]
NEW_PASSWORDS = ["Enter new password:", "new password>", "Confirm Password:", "Enter enable secret: ", "Enter secret again: "]


@pytest.mark.parametrize("family", PAGERS)
def test_pager_pattern_matches_pager(family: str) -> None:
    patterns = [pager.pattern for pager in PLATFORMS.get(family).pagers]
    assert [line for line in PAGERS[family] if not any_matches(patterns, line)] == []


@pytest.mark.parametrize("family", PLATFORMS.names())
def test_pager_pattern_rejects_other_text(family: str) -> None:
    taken = [line for line in NO_PAGERS if any(pager.pattern.matches(line) for pager in PLATFORMS.get(family).pagers)]
    assert taken == []


@pytest.mark.parametrize("family", ERRORS)
def test_error_pattern_matches_error(family: str) -> None:
    patterns = PLATFORMS.get(family).error_patterns(None)
    assert [text for text in ERRORS[family] if not any(any_matches(patterns, line) for line in text.split("\n"))] == []


@pytest.mark.parametrize("family", PLATFORMS.names())
def test_error_pattern_rejects_other_text(family: str) -> None:
    patterns = PLATFORMS.get(family).error_patterns(None)
    lines = [*NO_ERRORS, *NO_ERRORS_THERE.get(family, ())]
    assert [line for line in lines if any(pattern.matches(line) for pattern in patterns)] == []


@pytest.mark.parametrize("family", [family for family in ERRORS if family != "linux"])
def test_error_is_not_a_prompt(family: str) -> None:
    assert [text for text in ERRORS[family] if profile_of(family).shown_prompt(text.split("\n")) is not None] == []


def test_config_errors_apply_only_to_config_modes() -> None:
    eos = PLATFORMS.get("arista_eos")
    line = "% Cannot commit session"
    assert not any(pattern.matches(line) for pattern in eos.error_patterns("privileged"))
    assert any(pattern.matches(line) for pattern in eos.error_patterns("config"))


@pytest.mark.parametrize("family", PLATFORMS.names())
def test_common_questions_are_known_to_every_family(family: str) -> None:
    platform = PLATFORMS.get(family)
    login, asked = platform.login, (answer.match for answer in platform.login.questions)
    tables = [
        (platform.confirmations, CONFIRMATIONS),
        (login.wake, WAKING),
        (login.username, USERNAMES),
        (login.password, PASSWORDS),
        ((*login.new_password, *asked), NEW_PASSWORDS),
    ]
    assert [text for patterns, texts in tables for text in texts if not any_matches(patterns, text)] == []
    assert [text for text in USERNAMES if any_matches(login.password, text)] == []
    assert [text for text in PASSWORDS if any_matches(login.new_password, text)] == []

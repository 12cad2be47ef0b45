"""Each family's prompts show their mode, pagers and errors are known, and what looks like them is none."""

from __future__ import annotations

import pytest

from ptyctl.core.search import compile_pattern
from ptyctl.platforms import ModeGraph, Platforms
from ptyctl.platforms.pattern import any_matches

PLATFORMS = Platforms()

#: By family and mode; a prompt of two lines has a newline in it.
PROMPTS = {
    "generic": {"cli": ["Switch>", "box# ", "[~HUAWEI]", "user@host:~$ ", "$ "]},
    "linux": {
        "user": ["$ ", "user@host:~$ ", "[user@host dir]$ ", "bash-5.2$ ", "(venv) user@host:/srv$ ", "host% ", "host:~$ "],
        "root": ["# ", "root@host:~# ", "[root@host ~]# ", "root@host:/etc/frr# ", "bash-5.2# ", "host:~ # ", "/ # "],
    },
    "cisco_ios": {
        "user": ["Switch>", "sw-1.example.net> ", "R1(boot)>", "R1-stby>", "(unlicensed)R1>"],
        "privileged": ["Switch#", "sw-1#", "R1(standby)#", "core/1:a#", "17:00:01.123 sw-1#",
                       "(unlicensed)R1#", "R1(maint-mode)#"],
        "config": ["Switch(config)#", "sw-1(config-if)#", "R1(ca-trustpoint)#", "R1(vlan)#", "R1(config-router-af)#"],
        "tcl": ["sw-1(tcl)#", "+>"],
        "rommon": ["rommon 1>", "rommon 12 > ", "rommon>", "switch: "],
        "shell": ["[R1_RP_0:/]$", "[R1:/flash]$ ", "[guestshell@guestshell ~]$ "],
    },
    "cisco_nxos": {
        "user": ["n9k> "],
        "privileged": ["n9k# ", "n9k(maint-mode)# "],
        "config": ["n9k(config)# ", "n9k(config-if-range)# ", "n9k(maint-mode)(config)# "],
        "tcl": ["n9k-tcl# ", "n9k(config-tcl)# ", "> "],
        "loader": ["loader> ", "switch(boot)# "],
        "bash": ["bash-4.2$ ", "bash-4.2# ", "root@n9k#", "[admin@guestshell ~]$ "],
    },
    "cisco_xr": {
        "exec": ["RP/0/RP0/CPU0:ios#", "RP/0/RSP1/CPU0:core-1# ", "RP/B0/CB0/CPU0:core-2#"],
        "config": ["RP/0/RP0/CPU0:ios(config)#", "RP/0/RP0/CPU0:ios(config-bgp-nbr-af)#"],
        "admin": ["RP/0/RSP0/CPU0:ios(admin)#", "sysadmin-vm:0_RP0# "],
        "admin_config": ["RP/0/RSP0/CPU0:ios(admin-config)#", "sysadmin-vm:0_RP0(config)# "],
        "shell": ["[xr-vm_node0_RP0_CPU0:~]$", "[ios:~]$"],
    },
    "arista_eos": {
        "user": ["leaf1>", "localhost>"],
        "privileged": ["leaf1#", "leaf1.17:00:01#", "leaf1(s1)#"],
        "config": ["leaf1(config)#", "leaf1(config-if-Et1/1)#", "leaf1.17:00:01(config-s-new)#"],
        "bash": ["[admin@leaf1 ~]$ ", "bash-4.3# ", "-bash-4.2# "],
        "aboot": ["Aboot# "],
    },
    "juniper_junos": {
        "exec": ["admin@mx1> ", "{master:0}\nadmin@ex1> ", "{primary:node0}\nadmin@srx1> ", "root> "],
        "config": ["[edit]\nadmin@mx1# ", "{master}[edit]\nadmin@mx1# ", "[edit interfaces ge-0/0/0 unit 0]\nadmin@mx1# "],
        "shell": ["% ", "$ ", "root@mx1:~ # ", "root@mx1% ", "admin@mx1:~$ ",
                  "root@% ", "root@:RE:0% ", "root@ex1:RE:0% ", "[vrf:none] root@re0:~# "],
    },
    "huawei_vrp": {
        "user_view": ["<HUAWEI>", "<core-1.site>", "HRP_M<FW1>", "HRP_A<FW1>"],
        "system_view": ["[HUAWEI]", "[~HUAWEI]", "[*HUAWEI-GigabitEthernet0/0/1]", "HRP_S[FW1]", "[HUAWEI-bgp-af-ipv4]"],
    },
    "hp_comware": {
        "user_view": ["<H3C>", "<sw-1>", "RBM_P<FW1>"],
        "system_view": ["[H3C]", "[sw-1-GigabitEthernet1/0/1]", "RBM_P[FW1]"],
    },
    "hp_procurve": {
        "operator": ["HP-2530-24G> ", "ProCurve Switch 2910al-48G> "],
        "manager": ["HP-2530-24G# ", "ProCurve Switch 2910al-48G# "],
        "config": ["HP-2530-24G(config)# ", "HP-2530-24G(vlan-10)# ", "HP-2530-24G(eth-1-4)# ", "HP Switch(trunk-trk1)# "],
    },
    "mikrotik_routeros": {
        "cli": ["[admin@MikroTik] > ", "[admin@MikroTik] /ip/address> ", "[admin@Main office] /ip address> ", "[u@id] >"],
        "safe": ["[admin@MikroTik] <SAFE> ", "[admin@MikroTik] /ip route<SAFE>> "],
    },
    "nokia_sros": {
        "md": ["[/]\nA:admin@pe1# ", "*[/]\nB:admin@pe1#", "[/show router]\nA:admin@pe1# "],
        "md_config": ["(ex)[/]\nA:admin@pe1# ", "*(pr)[/configure router]\nA:admin@pe1# ", "!*(ro)[/]\nA:admin@pe1# ",
                      "*[ex:/configure]\nA:admin@pe1# ", "(ex:bof)[/bof]\nA:admin@pe1# "],
        "classic": ["A:PE1# ", "*A:PE1# ", "*A:PE1>show>router# ", "A:PE1>file cf3:\\ # "],
        "classic_config": ["*A:PE1>config# ", "*A:PE1>config>router>if$ ", '*A:PE1>config>service>vprn>if"x"# '],
    },
    "aruba_aoscx": {
        "operator": ["6300>"],
        "manager": ["6300# ", "core-1#"],
        "config": ["6300(config)# ", "6300(config-if-vlan)# "],
        "shell": ["6300:~$ ", "admin@6300:/home$ "],
    },
    "fortinet_fortios": {
        "exec": ["FGT60F # ", "FGT60F $ "],
        "config": ["FGT60F (interface) # ", "FGT60F (port1) # ", "FGT60F (root) # "],
        "global": ["FGT60F (global) # "],
    },
    "vyos": {
        "operational": ["vyos@vyos:~$ ", "vyos@r1:/config$ ", "vyos@r1> "],
        "root": ["root@vyos:~# ", "root@r1:/home/vyos# "],
        "config": ["[edit]\nvyos@vyos# ", "vyos@vyos# ", "[edit interfaces ethernet eth0]\nvyos@r1# ",
                   "[edit]\nroot@r1# "],
    },
    "frr": {
        "user": ["R1> ", "router.example> "],
        "privileged": ["R1# ", "bgpd# "],
        "config": ["R1(config)# ", "R1(config-if)# ", "R1(config-router-af)# "],
    },
}  # fmt: skip

#: Lines that no family takes for its prompt.
NEVER = [
    "",
    "   ",
    "Last login: Thu Nov 20 17:00:00 2026 from 10.0.0.1",
    "login: ",
    "Username: ",
    "Password: ",
    "Copying 100% ",
    " --More-- ",
    "Press RETURN to get started.",
    "Destination filename [startup-config]? ",
    "Overwrite the previous NVRAM configuration?[confirm]",
    "!",
]

#: Of a family's own output and banners.
LOOK_ALIKES = {
    "linux": ["##########", "# a comment", "Copying 100% ", "Do you want to pay $", "100%"],
    "cisco_ios": ["####################", "# Authorised use only #", "<html>", "interface Vlan1", "[OK]", "  -> here>"],
    "cisco_nxos": ["########", "n9k(", "## end of banner ##"],
    "cisco_xr": ["ios#", "Thu Nov 20 17:00:00.123 UTC", "RP/0/RP0/CPU0:Nov 20 17:00:00.1 : x#", "######"],
    "arista_eos": ["######", "# banner #", "! device: leaf1 (DCS-7050, EOS-4.30)"],
    "juniper_junos": ["admin@mx1# ", "{master:0}", "[edit]", "50%", "######", "## Last commit: 2026-11-20 by a"],
    "huawei_vrp": ["[V200R009C00SPC500]", "[V800R011C00]", "#", "<a href='x'>", "[Y/N]: ", "return"],
    "hp_comware": ["[V200R009]", "#", "<p>a</p>", "version 7.1.070, Release 6126P20", "[Y/N]:"],
    "hp_procurve": ["######", "# notice #", "; J9776A Configuration Editor"],
    "mikrotik_routeros": ["[Safe Mode taken]", "[admin@MikroTik]", "[Q quit|D dump|down]", "> "],
    "nokia_sros": ["A:admin@pe1# ", "[/]", "# TiMOS-B-20.10", "A:note: 5 routes"],
    "aruba_aoscx": ["######", "# banner", "Current configuration:"],
    "fortinet_fortios": ["FGT60F#", "######", "set comment 'a # b'", "    next"],
    "vyos": ["######", "vyos login: ", "[edit]", "Welcome to VyOS!"],
    "frr": ["#######", "Hello, this is FRRouting (version 8.4.4).", "R1", "! end"],
}

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


#: Of a family's own output.
NO_ERRORS_THERE = {"huawei_vrp": ["Error: 0"], "aruba_aoscx": ["Error-control: off"]}
#: Questions, and what a login asks: each is of one family at least, and a console may show any other first.
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


def rows(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(family, line) for family, lines in table.items() for line in lines]


def graph_of(family: str) -> ModeGraph:
    return ModeGraph(PLATFORMS.get(family))


def test_every_family_and_every_mode_has_an_example() -> None:
    assert {family: set(modes) for family, modes in PROMPTS.items()} == {
        name: set(platform.modes) for name, platform in PLATFORMS.all().items()
    }


@pytest.mark.parametrize(
    ("family", "mode", "prompt"),
    [(family, mode, prompt) for family, modes in PROMPTS.items() for mode, prompts in modes.items() for prompt in prompts],
)
def test_a_prompt_shows_its_mode(family: str, mode: str, prompt: str) -> None:
    lines = prompt.split("\n")
    shown = graph_of(family).shown(["some output", *lines])
    assert shown is not None
    assert (shown.mode, shown.prompt, shown.lines) == (mode, lines[-1], len(lines))


@pytest.mark.parametrize(
    ("family", "prompt"),
    [(family, prompt) for family, modes in PROMPTS.items() for prompts in modes.values() for prompt in prompts],
)
def test_an_open_request_gets_patterns_that_match_the_prompt(family: str, prompt: str) -> None:
    expect = PLATFORMS.get(family).expect()
    assert compile_pattern(expect.prompt_regex or "", "expect.prompt_regex").search(prompt.split("\n")[-1].encode())


@pytest.mark.parametrize("line", NEVER)
@pytest.mark.parametrize("family", [name for name in PLATFORMS.names() if name != "generic"])
def test_no_family_takes_it_for_a_prompt(family: str, line: str) -> None:
    assert graph_of(family).shown(["", line]) is None


@pytest.mark.parametrize(("family", "line"), rows(LOOK_ALIKES))
def test_a_look_alike_is_no_prompt(family: str, line: str) -> None:
    assert graph_of(family).shown(["some output", line]) is None


@pytest.mark.parametrize(("family", "line"), rows(PAGERS))
def test_a_pager_is_known(family: str, line: str) -> None:
    assert any(pager.pattern.matches(line) for pager in PLATFORMS.get(family).pagers)


@pytest.mark.parametrize("family", PLATFORMS.names())
def test_other_text_is_no_pager(family: str) -> None:
    taken = [line for line in NO_PAGERS if any(pager.pattern.matches(line) for pager in PLATFORMS.get(family).pagers)]
    assert taken == []


@pytest.mark.parametrize(("family", "text"), rows(ERRORS))
def test_an_error_is_known(family: str, text: str) -> None:
    patterns = PLATFORMS.get(family).error_patterns(None)
    assert any(pattern.matches(line) for pattern in patterns for line in text.split("\n"))


@pytest.mark.parametrize("family", PLATFORMS.names())
def test_other_text_is_no_error(family: str) -> None:
    patterns = PLATFORMS.get(family).error_patterns(None)
    lines = [*NO_ERRORS, *NO_ERRORS_THERE.get(family, ())]
    assert [line for line in lines if any(pattern.matches(line) for pattern in patterns)] == []


@pytest.mark.parametrize(("family", "line"), [(family, line) for family, line in rows(ERRORS) if family != "linux"])
def test_no_error_is_a_prompt(family: str, line: str) -> None:
    assert graph_of(family).shown(line.split("\n")) is None


def test_errors_of_the_configuration_are_none_elsewhere() -> None:
    eos = PLATFORMS.get("arista_eos")
    line = "% Cannot commit session"
    assert not any(pattern.matches(line) for pattern in eos.error_patterns("privileged"))
    assert any(pattern.matches(line) for pattern in eos.error_patterns("config"))


@pytest.mark.parametrize("family", PLATFORMS.names())
def test_every_family_knows_what_any_device_may_ask(family: str) -> None:
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

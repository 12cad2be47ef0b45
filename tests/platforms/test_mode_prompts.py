"""The mode of each family's prompts, and lines that only look like prompts."""

from __future__ import annotations

import pytest

from tests.platforms.families import PLATFORMS, profile_of

#: By family and mode; a prompt of two lines contains a newline.
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

#: Lines that are not a prompt in any family.
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

#: Output and banners of one family.
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


def test_examples_cover_every_mode() -> None:
    assert {family: set(modes) for family, modes in PROMPTS.items()} == {
        name: set(platform.modes) for name, platform in PLATFORMS.all().items()
    }


@pytest.mark.parametrize("family", PROMPTS)
def test_shown_prompt_has_mode(family: str) -> None:
    profile = profile_of(family)
    for mode, prompts in PROMPTS[family].items():
        for prompt in prompts:
            lines = prompt.split("\n")
            shown = profile.shown_prompt(["some output", *lines])
            assert shown is not None, prompt
            assert (shown.mode, shown.prompt, shown.lines) == (mode, lines[-1], len(lines))


@pytest.mark.parametrize("family", PROMPTS)
def test_pattern_of_all_modes_matches_prompt(family: str) -> None:
    pattern = profile_of(family).prompt
    last_lines = [prompt.split("\n")[-1] for prompts in PROMPTS[family].values() for prompt in prompts]
    assert [line for line in last_lines if not pattern.matches(line)] == []


@pytest.mark.parametrize("family", [name for name in PLATFORMS.names() if name != "generic"])
def test_output_is_not_a_prompt_of_any_family(family: str) -> None:
    assert [line for line in NEVER if profile_of(family).shown_prompt(["", line]) is not None] == []


@pytest.mark.parametrize("family", LOOK_ALIKES)
def test_look_alike_is_not_a_prompt(family: str) -> None:
    shown = profile_of(family).shown_prompt
    assert [line for line in LOOK_ALIKES[family] if shown(["some output", line]) is not None] == []

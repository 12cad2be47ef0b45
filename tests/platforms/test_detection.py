"""Detection of families by banner, prompt and command output, in chunks of any size."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.platforms import DetectedFamily, Detection, Platforms

PLATFORMS = Platforms().all()

#: Banner, prompt, and output of the family's own command.
DEVICES = {
    "cisco_ios": (
        "\nUser Access Verification\n\n",
        "Switch#",
        "Cisco IOS Software, C2960X Software (C2960X-UNIVERSALK9-M), Version 15.2(7)E\nCopyright (c) Cisco\n",
    ),
    "cisco_nxos": (
        "\nUser Access Verification\n",
        "n9k# ",
        "Cisco Nexus Operating System (NX-OS) Software\nTAC support: http://www.cisco.com/tac\nCopyright (C) Cisco\n",
    ),
    "cisco_xr": ("", "RP/0/RP0/CPU0:ios#", "Thu Nov 20 17:00:00.123 UTC\nCisco IOS XR Software, Version 7.9.1\nCopyright\n"),
    "arista_eos": ("", "leaf1>", "Arista DCS-7050TX3-48C8\nHardware version: 11.01\nSoftware image version: 4.30.1F\n"),
    "juniper_junos": ("--- JUNOS 21.4R1 Kernel 64-bit\n", "admin@mx1> ", "Hostname: mx1\nModel: mx204\nJunos: 21.4R1.12\n"),
    "huawei_vrp": (
        "Info: The max number of VTY users is 10.\n",
        "<core>",
        "Huawei Versatile Routing Platform Software\nVRP (R) software, Version 5.170 (S5720 V200R011C10SPC600)\n",
    ),
    "hp_comware": ("", "<core>", "HPE Comware Software, Version 7.1.070, Release 6126P20\nCopyright (c) 2010-2018 HPE\n"),
    "hp_procurve": (
        "HP J9776A 2530-24G Switch\nPress any key to continue\n",
        "HP-2530-24G# ",
        "Image stamp:    /ws/swbuildm/rel/code/build/lakes\n                Oct 1 2020\n",
    ),
    "mikrotik_routeros": ("", "[admin@MikroTik] > ", "                   uptime: 1w2d\n                 platform: MikroTik\n"),
    "nokia_sros": ("", "A:PE1# ", "TiMOS-C-20.10.R1 cpm/hops64 Nokia 7750 SR Copyright (c) 2000-2020 Nokia.\n"),
    "aruba_aoscx": ("", "6300# ", "-----\nArubaOS-CX\n(c) Copyright HPE\n-----\nVersion      : FL.10.09\n"),
    "fortinet_fortios": ("", "FGT60F # ", "Version: FortiGate-60F v7.2.5,build1517\nFirmware Signature: certified\n"),
    "vyos": ("Welcome to VyOS!\n", "vyos@vyos:~$ ", "Version:          VyOS 1.4-rolling\nRelease train:    sagitta\n"),
    "frr": (
        "\nHello, this is FRRouting (version 8.4.4).\nCopyright 1996-2005 Kunihiro Ishiguro, et al.\n\n",
        "R1> ",
        "FRRouting 8.4.4 (R1) on Linux(6.1.0).\nCopyright 1996-2005 Kunihiro Ishiguro, et al.\n",
    ),
    "linux": ("Ubuntu 24.04 LTS host ttyS0\n", "user@host:~$ ", "Linux\n"),
}


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[begin:end] for begin, end in itertools.pairwise(places)]


def whole(family: str) -> DetectedFamily:
    banner, prompt, output = DEVICES[family]
    detection = Detection(PLATFORMS)
    detection.banner(banner)
    detection.prompt(["", prompt])
    detection.output(PLATFORMS[family].detect.command or "", output)
    return detection.result()


def test_examples_cover_every_family_with_signs() -> None:
    assert set(DEVICES) == set(PLATFORMS) - {"generic"}


@pytest.mark.parametrize("family", DEVICES)
def test_detection_on_complete_output_is_sure(family: str) -> None:
    detected = whole(family)
    assert detected.family == family
    assert detected.sure
    assert any(words.startswith("the answer to ") for words in detected.why)


@given(st.sampled_from(sorted(DEVICES)), st.lists(st.integers(0, 500), max_size=8))
def test_result_is_independent_of_chunk_boundaries(family: str, cuts: list[int]) -> None:
    banner, prompt, output = DEVICES[family]
    detection = Detection(PLATFORMS)
    sure = []
    for piece in pieces(banner, cuts):
        detection.banner(piece)
        sure.append(detection.result())
    detection.prompt([prompt])
    for piece in pieces(output, cuts):
        detection.output(PLATFORMS[family].detect.command or "", piece)
        sure.append(detection.result())
    assert {detected.family for detected in sure if detected.sure} <= {family}
    assert detection.result() == whole(family)


@pytest.mark.parametrize("family", DEVICES)
def test_incomplete_line_does_not_change_result(family: str) -> None:
    text = DEVICES[family][2]
    for cut in range(len(text)):
        begun, ended = Detection(PLATFORMS), Detection(PLATFORMS)
        begun.output("show version", text[:cut])
        ended.output("show version", text[: text.rfind("\n", 0, cut) + 1])
        assert begun.result() == ended.result()


@pytest.mark.parametrize("family", DEVICES)
def test_suggested_commands_lead_to_family(family: str) -> None:
    """Starting from the prompt, with unknown output for the commands of other families."""
    _, prompt, output = DEVICES[family]
    detection = Detection(PLATFORMS)
    detection.prompt([prompt])
    asked: list[str] = []
    while not detection.result().sure and (command := detection.command()) is not None:
        asked.append(command)
        detection.output(command, output if command == PLATFORMS[family].detect.command else "what?\n")
    assert detection.result().family == family
    assert len(asked) <= 2
    assert len(set(asked)) == len(asked)


def test_prompt_of_many_families_is_not_sure() -> None:
    detection = Detection(PLATFORMS)
    assert detection.result() == DetectedFamily(None, 0.0)
    detection.prompt(["core#"])
    assert not detection.result().sure
    assert detection.command() == "show version"


def test_prompt_that_does_not_fit_overrides_banner() -> None:
    detection = Detection(PLATFORMS)
    detection.banner("Hewlett-Packard Enterprise Development LP\n")
    taken = detection.result()
    detection.prompt(["vyos@r1:~$ "])
    assert taken.family == "hp_comware"
    assert detection.result().family != "hp_comware"


def test_unknown_output_of_own_command_lowers_certainty() -> None:
    detection = Detection(PLATFORMS)
    detection.prompt(["Router>"])
    taken = detection.result()
    detection.output("show version", "Eh?\n")
    assert taken.family == "cisco_ios"
    assert detection.result().certainty < taken.certainty / 5


def test_unknown_device_has_no_family() -> None:
    detection = Detection(PLATFORMS)
    detection.banner("Frobnicator 3000, all rights reserved\n")
    detection.prompt(["frob::>>"])
    for command in ("show version", "display version"):
        detection.output(command, "Eh?\n")
    assert detection.result().family is None


def test_sign_in_output_of_another_command_counts() -> None:
    detection = Detection(PLATFORMS)
    detection.prompt(["user@host:~$ "])
    detection.output("show version", "bash: show: command not found\n")
    assert detection.result().family == "linux"
    assert detection.result().why == (
        "the prompt has 'user@host:~$ '",
        "the answer to 'show version' has 'bash: show: command not found'",
    )


@given(st.text(max_size=200), st.lists(st.text(max_size=40), max_size=3), st.text(max_size=200))
def test_any_text_has_a_result(banner: str, prompt: list[str], output: str) -> None:
    detection = Detection(PLATFORMS)
    detection.banner(banner)
    detection.prompt(prompt)
    detection.output("show version", output)
    detected = detection.result()
    assert 0 <= detected.certainty <= 1
    assert (detected.family is None) == (not detected.why)

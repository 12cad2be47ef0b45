"""The commands in a line for a device."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.platforms.platform import CommandLine
from ptyctl.policy.device_command import MAX_COMMANDS, MAX_LINE, DeviceGrammar, DeviceText

from .presets import PLATFORMS

GRAMMARS = {name: DeviceGrammar(platform.command_line) for name, platform in PLATFORMS.items()}
DEFAULT = DeviceGrammar(CommandLine())


def words(platform: str, text: str) -> list[tuple[str | None, ...]]:
    return [command.readings[0].words for command in GRAMMARS[platform].read(text).commands]


@pytest.mark.parametrize(
    ("platform", "text", "expected"),
    [
        ("cisco_ios", "  Show   VERSION ", [("show", "version")]),
        ("cisco_ios", "show ?", [("show",)]),
        ("cisco_ios", "rel?oad", [("reload",)]),
        ("cisco_ios", "a\r\nb\n\nc", [("a",), ("b",), ("c",)]),
        ("cisco_ios", "show run | include bgp|ospf", [("show", "run"), ("|", "include", "bgp"), ("|", "ospf")]),
        ("cisco_ios", "show a > b ; c", [("show", "a", ">", "b", ";", "c")]),
        ("cisco_nxos", "show a >b ; c", [("show", "a"), (">", "b"), ("c",)]),
        ("cisco_ios", '"reload" now', [("reload", "now")]),
        ("cisco_ios", 're"load" now', [(None, "now")]),
        ("cisco_ios", "don't", [(None,)]),
        ("cisco_ios", "a\\b c", [(None, "c")]),
        ("cisco_ios", "relöad", [(None,)]),
        ("cisco_ios", "a\u00a0b", [(None,)]),
        ("cisco_ios", '"" x', [(" ", "x")]),
        ("cisco_ios", "! reload", []),
        ("cisco_ios", "", []),
        ("cisco_nxos", "! a ; reload", [("reload",)]),
        ("juniper_junos", 'set x "a; b | c"', [("set", "x", "a; b | c")]),
        ("juniper_junos", 'set x "a; b', [("set", "x", None), ("b",)]),
        ("juniper_junos", 'set x "a" ; "b ; c', [("set", "x", "a"), (None,), ("c",)]),
        ("mikrotik_routeros", "/system/reboot", [("system", "reboot")]),
        ("mikrotik_routeros", ":put [/system reboot]", [("put",), ("system", "reboot"), ]),
        ("mikrotik_routeros", "/ip address add address=192.0.2.1/24", [("ip", "address", "add", "address=192.0.2.1/24")]),
        ("mikrotik_routeros", "../system $x", [("system", None)]),
        ("nokia_sros", "//admin reboot", [("admin", "reboot")]),
        ("nokia_sros", "port 1/1/1", [("port", "1/1/1")]),
        ("vyos", "show $(reboot)", [("show", None), ("reboot",)]),
    ],
)  # fmt: skip
def test_text_of_a_device_is_split_into_words_of_commands(
    platform: str, text: str, expected: list[tuple[str | None, ...]]
) -> None:
    assert words(platform, text) == expected


@pytest.mark.parametrize(
    ("platform", "text", "expected"),
    [
        ("cisco_ios", "do reload", [("do", "reload"), ("reload",)]),
        ("cisco_ios", "d reload", [("d", "reload"), ("reload",)]),
        ("cisco_ios", "do no x", [("do", "no", "x"), ("no", "x"), ("x",)]),
        ("cisco_ios", "no", [("no",)]),
        ("cisco_xr", "do admin reload", [("do", "admin", "reload"), ("admin", "reload"), ("reload",)]),
        ("huawei_vrp", "und ssh", [("und", "ssh"), ("ssh",)]),
        ("fortinet_fortios", "sudo global execute x", [("sudo", "global", "execute", "x"), ("execute", "x")]),
        ("cisco_ios", "don't x", [(None, "x"), ("x",), ("x",)]),
    ],
)
def test_command_after_a_prefix_or_negation_has_a_reading_without_it(
    platform: str, text: str, expected: list[tuple[str | None, ...]]
) -> None:
    (command,) = GRAMMARS[platform].read(text).commands
    assert [reading.words for reading in command.readings][: len(expected)] == expected


@pytest.mark.parametrize(
    ("platform", "text", "shell"),
    [
        ("arista_eos", "bash sudo rm -rf /x | cat", "sudo rm -rf /x | cat"),
        ("arista_eos", "bash", ""),
        ("juniper_junos", "start shell", ""),
        ("cisco_nxos", "show clock ; run bash ls -l", "ls -l"),
        ("juniper_junos", 'start shell command "ls; reboot"', "ls; reboot"),
        ("cisco_xr", "do run ls", "ls"),
        ("cisco_xr", "router bgp 1", None),
    ],
)
def test_command_that_opens_a_shell_yields_its_text(platform: str, text: str, shell: str | None) -> None:
    found = [command.shell for command in GRAMMARS[platform].read(text).commands if command.shell is not None]
    assert found == ([] if shell is None else [shell])


@given(st.text(), st.sampled_from(sorted(GRAMMARS)))
def test_any_text_of_a_device_is_read_or_opaque(text: str, platform: str) -> None:
    form = GRAMMARS[platform].read(text)
    assert isinstance(form, DeviceText)
    assert all(command.readings and command.readings[0].words for command in form.commands)
    assert not (form.opaque and form.commands)


@given(st.characters(max_codepoint=0x9F, categories=["Cc"]), st.sampled_from(sorted(GRAMMARS)))
def test_control_character_in_a_line_makes_it_opaque(character: str, platform: str) -> None:
    form = GRAMMARS[platform].read(f"show {character}x")
    assert form.opaque == (character not in "\r\n")


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=4), st.sampled_from(["\n", ";", " ; ", "\r\n"]))
def test_every_separator_of_the_defaults_separates(names: list[str], separator: str) -> None:
    assert [command.text for command in DEFAULT.read(separator.join(names)).commands] == names


def test_line_longer_than_a_device_reads_is_opaque() -> None:
    assert GRAMMARS["cisco_ios"].read("show " + "x" * MAX_LINE).opaque
    assert not GRAMMARS["cisco_ios"].read("show x\n" * (MAX_COMMANDS - 1)).opaque
    assert GRAMMARS["cisco_ios"].read("show x\n" * MAX_COMMANDS).opaque


def test_command_with_many_words_before_it_may_be_any_command() -> None:
    grammar = GRAMMARS["cisco_ios"]
    (command,) = grammar.read("do " * 1300 + "show clock").commands
    assert len(command.readings) < 20
    assert any(reading.words == (None,) and reading.other_mode for reading in command.readings)
    (command,) = grammar.read("do do show clock").commands
    assert (None,) not in [reading.words for reading in command.readings]

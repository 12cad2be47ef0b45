"""Command grammar: parsing, errors, help and completion."""

from __future__ import annotations

import pytest

from ptyctl.simulator.cli_grammar import AmbiguousCommand, Arguments, CommandSet, IncompleteCommand, InvalidInput

COMMANDS = CommandSet(
    (command, command)
    for command in (
        "show version",
        "show interfaces status",
        "show ip",
        "shutdown",
        "terminal length <0-512>",
        "description LINE",
        "ip address A.B.C.D",
        "interface IFNAME",
        "interface IFTYPE IFNUMBER",
        "ping WORD",
        "ping WORD repeat <1-9>",
    )
)


class TestGrammar:
    @pytest.mark.parametrize(
        ("line", "command", "arguments"),
        [
            ("show version", "show version", ()),
            ("  SHO  Ver ", "show version", ()),
            ("sho int st", "show interfaces status", ()),
            ("ter len 0", "terminal length <0-512>", ("0",)),
            ("desc  a  b | c ", "description LINE", ("a  b | c",)),
            ("ip add 10.0.0.255", "ip address A.B.C.D", ("10.0.0.255",)),
            ("int gi1/0/1", "interface IFNAME", ("gi1/0/1",)),
            ("int gi 1/0/1", "interface IFTYPE IFNUMBER", ("gi", "1/0/1")),
            ("ping h r 3", "ping WORD repeat <1-9>", ("h", "3")),
        ],
    )
    def test_parse_abbreviated_line_returns_command_and_arguments(
        self, line: str, command: str, arguments: tuple[str, ...]
    ) -> None:
        command_found, found = COMMANDS.parse(line)
        assert (command_found, found.texts) == (command, arguments)

    def test_parse_returns_offsets_of_parameters(self) -> None:
        assert COMMANDS.parse(" int  gi 1/0/1")[1] == Arguments(("gi", "1/0/1"), (6, 9))

    @pytest.mark.parametrize(
        ("line", "offset"),
        [
            ("verzion", 0),
            ("show verzion", 8),
            ("show x", 5),
            ("show version x", 13),
            ("terminal length 513", 16),
            ("terminal length 99999999999", 16),
            ("terminal length -1", 16),
            ("ip address 10.0.0.256", 11),
            ("shx", 2),
        ],
    )
    def test_parse_invalid_line_reports_offset_of_error(self, line: str, offset: int) -> None:
        with pytest.raises(InvalidInput) as caught:
            COMMANDS.parse(line)
        assert caught.value.offset == offset
        assert caught.value.report("sw#", line).split("\n")[0] == " " * (3 + offset) + "^"

    @pytest.mark.parametrize("line", ["sh version", "show i", "i"])
    def test_parse_ambiguous_abbreviation_raises(self, line: str) -> None:
        with pytest.raises(AmbiguousCommand) as caught:
            COMMANDS.parse(line)
        assert caught.value.report("sw#", line) == f'% Ambiguous command:  "{line}"\n'

    @pytest.mark.parametrize("line", ["show", "ter len", "ping", "int gi"])
    def test_parse_beginning_of_command_raises_incomplete(self, line: str) -> None:
        with pytest.raises(IncompleteCommand):
            COMMANDS.parse(line)

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("", ["description", "interface", "ip", "ping", "show", "shutdown", "terminal"]),
            ("sh", ["show", "shutdown"]),
            ("show ", ["interfaces", "ip", "version"]),
            ("show i", ["interfaces", "ip"]),
            ("ping h ", ["<cr>", "repeat"]),
        ],
    )
    def test_help_lists_possible_next_words(self, line: str, words: list[str]) -> None:
        assert COMMANDS.help_for(line) == words

    @pytest.mark.parametrize(
        ("line", "completed"),
        [("show v", "show version "), ("sh", None), ("show x", None), ("x y", None), ("show ", None)],
    )
    def test_complete_returns_line_only_for_single_candidate(self, line: str, completed: str | None) -> None:
        assert COMMANDS.complete(line) == completed

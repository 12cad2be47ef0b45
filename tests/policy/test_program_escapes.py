"""What programs may run in a shell of a typed line."""

from __future__ import annotations

import pytest

from ptyctl.policy.shell_runners import shell_escapes


@pytest.mark.parametrize(
    "line",
    [
        "!rm x",
        ":!rm x",
        ":%!rm x",
        ":r !rm x",
        ":silent !true | !rm x",
        "!!rm x",
        "!Grm x",
        "!iprm x",
        "!5jrm x",
        "\\! rm x",
        "shell rm x",
        "she rm x",
        ":shell rm x",
        ".shell rm x",
        ".sh rm x",
        ".system rm x",
        "system rm x",
        ":terminal rm x",
        ":ter rm x",
        "|.rm x",
        "| info line | rm x",
        "pipe info line | rm x",
        "true\n!rm x",
        ".output '|rm x'",
        ".once |rm x",
        "\\o | rm x",
    ],
)
def test_command_after_an_escape_of_a_program_is_yielded(line: str) -> None:
    assert "rm x" in [command.strip() for command in shell_escapes(line)]


@pytest.mark.parametrize("line", ["select 1;", "break main", "shell", ":wq", "print(x)", "", "!"])
def test_line_without_an_escape_yields_nothing(line: str) -> None:
    assert not list(filter(str.strip, shell_escapes(line)))

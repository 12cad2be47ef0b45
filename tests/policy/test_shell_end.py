"""Typed lines that end within a command of a shell."""

from __future__ import annotations

import pytest

from ptyctl.policy.pending_line import PendingLine
from ptyctl.policy.shell_end import is_incomplete

INCOMPLETE = [
    "rm -rf \\\n",
    "rm -rf '\n",
    'rm -rf "\\"\n',
    "rm -rf `\n",
    "rm -rf $'\\'\n",
    "rm -rf $(\n",
    "rm -rf ${x:-\n",
    "curl x |\n",
    "true && \n",
    "false ||\n",
    "cat <<E\nx\n",
    "cat <<-'E'\n",
    "f() {\n",
    "echo 'a' \\\nb 'c\n",
]
COMPLETE = [
    "",
    "ls\n",
    "echo it\\'s\n",
    "a 'b' \"c'd\" # don't\n",
    "x=$'it\\'s'\n",
    "cat <<E\nit's\nE\n",
    "cat <<-E\nit's\n\tE\n",
    "cat <<<x\n",
    "echo }\n",
    "case a in a) b;; esac\n",
    "echo a\\\\\n",
    "sleep 1 &\n",
    "echo 'a\\'\n",
    "rm -rf \\\nx\n",
]


@pytest.mark.parametrize("text", INCOMPLETE)
def test_text_that_ends_within_a_command_is_incomplete(text: str) -> None:
    assert is_incomplete(text.encode())


@pytest.mark.parametrize("text", COMPLETE)
def test_text_of_whole_commands_is_complete(text: str) -> None:
    assert not is_incomplete(text.encode())


@pytest.mark.parametrize(("keys", "is_open"), [(b"", True), (b"\x03", False), (b"\x1b\x03", True), (b"'\r", False)])
def test_line_is_open_until_it_is_completed_or_ctrl_c_leaves_it(keys: bytes, is_open: bool) -> None:
    line = PendingLine()
    for _ in line.feed(b"touch 'a\r" + keys):
        pass
    assert line.is_open is is_open

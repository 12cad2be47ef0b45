"""Typed lines that end within a command of a shell."""

from __future__ import annotations

import pytest

from ptyctl.policy.pending_line import PendingLine
from ptyctl.policy.shell_end import is_incomplete, is_read_as_given

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


@pytest.mark.parametrize(
    "text",
    [
        "for i in 1 2; do echo $i; done",
        "for i in 1 2\ndo\n\techo $i\ndone",
        "echo one; echo two",
        "echo one\necho two",
        "f() { echo; }\nf",
        "cat <<E\nx\nE\necho two",
        "(exit 3)",
        "cat <<'END'\nfirst $HOME\nEND",
        'echo "it\'s" | tr a b && [[ -n $x ]]',
        "if ! test -f x; then echo 'no'; fi",
        "x=$(date) y=`id`",
        "f() { echo; }",
        "[ $a != b ]",
    ],
)
def test_complete_command_is_read_as_given(text: str) -> None:
    assert is_read_as_given(text, "posix")
    assert is_read_as_given(text, "zsh")


@pytest.mark.parametrize(
    "text",
    [
        "for i in 1 2",
        "echo 'open",
        'echo "open',
        "echo \\",
        "cat <<END\ntext",
        "cat <<A <<B\nA",
        "echo a |",
        "if true; then",
        "echo )",
        "echo $(ls",
        "echo !x",
        'echo "hi!there"',
        "^a^b",
        "# comment",
        "curl http://host/?a=1&b",
        "echo one\n",
        "\necho one",
        "",
        "((1+2",
    ],
)
def test_incomplete_or_changed_text_is_not_read_as_given(text: str) -> None:
    assert not is_read_as_given(text, "posix")
    assert not is_read_as_given(text, "zsh")


@pytest.mark.parametrize("text", ["echo one # comment", "# comment\necho two", "echo one #"])
def test_comment_is_read_as_given_by_bash_only(text: str) -> None:
    assert is_read_as_given(text, "posix")
    assert not is_read_as_given(text, "zsh")

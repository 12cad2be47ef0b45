"""Recognition of shells and of commands that start or leave one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.shells import answering_program, only_sets_up, reads_lines, shell_change, shell_dialect


@pytest.mark.parametrize(
    "command",
    ["su", "su -", "su - bob", "/bin/su", "sudo -i", "sudo -s", "sudo -iu bob", "sudo -u bob -i", "sudo --login", "sudo -E -s",
     "sudo su -", "su -c bash bob", "sudo -u bob bash", "sudo -- dash", "sudo A=1 zsh", "doas -s", "bash", "bash --norc",
     "exec bash", "exec dash", "FOO=1 exec zsh -f", "env -i; bash", "cd /tmp && sudo -i", "cd /tmp\nfish", "(busybox sh)",
     "if true; then sh; fi", "chroot /mnt", "exit", "exit 3", "logout", "bash -o vi", "true & su",
     "env -i bash", "exec env -i bash --norc", "env -u HOME A=1 zsh", "exec -a name dash", "nice -n 5 sh",
     "env 2>&1 bash", "2>x dash", "bash 2>/dev/null", "sudo 2>x -i", "exec 3>&1 sh", "x '>'; bash"],
)  # fmt: skip
def test_shell_change_new_or_left_shell_is_yes(command: str) -> None:
    assert shell_change(command) == "yes"


@pytest.mark.parametrize(
    "command", ["ssh host", "ssh -p 22 host uptime", "docker exec -it box sh", "sudo docker run x", "kubectl get"]
)
def test_shell_change_remote_command_is_maybe(command: str) -> None:
    assert shell_change(command) == "maybe"


@pytest.mark.parametrize(
    "command",
    ["", "ls", "echo su", "echo 'x; su'", 'echo "a && bash"', "sudo apt install x", "sudo -u bob ls", "sudo -s ls",
     "sudo -i id", "su -c id", "bash -c 'echo x'", "bash script.sh", "sh -ec 'cat'", "read -p '$ ' x", "grep su file",
     "man bash", "which sh", "(exit 3)", "ls || exit 1", "apt install bash", "echo 'it",
     "PROMPT_COMMAND=()", "sudo", "sudo -k", "exec 3>file", "x=su",
     "command -v bash", "env -i ls", "env -u bash ls", "ls > bash", "ls >& su", "ls <bash"],
)  # fmt: skip
def test_shell_change_other_command_is_no(command: str) -> None:
    assert shell_change(command) == "no"


@given(st.text(alphabet="su doi-cbahexc;&|()'\"\\\n=#{}/", max_size=40))
def test_shell_change_any_text_does_not_raise(command: str) -> None:
    assert shell_change(command) in ("no", "maybe", "yes")


@pytest.mark.parametrize(
    ("path", "dialect"),
    [("/bin/bash", "posix"), ("-zsh", "zsh"), ("/usr/bin/fish", "fish"), ("python3", None), ("dash", "posix")],
)
def test_shell_dialect_by_program_name(path: str, dialect: str | None) -> None:
    assert shell_dialect(path) == dialect


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (("bash",), "bash"),
        (("/bin/bash", "--norc", "-i"), "/bin/bash"),
        (("bash", "--rcfile", "rc", "-o", "vi"), "bash"),
        (("bash", "script.sh"), "script.sh"),
        (("sh", "-c", "cat file"), "cat"),
        (("sh", "-ec", "exec bash --norc"), "bash"),
        (("sh", "-c", "bash script.sh"), "script.sh"),
        (("sh", "-c", "make; bash"), "make;"),
        (("sh", "-c", ""), "sh"),
        (("sh", "-c"), "sh"),
        (("busybox", "ash"), "ash"),
        (("busybox", "cat"), "cat"),
        (("busybox",), "busybox"),
        (("python3", "-c", "code"), "python3"),
    ],
)
def test_answering_program_of_argv(argv: tuple[str, ...], program: str) -> None:
    assert answering_program(argv) == program


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ("read -e -p '$ ' x", True),
        ("ask() { read -r x; }; ask", True),
        ("while read x; do echo $x; done", True),
        ("vared -p '% ' x", True),
        ("cat read", False),
        ("echo 'read", False),
    ],
)
def test_reads_lines_of_command(command: str, reads: bool) -> None:
    assert reads_lines(command) is reads


@pytest.mark.parametrize(
    "command",
    ["unset PROMPT_COMMAND; PS0=; PS1='new> '", "precmd_functions=() preexec_functions=()", "PS1=x", "export A=1 && cd /tmp",
     "PROMPT_COMMAND=(true 'x=1')", "setopt promptsubst"],
)  # fmt: skip
def test_only_sets_up_is_true_for_settings_of_the_shell(command: str) -> None:
    assert only_sets_up(command)


@pytest.mark.parametrize(
    "command",
    ["", "vim", "PS1=x vim", "PS1=$(vim)", "PS1=`vim`", 'x="$(vim)"', "unset x; read -e y", ". ./file", "unset 'x",
     "x=(<(vim))", "f() { vim; }", "if true; then vim; fi", "for x in a; do unset x; done", "eval vim", "env vim", "exec vim",
     "> file"],
)  # fmt: skip
def test_only_sets_up_is_false_for_commands_that_may_start_a_program_or_read(command: str) -> None:
    assert not only_sets_up(command)

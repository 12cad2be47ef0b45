"""Which commands put another shell in front."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.shells import shell_change


@pytest.mark.parametrize(
    "command",
    ["su", "su -", "su - bob", "/bin/su", "sudo -i", "sudo -s", "sudo -iu bob", "sudo -u bob -i", "sudo --login", "sudo -E -s",
     "sudo su -", "sudo -u bob bash", "sudo -- dash", "sudo A=1 zsh", "doas -s", "bash", "bash --norc", "exec bash",
     "exec dash", "FOO=1 exec zsh -f", "env -i; bash", "cd /tmp && sudo -i", "cd /tmp\nfish", "(busybox sh)",
     "if true; then sh; fi", "chroot /mnt", "exit", "exit 3", "logout", "bash -o vi", "true & su",
     "env -i bash", "exec env -i bash --norc", "env -u HOME A=1 zsh", "exec -a name dash", "nice -n 5 sh"],
)  # fmt: skip
def test_another_shell(command: str) -> None:
    assert shell_change(command) == "yes"


@pytest.mark.parametrize(
    "command", ["ssh host", "ssh -p 22 host uptime", "docker exec -it box sh", "sudo docker run x", "kubectl get"]
)
def test_perhaps_another_shell(command: str) -> None:
    assert shell_change(command) == "maybe"


@pytest.mark.parametrize(
    "command",
    ["", "ls", "echo su", "echo 'x; su'", 'echo "a && bash"', "sudo apt install x", "sudo -u bob ls", "sudo -s ls",
     "sudo -i id", "su -c id", "bash -c 'echo x'", "bash script.sh", "sh -ec 'cat'", "read -p '$ ' x", "grep su file",
     "man bash", "which sh", "(exit 3)", "ls || exit 1", "apt install bash", "echo 'it",
     "PROMPT_COMMAND=()", "sudo", "sudo -k", "exec 3>file", "x=su",
     "command -v bash", "env -i ls", "env -u bash ls"],
)  # fmt: skip
def test_the_same_shell(command: str) -> None:
    assert shell_change(command) == "no"


@given(st.text(alphabet="su doi-cbahexc;&|()'\"\\\n=#{}/", max_size=40))
def test_any_text_has_an_answer(command: str) -> None:
    assert shell_change(command) in ("no", "maybe", "yes")

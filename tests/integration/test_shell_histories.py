"""No line of ptyctl is left in the history of a shell: in its file or in memory, locally, over SSH, and in a nested shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.servers.openssh import OpenSshServer
from fixtures.servers.programs import require_program
from ptyctl import LocalController, SessionHandle
from tests.controller.session_calls import PATIENCE_MS
from tests.integration.test_ssh_exec import target

_ZSH = "HISTFILE=~/history\nHISTSIZE=1000\nSAVEHIST=1000\n"
#: For each case the shell, its start-up file, and a command that shows the history in memory.
_CASES = {
    "bash": (("bash",), "unset HISTCONTROL PROMPT_COMMAND\n", "history"),
    "bash_append": (("bash",), "unset HISTCONTROL\nshopt -s histappend\nPROMPT_COMMAND='history -a'\n", "history"),
    "bash_array": (("bash",), "HISTCONTROL=ignoredups\nPROMPT_COMMAND=('history -a' 'history -n')\n", "history"),
    "bash_login": (("bash", "-l"), "HISTCONTROL=ignoredups\nPROMPT_COMMAND='history -a'\n", "history"),
    "zsh": (("zsh",), _ZSH, "fc -l 1"),
    "zsh_append": (("zsh",), f"{_ZSH}setopt INC_APPEND_HISTORY\n", "fc -l 1"),
    "zsh_share": (("zsh",), f"{_ZSH}setopt SHARE_HISTORY\n", "fc -l 1"),
    "fish": (("fish",), "", "history"),
    "mksh": (("mksh",), "", "fc -l 1"),
    "ksh": (("ksh",), "", "fc -l 1"),
}
_COMMANDS = ("echo one", "if true; then echo two; fi", "echo three\necho four")
_FISH_COMMANDS = ("echo one", "if true; echo two; end", "echo three\necho four")
#: ksh records the first line that is typed, whatever it is. It ends the history.
_RECORDED = {("ksh", "ssh"), ("ksh", "nested")}


@pytest.mark.parametrize("case", _CASES)
@pytest.mark.parametrize("where", ["local", "ssh", "nested"])
async def test_history_has_no_line_of_ptyctl(
    controller: LocalController, sshd: OpenSshServer, tmp_path: Path, case: str, where: str
) -> None:
    shell, startup, show = _CASES[case]
    require_program(shell[0], shell[0])
    home = tmp_path / "home"
    home.mkdir()
    for name in (".bashrc", ".bash_profile", ".zshrc"):
        (home / name).write_text(f"PS1='pr$ '\n{startup}")
    env = {"HOME": str(home), "ZDOTDIR": str(home), "ENV": "", "PS1": "pr$ "}
    if shell[0] in ("ksh", "mksh"):
        env["HISTFILE"] = str(home / "history")
    command = ("env", *(f"{name}={value}" for name, value in env.items()), *shell)
    fields = {
        "local": {"protocol": "local", "command": shell, "env": env},
        "ssh": target(sshd, command=command),
        "nested": {"protocol": "local", "command": ("bash", "--norc"), "env": {"HISTFILE": "/dev/null", "PS1": "outer$ "}},
    }[where]
    session = await SessionHandle.open(controller, **fields)
    if where == "nested":
        inner = (f"'{part}'" for part in ("env", *(f"{name}={value}" for name, value in env.items()), *shell))
        await session.exec(" ".join(inner), timeout_ms=PATIENCE_MS)
    for given in _FISH_COMMANDS if case == "fish" else _COMMANDS:
        assert (await session.exec(given, timeout_ms=PATIENCE_MS)).exit_code == 0, given
    in_memory = (await session.exec(show, timeout_ms=PATIENCE_MS)).stdout
    await session.exec("exit", timeout_ms=PATIENCE_MS)
    await session.close()
    if where == "nested":  # zsh keeps the line that shows the history until the next one
        in_memory = "\n".join(line for line in in_memory.split("\n") if show not in line)
    files = [path for path in home.rglob("*hist*") if path.is_file()]
    lines = [line for path in files for line in path.read_bytes().replace(b"\0", b"\n").split(b"\n")]
    ours = [line for line in (*lines, *in_memory.encode().split(b"\n")) if b"ptyctl" in line or b"eval" in line]
    ours = [line for line in ours if not line.startswith(b"ksh: ")]  # its message about the empty history
    assert len(ours) == ((case, where) in _RECORDED), ours

"""Shells of another user and host that are started by keys in a local session: `su -`, and `ssh` to a real sshd."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from fixtures.servers.openssh import OpenSshServer
from fixtures.servers.programs import require, require_program
from ptyctl import LocalController, SessionHandle
from tests.controller.session_calls import BASH, PATIENCE_MS, read, until, write
from tests.integration.concurrent_cases import run_cases

pytestmark = pytest.mark.waits

PROMPT = "nested$ "


async def run_in_nested_shell_and_return(
    controller: LocalController, tmp_path: Path, command: str, name: str, program: tuple[str, ...], integration: str
) -> None:
    """Type `command`, which starts a shell; run commands in it and, after `exit`, in the shell of the session."""
    env = {"PS1": "outer$ ", "HISTFILE": "/dev/null", "ZDOTDIR": str(tmp_path)}
    (tmp_path / ".zshrc").touch()
    fields = {"protocol": "local", "command": program, "shell_integration": integration, "env": env}
    async with await SessionHandle.open(controller, **fields) as shell:
        before = await shell.exec("true", timeout_ms=PATIENCE_MS)
        begin = (await write(shell, data=f"{command}\n")).next_cursor
        assert (await read(shell, cursor=begin, until_regex=r"(?:\n|outer\$ )nested\$ $", timeout_ms=PATIENCE_MS)).matched

        async def is_idle() -> bool:
            return (await shell.status()).mode == "idle"

        await until(is_idle)
        for code in (3, 0):
            reply = await shell.exec(f"{name}; (exit {code})", timeout_ms=PATIENCE_MS)
            assert (reply.stdout, reply.exit_code, reply.done_reason) == ("nested\n", code, "marker")
        begin = (await write(shell, data="exit\n")).next_cursor
        await read(shell, cursor=begin, until_regex=r"outer\$ $|% $|# $", timeout_ms=PATIENCE_MS)
        reply = await shell.exec("echo outer; (exit 4)", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("outer\n", 4, before.done_reason)


OUTER = {"bash auto": (BASH, "auto"), "bash off": (BASH, "off"), "zsh auto": (("zsh",), "auto"), "dash off": (("dash",), "off")}


async def run_in_each_shell(controller: LocalController, tmp_path: Path, commands: dict[str, str], name: str) -> None:
    for program, _ in OUTER.values():
        require_program(program[0], program[0])
    cases = {
        f"{outer}, {kind}": partial(run_in_nested_shell_and_return, controller, tmp_path, command, name, *OUTER[outer])
        for outer in OUTER
        for kind, command in commands.items()
    }
    await run_cases(cases)


async def test_shell_of_su_typed_by_write_runs_commands(controller: LocalController, tmp_path: Path) -> None:
    require(os.geteuid() == 0, "only root may become another user without a password")
    login = f"su - nobody -s {require_program('bash', 'bash')}"
    commands = {
        "program": f"{login} -c \"PS1='{PROMPT}' bash --norc --noprofile\"",
        "login shell": f"{login}\nPS1='{PROMPT}'",
    }
    await run_in_each_shell(controller, tmp_path, commands, "test $(id -un) = nobody && echo nested")


async def test_shell_of_ssh_typed_by_write_runs_commands(
    controller: LocalController, sshd: OpenSshServer, tmp_path: Path
) -> None:
    options = f"-o UserKnownHostsFile={sshd.known_hosts} -o IdentitiesOnly=yes -F none -i {sshd.key_path} -p {sshd.port}"
    ssh = f"{require_program('ssh', 'openssh-client')} {options} -t {sshd.username}@{sshd.host}"
    command = f"{ssh} \"PS1='{PROMPT}' bash --norc --noprofile\""
    await run_in_each_shell(controller, tmp_path, {"ssh": command}, 'test -n "$SSH_CONNECTION" && echo nested')

"""Shells of another user and host that are started by keys in a local session: `su -`, and `ssh` to a real sshd."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fixtures.servers.openssh import OpenSshServer
from fixtures.servers.programs import require, require_program
from ptyctl import LocalController, SessionHandle
from tests.controller.session_calls import BASH, PATIENCE_MS, read, until, write

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
        assert (await read(shell, cursor=begin, until_regex=r"\nnested\$ $", timeout_ms=PATIENCE_MS)).matched

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


OUTER = pytest.mark.parametrize(
    ("program", "integration"), [(BASH, "auto"), (BASH, "off"), (("zsh",), "auto"), (("dash",), "off")]
)


@OUTER
async def test_shell_of_su_typed_by_write_runs_commands(
    controller: LocalController, tmp_path: Path, program: tuple[str, ...], integration: str
) -> None:
    require(os.geteuid() == 0, "only root may become another user without a password")
    require_program(program[0], program[0])
    command = f"su - nobody -s {require_program('bash', 'bash')} -c \"PS1='{PROMPT}' bash --norc --noprofile\""
    login = f"su - nobody -s {require_program('bash', 'bash')}"
    name = "test $(id -un) = nobody && echo nested"
    await run_in_nested_shell_and_return(controller, tmp_path, command, name, program, integration)
    await run_in_nested_shell_and_return(controller, tmp_path, f"{login}\nPS1='{PROMPT}'", name, program, integration)


@OUTER
async def test_shell_of_ssh_typed_by_write_runs_commands(
    controller: LocalController, sshd: OpenSshServer, tmp_path: Path, program: tuple[str, ...], integration: str
) -> None:
    require_program(program[0], program[0])
    options = f"-o UserKnownHostsFile={sshd.known_hosts} -o IdentitiesOnly=yes -F none -i {sshd.key_path} -p {sshd.port}"
    ssh = f"{require_program('ssh', 'openssh-client')} {options} -t {sshd.username}@{sshd.host}"
    command = f"{ssh} \"PS1='{PROMPT}' bash --norc --noprofile\""
    name = 'test -n "$SSH_CONNECTION" && echo nested'
    await run_in_nested_shell_and_return(controller, tmp_path, command, name, program, integration)

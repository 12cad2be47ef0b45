"""Nested shells that end by themselves: the next command of their task is refused once, as another shell would read it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fixtures.processes import process_ids, words_of
from fixtures.servers.openssh import OpenSshServer
from fixtures.servers.programs import require_program
from ptyctl import LocalController, SessionHandle
from ptyctl.api.errors import ErrorCode
from tests.controller.marked_shells import SENTINEL, SHELLS, spool
from tests.controller.session_calls import PATIENCE_MS, refused, until

pytestmark = pytest.mark.waits


async def open_shell(controller: LocalController, name: str, folder: Path) -> SessionHandle:
    require_program(name, name)
    (folder / ".zshrc").touch()
    env = {"HISTFILE": "/dev/null", "ZDOTDIR": str(folder)}
    shell = await SessionHandle.open(controller, protocol="local", command=SHELLS[name], env=env)
    await shell.exec("true", timeout_ms=PATIENCE_MS)
    return shell


async def check_next_commands(shell: SessionHandle, prompts: int) -> None:
    """Check the commands after the nested shell, once the shell below it has shown its prompt."""

    async def is_back() -> bool:
        return (await spool(shell)).count(SENTINEL) > prompts

    await until(is_back)
    with refused(ErrorCode.BUSY, "another shell") as caught:
        await shell.exec("echo wr''ong", timeout_ms=PATIENCE_MS)
    details = caught.value.details
    assert details["reason"] == "other_shell"
    assert details["before"] != details["now"]
    assert (await shell.exec("echo meant", timeout_ms=PATIENCE_MS)).stdout == "meant\n"
    assert "wr''ong" not in await spool(shell)


@pytest.mark.parametrize("lost", ["server", "client"])
@pytest.mark.parametrize("name", SHELLS)
async def test_exec_after_connection_of_ssh_was_lost_is_busy_once(
    controller: LocalController, sshd: OpenSshServer, tmp_path: Path, name: str, lost: str
) -> None:
    options = f"-o UserKnownHostsFile={sshd.known_hosts} -o IdentitiesOnly=yes -F none -i {sshd.key_path} -p {sshd.port}"
    command = f"{require_program('ssh', 'openssh-client')} {options} -t {sshd.username}@{sshd.host} 'bash --norc --noprofile'"
    async with await open_shell(controller, name, tmp_path) as shell:
        await shell.exec(command, timeout_ms=PATIENCE_MS)
        server = int((await shell.exec("echo $PPID", timeout_ms=PATIENCE_MS)).stdout)
        prompts = (await spool(shell)).count(SENTINEL)
        known_hosts = f"UserKnownHostsFile={sshd.known_hosts}".encode()
        clients = [pid for pid in process_ids() if known_hosts in words_of(pid, "cmdline")]
        assert len(clients) == 1
        os.kill(server if lost == "server" else clients[0], signal.SIGKILL)
        await check_next_commands(shell, prompts)


@pytest.mark.parametrize("name", SHELLS)
async def test_exec_after_idle_timeout_of_nested_shell_is_busy_once(
    controller: LocalController, tmp_path: Path, name: str
) -> None:
    async with await open_shell(controller, name, tmp_path) as shell:
        await shell.exec("cd /tmp; bash --norc --noprofile", timeout_ms=PATIENCE_MS)
        assert (await shell.exec("echo inner", timeout_ms=PATIENCE_MS)).stdout == "inner\n"
        prompts = (await spool(shell)).count(SENTINEL)
        await shell.exec("TMOUT=1", timeout_ms=PATIENCE_MS)  # the time of the next prompt: the commands before have their own
        await check_next_commands(shell, prompts)

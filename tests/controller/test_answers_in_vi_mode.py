"""Answers to `read` under a policy while the shell's line editor is in the mode of vi, which has no effect on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api import ErrorCode, ExecReply, PtyctlError
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import BASH, PATIENCE_MS, Open, read, refused, until, write
from transports.process import reads_terminal

pytestmark = [pytest.mark.waits, pytest.mark.parametrize("integration", ["auto", "off"])]
VI_MODE = {"bash": "set -o vi", "zsh": "bindkey -v"}


async def open_in_vi_mode(open_session: Open, tmp_path: Path, shell: str, integration: str) -> SessionHandle:
    require_program(shell, shell)
    (tmp_path / ".zshrc").touch()
    command = BASH if shell == "bash" else (shell,)
    env = {"ZDOTDIR": str(tmp_path), "HISTFILE": "/dev/null"}
    handle = await open_session(command=command, env=env, shell_integration=integration)
    assert (await handle.exec(VI_MODE[shell], timeout_ms=PATIENCE_MS)).exit_code == 0
    return handle


async def ask(handle: SessionHandle, command: str) -> str:
    """Run a command that prints `ready` and reads a line; return its block once the kernel reports the read."""
    pid = int((await handle.exec("echo $$", timeout_ms=PATIENCE_MS)).stdout)
    end = (await read(handle, timeout_ms=0)).buffer_end_cursor
    run = await handle.exec(f"echo ready; {command}", timeout_ms=0)
    await read(handle, cursor=str(end), until_regex=r"\nready\n\z", timeout_ms=PATIENCE_MS)

    async def reads() -> bool:
        return reads_terminal(pid)

    await until(reads)
    return run.block_id or ""


async def answered(handle: SessionHandle, command: str, answer: str, *, sensitive: bool) -> ExecReply:
    """Run a command that reads a line, and type the line.

    A shell that has waited for a lock within its read(2) seems to have run: then Ctrl-C replaces the answer, and the command is
    run again.
    """
    for _ in range(4):
        block = await ask(handle, command)
        try:
            await write(handle, data=f"{answer}\n", sensitive=sensitive)
        except PtyctlError as error:
            if error.code is not ErrorCode.POLICY_DENIED:
                raise
            await handle.wait(block, timeout_ms=PATIENCE_MS)
        else:
            break
    return await handle.wait(block, timeout_ms=PATIENCE_MS)


@pytest.mark.parametrize("answer", ["yes", "v1 #2 @3", ""])
@pytest.mark.parametrize(("shell", "option"), [("bash", ""), ("bash", "-s"), ("zsh", ""), ("zsh", "-s")])
async def test_answer_to_read_in_vi_mode_is_typed(
    open_session: Open, tmp_path: Path, integration: str, shell: str, option: str, answer: str
) -> None:
    handle = await open_in_vi_mode(open_session, tmp_path, shell, integration)
    for _ in range(2):
        command = f'read {option} answer; echo "<${{#answer}}>"'
        reply = await answered(handle, command, answer, sensitive=option == "-s")
        assert (reply.exit_code, reply.stdout.splitlines()[-1]) == (0, f"<{len(answer)}>")


async def test_dangerous_command_as_answer_in_vi_mode_needs_an_approval(
    open_session: Open, tmp_path: Path, integration: str
) -> None:
    handle = await open_in_vi_mode(open_session, tmp_path, "bash", integration)
    await ask(handle, "read answer")
    with refused(ErrorCode.APPROVAL_PENDING, "erases a file system"):
        await write(handle, data="mkfs.ext4 /dev/nope\n")


async def test_answer_whose_keys_a_line_editor_has_seen_is_refused(
    open_session: Open, tmp_path: Path, integration: str
) -> None:
    """The first key goes to the prompt, where Escape makes the others commands of vi."""
    handle = await open_in_vi_mode(open_session, tmp_path, "bash", integration)
    await write(handle, data="\x1b")
    with refused(ErrorCode.POLICY_DENIED):
        await write(handle, data="ddireboot\n")

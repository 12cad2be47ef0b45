"""A command for which another shell reads than for the task's last command: it is refused once."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.approvals import ApprovalsRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from tests.controller.marked_shells import in_each, spool
from tests.controller.session_calls import BASH, PATIENCE_MS, Open, read, refused, write

#: The text of a prompt at the end of the output.
PROMPT = r"[$#>%] ?\z"

pytestmark = pytest.mark.waits


async def kill_shell(shell: SessionHandle) -> None:
    """End the shell in the foreground, which restores the modes of the terminal, and wait for the prompt below it."""
    reply = await shell.exec("echo $$", timeout_ms=PATIENCE_MS)
    pid = int(reply.stdout)
    # its own prompt may follow the end of the command
    await read(shell, cursor=reply.next_cursor, until_regex=PROMPT, timeout_ms=PATIENCE_MS)
    cursor = str(int((await read(shell, mode="tail")).next_cursor or 0))
    os.kill(pid, signal.SIGHUP)
    await read(shell, cursor=cursor, until_regex=PROMPT, timeout_ms=PATIENCE_MS)


@in_each
@pytest.mark.parametrize("nested", ["bash --norc --noprofile", "dash", "sh"])
async def test_exec_after_nested_shell_was_killed_is_busy_once(shell: SessionHandle, nested: str) -> None:
    require_program("dash", "dash")
    await shell.exec("echo outer")
    await shell.exec(nested, timeout_ms=PATIENCE_MS)
    assert (await shell.exec("echo inner", timeout_ms=PATIENCE_MS)).stdout == "inner\n"
    await kill_shell(shell)
    with refused(ErrorCode.BUSY, "another shell") as caught:
        await shell.exec("echo wrong", timeout_ms=PATIENCE_MS)
    assert caught.value.details["reason"] == "other_shell"
    assert (await shell.exec("echo meant", timeout_ms=PATIENCE_MS)).stdout == "meant\n"
    assert "wrong" not in await spool(shell)


async def test_exec_after_nested_shell_of_shell_without_marks_was_killed_is_busy_once(open_session: Open) -> None:
    shell = await open_session(command=(require_program("dash", "dash"),))
    await shell.exec("bash --norc --noprofile", timeout_ms=PATIENCE_MS)
    await kill_shell(shell)
    with refused(ErrorCode.BUSY, "another shell"):
        await shell.exec("echo wrong")
    assert (await shell.exec("echo meant", timeout_ms=PATIENCE_MS)).stdout == "meant\n"


@in_each
@pytest.mark.parametrize("leave", ["exit", "exec true", "kill -9 $$"])
async def test_exec_after_task_has_left_nested_shell_runs(shell: SessionHandle, leave: str) -> None:
    await shell.exec("bash --norc --noprofile", timeout_ms=PATIENCE_MS)
    await shell.exec("echo inner", timeout_ms=PATIENCE_MS)
    await shell.exec(leave, timeout_ms=PATIENCE_MS)
    assert (await shell.exec("echo outer", timeout_ms=PATIENCE_MS)).stdout == "outer\n"


@in_each
@pytest.mark.parametrize("keys", [{"data": "exit\n"}, {"key": "ctrl_d"}])
async def test_exec_after_task_has_left_nested_shell_by_keys_runs(shell: SessionHandle, keys: dict[str, str]) -> None:
    await shell.exec("bash --norc --noprofile", timeout_ms=PATIENCE_MS)
    reply = await shell.exec("echo inner", timeout_ms=PATIENCE_MS)
    # Ctrl-D before its prompt, which may follow the end of the command, would be lost
    await read(shell, cursor=reply.next_cursor, until_regex=PROMPT, timeout_ms=PATIENCE_MS)
    await write(shell, **keys, until_regex=rf"exit\n(?s:.)*{PROMPT}", timeout_ms=PATIENCE_MS)
    assert (await shell.exec("echo outer", timeout_ms=PATIENCE_MS)).stdout == "outer\n"


@in_each
async def test_exec_in_shell_that_another_task_has_started_is_busy_once(shell: SessionHandle) -> None:
    await shell.exec("echo outer", task_id="one")
    await shell.exec("bash --norc --noprofile", task_id="two", timeout_ms=PATIENCE_MS)
    assert (await shell.exec("echo inner", task_id="two", timeout_ms=PATIENCE_MS)).stdout == "inner\n"
    with refused(ErrorCode.BUSY, "another shell") as caught:
        await shell.exec("echo wrong", task_id="one")
    assert caught.value.details["reason"] == "other_shell"
    assert (await shell.exec("echo meant", task_id="one", timeout_ms=PATIENCE_MS)).stdout == "meant\n"


@in_each
async def test_shell_that_ends_during_command_of_task_is_reported_before_the_next(shell: SessionHandle) -> None:
    await shell.exec("bash --norc --noprofile", timeout_ms=PATIENCE_MS)
    pid = int((await shell.exec("echo $$", timeout_ms=PATIENCE_MS)).stdout)
    running = await shell.exec("echo beg''un; cat", timeout_ms=0)
    await read(shell, cursor="0", until_regex="begun\n", timeout_ms=PATIENCE_MS)
    os.kill(pid, signal.SIGHUP)
    await shell.wait(running.block_id, timeout_ms=PATIENCE_MS)
    with refused(ErrorCode.BUSY, "another shell"):
        await shell.exec("echo wrong", timeout_ms=PATIENCE_MS)


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "at its prompt"])
async def test_approved_line_is_not_typed_in_a_shell_that_was_entered_since(tmp_path: Path, waits: bool) -> None:
    (tmp_path / "policy.toml").write_text(
        'extends = ["off"]\n[[rules]]\nid = "held"\nregex = "^mkdir "\ndecision = "ask"\nreason = "a test"\n'
    )
    (tmp_path / "inner").mkdir()
    fields = {"state_dir": tmp_path / "state", "policy": str(tmp_path / "policy.toml"), "approvals": {"allow_self": True}}
    settings = Settings.model_validate(fields)
    async with LocalController(settings) as controller:
        shell = await SessionHandle.open(controller, protocol="local", command=BASH, cwd=str(tmp_path))
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        with refused(ErrorCode.APPROVAL_PENDING) as held:
            await write(shell, data="mkdir held\n")
        request = held.value.details["approval_id"]
        await controller.approvals(ApprovalsRequest.of({"action": "approve", "approval_id": request}))
        begin = (await write(shell, data="cd inner && PS1='inner> ' bash --norc\n")).next_cursor
        if waits:
            await read(shell, cursor=begin, until_regex=r"inner> \z", timeout_ms=PATIENCE_MS)
        with pytest.raises(PtyctlError) as stale:
            await write(shell, data="mkdir held\n", approval_id=request)
        assert stale.value.code in (ErrorCode.APPROVAL_PENDING, ErrorCode.DECLINED, ErrorCode.BUSY), stale.value
        await read(shell, cursor=begin, until_regex=r"inner> ", timeout_ms=PATIENCE_MS)
        await write(shell, data="echo do''ne\n")
        await read(shell, cursor=begin, until_regex="done\n", timeout_ms=PATIENCE_MS)
    assert not [path for path in (tmp_path / "held", tmp_path / "inner/held") if path.exists()]


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("nested", [None, "dash"])
@pytest.mark.parametrize("program", ["dash", "zsh -f", "ksh"])
async def test_approved_line_is_not_typed_in_another_folder(
    tmp_path: Path, program: str, nested: str | None, moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [*program.split()]
    require_program(command[0], command[0])
    require_program("dash", "dash")
    monkeypatch.setenv("PS1", "same> ")
    (tmp_path / "policy.toml").write_text(
        'extends = ["off"]\n[[rules]]\nid = "held"\nregex = "^mkdir "\ndecision = "ask"\nreason = "a test"\n'
    )
    (tmp_path / "inner").mkdir()
    fields = {"state_dir": tmp_path / "state", "policy": str(tmp_path / "policy.toml"), "approvals": {"allow_self": True}}
    async with LocalController(Settings.model_validate(fields)) as controller:
        shell = await SessionHandle.open(controller, protocol="local", command=command, cwd=str(tmp_path))
        if nested is not None:
            await shell.exec(nested, timeout_ms=PATIENCE_MS)
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        with refused(ErrorCode.APPROVAL_PENDING) as held:
            await write(shell, data="mkdir held\n")
        request = held.value.details["approval_id"]
        await controller.approvals(ApprovalsRequest.of({"action": "approve", "approval_id": request}))
        await shell.exec("cd inner" if moves else "cd .", timeout_ms=PATIENCE_MS)
        if moves:
            with pytest.raises(PtyctlError, match=r"no longer valid|must approve"):
                await write(shell, data="mkdir held\n", approval_id=request)
        else:
            await write(shell, data="mkdir held\n", approval_id=request, until_regex=PROMPT, timeout_ms=PATIENCE_MS)
    assert [path for path in (tmp_path / "held", tmp_path / "inner/held") if path.exists()] == (
        [] if moves else [tmp_path / "held"]
    )


@in_each
@pytest.mark.parametrize("nested", ["bash --norc --noprofile", "dash"])
async def test_command_typed_while_its_shell_ends_is_not_run_by_the_shell_below(shell: SessionHandle, nested: str) -> None:
    require_program("dash", "dash")
    await shell.exec(nested, timeout_ms=PATIENCE_MS)
    pid = int((await shell.exec("echo $$", timeout_ms=PATIENCE_MS)).stdout)
    os.kill(pid, signal.SIGSTOP)  # it reads nothing
    running = asyncio.ensure_future(shell.exec("echo wro''ng", timeout_ms=PATIENCE_MS))
    await read(shell, until_regex="never", timeout_ms=200)
    os.kill(pid, signal.SIGKILL)
    with refused(ErrorCode.BUSY, "another shell") as caught:
        await running
    details = caught.value.details
    assert details["reason"] == "other_shell"
    assert details["before"] != details["now"]
    assert (await shell.exec("echo meant", timeout_ms=PATIENCE_MS)).stdout == "meant\n"
    assert "wrong" not in await spool(shell)

"""A local shell that reads in one of its own commands is not at its prompt, whatever text it shows."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import BASH, PATIENCE_MS, Open, config, read, refused, write

pytestmark = pytest.mark.waits
in_each_mode = pytest.mark.parametrize("integration", ["auto", "off"])


async def open_shell(open_session: Open, program: tuple[str, ...], tmp_path: Path, **options: str) -> SessionHandle:
    require_program(program[0], program[0])
    (tmp_path / ".zshrc").touch()
    env = {"HISTFILE": "/dev/null", "ZDOTDIR": str(tmp_path), "ENV": "/dev/null"}
    return await open_session(command=program, env=env, cwd=str(tmp_path), **options)


@in_each_mode
@pytest.mark.parametrize(
    ("line", "prompt"), [("read", "read> "), ("read -P 'Name: ' name", "Name: "), ("read -P '# ' name", "\n# ")]
)
async def test_read_in_fish_gets_no_text_of_an_exec(
    open_session: Open, tmp_path: Path, integration: str, line: str, prompt: str
) -> None:
    fish = await open_shell(open_session, ("fish", "--no-config"), tmp_path, shell_integration=integration)
    await fish.exec("true", timeout_ms=PATIENCE_MS)
    end = (await read(fish, timeout_ms=0)).buffer_end_cursor
    await write(fish, data=f"{line}; echo got\n")
    await read(fish, cursor=str(end), until_regex=rf"{prompt}\z", timeout_ms=PATIENCE_MS)
    with refused(ErrorCode.BUSY) as caught:
        await fish.exec("echo hi", timeout_ms=PATIENCE_MS)
    assert caught.value.details.get("reason", "question") == "question"
    await write(fish, data="half")
    with refused(ErrorCode.BUSY):
        await fish.exec("echo hi", timeout_ms=PATIENCE_MS)
    await write(fish, data="\n")
    await read(fish, cursor=str(end), until_regex=r"\ngot\n(?s:.)*[#>] \z", timeout_ms=PATIENCE_MS)
    assert (await fish.exec("echo hi", timeout_ms=PATIENCE_MS)).stdout == "hi\n"


async def test_exec_in_fish_runs_after_a_written_line_changed_the_prompt(open_session: Open, tmp_path: Path) -> None:
    fish = await open_shell(open_session, ("fish", "--no-config"), tmp_path, shell_integration="off")
    await fish.exec("true", timeout_ms=PATIENCE_MS)
    end = (await read(fish, timeout_ms=0)).buffer_end_cursor
    await write(fish, data="function fish_prompt; echo -n 'other ❯ '; end\n")
    await read(fish, cursor=str(end), until_regex="\nother ❯ \\z", timeout_ms=PATIENCE_MS)
    assert (await fish.exec("echo hi", timeout_ms=PATIENCE_MS)).stdout == "hi\n"


@in_each_mode
@pytest.mark.parametrize(
    ("command", "shown", "keys"), [("cat", "\nready\n", "it's\n\x04"), ("read -P 'Name: ' name", "\nName: ", "it's\n")]
)
async def test_exec_in_fish_after_keys_that_a_command_read_runs_at_a_changed_prompt(
    open_session: Open, tmp_path: Path, integration: str, command: str, shown: str, keys: str
) -> None:
    """The prompt of fish shows the status of the command, so that it is not the prompt which the session has learned."""
    fish = await open_shell(open_session, ("fish", "--no-config"), tmp_path, shell_integration=integration)
    await fish.exec("true", timeout_ms=PATIENCE_MS)
    end = (await read(fish, timeout_ms=0)).buffer_end_cursor
    run = await fish.exec(f"echo ready; {command}; false", timeout_ms=0)
    await read(fish, cursor=str(end), until_regex=rf"{shown}\z", timeout_ms=PATIENCE_MS)
    await write(fish, data=keys)
    assert (await fish.wait(run.block_id, timeout_ms=PATIENCE_MS)).exit_code == 1
    assert (await fish.exec("echo hi", timeout_ms=PATIENCE_MS)).stdout == "hi\n"


@in_each_mode
@pytest.mark.parametrize(
    ("program", "define"),
    [
        (BASH, "ask() { read -e -p 'Name> ' name; echo \"<$name>\"; return 6; }"),
        (("zsh",), "ask() { vared -p 'Name> ' -c name; echo \"<$name>\"; return 6; }"),
    ],
)
async def test_line_that_a_function_reads_with_the_line_editor_is_a_question(
    open_session: Open, tmp_path: Path, program: tuple[str, ...], define: str, integration: str
) -> None:
    shell = await open_shell(open_session, program, tmp_path, shell_integration=integration)
    await shell.exec(define, timeout_ms=PATIENCE_MS)
    asked = await shell.exec("ask", timeout_ms=PATIENCE_MS)
    assert (asked.done_reason, asked.exit_code) == ("question", None)
    await write(shell, data="mine\n")
    reply = await shell.wait(asked.block_id, timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code) == ("Name> mine\n<mine>\n", 6)


async def test_function_that_executes_another_shell_ends_at_its_prompt(open_session: Open, tmp_path: Path) -> None:
    """The other shell has the process of the first one, and waits elsewhere."""
    bash = await open_shell(open_session, BASH, tmp_path)
    assert (await bash.exec("other() { exec bash --norc --noprofile; }", timeout_ms=PATIENCE_MS)).exit_code == 0
    assert (await bash.exec("other", timeout_ms=PATIENCE_MS)).done_reason == "prompt"
    assert (await bash.exec("(exit 3)", timeout_ms=PATIENCE_MS)).exit_code == 3


async def test_end_mark_is_not_typed_into_the_line_of_another_task(open_session: Open) -> None:
    """The other task has begun to write before the shell is back at its prompt; the pace delays its text."""
    bash = await open_session(command=BASH, shell_integration="off")
    await bash.exec("true", timeout_ms=PATIENCE_MS)
    await config(bash, "pace", line_delay_ms=1500)
    run = asyncio.create_task(bash.exec("echo begun; kill -INT $$; echo never", timeout_ms=PATIENCE_MS))
    await read(bash, cursor="0", until_regex="(?m)^begun\n", timeout_ms=PATIENCE_MS)
    await write(bash, data="echo half")
    reply = await run
    assert (reply.stdout.splitlines()[0], reply.exit_code) == ("begun", None)
    shown = (await read(bash, cursor="0", timeout_ms=0)).chunk or ""
    assert "half __ptyctl" not in shown
    assert "\nhalf" not in shown
    assert (await bash.exec("echo after", timeout_ms=PATIENCE_MS)).stdout == "after\n"

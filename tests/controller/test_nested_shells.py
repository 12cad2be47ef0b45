"""Detection of a run's end in nested shells, after lost marks, and with text that looks like the prompt."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from fixtures.servers.programs import require, require_program, require_shells_in
from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from tests.controller.marked_shells import in_each
from tests.controller.session_calls import BASH, PATIENCE_MS, Open, read, refused, write

pytestmark = pytest.mark.waits


@in_each
async def test_nested_shell_and_return_are_tracked(shell: SessionHandle) -> None:
    assert (await shell.exec("echo outer")).done_reason == "marks"
    reply = await shell.exec("bash --norc --noprofile", timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.exit_code, reply.prompt_detected) == ("prompt", None, True)
    assert "without marks" in (reply.exit_code_reason or "")
    for number in range(2):
        reply = await shell.exec(f"echo inner; (exit {number})", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("inner\n", number, "marker")
    reply = await shell.exec("exit 7", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason) == (7, "marks")
    reply = await shell.exec("echo outer again; sh -c 'exit 3'")
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("outer again\n", 3, "marks")


@in_each
async def test_nested_fish_and_return_are_tracked(shell: SessionHandle) -> None:
    fish = require_program("fish", "fish")
    assert (await shell.exec(f"{fish} --no-config", timeout_ms=PATIENCE_MS)).done_reason == "prompt"
    for line, stdout, code in [
        ("echo $FISH_VERSION | string length -q; and echo inner", "inner\n", 0),
        ("sh -c 'exit 3'", "", 3),
        ("for n in 1 2\n\techo $n\nend", "1\n2\n", 0),
        ("echo " + "x" * 2_000, "x" * 2_000 + "\n", 0),
    ]:
        reply = await shell.exec(line, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (stdout, code, "marker"), line
    assert (await shell.exec("echo )", timeout_ms=PATIENCE_MS)).exit_code == 123
    assert (await shell.exec("exit 7", timeout_ms=PATIENCE_MS)).exit_code == 7
    assert (await shell.exec("echo outer again")).done_reason == "marks"


async def test_nested_shell_with_functions_named_eval_and_echo_is_found(bash: SessionHandle, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("eval() { printf 'function\\n'; }\necho() { eval; }\n")
    await bash.exec(f"bash --rcfile {tmp_path}/file", timeout_ms=PATIENCE_MS)
    for code in (3, 0):
        reply = await bash.exec(f"printf one; sh -c 'exit {code}'", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("one", code, "marker")


@in_each
@pytest.mark.parametrize("command", ["sudo -n -i HISTFILE=/dev/null", "sudo -n -s HISTFILE=/dev/null", "sudo -n -u root sh"])
async def test_shell_of_another_user_and_return_are_tracked(shell: SessionHandle, command: str) -> None:
    require_program("sudo", "sudo")
    require((await shell.exec("sudo -n true")).exit_code == 0, "sudo asks this user for a password")
    reply = await shell.exec(command, timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.exit_code, reply.prompt_detected) == ("prompt", None, True)
    assert "without marks" in (reply.exit_code_reason or "")
    for number in range(2):
        reply = await shell.exec(f"id -u; (exit {number})", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("0\n", number, "marker")
    reply = await shell.exec("exit 7", timeout_ms=PATIENCE_MS)
    assert (reply.exit_code, reply.done_reason) == (7, "marks")
    assert reply.stdout.strip() in ("", "exit", "logout")
    reply = await shell.exec("echo outer again; sh -c 'exit 3'")
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("outer again\n", 3, "marks")


async def test_question_of_another_users_program_is_no_prompt(bash: SessionHandle) -> None:
    require_program("sudo", "sudo")
    tried = await bash.exec("sudo -n true", timeout_ms=PATIENCE_MS)
    require(tried.exit_code == 0, "sudo asks this user for a password")
    script = 'printf "Go on? [Y/n] "; read answer; echo "<$answer>"'
    asked = await bash.exec(f"sudo -n sh -c '{script}'", timeout_ms=PATIENCE_MS)
    assert (asked.done_reason, asked.waiting_for_input) == ("question", True)
    await write(bash, data="y\n")
    # sudo warns if it cannot resolve the name of the host
    assert (await bash.wait(asked.block_id)).stdout == f"{tried.stdout}Go on? [Y/n] y\n<y>\n"


@pytest.mark.parametrize("command", ["bash --norc --noprofile", "dash", "sudo -n sh"])
async def test_half_typed_text_in_nested_shell_is_cleared(bash: SessionHandle, command: str) -> None:
    require_program(command.split()[0], command.split()[0])
    require(not command.startswith("sudo") or (await bash.exec("sudo -n true")).exit_code == 0, "sudo asks for a password")
    assert (await bash.exec(command, timeout_ms=PATIENCE_MS)).done_reason == "prompt"
    await bash.exec("true", timeout_ms=PATIENCE_MS)
    begin = (await write(bash, data="echo half")).next_cursor
    assert (await read(bash, cursor=begin, until_regex="half$", timeout_ms=PATIENCE_MS)).matched
    reply = await bash.exec("echo inner; (exit 3)", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("inner\n", 3, "marker")
    assert any("half-typed" in notice for notice in reply.notices or ())


async def test_program_typed_by_write_in_nested_shell_gets_no_command(bash: SessionHandle) -> None:
    await bash.exec("bash --norc --noprofile", timeout_ms=PATIENCE_MS)
    await bash.exec("true", timeout_ms=PATIENCE_MS)
    begin = (await write(bash, data="python3 -qic ''\n")).next_cursor
    assert (await read(bash, cursor=begin, until_regex="(?m)^>>> $", timeout_ms=PATIENCE_MS)).matched
    with refused(ErrorCode.BUSY, "nothing was typed"):
        await bash.exec("echo hi", timeout_ms=PATIENCE_MS)


async def test_question_behind_a_program_that_relays_a_terminal_is_answered_by_the_caller(open_session: Open) -> None:
    """A relay, such as ssh, always waits at the same place: that does not mean that the shell behind it is at its prompt."""
    relay = (require_program("script", "bsdutils"), "-qc", "bash --norc --noprofile", "/dev/null")
    shell = await open_session(command=relay, shell="posix", env={"PS1": "far$ "})
    assert (await shell.exec("true", timeout_ms=PATIENCE_MS)).done_reason == "marker"
    asked = await shell.exec("read -p 'Name? ' name", timeout_ms=PATIENCE_MS)
    assert (asked.done_reason, asked.waiting_for_input) == ("question", True)
    await write(shell, data="yes\n")
    assert (await shell.wait(asked.block_id)).exit_code == 0
    assert (await shell.exec('echo "$name"', timeout_ms=PATIENCE_MS)).stdout == "yes\n"


@pytest.mark.parametrize("program", ["bash", "dash"])
async def test_nested_shell_in_unmarked_shell_is_tracked(open_session: Open, program: str) -> None:
    """Its prompt is another than the one that was learned, and so is the one that comes back."""
    outer = await open_session(command=(require_program(program, program),), shell_integration="off", env={"PS1": "outer$ "})
    assert (await outer.exec("PS1='outer$ '")).done_reason == "marker"
    reply = await outer.exec("PS1='inner$ ' sh", timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.exit_code, reply.prompt_detected) == ("prompt", None, True)
    reply = await outer.exec("echo inner; (exit 3)", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("inner\n", 3, "marker")
    assert (await outer.exec("exit", timeout_ms=PATIENCE_MS)).done_reason == "prompt"
    reply = await outer.exec('echo "$PS1"; (exit 4)', timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("outer$ \n", 4, "marker")


@pytest.mark.parametrize("command", ["zsh -f", "bash --norc", "dash", "exec zsh -f"])
@pytest.mark.parametrize("program", ["bash", "dash"])
async def test_shell_typed_by_write_in_unmarked_shell_is_tracked(open_session: Open, program: str, command: str) -> None:
    require_shells_in(command)
    words = [require_program(program, program), *(("--norc",) if program == "bash" else ())]
    outer = await open_session(command=words, shell_integration="off", env={"PS1": "outer$ "})
    assert (await outer.exec("true", timeout_ms=PATIENCE_MS)).done_reason == "marker"
    begin = (await write(outer, data=f"export PS1='nested$ '; {command}\n")).next_cursor
    assert (await read(outer, cursor=begin, until_regex=r"(?m)^nested\$ $", timeout_ms=PATIENCE_MS)).matched
    for code in (3, 0):
        reply = await outer.exec(f"echo $0; (exit {code})", timeout_ms=PATIENCE_MS)
        name = command.removeprefix("exec ").split()[0]
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (f"{name}\n", code, "marker")


async def test_program_typed_by_write_in_unmarked_shell_gets_no_command(open_session: Open) -> None:
    shell = await open_session(shell_integration="off")
    await shell.exec("true", timeout_ms=PATIENCE_MS)
    begin = (await write(shell, data="python3 -qc \"input('in> ')\"\n")).next_cursor
    assert (await read(shell, cursor=begin, until_regex="(?m)^in> $", timeout_ms=PATIENCE_MS)).matched
    for _ in range(2):  # not even once the entered line has been answered
        with refused(ErrorCode.BUSY, "nothing was typed"):
            await shell.exec("echo hi", timeout_ms=PATIENCE_MS)
    await write(shell, data="\n")
    await read(shell, cursor=begin, until_regex="in> \n.*[$#] $", timeout_ms=PATIENCE_MS)
    assert (await shell.exec("echo hi", timeout_ms=PATIENCE_MS)).stdout == "hi\n"


@pytest.mark.parametrize(
    ("command", "way"),
    [("PROMPT_COMMAND=()", "marks"), ("unset PROMPT_COMMAND", "marks"), ("unset -f __ptyctl_prompt", "marker")],
)
async def test_run_ends_after_marks_were_removed(bash: SessionHandle, command: str, way: str) -> None:
    await bash.exec("echo before")
    reply = await bash.exec(command, timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.exit_code) == ("prompt", None)
    assert reply.exit_code_reason
    reply = await bash.exec("echo after; (exit 3)", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("after\n", 3, way)


async def test_printed_prompt_does_not_end_the_run(open_session: Open, tmp_path: Path) -> None:
    release = tmp_path / "release"
    os.mkfifo(release)
    handle = await open_session(command=["bash", "--norc", "--noprofile"], env={"PS1": "here$ "})
    assert (await handle.exec("PS1='here$ '")).exit_code == 0
    run = await handle.exec(f"printf 'here$ '; cat {release}; echo more; (exit 6)", timeout_ms=PATIENCE_MS)
    assert (run.done_reason, run.exit_code) == ("question", None)
    await asyncio.to_thread(release.write_text, "")
    reply = await handle.wait(run.block_id, timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, reply.done_reason) == ("here$ more\n", 6, "marks")


@pytest.mark.parametrize("integration", ["auto", "off"])
@pytest.mark.parametrize(
    ("program", "command"),
    [
        (BASH, "read -p 'here$ ' answer"),
        (BASH, "read -e -p 'here$ ' answer"),
        (BASH, 'while [ -z "$answer" ]; do read -e -p "$PS1" answer; done'),
        ((*BASH, "--noediting"), "read -p 'here$ ' answer"),
        (("dash",), "printf 'here$ '; read answer"),
        (("zsh",), "vared -p 'here$ ' -c answer"),
    ],
)
async def test_line_read_at_the_text_of_the_prompt_is_a_question(
    open_session: Open, program: tuple[str, ...], command: str, integration: str, tmp_path: Path
) -> None:
    require_program(program[0], program[0])
    (tmp_path / ".zshrc").touch()
    handle = await open_session(command=program, shell_integration=integration, env={"ZDOTDIR": str(tmp_path)})
    assert (await handle.exec("PS1='here$ '", timeout_ms=PATIENCE_MS)).exit_code == 0
    asked = await handle.exec(f'{command}; echo "<$answer>"; (exit 6)', timeout_ms=PATIENCE_MS)
    assert (asked.done_reason, asked.exit_code) == ("question", None)
    await write(handle, data="mine\n")
    reply = await handle.wait(asked.block_id)
    assert (reply.stdout, reply.exit_code) == ("here$ mine\n<mine>\n", 6)

"""Half-typed text of a user when the daemon ends: the next daemon types and runs nothing after it."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.daemon.control import HAND_OVER
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.daemon.test_crash_recovery import PATIENCE_MS, Life
from tests.session.scripted_session import wait_until
from transports.process import waits_for_input

pytestmark = pytest.mark.waits

SHELLS = {
    "bash": ("bash", "--norc", "--noprofile"),
    "zsh": ("zsh",),
    "fish": ("fish", "--no-config"),
    "dash": ("dash",),
}
#: The prompt of each shell, as a pattern.
PROMPTS = {"bash": r"bash-\S+[#$] ", "zsh": "here> ", "fish": ".*folder[#>] ", "dash": "[#$] "}
#: A command with which the shell edits lines as vi does.
VI = {"bash": "set -o vi", "zsh": "bindkey -v"}
REPLACED = "the server was replaced; the terminal and all programs in it continue"
RULES = """
extends = ["off"]
unreadable = "ask"

[[rules]]
id = "forbidden"
command = ["touch", "HALF*"]
decision = "deny"
reason = "it leaves a file"
"""


@pytest.fixture
async def life(runtime_dir: RuntimeDir) -> AsyncIterator[Life]:
    async with AsyncExitStack() as connections:
        yield Life(runtime_dir, connections)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the shells, which have no start-up files."""
    monkeypatch.setenv("ZDOTDIR", str(tmp_path))
    (tmp_path / ".zshrc").write_text("PS1='here> '\n")
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


async def open_shell(life: Life, program: str, folder: Path, command: str = "true", **fields: str) -> SessionHandle:
    """Return a shell that has run a command."""
    require_program(program, program)
    shell = await life.open(command=SHELLS[program], cwd=str(folder), **fields)
    await shell.exec(command, timeout_ms=PATIENCE_MS)
    return shell


async def type_keys(shell: SessionHandle, keys: str, echo: str) -> None:
    await shell.write(keys)
    assert (await shell.read(until_regex=echo, timeout_ms=PATIENCE_MS)).matched


async def print_sum(shell: SessionHandle, program: str) -> None:
    """Type a line into a shell without marks, and wait for its output and until the shell reads at its next prompt."""
    pid = int((await shell.exec("echo $fish_pid" if program == "fish" else "echo $$", timeout_ms=PATIENCE_MS)).stdout)
    prompt = PROMPTS[program]
    assert (await shell.read(cursor="0", until_regex=f"(?:^|\n){prompt}$", timeout_ms=PATIENCE_MS)).matched
    await type_keys(shell, "expr 41 + 1\r", f"\n42\n(?:.*\n)*{prompt}$")
    await wait_until(lambda: waits_for_input(pid))


async def assert_runs_alone(shell: SessionHandle, folder: Path, notice: str | None = None) -> None:
    """Asserts that a command runs, and nothing else. `notice`: a part of one that its reply must have."""
    reply = await shell.exec("echo hi", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, list(folder.iterdir())) == ("hi\n", 0, [])
    notices = [each for each in reply.notices or () if each != REPLACED]
    assert [notice is not None and notice in each for each in notices] == [True] * (notice is not None)
    following = await shell.exec("echo on", timeout_ms=PATIENCE_MS)
    assert (following.stdout, following.notices) == ("on\n", None)


@pytest.mark.parametrize(("program", "number"), [*((program, signal.SIGKILL) for program in SHELLS), ("bash", HAND_OVER)])
async def test_exec_after_restart_clears_half_typed_text(
    life: Life, folder: Path, program: str, number: signal.Signals
) -> None:
    shell = await open_shell(life, program, folder)
    await type_keys(shell, "touch HALF_", "HALF_")
    await assert_runs_alone(await life.again(shell, number), folder, "half-typed text of 11 characters by ")


@pytest.mark.parametrize("program", SHELLS)
async def test_exec_after_restart_leaves_open_quote(life: Life, folder: Path, program: str) -> None:
    shell = await open_shell(life, program, folder)
    await type_keys(shell, "touch 'HALF_\r", r"HALF_[\s\S]*\n")
    shell = await life.again(shell)
    reply = await shell.exec("echo hi", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, list(folder.iterdir())) == ("hi\n", 0, [])


async def test_exec_after_restart_leaves_open_quote_with_prompt_shown_after_restart(life: Life, folder: Path) -> None:
    os.mkfifo(release := folder.parent / "release")
    shell = await open_shell(life, "dash", folder, f"PS2='$(cat {release})> '")
    await type_keys(shell, "touch 'HALF_\r", r"HALF_[\s\S]*\n")
    shell = await life.again(shell)
    release.write_text("more")
    reply = await shell.exec("echo hi", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, list(folder.iterdir())) == ("hi\n", 0, [])


@pytest.mark.parametrize("program", ["bash", "dash"])
async def test_exec_after_restart_runs_after_output_of_a_background_job(life: Life, folder: Path, program: str) -> None:
    os.mkfifo(release := folder.parent / "release")
    shell = await open_shell(life, program, folder, shell_integration="off")
    await shell.write(f"cat {release} &\r")
    assert (await shell.read(until_regex=r"(?m)^\[1\].*\n(.*\n)*.*[#$] $|&\s.*[#$] $", timeout_ms=PATIENCE_MS)).matched
    shell = await life.again(shell)
    release.write_text("from the job\n")
    assert (await shell.read(cursor="0", until_regex="from the job", timeout_ms=PATIENCE_MS)).matched
    reply = await shell.exec("echo hi", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code) == ("hi\n", 0)


@pytest.mark.parametrize("program", VI)
async def test_exec_after_restart_leaves_vi_command_mode(life: Life, folder: Path, program: str) -> None:
    shell = await open_shell(life, program, folder, VI[program])
    await type_keys(shell, "touch HALF_", "HALF_")
    await shell.write("\x1b")
    shell = await life.again(shell)
    reply = await shell.exec("echo hi", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, list(folder.iterdir())) == ("hi\n", 0, [])


@pytest.mark.parametrize("program", ["bash", "fish", "dash"])
async def test_exec_after_restart_types_no_interrupt_at_free_prompt(life: Life, folder: Path, program: str) -> None:
    shell = await open_shell(life, program, folder)
    if program != "dash":  # its prompt is not known to the next daemon
        await type_keys(shell, "expr 41 + 1\r", r"(?m)^42$")
        await shell.read(until_idle_ms=200, timeout_ms=PATIENCE_MS)
    await assert_runs_alone(await life.again(shell), folder)
    (log,) = folder.parent.glob("state/sessions/*/input.jsonl")
    assert '"data":"\\u0003' not in log.read_text()


async def test_answer_begun_before_restart_is_completed(life: Life, folder: Path) -> None:
    shell = await open_shell(life, "bash", folder)
    run = await shell.exec("echo begun; head -n 1", timeout_ms=0)
    assert (await shell.read(until_regex="(?m)^begun$", timeout_ms=PATIENCE_MS)).matched
    await type_keys(shell, "touch HA", "touch HA")
    shell = await life.again(shell)
    await shell.write("LF_\n")
    ended = await shell.wait(run.block_id, timeout_ms=PATIENCE_MS)
    assert (ended.exit_code, ended.stdout.splitlines()[-1]) == (0, "touch HALF_")
    await assert_runs_alone(shell, folder)


@pytest.mark.parametrize("before", ["touch HALF_", "touch \\\r"])
@pytest.mark.parametrize("program", ["bash", "zsh", "dash"])
async def test_enter_after_restart_is_judged_with_text_before_it(
    life: Life, folder: Path, monkeypatch: pytest.MonkeyPatch, program: str, before: str
) -> None:
    (rules := folder.parent / "rules.toml").write_text(RULES)
    monkeypatch.setenv("PTYCTL_POLICY", str(rules))
    shell = await open_shell(life, program, folder)
    await type_keys(shell, before, r"HALF_" if "HALF" in before else r"touch \\[\s\S]*\n")
    shell = await life.again(shell)
    with pytest.raises(PtyctlError) as caught:
        await shell.write("\r" if "HALF" in before else "HALF_\r")
    assert caught.value.code is ErrorCode.POLICY_DENIED
    reply = await shell.exec("echo hi", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code, list(folder.iterdir())) == ("hi\n", 0, [])


@pytest.mark.parametrize("program", SHELLS)
async def test_lines_after_restart_at_an_empty_prompt_without_marks_are_typed(
    life: Life, folder: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    (rules := folder.parent / "rules.toml").write_text(RULES)
    monkeypatch.setenv("PTYCTL_POLICY", str(rules))
    shell = await open_shell(life, program, folder, shell_integration="off")
    await print_sum(shell, program)
    shell = await life.again(shell)
    begin = (await shell.write("touch one\ntouch two\n")).next_cursor
    with pytest.raises(PtyctlError) as caught:
        await shell.write("touch HALF_\n")
    assert caught.value.code is ErrorCode.POLICY_DENIED
    prompts = f"(?:{PROMPTS[program]}(?:.*\n)*?.*?){{2}}$"
    assert (await shell.read(cursor=begin, until_regex=prompts, timeout_ms=PATIENCE_MS)).matched
    reply = await shell.exec("echo hi", timeout_ms=PATIENCE_MS)
    assert (reply.stdout, {path.name for path in folder.iterdir()}) == ("hi\n", {"one", "two"})


@pytest.mark.parametrize("typed", ["touch \\\r", "touch HALF", "touch HAL\x06"])
@pytest.mark.parametrize("program", ["bash", "zsh", "dash"])
async def test_line_following_unknown_text_after_restart_without_marks_is_refused(
    life: Life, folder: Path, monkeypatch: pytest.MonkeyPatch, program: str, typed: str
) -> None:
    (rules := folder.parent / "rules.toml").write_text(RULES)
    monkeypatch.setenv("PTYCTL_POLICY", str(rules))
    shell = await open_shell(life, program, folder, shell_integration="off")
    await print_sum(shell, program)
    await shell.write(typed)
    await shell.read(until_idle_ms=200, timeout_ms=PATIENCE_MS)
    shell = await life.again(shell)
    with pytest.raises(PtyctlError) as caught:
        await shell.write("HALF_\r")
    assert caught.value.code is ErrorCode.POLICY_DENIED

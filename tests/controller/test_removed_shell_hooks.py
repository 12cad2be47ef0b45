"""Shells whose dotfiles and prompt frameworks change or remove the hooks that send marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.servers.programs import require_program, require_shells_in
from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import PATIENCE_MS, Open, read, refused, write

pytestmark = pytest.mark.waits

#: What prompt frameworks and dotfiles of users do to the hooks of bash.
BASH_FILES = {
    "PS0 replaced": "PS0='run '",
    "PS0 unset": "unset PS0",
    "PROMPT_COMMAND unset": "unset PROMPT_COMMAND",
    "PROMPT_COMMAND array": "PROMPT_COMMAND=(true 'x=1')",
    "PROMPT_COMMAND text": "PROMPT_COMMAND='true'",
    "both removed": "unset PROMPT_COMMAND PS0",
    "starship-like": """
prompt_precmd() { local status=$?; PS1="~ took ${SECONDS}s\\n❯ "; return $status; }
PS0='${BEGUN:$((BEGUN=1,0)):0}'
PROMPT_COMMAND=prompt_precmd""",
    "preexec by a DEBUG trap": """
invoke_preexec() { [[ -n ${COMP_LINE-} || -z ${interactive-} ]] && return; interactive=; last=$BASH_COMMAND; }
invoke_precmd() { local status=$?; seen=$status; return $status; }
PROMPT_COMMAND=$'invoke_precmd\\n'"${PROMPT_COMMAND[*]:-:}"$'\\ninteractive=on'
trap 'invoke_preexec "$_"' DEBUG""",
    "OSC 133": r"""
PS1='\[\e]133;A\a\]\u\$ \[\e]133;B\a\]'
PS0='\e]133;C\a'
PROMPT_COMMAND='printf "\e]133;D;%s\a" "$?"'""",
}
ZSH_FILES = {
    "precmd_functions emptied": "precmd_functions=()",
    "preexec_functions emptied": "preexec_functions=()",
    "all functions emptied": "precmd_functions=() preexec_functions=()",
    "oh-my-zsh-like": """
autoload -Uz add-zsh-hook
setopt prompt_subst
theme_precmd() { PS1='%1~ ➜ '; }
add-zsh-hook precmd theme_precmd
zle-line-init() { zle reset-prompt }
zle -N zle-line-init""",
    "OSC 133": r"""
precmd() { printf '\e]133;D;%s\a\e]133;A\a' $?; }
preexec() { printf '\e]133;C\a'; }""",
}
CASES = [("bash", name) for name in BASH_FILES] + [("zsh", name) for name in ZSH_FILES]


def text_of(shell: str, name: str) -> str:
    return (BASH_FILES if shell == "bash" else ZSH_FILES)[name]


async def check_runs(handle: SessionHandle, number: int = 2) -> None:
    for code in range(number):
        reply = await handle.exec(f"echo one; sh -c 'exit {code}'", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("one\n", code, "marks")


@pytest.mark.parametrize(("shell", "name"), CASES)
async def test_marks_survive_what_startup_files_do(open_session: Open, tmp_path: Path, shell: str, name: str) -> None:
    require_program(shell, shell)
    (tmp_path / f".{shell}rc").write_text(text_of(shell, name) + "\n")
    handle = await open_session(
        command=(shell,), env={"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "HISTFILE": "/dev/null"}
    )
    await check_runs(handle)


@pytest.mark.parametrize(("shell", "name"), CASES)
async def test_marks_return_after_a_file_sourced_in_mid_session(
    open_session: Open, tmp_path: Path, shell: str, name: str
) -> None:
    require_program(shell, shell)
    (tmp_path / ".zshrc").touch()
    (tmp_path / "file").write_text(text_of(shell, name) + "\n")
    command = (shell, "--norc") if shell == "bash" else (shell,)
    handle = await open_session(command=command, env={"ZDOTDIR": str(tmp_path), "HISTFILE": "/dev/null", "PS1": "$ "})
    await check_runs(handle, 1)
    reply = await handle.exec(f". {tmp_path}/file", timeout_ms=PATIENCE_MS)
    assert reply.done_reason == "marks" or any("hooks" in notice for notice in reply.notices or ())
    await check_runs(handle)
    if shell == "bash":
        await handle.exec("PS1='$ '")
        await handle.exec(f". {tmp_path}/file", timeout_ms=PATIENCE_MS)
        await check_runs(handle)


@pytest.mark.parametrize("prompt", ["$ ", "new> ", "new: ", "what? "])
@pytest.mark.parametrize("shell", ["bash", "zsh"])
async def test_run_that_removes_hooks_ends_within_300_ms_with_a_notice(
    open_session: Open, tmp_path: Path, shell: str, prompt: str
) -> None:
    require_program(shell, shell)
    (tmp_path / ".zshrc").write_text("PS1='$ '\n")
    (tmp_path / ".bashrc").write_text("PS1='$ '\n")
    handle = await open_session(command=(shell,), env={"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)})
    await check_runs(handle, 1)
    hooks = "unset PROMPT_COMMAND; PS0=" if shell == "bash" else "precmd_functions=() preexec_functions=() PROMPT_EOL_MARK="
    command = f"{hooks}; PS1='{prompt}'"
    durations_ms = []
    for _ in range(5):  # a busy machine may delay each of them, but not all
        reply = await handle.exec(command, timeout_ms=PATIENCE_MS)
        assert any("hooks" in notice for notice in reply.notices or ())
        await check_runs(handle)
        durations_ms.append(reply.duration_ms)
        if min(durations_ms) < 400:  # with the time to run the command
            break
    assert min(durations_ms) < 400


@pytest.mark.parametrize(("integration", "strategy"), [("auto", "marks"), ("off", "marker")])
async def test_text_in_ps0_does_not_hide_the_shell(open_session: Open, integration: str, strategy: str) -> None:
    """bash prints it before the answer to a probe."""
    handle = await open_session(command=("bash", "--norc"), shell_integration=integration, env={"PS1": "$ ", "PS0": "run "})
    await handle.exec("unset PROMPT_COMMAND", timeout_ms=PATIENCE_MS)
    for code in (3, 0):
        reply = await handle.exec(f"echo one; sh -c 'exit {code}'", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("one\n", code, strategy)


@pytest.mark.parametrize("eval_", ["alias eval=ls", "eval() { ls; }"])
@pytest.mark.parametrize("shell", ["bash", "zsh"])
async def test_hooks_are_installed_again_although_eval_is_redefined(
    open_session: Open, tmp_path: Path, shell: str, eval_: str
) -> None:
    require_program(shell, shell)
    (tmp_path / ".zshrc").touch()
    handle = await open_session(
        command=(shell, "--norc") if shell == "bash" else (shell,), env={"ZDOTDIR": str(tmp_path), "PS1": "$ "}
    )
    hooks = "unset PROMPT_COMMAND PS0" if shell == "bash" else "precmd_functions=() preexec_functions=()"
    for command in (eval_, hooks):
        await handle.exec(command, timeout_ms=PATIENCE_MS)
    await check_runs(handle)


@pytest.mark.parametrize("program", ["zsh", "fish", "bash", "dash"])
async def test_startup_file_that_executes_another_shell_gives_exit_codes(
    open_session: Open, tmp_path: Path, program: str
) -> None:
    require_program(program, program)
    (tmp_path / ".zshrc").touch()
    argument = {"fish": " --no-config", "bash": " -l"}.get(program, "")
    (tmp_path / ".bashrc").write_text(f"exec {program}{argument}\n")
    handle = await open_session(command=("bash",), env={"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)})
    for code in (3, 0):
        reply = await handle.exec(f"echo one; sh -c 'exit {code}'", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code) == ("one\n", code)
        assert reply.duration_ms < 10_000


async def test_startup_file_that_executes_a_full_screen_program_is_busy(open_session: Open, tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("printf '\\e[?1049hfull screen'; exec cat\n")
    handle = await open_session(command=("bash",), env={"HOME": str(tmp_path)})
    for _ in range(2):
        with refused(ErrorCode.BUSY, "full-screen program"):
            await handle.exec("echo hi", timeout_ms=PATIENCE_MS)


@pytest.mark.parametrize(
    "command", ["zsh -f", "bash --norc", "fish --no-config", "dash", "exec zsh -f", "env PS1='❯ ' bash --norc"]
)
async def test_shell_that_was_typed_gives_exit_codes(bash: SessionHandle, command: str) -> None:
    require_shells_in(command)
    assert (await bash.exec("true")).done_reason == "marks"
    await read(bash, cursor="0", until_idle_ms=300, timeout_ms=PATIENCE_MS)
    before = (await write(bash, data=f"{command}\n")).next_cursor
    await read(bash, cursor=before, until_idle_ms=300, timeout_ms=PATIENCE_MS)
    for code in (3, 0):
        reply = await bash.exec(f"echo one; sh -c 'exit {code}'", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("one\n", code, "marker")


@pytest.mark.parametrize("hooks", ["precmd_functions=()", "precmd_functions=() preexec_functions=()"])
async def test_zsh_that_loses_hooks_and_prompt_has_exact_outputs(open_session: Open, tmp_path: Path, hooks: str) -> None:
    """The blank that zsh leaves at the start of an empty line is no prompt."""
    require_program("zsh", "zsh")
    (tmp_path / ".zshrc").write_text("PS1='$ '\n")
    handle = await open_session(command=("zsh",), env={"ZDOTDIR": str(tmp_path)})
    await check_runs(handle, 1)
    await handle.exec(f"{hooks}; PS1=''", timeout_ms=PATIENCE_MS)
    await check_runs(handle)


@pytest.mark.parametrize("hooks", ["precmd_functions=()", "zshaddhistory_functions=()", "unfunction __ptyctl_precmd"])
async def test_history_of_zsh_that_loses_hooks_has_only_commands(open_session: Open, tmp_path: Path, hooks: str) -> None:
    require_program("zsh", "zsh")
    (tmp_path / ".zshrc").write_text("PS1='$ '\n")
    handle = await open_session(command=("zsh",), env={"ZDOTDIR": str(tmp_path), "HISTFILE": "/dev/null"})
    for command in ("echo one", hooks, "true", "for i in 1; do echo $i; done"):
        await handle.exec(command, timeout_ms=PATIENCE_MS)
    lines = (await handle.exec("fc -ln 1", timeout_ms=PATIENCE_MS)).stdout.splitlines()
    assert [line for line in lines if "ptyctl" in line or "eval" in line] == [hooks] * ("ptyctl" in hooks)


async def test_zsh_that_loses_hooks_at_an_empty_prompt_without_bracketed_paste_is_found(
    open_session: Open, tmp_path: Path
) -> None:
    """Only the kernel reports that it waits at its prompt."""
    require_program("zsh", "zsh")
    (tmp_path / ".zshrc").write_text("PS1=''\nunset zle_bracketed_paste\n")
    handle = await open_session(command=("zsh",), env={"ZDOTDIR": str(tmp_path), "HISTFILE": "/dev/null"})
    await check_runs(handle, 1)
    reply = await handle.exec("precmd_functions=()", timeout_ms=PATIENCE_MS)
    assert any("hooks" in notice for notice in reply.notices or ())
    await check_runs(handle)

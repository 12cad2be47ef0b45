"""Keys that are typed after a shell has returned to its prompt, and before it has shown it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from tests.controller.session_calls import PATIENCE_MS, Open, execute, read, write

SHELLS = {
    "bash": (("bash", "--norc", "--noprofile"), "PS1='$(sleep 0.3)here> '"),
    "zsh": (("zsh",), "setopt promptsubst; PS1='$(sleep 0.3)here> '"),
    "fish": (("fish", "--no-config"), "function fish_prompt; sleep 0.3; echo -n 'here> '; end"),
}


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that refuses a line which is not known, and an empty start-up file."""
    (tmp_path / "rules.toml").write_text('extends = ["off"]\nunreadable = "ask"\n')
    (tmp_path / ".zshrc").touch()
    monkeypatch.setenv("PTYCTL_POLICY", str(tmp_path / "rules.toml"))
    monkeypatch.setenv("ZDOTDIR", str(tmp_path))


@pytest.fixture
def _patient_typing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for the text of a prompt than a busy machine delays it."""
    monkeypatch.setattr("ptyctl.session.authorization.PROMPT_WAIT_S", PATIENCE_MS / 1000)


@pytest.mark.usefixtures("_patient_typing")
@pytest.mark.parametrize(("command", "slow_prompt"), SHELLS.values(), ids=SHELLS)
async def test_line_edited_with_cursor_keys_after_a_late_prompt_is_readable(
    open_session: Open, command: tuple[str, ...], slow_prompt: str
) -> None:
    require_program(command[0], command[0])
    shell = await open_session(command=command)
    for cmd in (slow_prompt, "true"):
        await execute(shell, cmd=cmd, timeout_ms=PATIENCE_MS)
    await write(shell, data="expr 4 + 38")
    await write(shell, data="\x1b[D\x1b[C")
    await write(shell, data="\r", until_regex="(?m)^42", timeout_ms=PATIENCE_MS)


@pytest.mark.usefixtures("_patient_typing")
@pytest.mark.parametrize("program", ["bash", "zsh", "dash"])
async def test_text_typed_after_a_run_with_a_marker_follows_the_prompt(open_session: Open, program: str) -> None:
    """Such a run ends before the shell has shown its prompt."""
    words = [require_program(program, program), *{"bash": ["--norc"], "zsh": ["-f"]}.get(program, [])]
    prompt = "$(sleep 0.3)here> "
    shell = await open_session(command=words, shell_integration="off", env={"PS1": prompt, "PROMPT_EOL_MARK": ""})
    if program == "zsh":
        await execute(shell, cmd="setopt promptsubst", timeout_ms=PATIENCE_MS)
    await execute(shell, cmd="true", timeout_ms=PATIENCE_MS)
    run = await execute(shell, cmd="echo out", timeout_ms=PATIENCE_MS)
    assert (run.stdout, run.done_reason) == ("out\n", "marker")
    await write(shell, data="echo $((40 + 2))x\r")
    shown = await shell.screen(until_regex=r"(?m)^42x\n(.*\n)*.*here> ?$", timeout_ms=PATIENCE_MS)
    assert shown.matched
    assert [row for row in shown.rows or () if row.rstrip().endswith("here> echo $((40 + 2))x")], shown


@pytest.mark.parametrize(
    ("command", "slow_prompt"),
    [(("bash", "--norc"), "PROMPT_COMMAND='sleep 0.3'"), (("zsh", "-f"), "precmd() { sleep 0.3; }")],
    ids=["bash", "zsh"],
)
async def test_exec_in_an_unmarked_shell_waits_for_the_programs_of_its_prompt(
    open_session: Open, command: tuple[str, ...], slow_prompt: str
) -> None:
    require_program(command[0], command[0])
    shell = await open_session(command=command, shell_integration="off", env={"PS1": "here> "})
    await execute(shell, cmd=slow_prompt, timeout_ms=PATIENCE_MS)
    for number in range(5):
        reply = await execute(shell, cmd=f"echo {number}; (exit {number})", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == (f"{number}\n", number, "marker")


async def test_first_prompt_is_learned_when_fish_has_shown_it(
    open_session: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is known, the text that a program has read cannot be told from text in the line."""
    (tmp_path / "fish").mkdir()
    (tmp_path / "fish/config.fish").write_text("function fish_prompt; sleep 0.5; echo -n 'here> '; end\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    shell = await open_session(command=(require_program("fish", "fish"),))
    await execute(shell, cmd="true", timeout_ms=PATIENCE_MS)
    begin = (await write(shell, data="echo be''gun; sh -c 'stty -icanon; head -c 1'\r")).next_cursor
    await read(shell, cursor=begin, until_regex="begun", timeout_ms=PATIENCE_MS)
    await write(shell, data="q")
    await read(shell, cursor=begin, until_regex="here> $", timeout_ms=PATIENCE_MS)
    assert (await execute(shell, cmd="true", timeout_ms=PATIENCE_MS)).notices is None

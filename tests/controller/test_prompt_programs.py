"""Commands that are sent while a shell runs a program for its prompt are judged as commands of the shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.session.device.prompt_guard import CLEAR_WAIT_S
from ptyctl.session.runs import strategy_selector
from tests.controller.session_calls import PATIENCE_MS, Open, execute

#: Input of programs is allowed; a command of a shell that is not known before it runs is denied.
RULES = 'extends = ["off"]\nprograms = "allow"\nunparsed = "deny"\n'
FORBIDDEN = "X=touch; $X RAN"


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy, and start-up files with a slow prompt."""
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / ".bashrc").write_text("PS1='in> '; PROMPT_COMMAND='sleep 0.5'\n")
    (tmp_path / ".zshrc").write_text("slow() { sleep 0.5 }\nprecmd_functions+=(slow)\n")
    monkeypatch.setenv("PTYCTL_POLICY", str(tmp_path / "rules.toml"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ZDOTDIR", str(tmp_path))


@pytest.mark.parametrize("rc_mode", [None, {"enabled": False}], ids=["marker", "no marker"])
@pytest.mark.parametrize("wait_s", [CLEAR_WAIT_S, 0.05], ids=["awaited", "too slow"])
async def test_command_in_a_nested_shell_with_a_slow_prompt_is_judged_for_the_shell(
    open_session: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_s: float, rc_mode: dict[str, bool] | None
) -> None:
    outer = await open_session(command=("bash", "--norc", "--noprofile"), cwd=str(tmp_path))
    await execute(outer, cmd="bash", timeout_ms=PATIENCE_MS)
    await execute(outer, cmd="true", timeout_ms=PATIENCE_MS)
    monkeypatch.setattr(strategy_selector, "CLEAR_WAIT_S", wait_s)
    with pytest.raises(PtyctlError) as refused:
        await execute(outer, cmd=FORBIDDEN, rc_mode=rc_mode, timeout_ms=PATIENCE_MS)
    assert refused.value.code in (ErrorCode.POLICY_DENIED, ErrorCode.BUSY)
    assert wait_s == 0.05 or refused.value.code is ErrorCode.POLICY_DENIED
    assert not (tmp_path / "RAN").exists()


async def test_command_in_a_marked_zsh_with_a_slow_hook_is_judged_for_the_shell(open_session: Open, tmp_path: Path) -> None:
    zsh = await open_session(command=(require_program("zsh", "zsh"),), cwd=str(tmp_path))
    for _ in range(2):
        await execute(zsh, cmd="true", timeout_ms=PATIENCE_MS)
        with pytest.raises(PtyctlError) as refused:
            await execute(zsh, cmd=FORBIDDEN, timeout_ms=PATIENCE_MS)
        assert refused.value.code is ErrorCode.POLICY_DENIED
    assert not (tmp_path / "RAN").exists()


async def test_command_in_a_shell_that_another_program_has_executed_is_judged_for_the_shell(
    open_session: Open, tmp_path: Path
) -> None:
    shell = await open_session(command=("env", "bash", "--norc"), cwd=str(tmp_path))
    for _ in range(2):
        with pytest.raises(PtyctlError) as refused:
            await execute(shell, cmd=FORBIDDEN, timeout_ms=PATIENCE_MS)
        assert refused.value.code is ErrorCode.POLICY_DENIED
        await execute(shell, cmd="true", timeout_ms=PATIENCE_MS)
    assert not (tmp_path / "RAN").exists()

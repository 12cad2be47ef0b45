"""Keys that are typed after a shell has reported its prompt, and before it has shown it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from tests.controller.session_calls import PATIENCE_MS, Open, execute, write

SHELLS = {
    "bash": (("bash", "--norc", "--noprofile"), "PS1='$(sleep 0.3)here> '"),
    "zsh": (("zsh",), "setopt promptsubst; PS1='$(sleep 0.3)here> '"),
    "fish": (("fish", "--no-config"), "function fish_prompt; sleep 0.3; echo -n 'here> '; end"),
}


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy by which a line that is not known is refused, and an empty start-up file."""
    (tmp_path / "rules.toml").write_text('extends = ["off"]\nunreadable = "ask"\n')
    (tmp_path / ".zshrc").touch()
    monkeypatch.setenv("PTYCTL_POLICY", str(tmp_path / "rules.toml"))
    monkeypatch.setenv("ZDOTDIR", str(tmp_path))


@pytest.mark.parametrize(("command", "slow_prompt"), SHELLS.values(), ids=SHELLS)
async def test_line_edited_with_cursor_keys_behind_a_late_prompt_is_readable(
    open_session: Open, command: tuple[str, ...], slow_prompt: str
) -> None:
    require_program(command[0], command[0])
    shell = await open_session(command=command)
    for cmd in (slow_prompt, "true"):
        await execute(shell, cmd=cmd, timeout_ms=PATIENCE_MS)
    await write(shell, data="expr 4 + 38")
    await write(shell, data="\x1b[D\x1b[C")
    await write(shell, data="\r", until_regex="(?m)^42", timeout_ms=PATIENCE_MS)

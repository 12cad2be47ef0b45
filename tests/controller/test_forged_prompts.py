"""A command of the shell can read the nonce of its marks, and print a prompt's mark: an incomplete line stays incomplete."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api.errors import ErrorCode
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import PATIENCE_MS, Open, execute, read, refused, until, write

SHELLS = {"bash": ("bash", "--norc", "--noprofile"), "zsh": ("zsh",)}
RULES = """
extends = ["off"]

[[rules]]
id = "forbidden"
command = ["touch", "-c", "HALF*"]
decision = "deny"
reason = "a file is changed"
"""
#: Prints a prompt, with its mark, once the file `go` is written.
FORGE = "{ read -r go <go; printf '\\n\\033]7717;%s;%s;P;0;0;/\\a$ ' $__ptyctl_nonce $((__ptyctl_count+60)); touch forged; } &"


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy, and the folder of the start-up files."""
    (tmp_path / "rules.toml").write_text(RULES)
    monkeypatch.setenv("PTYCTL_POLICY", str(tmp_path / "rules.toml"))
    monkeypatch.setenv("ZDOTDIR", str(tmp_path))


@pytest.fixture
async def shell(open_session: Open, request: pytest.FixtureRequest, tmp_path: Path) -> SessionHandle:
    """A shell in which a background job waits to print a prompt."""
    command = SHELLS[request.param]
    require_program(command[0], command[0])
    (tmp_path / ".zshrc").write_text("PS1='here> '\n")
    os.mkfifo(tmp_path / "go")
    handle = await open_session(command=command, cwd=str(tmp_path))
    await execute(handle, cmd=FORGE, timeout_ms=PATIENCE_MS)
    return handle


async def forge(shell: SessionHandle, folder: Path) -> None:
    """Let the job print the prompt, and wait until it was received."""
    begin = (await read(shell, timeout_ms=0)).buffer_end_cursor
    (folder / "go").write_text("go\n")

    async def is_forged() -> bool:
        return (folder / "forged").exists()

    await until(is_forged)
    assert (await read(shell, cursor=begin, until_regex=r"\$ ", timeout_ms=PATIENCE_MS)).matched


LINES = {
    "backslash": ("touch -c \\\r", "HALF_\r"),
    "quote": ("touch '-c\r", "' HALF_ -c\r"),
    "substitution": ("touch -c $(\r", "echo HALF_)\r"),
}


@pytest.mark.parametrize(("first", "rest"), LINES.values(), ids=LINES)
@pytest.mark.parametrize("shell", SHELLS, indirect=True)
async def test_line_after_a_forged_prompt_is_judged_with_the_lines_that_it_continues(
    shell: SessionHandle, tmp_path: Path, first: str, rest: str
) -> None:
    await write(shell, data=first)
    await forge(shell, tmp_path)
    with refused(ErrorCode.POLICY_DENIED):
        await write(shell, data=rest)


@pytest.mark.parametrize("shell", SHELLS, indirect=True)
async def test_exec_after_a_forged_prompt_is_not_typed_into_an_incomplete_line(shell: SessionHandle, tmp_path: Path) -> None:
    await write(shell, data="touch HALF \\\r")
    await forge(shell, tmp_path)
    with refused(ErrorCode.BUSY):  # the forged counter hides the marks that follow
        await execute(shell, cmd="echo HALF_2", timeout_ms=PATIENCE_MS)
    assert list(tmp_path.glob("*HALF*")) == []

"""Aliases and functions of the user's with the names of builtins that a wrapped command needs."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from fixtures.servers.programs import require_program
from tests.controller.session_calls import PATIENCE_MS, Open

#: Several lines, so that it cannot be typed as it is.
WRAPPED = "printf '%s\\n' one\nsh -c 'exit 3'"


@pytest.mark.parametrize("integration", ["auto", "off"])
@pytest.mark.parametrize("shell", ["bash", "zsh", "dash"])
@pytest.mark.parametrize("name", ["command", "eval", "builtin", "printf"])
async def test_alias_named_as_builtin_does_not_change_commands(
    open_session: Open, tmp_path: Path, shell: str, name: str, integration: str
) -> None:
    require_program(shell, shell)
    (tmp_path / ".zshrc").touch()
    options = ("--norc",) if shell == "bash" else ()
    handle = await open_session(command=(shell, *options), env={"ZDOTDIR": str(tmp_path)}, shell_integration=integration)
    await handle.exec(f"alias {name}='echo aliased'", timeout_ms=PATIENCE_MS)
    for _ in range(2):
        reply = await handle.exec(WRAPPED.replace("printf", "\\printf"), timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code) == ("one\n", 3)


@pytest.mark.parametrize(
    ("shell", "names"),
    [
        *itertools.product(["bash", "zsh"], ["command", "eval", "builtin", "printf", "eval printf", "command eval"]),
        ("bash", "command builtin"),  # zsh has no other way to its builtin printf
    ],
)
async def test_function_named_as_builtin_does_not_change_commands(
    open_session: Open, tmp_path: Path, shell: str, names: str
) -> None:
    require_program(shell, shell)
    (tmp_path / ".zshrc").touch()
    options = ("--norc",) if shell == "bash" else ()
    handle = await open_session(command=(shell, *options), env={"ZDOTDIR": str(tmp_path)})
    for name in names.split():
        await handle.exec(f"{name}() {{ echo function; }}", timeout_ms=PATIENCE_MS)
    for _ in range(2):
        reply = await handle.exec("echo one\nsh -c 'exit 3'", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("one\n", 3, "marks")
    assert (await handle.exec(f"{names.split()[0]} x")).stdout == "function\n"

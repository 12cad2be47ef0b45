"""Shells over SSH whose prompts and start-up files are unusual."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path

import pytest

from tests.controller.session_calls import PATIENCE_MS
from tests.integration.concurrent_cases import run_cases
from tests.integration.test_ssh_exec import Start

PROMPTS = ["me@mac ~ % ", "❯ ", "➜  ~ ", "λ ", "🚀 ", "\n┌─ me\n└─❯ ", "a: "]


async def check_unusual_prompt_is_found(start: Start, tmp_path: Path, shell: str, prompt: str) -> None:
    tmp_path.mkdir()
    (tmp_path / "rc").write_text(f"PS1='{prompt.replace('%', '%%') if shell == 'zsh' else prompt}'\n")
    (tmp_path / ".zshrc").write_text((tmp_path / "rc").read_text())
    command = {
        "bash": ("bash", "--noprofile", "--rcfile", str(tmp_path / "rc")),
        "zsh": ("env", f"ZDOTDIR={tmp_path}", "zsh", "-i"),
        "dash": ("env", f"ENV={tmp_path}/rc", "dash", "-i"),
    }[shell]
    session = await start(*command, shell_integration="off")
    durations_ms = []
    for code in (3, 0, 2, 0, 1):
        reply = await session.exec(f"echo far; (exit {code})", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code) == ("far\n", code)
        durations_ms.append(reply.duration_ms)
        if len(durations_ms) >= 2 and min(durations_ms[1:]) < 3_000:  # a busy machine may delay each of them, but not all
            break
    assert min(durations_ms[1:]) < 3_000


async def test_unusual_prompt_is_found(start: Start, tmp_path: Path) -> None:
    cases = [*product(("bash", "zsh"), PROMPTS), ("dash", "❯ "), ("dash", "a: ")]
    check = partial(check_unusual_prompt_is_found, start)
    folders = {case: tmp_path / str(number) for number, case in enumerate(cases)}
    await run_cases({" ".join(case): partial(check, folder, *case) for case, folder in folders.items()}, at_once=4)


async def test_slow_start_up_file_keeps_exit_codes(start: Start, tmp_path: Path) -> None:
    (tmp_path / "rc").write_text("sleep 5.5; PS1='$ '\n")
    session = await start("bash", "--noprofile", "--rcfile", str(tmp_path / "rc"), shell_integration="off")
    for code in (3, 0):
        reply = await session.exec(f"echo far; (exit {code})", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code) == ("far\n", code)


async def check_rc_mode_gives_exit_codes_also_after_an_auto_exec(start: Start, shell: str, enabled: object) -> None:
    options = {"bash": ("--norc",), "zsh": ("-f", "-i"), "fish": ("--no-config",), "dash": ("-i",)}[shell]
    session = await start(shell, *options, shell_integration="off")
    for mode, code in ((enabled, 3), (True, 4)):
        reply = await session.exec(f"echo far\nsh -c 'exit {code}'", rc_mode={"enabled": mode}, timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("far\n", code, "marker")


async def test_rc_mode_gives_exit_codes_also_after_an_auto_exec(start: Start) -> None:
    cases = product(("bash", "zsh", "fish", "dash"), ("auto", True))
    check = check_rc_mode_gives_exit_codes_also_after_an_auto_exec
    await run_cases({f"{shell} {enabled}": partial(check, start, shell, enabled) for shell, enabled in cases}, at_once=4)


@pytest.mark.parametrize(
    ("shell", "command", "way"),
    [
        ("bash", ("bash", "--norc"), "marks"),
        ("zsh", ("zsh", "-f", "-i"), "marks"),
        ("fish", ("fish", "--no-config"), "marker"),
        ("posix", ("dash", "-i"), "marker"),
    ],
)
async def test_named_shell_is_not_probed(start: Start, shell: str, command: tuple[str, ...], way: str) -> None:
    session = await start(*command, shell=shell, shell_integration=None)
    for code in (3, 0):
        reply = await session.exec(f"echo far\nsh -c 'exit {code}'", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code, reply.done_reason) == ("far\n", code, way)
    shown = (await session.read(cursor="0", timeout_ms=0)).chunk or ""
    assert "ZSH_VERSION" not in shown

"""Input to programs that read lines, after the daemon was replaced while a policy is in force."""

from __future__ import annotations

import signal
import sys
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

pytestmark = pytest.mark.waits

#: Commands that read lines, and what they print for the line `5`; a part of it, as the echo of the line is the same.
READERS = {
    "cat": ("cat", "5\\n5\\n"),
    "read": ("while read -r x; do echo got $x; done", "got 5\n"),
    "input": (f"{sys.executable} -I -S -c 'while True: print(\"got\", input())'", "got 5\n"),
    "bash": ("bash --norc --noprofile", "5: command not found"),
    "dash": ("dash", "5: not found"),
}
RULES = """
extends = ["guarded"]

[[rules]]
id = "forbidden"
regex = "^forbidden"
decision = "deny"
reason = "a test"
"""
REPLACEMENTS = [signal.SIGKILL, HAND_OVER]


@pytest.fixture
async def life(runtime_dir: RuntimeDir) -> AsyncIterator[Life]:
    async with AsyncExitStack() as connections:
        yield Life(runtime_dir, connections)


async def open_reader(life: Life, reader: str, **fields: object) -> SessionHandle:
    """Return a shell in which a command reads lines, and has read one."""
    shell = await life.open(**fields)
    await shell.exec("true", timeout_ms=PATIENCE_MS)
    await shell.write(READERS[reader][0] + "\r")
    await shell.read(until_idle_ms=200, timeout_ms=PATIENCE_MS)
    await shell.write("1\r")
    assert (await shell.read(until_regex=READERS[reader][1].replace("5", "1"), timeout_ms=PATIENCE_MS)).matched
    await shell.read(until_idle_ms=100, timeout_ms=PATIENCE_MS)
    return shell


async def assert_takes_line(shell: SessionHandle, reader: str, *keys: str) -> None:
    begin = shell.cursor
    for key in keys:
        await shell.write(key)
    assert (await shell.read(cursor=begin, until_regex=READERS[reader][1], timeout_ms=PATIENCE_MS)).matched


async def assert_refused(shell: SessionHandle, text: str) -> None:
    with pytest.raises(PtyctlError) as caught:
        await shell.write(text)
    assert caught.value.code is ErrorCode.POLICY_DENIED


async def output(shell: SessionHandle) -> str:
    return (await shell.read(cursor="0", timeout_ms=0)).chunk or ""


@pytest.mark.parametrize("number", REPLACEMENTS)
@pytest.mark.parametrize("reader", READERS)
async def test_program_takes_lines_after_restart(
    life: Life, monkeypatch: pytest.MonkeyPatch, reader: str, number: signal.Signals
) -> None:
    if reader == "dash":
        require_program("dash", "dash")
    monkeypatch.setenv("PTYCTL_POLICY", "guarded")
    shell = await life.again(await open_reader(life, reader), number)
    await assert_takes_line(shell, reader, "5", "\r")
    await shell.write("xyz")
    await shell.write("\x15")
    await assert_takes_line(shell, reader, "5\r")
    assert "^C" not in await output(shell)
    await shell.write("\x04")
    assert (await shell.exec("echo after", timeout_ms=PATIENCE_MS)).stdout == "after\n"


@pytest.mark.parametrize("number", REPLACEMENTS)
@pytest.mark.parametrize("reader", ["cat", "read", "input", "dash"])
async def test_line_begun_before_restart_is_judged_whole(
    life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str, number: signal.Signals
) -> None:
    (rules := tmp_path / "rules.toml").write_text(RULES)
    monkeypatch.setenv("PTYCTL_POLICY", str(rules))
    shell = await open_reader(life, reader)
    await shell.write("forbid")
    shell = await life.again(shell, number)
    await assert_refused(shell, "den 1\r")
    await assert_takes_line(shell, reader, "5\r")
    assert "^C" not in await output(shell)


@pytest.mark.parametrize("reader", ["cat", "read", "input"])
async def test_refusal_at_a_program_erases_only_its_line(
    life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    (rules := tmp_path / "rules.toml").write_text(RULES)
    monkeypatch.setenv("PTYCTL_POLICY", str(rules))
    shell = await open_reader(life, reader)
    for again in (False, True):
        await shell.write("forbidden 1")
        await assert_refused(shell, "\r")
        await assert_refused(shell, "forbidden 2\r")
        await assert_takes_line(shell, reader, "5\r")
        if not again:
            shell = await life.again(shell)
    shown = await output(shell)
    assert "^C" not in shown
    assert "got forbidden" not in shown


async def test_refused_line_that_was_erased_is_no_part_of_the_next_one_after_restart(
    life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rules := tmp_path / "rules.toml").write_text(RULES)
    monkeypatch.setenv("PTYCTL_POLICY", str(rules))
    shell = await open_reader(life, "cat")
    await shell.write("forbidden")
    await assert_refused(shell, "\r")
    shell = await life.again(shell)
    await assert_takes_line(shell, "cat", "5\r")


@pytest.mark.parametrize("kill", ["^K", "undef"])
async def test_refusal_presses_the_kill_key_of_the_terminal(
    life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: str
) -> None:
    (rules := tmp_path / "rules.toml").write_text(RULES)
    monkeypatch.setenv("PTYCTL_POLICY", str(rules))
    shell = await life.open()
    await shell.exec(f"stty kill {kill}", timeout_ms=PATIENCE_MS)
    await shell.write("cat\r")
    await shell.read(until_idle_ms=200, timeout_ms=PATIENCE_MS)
    await shell.write("forbidden")
    with pytest.raises(PtyctlError) as caught:
        await shell.write("\r")
    assert (caught.value.code, caught.value.details["erased"]) == (ErrorCode.POLICY_DENIED, kill == "^K")
    await shell.write("\x03")
    assert (await shell.exec("echo after", timeout_ms=PATIENCE_MS)).stdout == "after\n"


@pytest.mark.parametrize("number", REPLACEMENTS)
async def test_end_of_input_leaves_a_program_under_readonly(
    life: Life, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("PTYCTL_POLICY", "readonly")
    shell = await life.open()
    await shell.write("cat\r")
    await shell.read(until_idle_ms=200, timeout_ms=PATIENCE_MS)
    await shell.write("5")
    shell = await life.again(shell, number)
    await assert_refused(shell, "\x04")
    await shell.write("\x04")
    assert "^C" not in await output(shell)
    assert (await shell.exec("pwd", timeout_ms=PATIENCE_MS)).exit_code == 0

"""Pagers under a policy that denies input to programs: nothing opens one unasked, and each can be left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fixtures.servers.openssh import OpenSshServer
from fixtures.servers.programs import require_program
from ptyctl import LocalController, SessionHandle
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.controller.settings import Settings
from tests.controller.session_calls import BASH, PATIENCE_MS, write
from tests.integration.test_ssh_exec import target

#: Lines of a text that needs several pages.
LINES = 200
#: `readonly`, under which the tests may start pagers, and a program that reads keys.
POLICY = """
extends = ["readonly"]

[[rules]]
id = "pagers"
command = [["less", "more", "vim", "menu", "./menu"]]
decision = "allow"
reason = "the test starts it"
"""
#: Stand-ins that choose their pager as the programs of their names do.
SHOWING = {
    "journalctl": "seq 200 | ${SYSTEMD_PAGER-${PAGER-less}}",
    "systemctl": "seq 200 | ${SYSTEMD_PAGER-${PAGER-less}}",
    "dmesg": "seq 200 | ${PAGER-less}",
}
#: Asks a question that each key answers, and then writes a file.
MENU = """#!/usr/bin/env python3
import os, tty
tty.setcbreak(0)
print("Erase the disk, or [q]uickly? ", end="", flush=True)
while key := os.read(0, 1):
    open("FORBIDDEN", "w").close()
"""
SHELLS = {"bash": BASH, "zsh": ("zsh", "-f"), "fish": ("fish", "--no-config"), "dash": ("dash",)}
PACKAGES = {"less": "less", "more": "util-linux", "vim": "vim"}


@asynccontextmanager
async def readonly_controller(folder: Path) -> AsyncIterator[LocalController]:
    (folder / "policy.toml").write_text(POLICY)
    (folder / "text").write_text("".join(f"{n}\n" for n in range(LINES)))
    async with LocalController(Settings(state_dir=folder / "state", policy=str(folder / "policy.toml"))) as controller:
        yield controller


@pytest.fixture
async def readonly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalController]:
    """A controller whose programs find those of the test's folder first, with a pager of the user."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PAGER", "less")
    for name in ("SYSTEMD_PAGER", "GIT_PAGER", "MANPAGER", "LESS"):
        monkeypatch.delenv(name, raising=False)
    for name, text in {**{name: f"#!/bin/sh\n{script}\n" for name, script in SHOWING.items()}, "menu": MENU}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    async with readonly_controller(tmp_path) as controller:
        yield controller


@asynccontextmanager
async def shell_in(controller: LocalController, folder: Path, shell: tuple[str, ...] = BASH) -> AsyncIterator[SessionHandle]:
    async with await SessionHandle.open(controller, protocol="local", command=shell, cwd=str(folder)) as session:
        await session.exec("true", timeout_ms=PATIENCE_MS)
        yield session


async def start(session: SessionHandle, line: str, shown: str) -> None:
    assert (await write(session, data=f"{line}\n", until_regex=shown, timeout_ms=PATIENCE_MS)).matched


async def is_refused(session: SessionHandle, keys: str) -> bool:
    try:
        await write(session, data=keys)
    except PtyctlError as error:
        if error.code is not ErrorCode.POLICY_DENIED:
            raise
        return True
    return False


async def check_left(session: SessionHandle) -> None:
    """Check that a shell reads again."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while True:
            try:
                reply = await session.exec("echo le''ft", timeout_ms=PATIENCE_MS)
            except PtyctlError as error:
                if error.code is not ErrorCode.BUSY:  # the program has yet to end
                    raise
                continue
            assert "left" in reply.stdout
            return


@pytest.mark.parametrize("command", ["journalctl -b", "systemctl status x", "dmesg -H"])
@pytest.mark.parametrize("name", SHELLS)
async def test_command_that_shows_under_readonly_is_shown_without_a_pager(
    readonly: LocalController, tmp_path: Path, name: str, command: str
) -> None:
    require_program(name, name)
    require_program("less", "less")
    async with shell_in(readonly, tmp_path, SHELLS[name]) as shell:
        reply = await shell.exec(command, timeout_ms=PATIENCE_MS)
        assert reply.stdout.split() == [str(n) for n in range(1, LINES + 1)]


async def test_pager_of_the_user_is_kept_where_programs_are_allowed(
    readonly: LocalController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy.toml").write_text('extends = ["guarded"]\n')
    readonly.policies.reload()
    async with shell_in(readonly, tmp_path) as shell:
        assert (await shell.exec("echo $PAGER", timeout_ms=PATIENCE_MS)).stdout.strip() == "less"


@pytest.mark.parametrize("keys", ["q", "Q", ":q", "\x03"])
@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize("line", ["less text", "cat text | less -X"])
async def test_pager_is_left_by_its_keys_where_programs_are_denied(
    readonly: LocalController, tmp_path: Path, name: str, line: str, keys: str
) -> None:
    require_program(name, name)
    require_program("less", "less")
    async with shell_in(readonly, tmp_path, SHELLS[name]) as shell:
        await start(shell, line, r"(?m)^20\b")
        for other in ("y", "j", "qy", "!touch FORBIDDEN"):
            assert await is_refused(shell, other)
        if keys == "\x03":  # less paints its page again; a key that arrives with the signal is lost
            assert (await write(shell, data=keys, until_regex=r"(?m)^20\b", timeout_ms=PATIENCE_MS)).matched
        assert not await is_refused(shell, "q" if keys == "\x03" else keys)
        await check_left(shell)
    assert not (tmp_path / "FORBIDDEN").exists()


@pytest.mark.parametrize(("line", "shown", "keys"), [("more text", r"More", "q"), ("vim -u NONE text", "(?m)^20", "ZQ")])
async def test_program_of_the_whole_screen_is_left_by_its_keys(
    readonly: LocalController, tmp_path: Path, line: str, shown: str, keys: str
) -> None:
    name = line.split()[0]
    require_program(name, PACKAGES[name])
    async with shell_in(readonly, tmp_path) as shell:
        await start(shell, line, shown)
        assert await is_refused(shell, "i")
        assert not await is_refused(shell, keys)
        await check_left(shell)


async def test_key_that_leaves_pagers_is_denied_in_a_program_that_asks_with_it(
    readonly: LocalController, tmp_path: Path
) -> None:
    async with shell_in(readonly, tmp_path) as shell:
        await start(shell, "menu", "quickly|uickly")
        for keys in ("q", "Q", ":q", "\x1b", "ZQ"):
            assert await is_refused(shell, keys)
        assert not await is_refused(shell, "\x03")
        await check_left(shell)
    assert not (tmp_path / "FORBIDDEN").exists()


@pytest.mark.parametrize("line", ["less text", "less -X text", "more text"])
async def test_pager_over_ssh_is_left_by_its_keys(
    readonly: LocalController, tmp_path: Path, sshd: OpenSshServer, line: str
) -> None:
    require_program(line.split()[0], PACKAGES[line.split()[0]])
    async with await SessionHandle.open(readonly, **target(sshd, platform="linux")) as shell:
        await shell.exec(f"cd {tmp_path}", timeout_ms=PATIENCE_MS)
        await start(shell, line, r"(?m)^20\b")
        assert await is_refused(shell, "y")
        assert not await is_refused(shell, "q")
        await check_left(shell)


async def test_key_that_leaves_pagers_is_denied_over_ssh_in_a_program_that_asks_with_it(
    readonly: LocalController, tmp_path: Path, sshd: OpenSshServer
) -> None:
    async with await SessionHandle.open(readonly, **target(sshd, platform="linux")) as shell:
        await shell.exec(f"cd {tmp_path}", timeout_ms=PATIENCE_MS)
        await start(shell, "./menu", "uickly")
        assert await is_refused(shell, "q")
        assert not await is_refused(shell, "\x03")
        await check_left(shell)
    assert not (tmp_path / "FORBIDDEN").exists()

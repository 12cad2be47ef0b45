"""Damaged files in a state directory: the next daemon starts, and only the session that has the file is affected."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fixtures.daemons import end_daemon
from ptyctl.api.session import SessionRequest
from ptyctl.controller.settings import load_settings
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.daemon.test_crash_recovery import PATIENCE_MS, Life
from tests.damaged_files import DAMAGES

pytestmark = pytest.mark.waits

#: The files of a session. Those that a session does not have before are created by the damage.
FILES = (
    "meta.json",
    "meta.json.new",
    "output.raw",
    "output.end",
    "output.spool",
    "output.prompts",
    "timeline.jsonl",
    "blocks.jsonl",
    "events.jsonl",
    "input.jsonl",
    "screen.snapshot.json",
    "screen.checkpoints.jsonl",
    "screen.jsonl",
    "blocks",
)
SERVER_FILES = (
    "tokens.json", "tokens.lock", "approvals.jsonl", "approvals.jsonl.new", "calls.jsonl", "server.lock", "audit/head.json",
    "audit/2000-01.jsonl",
)  # fmt: skip
#: How long the other session may take to answer (seconds).
ANSWER_S = 5.0


@pytest.fixture
async def life(runtime_dir: RuntimeDir) -> AsyncIterator[Life]:
    async with AsyncExitStack() as connections:
        yield Life(runtime_dir, connections)


def damage(path: Path, way: str) -> None:
    """Damage a file, or the folder `blocks`."""
    if path.is_dir():
        shutil.rmtree(path)
    if way in ("truncated", "nuls", "huge", "unreadable") and not path.exists():
        path.touch(mode=0o600)
    DAMAGES[way](path)


@pytest.mark.parametrize("way", DAMAGES)
async def test_damaged_file_of_a_session_harms_only_that_session(life: Life, way: str) -> None:
    other = await life.open(task_id="other")
    await other.exec("x=kept")
    shells = {name: await life.open(task_id=name) for name in FILES}
    for shell in shells.values():
        await shell.exec("echo before", timeout_ms=PATIENCE_MS)
        await shell.screen()
    end_daemon(life.runtime_dir, signal.SIGKILL)
    sessions = load_settings().state_dir / "sessions"
    for name, shell in shells.items():
        damage(sessions / shell.session_id / name, way)
    begin = time.monotonic()
    other = await life.found(other)
    assert (await other.exec("echo $x")).stdout == "kept\n"
    assert time.monotonic() - begin < ANSWER_S
    for name, shell in shells.items():
        found = await life.found(shell)
        assert (await found.status()).state == "open", name
        await found.read(mode="tail", timeout_ms=0)
        await found.screen()
        if name in ("output.raw", "timeline.jsonl"):
            continue  # the prompt, or the marks of the shell, are not known any more
        done = await found.exec("echo after", timeout_ms=PATIENCE_MS)
        assert (name, done.stdout, done.exit_code) == (name, "after\n", 0)
    listed = await (await life.connect()).session(SessionRequest.of({"action": "list"}))
    alarms = {entry.session_id: entry.alarm for entry in listed.sessions or ()}
    assert alarms[other.session_id] is None
    if way in ("fifo", "socket", "directory", "symlink"):
        for name, shell in shells.items():
            if not (name == "blocks" and way == "directory") and name != "meta.json.new":
                assert name in (alarms[shell.session_id] or ""), (name, alarms[shell.session_id])


@pytest.mark.parametrize("way", DAMAGES)
async def test_damaged_file_of_the_server_does_not_keep_it_from_starting(life: Life, way: str) -> None:
    shell = await life.open(task_id="other")
    await shell.exec("x=kept")
    end_daemon(life.runtime_dir, signal.SIGKILL)
    for name in SERVER_FILES:
        file = load_settings().state_dir / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)  # the daemon may have been killed before it wrote it
        damage(file, way)
    begin = time.monotonic()
    shell = await life.found(shell)
    assert (await shell.exec("echo $x")).stdout == "kept\n"
    assert time.monotonic() - begin < ANSWER_S


async def test_sessions_that_are_restored_slowly_keep_no_other_session_waiting(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many commands as a file can hold take seconds to read."""
    other, slow = await life.open(task_id="other"), await life.open(task_id="slow")
    await other.exec("x=kept")
    await slow.exec("echo begin")
    end_daemon(life.runtime_dir, signal.SIGKILL)
    blocks = load_settings().state_dir / "sessions" / slow.session_id / "blocks.jsonl"
    blocks.write_bytes(blocks.read_bytes() + b'{"block_id": "no block"}\n' * 200_000)
    begin = time.monotonic()
    other = await life.found(other)
    assert (await other.exec("echo $x")).stdout == "kept\n"
    assert time.monotonic() - begin < ANSWER_S
    assert (await asyncio.wait_for((await life.found(slow)).exec("echo end", timeout_ms=PATIENCE_MS), 60)).stdout == "end\n"

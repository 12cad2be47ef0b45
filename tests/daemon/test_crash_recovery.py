"""Killing the daemon at any moment: local shells survive, no output is lost or duplicated, locks keep their holder."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import select
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest

from fixtures.daemons import daemon_pid, end_daemon
from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.methods import PTY_REQUESTS
from ptyctl.api.pty import PtyReply
from ptyctl.api.session import SessionRequest
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.control import HAND_OVER
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.controller.session_calls import config
from tests.daemon.fd_store_processes import count_stored_terminals, fd_store_pid, fd_store_pids
from tests.session.scripted_session import wait_until

pytestmark = pytest.mark.waits

BASH = ("bash", "--norc", "--noprofile")
LINE_GENERATOR = (sys.executable, "-I", "-S", str(Path(__file__).with_name("line_generator.py")))
PATIENCE_MS = 30_000


class Life:
    """Sessions across several daemons."""

    def __init__(self, runtime_dir: RuntimeDir, connections: AsyncExitStack) -> None:
        self.runtime_dir = runtime_dir
        self._connections = connections

    async def connect(self) -> RemoteController:
        return await self._connections.enter_async_context(await RemoteController.connect(self.runtime_dir))

    async def open(self, **fields: object) -> SessionHandle:
        return await SessionHandle.open(await self.connect(), protocol="local", **{"command": BASH, **fields})

    async def found(self, handle: SessionHandle) -> SessionHandle:
        return SessionHandle(await self.connect(), handle.session_id, handle.task_id)

    async def again(self, handle: SessionHandle, number: signal.Signals = signal.SIGKILL) -> SessionHandle:
        """End the daemon and return the same session in the next one."""
        end_daemon(self.runtime_dir, number)
        return await self.found(handle)


@pytest.fixture
async def life(runtime_dir: RuntimeDir) -> AsyncIterator[Life]:
    async with AsyncExitStack() as connections:
        yield Life(runtime_dir, connections)


@pytest.mark.parametrize("number", [signal.SIGKILL, HAND_OVER])
async def test_shell_and_running_command_survive_daemon(life: Life, number: signal.Signals) -> None:
    shell = await life.open()
    pid = (await shell.exec("x=kept; echo $$")).stdout
    run = await shell.exec("echo begun; read -r line; echo got $line; (exit 7)", timeout_ms=0)
    assert (await shell.read(until_regex="(?m)^begun$", timeout_ms=PATIENCE_MS)).matched
    before = shell.cursor
    shell = await life.again(shell, number)
    status = await shell.status()
    assert (status.state, status.mode, status.notices) == (
        "open", "block_running", ["the server was replaced; the terminal and all programs in it continue"],
    )  # fmt: skip
    with pytest.raises(PtyctlError, match=run.block_id) as caught:
        await shell.exec("echo too early")
    assert caught.value.code is ErrorCode.BUSY
    await shell.write("on\n")
    ended = await shell.wait(run.block_id, timeout_ms=PATIENCE_MS)
    assert (ended.exit_code, ended.done_reason) == (7, "marks")
    assert ended.stdout.splitlines()[0] == "begun"
    assert ended.stdout.splitlines()[-1] == "got on"
    shell.cursor = before  # cursors stay valid
    assert "got on" in ((await shell.read(timeout_ms=0)).chunk or "")
    after = await shell.exec("echo $x $$")
    assert after.stdout == f"kept {pid}"
    (entry,) = (await shell.controller.session(SessionRequest(action="list"))).sessions or []
    assert entry.incarnation == 1


async def test_command_that_ends_without_daemon_is_recorded(life: Life, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    shell = await life.open()
    run = await shell.exec(f"echo begun; read -r line <{gate}; echo late; (exit 4)", timeout_ms=0)
    assert (await shell.read(until_regex="(?m)^begun$", timeout_ms=PATIENCE_MS)).matched
    end_daemon(life.runtime_dir, signal.SIGKILL)
    await asyncio.to_thread(gate.write_text, "go\n")  # the shell reads it before the next daemon starts
    shell = await life.found(shell)
    ended = await shell.wait(run.block_id, timeout_ms=PATIENCE_MS)
    assert (ended.exit_code, ended.stdout) == (4, "begun\nlate\n")


async def test_shell_that_ends_without_daemon_is_at_eof(life: Life, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    shell = await life.open()
    pid = int((await shell.exec("echo $$")).stdout)
    await shell.exec(f"read -r line <{gate}; echo the last words; exit 3", timeout_ms=0)
    assert (await shell.read(until_regex=str(gate), timeout_ms=PATIENCE_MS)).matched
    ended = os.pidfd_open(pid)
    end_daemon(life.runtime_dir, signal.SIGKILL)
    await asyncio.to_thread(gate.write_text, "go\n")
    await asyncio.to_thread(select.select, [ended], [], [], 20)
    shell = await life.found(shell)
    read = await shell.read(until_regex="the last words\n", timeout_ms=PATIENCE_MS)
    assert read.matched
    assert (await shell.read(until_regex="never", timeout_ms=PATIENCE_MS)).eof
    assert (await shell.status()).state == "eof"
    os.close(ended)


async def test_lock_survives_daemon(life: Life) -> None:
    shell = await life.open(task_id="one")
    fence = (await shell.lock(lock_ttl_ms=60_000)).fence
    shell = await life.again(shell)
    shell.task_id = "two"
    with pytest.raises(PtyctlError, match="Session locked by task one"):
        await shell.exec("echo mine")
    shell.task_id = "one"
    assert (await shell.heartbeat()).fence == fence
    await shell.unlock()
    shell.task_id = "two"
    assert (await shell.lock()).fence == (fence or 0) + 1


@pytest.mark.parametrize("number", [signal.SIGKILL, HAND_OVER])
@pytest.mark.parametrize("end", ["unlock", "expiry", "expiry without a daemon"])
async def test_size_before_the_lock_is_restored_at_its_end_in_the_next_daemon(
    life: Life, number: signal.Signals, end: str
) -> None:
    shell = await life.open(task_id="phone", pty={"cols": 100, "rows": 30})
    await shell.lock(lock_ttl_ms=60_000)
    for cols in (70, 90):  # the size before stays the first
        await config(shell, "resize", cols=cols, rows=20, while_locked=True, task_id="phone")
    if end == "expiry without a daemon":
        expires_at = (await shell.heartbeat(lock_ttl_ms=1_000)).lock_expires_at
        end_daemon(life.runtime_dir, number)
        await wait_until(lambda: time.time() * 1000 > expires_at)
    else:
        end_daemon(life.runtime_dir, number)
    shell = await life.found(shell)
    if end == "expiry":
        await shell.heartbeat(lock_ttl_ms=1_000)
    elif end == "unlock":
        assert (await shell.exec("stty size")).stdout == "20 90\n"
        await shell.unlock()
    async with asyncio.timeout(PATIENCE_MS / 1000), aclosing(shell.watch()) as items:
        async for item in items:
            if (item.cols, item.rows) == (100, 30):
                break
    assert (await shell.exec("stty size")).stdout == "30 100\n"


async def test_closed_session_is_not_restored(life: Life) -> None:
    one, two = await life.open(), await life.open()
    await one.close()
    two = await life.again(two)
    listed = (await two.controller.session(SessionRequest(action="list"))).sessions or []
    assert [entry.session_id for entry in listed] == [two.session_id]


async def test_killed_fd_store_is_replaced(life: Life) -> None:
    one, two = await life.open(), await life.open()
    await two.exec("x=kept")
    store = fd_store_pid(life.runtime_dir)
    os.kill(store, signal.SIGKILL)
    await one.close()  # the store has exited
    await wait_until(lambda: count_stored_terminals(life.runtime_dir) == 1)
    again = fd_store_pid(life.runtime_dir)
    assert again != store
    two = await life.again(two)
    assert (await two.exec("echo $x")).stdout == "kept\n"
    assert fd_store_pid(life.runtime_dir) == again


@pytest.mark.parametrize("damage", ["field", "type", "garbage", "missing"])
async def test_local_shell_survives_damage_of_its_meta_file(life: Life, tmp_path: Path, damage: str) -> None:
    shell, good = await life.open(), await life.open()
    shell.task_id = "one"
    fence = (await shell.lock()).fence
    await shell.resize(91, 33)
    await shell.exec("x=kept")
    path = tmp_path / "state" / "sessions" / shell.session_id / "meta.json"
    end_daemon(life.runtime_dir, signal.SIGKILL)
    meta = json.loads(path.read_text())
    if damage == "field":
        del meta["created_at"]
    elif damage == "type":
        meta["fence"] = "seven"
    path.write_text("\0garbage" if damage == "garbage" else json.dumps(meta))
    if damage == "missing":
        path.unlink()
    good = await life.found(good)
    assert (await good.exec("echo on")).stdout == "on\n"
    shell = await life.found(shell)
    status = await shell.status()
    assert any("its lock was lost" in notice for notice in status.notices or ())
    shell.task_id = "two"
    assert ((await shell.lock()).fence or 0) > (fence or 0)
    again = await shell.exec("echo $x; stty size; (exit 3)")
    assert (again.stdout, again.exit_code) == ("kept\n33 91\n", 3)
    await shell.unlock()


async def test_session_that_cannot_be_restored_does_not_block_others(life: Life, tmp_path: Path) -> None:
    bad, good = await life.open(), await life.open()
    ended = os.pidfd_open(int((await bad.exec("echo $$")).stdout))
    end_daemon(life.runtime_dir, signal.SIGKILL)
    (tmp_path / "state" / "sessions" / bad.session_id / "timeline.jsonl").chmod(0o644)
    good = await life.found(good)
    assert (await good.exec("echo on")).stdout == "on\n"
    assert (await asyncio.to_thread(select.select, [ended], [], [], 20))[0]  # its files are refused
    os.close(ended)
    bad = await life.found(bad)
    with pytest.raises(PtyctlError, match="others can read"):
        await bad.read(timeout_ms=0)


async def test_idle_timeout_applies_in_next_daemon(life: Life) -> None:
    shell, other = await life.open(timeouts={"idle_timeout_ms": 4_000}), await life.open()
    ended = os.pidfd_open(int((await shell.exec("echo $$")).stdout))
    await life.again(other)
    assert (await asyncio.to_thread(select.select, [ended], [], [], 20))[0]
    os.close(ended)


async def test_shell_inherits_no_descriptor_of_daemon(life: Life) -> None:
    other = await life.open()
    for number in (signal.SIGKILL, HAND_OVER):
        other = await life.again(other, number)
        shell = await SessionHandle.open(other.controller, protocol="local", command=BASH)
        folder = Path(f"/proc/{(await shell.exec('echo $$')).stdout.strip()}/fd")

        def holds_only_its_terminal(folder: Path = folder) -> bool:
            try:
                return {str(held.readlink()).rpartition("/")[0] for held in folder.iterdir()} == {"/dev/pts"}
            except FileNotFoundError:
                return False

        await wait_until(holds_only_its_terminal)  # its prompt may use /dev/null at the moment


async def test_conversation_survives_daemon(life: Life) -> None:
    controller = await life.connect()
    asked = PTY_REQUESTS["pty_exec_block"].of({"conversation_id": "talk", "client_id": "me", "cmd": "x=kept"})
    first = await controller.pty(asked)
    end_daemon(life.runtime_dir, signal.SIGKILL)
    second = await (await life.connect()).pty(asked)
    assert isinstance(first, PtyReply)
    assert isinstance(second, PtyReply)
    assert (first.seq, second.seq) == (1, 2)
    assert second.notices == ["the server was replaced; the terminal and all programs in it continue"]


@pytest.mark.timeout(300)
async def test_thirty_kills_under_load_lose_and_duplicate_no_output(life: Life, tmp_path: Path) -> None:
    chance = random.Random(20261120)
    flood = await life.open(command=LINE_GENERATOR)
    shell = await life.open(task_id="one")
    await shell.lock(lock_ttl_ms=600_000)
    pid = (await shell.exec("n=0; echo $$")).stdout
    for kill in range(30):
        await asyncio.sleep(chance.random() * 0.1)  # kills at random moments
        flood, shell = await life.again(flood), shell
        shell = SessionHandle(flood.controller, shell.session_id, "one")
        counted = await shell.exec("n=$((n+1)); echo $n", timeout_ms=PATIENCE_MS)
        assert counted.stdout == f"{kill + 1}\n"
    assert (await shell.exec("echo $$")).stdout == pid
    assert (await shell.status()).lock_holder == "one"
    assert (await shell.lock()).fence == 1
    await flood.close(force=True)  # not ctrl_c: at a signal character the kernel discards output that was not read yet
    raw = (tmp_path / "state" / "sessions" / flood.session_id / "output.raw").read_bytes()
    numbers = [int(number) for number in re.findall(rb"line (\d+) ", raw)]
    assert len(numbers) > 1000
    wrong = next(((expected, number) for expected, number in enumerate(numbers, 1) if expected != number), None)
    assert wrong is None, (wrong, len(numbers))
    for number, line in enumerate(raw.split(b"\r\n")[: len(numbers) - 1], 1):
        assert line == b"line %d %s" % (number, b"x" * (number % 70))
    assert daemon_pid(life.runtime_dir) is not None


@pytest.mark.parametrize("fd_store_killed", [False, True])
async def test_secret_is_masked_in_next_daemon_and_not_on_disk(life: Life, tmp_path: Path, fd_store_killed: bool) -> None:
    secret = "c0rrect-Horse"
    shell = await life.open()
    asking = await shell.exec("echo asked; read -rs secret", timeout_ms=0)
    assert (await shell.read(until_regex="(?m)^asked$", timeout_ms=PATIENCE_MS)).matched
    await shell.write(f"{secret}\n", sensitive=True)
    await shell.wait(asking.block_id, timeout_ms=PATIENCE_MS)
    assert (await shell.exec('echo "$secret"')).stdout == f"{'*' * len(secret)}\n"
    if fd_store_killed:
        store = fd_store_pid(life.runtime_dir)
        os.kill(store, signal.SIGKILL)
        await wait_until(lambda: store not in fd_store_pids(life.runtime_dir) and count_stored_terminals(life.runtime_dir) == 1)
    for number in (signal.SIGKILL, HAND_OVER):
        shell = await life.again(shell, number)
        assert (await shell.exec('echo "$secret"')).stdout == f"{'*' * len(secret)}\n"
    await shell.close()
    files = [path for folder in (life.runtime_dir.path, tmp_path / "state") for path in folder.rglob("*") if path.is_file()]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
    end_daemon(life.runtime_dir)
    await wait_until(lambda: not life.runtime_dir.fd_store_socket.exists())  # nothing is stored for a closed session

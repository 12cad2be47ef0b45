"""The daemon killed at any moment: local shells live on, no byte is lost or doubled, no lock has two holders."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import select
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fixtures.daemons import daemon_pid, end_daemon
from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.methods import PTY_REQUESTS
from ptyctl.api.pty import PtyReply
from ptyctl.api.session import SessionRequest
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.daemon.keepers import keepers_of, pid_of_keeper, terminals_kept
from tests.session.acting import until

BASH = ("bash", "--norc", "--noprofile")
SURVIVOR = (sys.executable, "-I", "-S", str(Path(__file__).with_name("survivor.py")))
PATIENCE_MS = 30_000


class Life:
    """Sessions over the lives of several daemons."""

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
        """The same session in the next daemon."""
        end_daemon(self.runtime_dir, number)
        return await self.found(handle)


@pytest.fixture
async def life(runtime_dir: RuntimeDir) -> AsyncIterator[Life]:
    async with AsyncExitStack() as connections:
        yield Life(runtime_dir, connections)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
async def test_a_shell_and_what_runs_in_it_go_on(life: Life, number: signal.Signals) -> None:
    shell = await life.open()
    pid = (await shell.exec("x=kept; echo $$")).stdout
    run = await shell.exec("echo begun; read -r line; echo got $line; (exit 7)", timeout_ms=0)
    assert (await shell.read(until_regex="(?m)^begun$", timeout_ms=PATIENCE_MS)).matched
    before = shell.cursor
    shell = await life.again(shell, number)
    status = await shell.status()
    assert (status.state, status.mode, status.notices) == (
        "open", "block_running", ["the server was replaced; the terminal and all that runs in it went on"],
    )  # fmt: skip
    with pytest.raises(PtyctlError, match=run.block_id) as caught:
        await shell.exec("echo too early")
    assert caught.value.code is ErrorCode.BUSY
    await shell.write("on\n")
    ended = await shell.wait(run.block_id, timeout_ms=PATIENCE_MS)
    assert (ended.exit_code, ended.done_reason) == (7, "marks")
    assert ended.stdout.splitlines()[0] == "begun"
    assert ended.stdout.splitlines()[-1] == "got on"
    shell.cursor = before  # cursors go on
    assert "got on" in ((await shell.read(timeout_ms=0)).chunk or "")
    after = await shell.exec("echo $x $$")
    assert after.stdout == f"kept {pid}"
    (entry,) = (await shell.controller.session(SessionRequest(action="list"))).sessions or []
    assert entry.incarnation == 1


async def test_a_command_that_ended_while_no_daemon_was_up(life: Life, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    shell = await life.open()
    run = await shell.exec(f"echo begun; read -r line <{gate}; echo late; (exit 4)", timeout_ms=0)
    assert (await shell.read(until_regex="(?m)^begun$", timeout_ms=PATIENCE_MS)).matched
    end_daemon(life.runtime_dir, signal.SIGKILL)
    await asyncio.to_thread(gate.write_text, "go\n")  # the shell takes it before anybody looks again
    shell = await life.found(shell)
    ended = await shell.wait(run.block_id, timeout_ms=PATIENCE_MS)
    assert (ended.exit_code, ended.stdout) == (4, "begun\nlate\n")


async def test_a_shell_that_ended_while_no_daemon_was_up(life: Life, tmp_path: Path) -> None:
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


async def test_a_lock_outlives_its_daemon(life: Life) -> None:
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


async def test_a_session_that_was_closed_is_not_taken_back(life: Life) -> None:
    one, two = await life.open(), await life.open()
    await one.close()
    two = await life.again(two)
    listed = (await two.controller.session(SessionRequest(action="list"))).sessions or []
    assert [entry.session_id for entry in listed] == [two.session_id]


async def test_a_killed_keeper_is_replaced(life: Life) -> None:
    one, two = await life.open(), await life.open()
    await two.exec("x=kept")
    keeper = pid_of_keeper(life.runtime_dir)
    os.kill(keeper, signal.SIGKILL)
    await one.close()  # nobody is there to be told
    await until(lambda: terminals_kept(life.runtime_dir) == 1)
    again = pid_of_keeper(life.runtime_dir)
    assert again != keeper
    two = await life.again(two)
    assert (await two.exec("echo $x")).stdout == "kept\n"
    assert pid_of_keeper(life.runtime_dir) == again


async def test_a_session_that_cannot_be_gone_on_with_does_not_keep_the_others_from_it(life: Life, tmp_path: Path) -> None:
    bad, worse, good = await life.open(), await life.open(), await life.open()
    ended = [os.pidfd_open(int((await shell.exec("echo $$")).stdout)) for shell in (bad, worse)]
    sessions = tmp_path / "state" / "sessions"
    end_daemon(life.runtime_dir, signal.SIGKILL)
    meta = json.loads((sessions / bad.session_id / "meta.json").read_text())
    del meta["created_at"]
    (sessions / bad.session_id / "meta.json").write_text(json.dumps(meta))
    (sessions / worse.session_id / "meta.json").write_text("[]")
    good = await life.found(good)
    assert (await good.exec("echo on")).stdout == "on\n"
    for pidfd in ended:  # nobody could know what it was
        assert (await asyncio.to_thread(select.select, [pidfd], [], [], 20))[0]
        os.close(pidfd)
    bad = await life.found(bad)
    with pytest.raises(PtyctlError, match="does not say what the session was"):
        await bad.read(timeout_ms=0)


async def test_an_unused_session_is_closed_after_its_time_in_the_next_daemon_too(life: Life) -> None:
    shell, other = await life.open(timeouts={"idle_timeout_ms": 1500}), await life.open()
    ended = os.pidfd_open(int((await shell.exec("echo $$")).stdout))
    await life.again(other)
    assert (await asyncio.to_thread(select.select, [ended], [], [], 20))[0]
    os.close(ended)


async def test_what_a_shell_starts_holds_nothing_of_the_daemons(life: Life) -> None:
    other = await life.open()
    for number in (signal.SIGKILL, signal.SIGHUP):
        other = await life.again(other, number)
        shell = await SessionHandle.open(other.controller, protocol="local", command=BASH)
        folder = Path(f"/proc/{(await shell.exec('echo $$')).stdout.strip()}/fd")
        assert {str(held.readlink()).rpartition("/")[0] for held in folder.iterdir()} == {"/dev/pts"}


async def test_a_conversation_goes_on(life: Life) -> None:
    controller = await life.connect()
    asked = PTY_REQUESTS["pty_exec_block"].of({"conversation_id": "talk", "client_id": "me", "cmd": "x=kept"})
    first = await controller.pty(asked)
    end_daemon(life.runtime_dir, signal.SIGKILL)
    second = await (await life.connect()).pty(asked)
    assert isinstance(first, PtyReply)
    assert isinstance(second, PtyReply)
    assert (first.seq, second.seq) == (1, 2)
    assert second.notices == ["the server was replaced; the terminal and all that runs in it went on"]


async def test_thirty_kills_under_load_lose_and_double_nothing(life: Life, tmp_path: Path) -> None:
    chance = random.Random(20261120)
    flood = await life.open(command=SURVIVOR)
    shell = await life.open(task_id="one")
    await shell.lock(lock_ttl_ms=600_000)
    pid = (await shell.exec("n=0; echo $$")).stdout
    for kill in range(30):
        await asyncio.sleep(chance.random() * 0.1)  # a random moment is what is tested
        flood, shell = await life.again(flood), shell
        shell = SessionHandle(flood.controller, shell.session_id, "one")
        counted = await shell.exec("n=$((n+1)); echo $n", timeout_ms=PATIENCE_MS)
        assert counted.stdout == f"{kill + 1}\n"
    assert (await shell.exec("echo $$")).stdout == pid
    assert (await shell.status()).lock_holder == "one"
    assert (await shell.lock()).fence == 1
    await flood.key("ctrl_c")
    await flood.close(force=True)
    raw = (tmp_path / "state" / "sessions" / flood.session_id / "output.raw").read_bytes()
    numbers = [int(number) for number in re.findall(rb"line (\d+) ", raw)]
    assert len(numbers) > 1000
    wrong = next(((runtime_dir, number) for runtime_dir, number in enumerate(numbers, 1) if runtime_dir != number), None)
    assert wrong is None  # (the line that should be there, the one that is)
    for number, line in enumerate(raw.split(b"\r\n")[: len(numbers) - 1], 1):
        assert line == b"line %d %s" % (number, b"x" * (number % 70))
    assert daemon_pid(life.runtime_dir) is not None


@pytest.mark.parametrize("keeper_killed", [False, True])
async def test_a_secret_is_masked_in_the_next_daemon_too_and_is_in_no_file(
    life: Life, tmp_path: Path, keeper_killed: bool
) -> None:
    secret = "c0rrect-Horse"
    shell = await life.open()
    asking = await shell.exec("echo asked; read -rs secret", timeout_ms=0)
    assert (await shell.read(until_regex="(?m)^asked$", timeout_ms=PATIENCE_MS)).matched
    await shell.write(f"{secret}\n", sensitive=True)
    await shell.wait(asking.block_id, timeout_ms=PATIENCE_MS)
    assert (await shell.exec('echo "$secret"')).stdout == f"{'*' * len(secret)}\n"
    if keeper_killed:
        keeper = pid_of_keeper(life.runtime_dir)
        os.kill(keeper, signal.SIGKILL)
        await until(lambda: keeper not in keepers_of(life.runtime_dir) and terminals_kept(life.runtime_dir) == 1)
    for number in (signal.SIGKILL, signal.SIGHUP):
        shell = await life.again(shell, number)
        assert (await shell.exec('echo "$secret"')).stdout == f"{'*' * len(secret)}\n"
    await shell.close()
    files = [path for folder in (life.runtime_dir.path, tmp_path / "state") for path in folder.rglob("*") if path.is_file()]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
    end_daemon(life.runtime_dir)
    await until(lambda: not life.runtime_dir.fd_store_socket.exists())  # nothing is held for a session that is closed

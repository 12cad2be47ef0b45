"""The daemon killed at any moment: local shells live on, no byte is lost or doubled, no lock has two holders."""

from __future__ import annotations

import asyncio
import os
import random
import re
import select
import signal
import sys
from pathlib import Path

import pytest

from fixtures.daemons import daemon_pid, end_daemon
from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.session import SessionRequest
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.place import Place

BASH = ("bash", "--norc", "--noprofile")
SURVIVOR = (sys.executable, "-I", "-S", str(Path(__file__).with_name("survivor.py")))
PATIENCE_MS = 30_000


async def again(place: Place, handle: SessionHandle, number: signal.Signals = signal.SIGKILL) -> SessionHandle:
    """The same session in the next daemon."""
    end_daemon(place, number)
    return SessionHandle(await RemoteController.connect(place), handle.opened, handle.task_id)


async def opened(place: Place, **fields: object) -> SessionHandle:
    return await SessionHandle.open(await RemoteController.connect(place), protocol="local", **{"command": BASH, **fields})


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
async def test_a_shell_and_what_runs_in_it_go_on(place: Place, number: signal.Signals) -> None:
    shell = await opened(place)
    pid = (await shell.exec("x=kept; echo $$")).stdout
    run = await shell.exec("echo begun; read -r line; echo got $line; (exit 7)", timeout_ms=0)
    assert (await shell.read(until_regex="(?m)^begun$", timeout_ms=PATIENCE_MS)).matched
    before = shell.cursor
    shell = await again(place, shell, number)
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


async def test_a_command_that_ended_while_no_daemon_was_up(place: Place, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    shell = await opened(place)
    run = await shell.exec(f"echo begun; read -r line <{gate}; echo late; (exit 4)", timeout_ms=0)
    assert (await shell.read(until_regex="(?m)^begun$", timeout_ms=PATIENCE_MS)).matched
    end_daemon(place, signal.SIGKILL)
    await asyncio.to_thread(gate.write_text, "go\n")  # the shell takes it before anybody looks again
    shell = SessionHandle(await RemoteController.connect(place), shell.opened)
    ended = await shell.wait(run.block_id, timeout_ms=PATIENCE_MS)
    assert (ended.exit_code, ended.stdout) == (4, "begun\nlate\n")


async def test_a_shell_that_ended_while_no_daemon_was_up(place: Place, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    shell = await opened(place)
    pid = int((await shell.exec("echo $$")).stdout)
    await shell.exec(f"read -r line <{gate}; echo the last words; exit 3", timeout_ms=0)
    assert (await shell.read(until_regex=str(gate), timeout_ms=PATIENCE_MS)).matched
    ended = os.pidfd_open(pid)
    end_daemon(place, signal.SIGKILL)
    await asyncio.to_thread(gate.write_text, "go\n")
    await asyncio.to_thread(select.select, [ended], [], [], 20)
    shell = SessionHandle(await RemoteController.connect(place), shell.opened)
    read = await shell.read(until_regex="the last words\n", timeout_ms=PATIENCE_MS)
    assert read.matched
    assert (await shell.read(until_regex="never", timeout_ms=PATIENCE_MS)).eof
    assert (await shell.status()).state == "eof"
    os.close(ended)


async def test_a_lock_outlives_its_daemon(place: Place) -> None:
    shell = await opened(place, task_id="one")
    fence = (await shell.lock(lock_ttl_ms=60_000)).fence
    shell = await again(place, shell)
    shell.task_id = "two"
    with pytest.raises(PtyctlError, match="Session locked by task one"):
        await shell.exec("echo mine")
    shell.task_id = "one"
    assert (await shell.heartbeat()).fence == fence
    await shell.unlock()
    shell.task_id = "two"
    assert (await shell.lock()).fence == (fence or 0) + 1


async def test_a_session_that_was_closed_is_not_taken_back(place: Place) -> None:
    one, two = await opened(place), await opened(place)
    await one.close()
    two = await again(place, two)
    listed = (await two.controller.session(SessionRequest(action="list"))).sessions or []
    assert [entry.session_id for entry in listed] == [two.session_id]


async def test_thirty_kills_under_load_lose_and_double_nothing(place: Place, tmp_path: Path) -> None:
    chance = random.Random(20261120)
    flood = await opened(place, command=SURVIVOR)
    shell = await opened(place, task_id="one")
    await shell.lock(lock_ttl_ms=600_000)
    pid = (await shell.exec("n=0; echo $$")).stdout
    for kill in range(30):
        await asyncio.sleep(chance.random() * 0.1)  # a random moment is what is tested
        flood, shell = await again(place, flood), shell
        shell = SessionHandle(flood.controller, shell.opened, "one")
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
    assert numbers == list(range(1, len(numbers) + 1))
    for number, line in enumerate(raw.split(b"\r\n")[: len(numbers) - 1], 1):
        assert line == b"line %d %s" % (number, b"x" * (number % 70))
    assert daemon_pid(place) is not None

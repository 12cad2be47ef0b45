"""Soak: several clients use one daemon for a long time; then it holds no more than before.

`make soak` takes twenty minutes, a test run in CI two minutes, another one twenty seconds. The clients make few calls, so it
takes little processor time.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path

import pytest

from fixtures.forked_process import ForkedDaemon
from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.operator import GcRequest
from ptyctl.api.session import SessionRequest
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.daemon import measured_daemon
from tests.daemon.measured_daemon import Holdings, measure

pytestmark = pytest.mark.waits

CLIENTS = 4
BASH = ("bash", "--norc", "--noprofile")
CONSOLE = {"protocol": "local", "command": BASH, "session_type": "console", "device_id": "rack-1"}
PATIENCE_MS = 50_000
#: Prints a line at the pace of the clients' calls.
TICKER = ("sh", "-c", "while :; do echo tick; sleep 0.5; done")
#: Growth of the daemon's memory between the middle and the end that is not a leak: caches, and gaps between objects.
MEMORY_NOISE = 24 << 20
PHASES = 2

Act = Callable[["Client", SessionHandle], Awaitable[None]]


@pytest.fixture
def runtime_dir(runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch) -> RuntimeDir:
    """A runtime directory whose daemon reports its resources."""
    monkeypatch.setattr("ptyctl.daemon.connection._spawn", partial(ForkedDaemon, main=measured_daemon.run))
    return runtime_dir


class Client:
    """Opens sessions, uses and leaves them, until its phase ends."""

    def __init__(self, runtime_dir: RuntimeDir, number: int, fences: Counter[str]) -> None:
        self.random = random.Random(number)
        self.name = f"client-{number}"
        self.acts = 0
        self.fences = fences
        self._runtime_dir = runtime_dir

    async def run(self, ticker: SessionHandle, until: float) -> None:
        """Use sessions until a time of the loop's clock."""
        while asyncio.get_running_loop().time() < until:
            async with await RemoteController.connect(self._runtime_dir, start=False) as controller:
                pace = await SessionHandle.attach(controller, ticker.session_id)
                handle = await SessionHandle.open(controller, protocol="local", command=BASH, task_id=self.name)
                for act in self.random.choices(ACTS, k=6):
                    assert (await pace.read(until_regex="tick", timeout_ms=PATIENCE_MS)).matched
                    await act(self, handle)
                    self.acts += 1
                if self.random.random() < 0.7:
                    await handle.close(force=True)
                elif self.random.random() < 0.5:  # leave it with a running command
                    await handle.exec("sleep 1000", timeout_ms=0)


async def run_command(client: Client, handle: SessionHandle) -> None:
    number = client.random.randrange(1_000_000)
    done = await handle.exec(f"echo $(({number} + 1))", timeout_ms=PATIENCE_MS)
    assert (done.stdout, done.exit_code) == (f"{number + 1}\n", 0)


async def flood(client: Client, handle: SessionHandle) -> None:
    done = await handle.exec("seq 1 60000", timeout_ms=PATIENCE_MS, max_output_bytes=1000)
    assert (done.exit_code, done.output_truncated) == (0, True)


async def change_lock(client: Client, handle: SessionHandle) -> None:
    await handle.lock()
    await handle.heartbeat()
    await handle.unlock()


async def share_console(client: Client, handle: SessionHandle) -> None:
    console = await SessionHandle.open(handle.controller, **CONSOLE, task_id=client.name)
    before = client.fences[console.session_id]
    try:
        fence = (await console.lock(wait_ms=500, lock_ttl_ms=3_600_000)).fence or 0
    except PtyctlError as error:
        if error.code not in (ErrorCode.LOCKED, ErrorCode.ALREADY_CLOSED):  # another client has it, or has closed it
            raise
        return
    assert fence > before, "a fence went back"
    client.fences[console.session_id] = fence
    assert (await console.exec("echo mine", timeout_ms=PATIENCE_MS)).stdout == "mine\n"
    if client.random.random() < 0.3:
        await console.close()  # the next client opens another session
    else:
        await console.unlock()


async def abandon_wait(client: Client, handle: SessionHandle) -> None:
    waiting = asyncio.create_task(handle.read(until_regex="never", timeout_ms=PATIENCE_MS))
    await asyncio.sleep(0)  # sends the read
    await handle.status()  # the daemon has received both
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def watch(client: Client, handle: SessionHandle) -> None:
    async with aclosing(handle.watch()) as items:
        await anext(items)
        await handle.exec("echo seen", timeout_ms=PATIENCE_MS)
        while (await anext(items)).kind != "output":
            pass


async def read_screen(client: Client, handle: SessionHandle) -> None:
    await handle.exec("printf 'one\\033[7mtwo\\n'", timeout_ms=PATIENCE_MS)
    assert any("onetwo" in row for row in (await handle.screen()).rows)


async def lose_connection(client: Client, handle: SessionHandle) -> None:
    async with await RemoteController.connect(client._runtime_dir, start=False) as other:
        attached = await SessionHandle.attach(other, handle.session_id, client.name)
        waiting = asyncio.create_task(attached.read(until_regex="never", timeout_ms=PATIENCE_MS))
        await asyncio.sleep(0)  # sends the read
        await attached.status()
    with suppress(PtyctlError):
        await waiting


ACTS: list[Act] = [run_command, flood, change_lock, share_console, abandon_wait, watch, read_screen, lose_connection]


async def close_all(controller: RemoteController) -> None:
    """Close all sessions, and remove their transcripts."""
    listed = await controller.session(SessionRequest.of({"action": "list"}))
    for entry in listed.sessions or ():
        request = {"action": "close", "session_id": entry.session_id, "force": True}
        await controller.session(SessionRequest.of(request))
    kept = await controller.gc(GcRequest.of({"max_bytes": 1}))
    assert (kept.kept, kept.kept_bytes) == (0, 0)


def disk_bytes(folder: Path) -> int:
    return sum(file.lstat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())


async def settle(runtime_dir: RuntimeDir, before: Holdings | None) -> Holdings:
    """Return the daemon's resources once they are stable, with no more descriptors and tasks than before."""
    last: Holdings | None = None
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while True:
            held = await measure(runtime_dir)
            settled = last is not None and (held.descriptors, held.tasks) == (last.descriptors, last.tasks)
            if settled and (
                before is None or (held.descriptors <= before.descriptors and len(held.tasks) <= len(before.tasks))
            ):
                return held
            last = held
            await asyncio.sleep(0.1)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_daemon_holds_no_more_after_long_use(
    runtime_dir: RuntimeDir, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seconds = request.config.getoption("--soak")
    loop, fences = asyncio.get_running_loop(), Counter[str]()
    held: list[Holdings] = []
    async with await RemoteController.connect(runtime_dir) as controller:
        clients = [Client(runtime_dir, number, fences) for number in range(CLIENTS)]
        for phase in range(PHASES + 1):  # the first one allocates what is allocated once
            until = loop.time() + (seconds / PHASES if phase else 0.1 * seconds)
            ticker = await SessionHandle.open(controller, protocol="local", command=TICKER)
            await asyncio.gather(*(client.run(ticker, until) for client in clients))
            await close_all(controller)
            held.append(await settle(runtime_dir, held[0] if held else None))
    assert held[-1].memory <= held[-2].memory + MEMORY_NOISE, held
    assert disk_bytes(tmp_path / "state") - disk_bytes(tmp_path / "state" / "audit") < 1 << 20  # the audit log is kept
    report = f"{sum(client.acts for client in clients)} calls; " + "; ".join(
        f"{each.memory >> 20} MiB, {each.descriptors} descriptors, {len(each.tasks)} tasks" for each in held
    )
    print(report)

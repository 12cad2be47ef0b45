"""Random calls on the consoles of one server, whose files fail, and which is killed, at random operations.

Whatever fails, nothing that a call has returned is lost, no fence goes back, no console has two connections, and the sessions
whose files do not fail are served as always. `make faults` runs 10,000 faults.
"""

from __future__ import annotations

import asyncio
import copy
import errno
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import AuditSettings, Settings
from tests.controller.acknowledged_calls import Acknowledged, ConsoleClient, FarEnd, Record, check_files, devices
from tests.session.file_faults import STEPS, CrashPoints, FileFaults, intercept

#: Faults in one test. Another test has another seed.
FAULTS = 25
CONSOLES = ("sw1", "sw2", "sw3")
#: A fault is one of the first operations of a step.
MAX_OPERATION = 14
ERRORS = (errno.ENOSPC, errno.EIO, None)
#: A server is killed, instead of a file failing, with this probability.
KILLS = 0.2


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--faults") // FAULTS))


class KillPoint:
    """Copies the files, and the results that they must contain, before one operation. Other threads wait meanwhile."""

    def __init__(self, operation: int, crashes: CrashPoints[list[Record]]) -> None:
        self.crashes = crashes
        self._left = operation
        self._lock = threading.Lock()

    def perform(self, name: str, operation: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Count an operation and perform it."""
        with self._lock:
            if threading.current_thread() is threading.main_thread():
                self._left -= 1
                if self._left == -1:
                    self.crashes.add(name)
            return operation(*arguments)


class Rig:
    """Servers, one after the other, on copies of a state directory."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.faults = 0
        self._folder = folder
        self._random = random.Random(seed)
        self._lives = 0

    async def run(self, count: int) -> None:
        """Inject this number of faults."""
        state = self._folder / "0"
        records: list[Record] = [(Acknowledged(device_id), b"") for device_id in CONSOLES]
        while self.faults < count:
            far_ends = {seen.device_id: FarEnd(text) for seen, text in records}
            # An audit log that cannot be written is tested in test_audit.py; it refuses input for up to a second after a fault.
            settings = Settings(state_dir=state, audit=AuditSettings(on_failure="allow"))
            async with LocalController(settings, devices(far_ends)) as controller:
                clients = [ConsoleClient(controller, copy.deepcopy(seen), far_ends[seen.device_id]) for seen, _ in records]
                await asyncio.gather(*(client.verify() for client in clients))
                killed = await self._until_killed(controller, clients, state, count)
            for client in clients:
                if client.seen.session_id and not client.seen.damaged:
                    check_files(state / "sessions" / client.seen.session_id)
            shutil.rmtree(state)
            if killed is not None:
                state, records = killed

    async def _until_killed(
        self, controller: LocalController, clients: list[ConsoleClient], state: Path, count: int
    ) -> tuple[Path, list[Record]] | None:
        """Let clients make calls; return the copy of the files at the kill, or None after enough faults."""
        while self.faults < count:
            if self._random.random() < KILLS:
                self._lives += 1
                copies = self._folder / f"killed-{self._lives}"
                copies.mkdir()
                kill = KillPoint(
                    self._random.randrange(MAX_OPERATION),
                    CrashPoints(state, copies, lambda: [client.record() for client in clients]),
                )
                with intercept(kill.perform, state, STEPS):
                    await self._call_all(clients)
                for point in kill.crashes.points:
                    self.faults += 1
                    return point.folder, point.record
                continue
            victims = [client for client in clients if client.seen.session_id]
            victim = self._random.choice([None, *victims])
            folder = state if victim is None else state / "sessions" / victim.seen.session_id
            faults = FileFaults(self._random.randrange(MAX_OPERATION), self._random.choice(ERRORS), self._random.random() < 0.5)
            with intercept(faults.perform, folder):
                for client in clients if victim is None else [victim]:
                    client.begin_faults()
                await self._call_all(clients)
            self.faults += bool(faults.failed)
            for client in clients:
                client.may_fail = False
            await asyncio.gather(*(client.recover() for client in clients))
            await self._check_other_server(clients, state)
        return None

    async def _call_all(self, clients: list[ConsoleClient]) -> None:
        await asyncio.gather(*(self._call(client, random.Random(self._random.random())) for client in clients))

    async def _call(self, client: ConsoleClient, choice: random.Random) -> None:
        """Make a few calls on a console."""
        for _ in range(choice.randrange(1, 4)):
            if not client.seen.session_id or client.seen.closed is not False or not client.far_end.connections:
                await client.open()
                continue
            task = choice.choice(["one", "two"])
            match choice.randrange(10):
                case 0 | 1:
                    if client.holder is None:
                        await client.lock(task)
                    if client.holder is not None:
                        await client.run(choice.choice([0, 2, 300]))
                case 2:
                    await client.lock(task, force=True)
                case 3:
                    await client.lock(client.holder or task)
                case 4 if client.holder is not None:
                    await client.heartbeat()
                case 5 if client.holder is not None:
                    await client.unlock()
                case 6:
                    await client.resize(choice.randrange(80, 200), 30)
                case 7:
                    client.far_end.print_log(choice.choice([1, 100, 8_000]))
                case 8:
                    client.far_end.hang_up()
                case 9 if choice.random() < 0.3:
                    await client.close()
                case _:
                    pass
            if client.seen.session_id:
                await client.read()

    async def _check_other_server(self, clients: list[ConsoleClient], state: Path) -> None:
        """Check that another server on the same files does not connect a console that is connected."""
        connected = [client for client in clients if client.far_end.connections and client.seen.closed is False]
        if not connected or self._random.random() > 0.05:
            return
        client = self._random.choice(connected)
        far_ends = {client.seen.device_id: client.far_end}
        async with LocalController(Settings(state_dir=state), devices(far_ends)) as other:
            with pytest.raises(PtyctlError) as refused:
                await ConsoleClient(other, client.seen, client.far_end).open()
            assert refused.value.code is ErrorCode.BUSY


@pytest.mark.timeout(600)
async def test_random_faults_lose_nothing_acknowledged(tmp_path: Path, seed: int) -> None:
    broken: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
    await Rig(tmp_path, seed).run(FAULTS)
    assert broken == []

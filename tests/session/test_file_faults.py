"""Each file operation of a session's life fails in turn: nothing that was acknowledged is lost, and nothing else breaks.

The scenario opens a session, takes the lock, runs commands, resizes, takes the lock over and runs again. Then the process is
killed (its files are copied), and recovery must honour what calls had returned.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api import PtyctlError
from ptyctl.api.session import Expect
from ptyctl.core.lease import Lease
from ptyctl.session.calls import lock
from ptyctl.session.session import Session
from tests.session.crash_simulation import restore, simulate_crash
from tests.session.file_faults import FileFaults, intercept
from tests.session.scripted_session import connect_session, read_from, run_command

pytestmark = pytest.mark.waits

#: Operations that the scenario performs without a fault; checked below.
OPERATIONS = 60
#: The operations are distributed over this many test cases.
PARTS = 4


class RecordingChannel(MemoryChannel):
    """Records what the far end sends in `fed`."""

    def __init__(self) -> None:
        super().__init__(answer)
        self.fed = bytearray()

    def feed(self, data: bytes) -> None:
        self.fed += data
        super().feed(data)


def answer(data: bytes) -> bytes:
    """Echo the command and answer as a device."""
    return data.replace(b"\r", b"\r\n") + b"a line of output\r\n" * 200 + b"old> "


@dataclass
class Acknowledged:
    """Results of calls.

    Attributes:
        fence: the largest fence.
        lease: the lease in force, if the last change of the lock was acknowledged.
        outputs: output of the commands, by block id, as far as no alarm reported that they are not stored.
    """

    fence: int = 0
    lease: Lease | None = None
    outputs: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    async def attempt(self, step: Callable[[], Awaitable[Any]]) -> Any:
        """Perform a step, which may fail as calls fail."""
        try:
            return await step()
        except PtyctlError as error:
            self.errors.append(str(error))
            return None

    def locked(self, lease: Lease | None) -> None:
        """Record a granted lease."""
        if lease is not None:
            assert lease.fence > self.fence
            self.fence, self.lease = lease.fence, lease


async def live_through(folder: Path, seen: Acknowledged) -> tuple[Session, RecordingChannel] | None:
    """Perform the scenario. Returns None if the session could not be opened."""
    channel = RecordingChannel()
    try:
        session = await connect_session(
            folder, channel, platform="cisco_ios", expect=Expect(settle_ms=1, prompt_regex="old> $")
        )
    except (PtyctlError, OSError):  # the controller reports an OSError as IO_ERROR
        return None
    channel.feed(b"old> ")

    async def run(command: str, task_id: str) -> None:
        done = await run_command(session, command, task_id=task_id)
        if done.block_id is not None and not done.timed_out and session.storage_alarm() is None:
            seen.outputs[done.block_id] = done.stdout

    async def take_over(task_id: str) -> Lease:
        return lock.take_over(session, task_id, 60.0, "because")

    async def resize() -> None:
        session.resize(90, 30)

    seen.locked(await seen.attempt(lambda: lock.lock(session, "one", 60.0)))
    await seen.attempt(lambda: run("show it", "one"))
    await seen.attempt(resize)
    channel.feed(b"\r\n" + b"a line of output\r\n" * 20_000 + b"old> ")
    seen.locked(await seen.attempt(lambda: take_over("two")))
    await seen.attempt(lambda: run("show more", "two"))
    session.flush()
    return session, channel


async def check_recovery(tmp_path: Path, faults: FileFaults) -> Acknowledged:
    """Perform the scenario with faults, kill, recover, and check what must hold."""
    broken: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
    seen = Acknowledged()
    with intercept(faults.perform, tmp_path):
        lived = await live_through(tmp_path, seen)
        faults.enabled = False
        await asyncio.sleep(0)
        assert broken == []
        if lived is None:
            assert faults.failed
            return seen
        session, channel = lived
        text = bytes(channel.fed).replace(b"\r\n", b"\n").decode()
        live = await read_from(session.stream, cursor="0", max_bytes=1_000_000)
        assert text.startswith(live.chunk or "")
        sessions = await simulate_crash(session, tmp_path)
    restored = await restore(sessions)
    assert restored.leases.fence >= seen.fence
    if seen.lease is not None:
        held = restored.lease()
        assert held is not None
        assert (held.holder, held.fence) == (seen.lease.holder, seen.lease.fence)
    assert lock.take_over(restored, "next", 60.0, None).fence > seen.fence
    stored = (restored.stream.folder / "output.raw").read_bytes()[: restored.stream.raw_kept]
    assert bytes(channel.fed).startswith(stored)
    for block in restored.blocks.all():
        if block.block_id in seen.outputs:
            assert block.status == "completed", faults.failed
    await restored.close(force=True)
    return seen


async def test_scenario_without_faults_is_recovered_completely(tmp_path: Path) -> None:
    faults = FileFaults(-1)
    seen = await check_recovery(tmp_path, faults)
    assert (seen.errors, seen.fence, len(seen.outputs)) == ([], 2, 2)
    assert faults.count <= OPERATIONS, faults.count


@pytest.mark.parametrize(
    ("error", "lasting", "part"),
    [
        *((errno.ENOSPC, True, part) for part in range(PARTS)),
        *((errno.EIO, False, part) for part in range(0, PARTS, 2)),
        (errno.EMFILE, True, 1),
        (None, False, 3),  # a short write
    ],
)
async def test_failed_file_operation_loses_nothing_acknowledged(
    tmp_path: Path, error: int | None, lasting: bool, part: int
) -> None:
    for first in range(part, OPERATIONS, PARTS):
        folder = tmp_path / str(first)
        folder.mkdir(mode=0o700)
        faults = FileFaults(first, error, lasting)
        try:
            await check_recovery(folder, faults)
        except AssertionError as wrong:
            raise AssertionError(f"operation {first} failed: {faults.failed[:1]}") from wrong

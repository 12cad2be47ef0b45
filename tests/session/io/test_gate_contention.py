"""Gate under contention: writes of 50 tasks never mix, refusals name the lock holder, readers see every byte."""

from __future__ import annotations

import asyncio
import base64
import random
import string
from pathlib import Path

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.session.clients import lock_owner
from ptyctl.session.session import Session
from tests.session.scripted_session import PATIENCE_MS, connect_session, read_from, write_to
from transports.channel import ExitStatus

TASKS = string.ascii_letters[:50]
ROUNDS = 4
LENGTH = 400  # several chunks, so that a lock can be lost during a write


class SlowConsole(MemoryChannel):
    """Accepts a few bytes at a time, echoes them, and compares the writer with the lock holder."""

    def __init__(self) -> None:
        super().__init__(on_write=lambda data: data)
        self.session: Session | None = None
        self.violations: list[tuple[str, bytes]] = []
        self._chance = random.Random(7)

    def write(self, data: bytes) -> int:
        assert self.session is not None
        lease = self.session.lease()
        taken = super().write(data[: self._chance.randrange(0, 40)])
        wrote = {chr(byte) for byte in data[:taken]} - {"<", ">"}
        if (
            wrote and lease is not None and wrote != {lease.holder.task_id}
        ):  # the lock may have expired since the gate checked it
            self.violations.append((lease.holder.task_id, data[:taken]))
        return taken

    async def drain(self) -> None:
        await asyncio.sleep(0)


class Contender:
    """Locks, writes, and unlocks or lets the lock expire. Records the sent part of each write, and every refusal."""

    def __init__(self, session: Session, name: str) -> None:
        self.session = session
        self.name = name
        self.sent: list[bytes] = []
        self.whole = 0
        self.refusals: list[PtyctlError] = []
        self._chance = random.Random(name)

    async def contend(self) -> None:
        for _ in range(ROUNDS):
            await self._lock()
            data = f"<{self.name * LENGTH}>"
            try:
                reply = await write_to(self.session, task_id=self.name, data=data)
            except PtyctlError as error:
                self.refusals.append(error)
                self.sent.append(data[: error.details.get("bytes_written", 0)].encode())
            else:
                assert reply.bytes_written == len(data)
                self.sent.append(data.encode())
                self.whole += 1
                if self._chance.random() < 0.7:  # otherwise the lock expires
                    self._unlock()

    def _unlock(self) -> None:
        try:
            self.session.leases.release(lock_owner(self.name), asyncio.get_running_loop().time())
        except PtyctlError as error:
            self.refusals.append(error)

    async def _lock(self) -> None:
        while True:
            try:
                ttl = self._chance.choice([0.0005, 0.002, 0.02])
                self.session.leases.acquire(lock_owner(self.name), ttl, asyncio.get_running_loop().time())
            except PtyctlError as error:
                self.refusals.append(error)
                await asyncio.sleep(self._chance.random() * 0.01)
            else:
                return


async def observe(session: Session) -> bytes:
    """Return all output, read by cursor."""
    seen, cursor = b"", "0"
    while True:
        reply = await read_from(session.stream, cursor=cursor, encoding="base64", timeout_ms=PATIENCE_MS, max_bytes=1_000)
        seen += base64.b64decode(reply.chunk or "")
        cursor = reply.next_cursor or ""
        if reply.eof:
            return seen


async def test_writes_of_fifty_tasks_with_expiring_locks_never_interleave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptyctl.session.io.gate.PACE_S", 0.0)  # the console echoes at once
    channel = SlowConsole()
    channel.session = session = await connect_session(tmp_path, channel, session_type="console", device_id="rack-1")
    observers = [asyncio.create_task(observe(session)) for _ in range(3)]
    contenders = [Contender(session, name) for name in TASKS]
    async with asyncio.timeout(60):
        await asyncio.gather(*(contender.contend() for contender in contenders))
    channel.end(status=ExitStatus(0))
    written = bytes(channel.written)

    assert channel.violations == []
    # A write ends when its lock expires, and its error reports how much was sent. So the input consists of the sent parts, in
    # some order, and none of them is interrupted by another.
    sent = sorted(part for contender in contenders for part in contender.sent if part)
    assert sorted(b"<" + part for part in written.split(b"<")[1:]) == sent
    assert len(written) == session.gate.bytes_sent
    assert written.count(b">") == sum(contender.whole for contender in contenders)

    refusals = [error for contender in contenders for error in contender.refusals]
    codes = {code: sum(error.code is code for error in refusals) for code in ErrorCode}
    assert codes[ErrorCode.LOCKED] > 0
    assert codes[ErrorCode.LOCK_LOST] > 0
    for error in refusals:
        assert error.code in (ErrorCode.LOCKED, ErrorCode.LOCK_LOST, ErrorCode.LOCK_REQUIRED)
        if error.code is ErrorCode.LOCKED:
            assert error.details["lock_holder"] in TASKS
            assert f"Session locked by task {error.details['lock_holder']}" in error.message

    assert [await observer for observer in observers] == [written] * 3
    await session.close()


async def test_writes_without_lock_are_sent_whole_and_in_order(tmp_path: Path) -> None:
    channel = SlowConsole()
    channel.session = session = await connect_session(tmp_path, channel, protocol="ssh")
    await asyncio.gather(*(write_to(session, data=f"<{name * LENGTH}>", task_id=name) for name in TASKS))
    assert bytes(channel.written) == b"".join(f"<{name * LENGTH}>".encode() for name in TASKS)  # in call order
    await session.close()

"""A client of one console that records the results of its calls, and checks after a crash that they are still valid.

The far end is a scripted device. Several clients share its records across servers and copies of a state directory.
"""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from fixtures.memory_channel import MemoryChannel
from ptyctl.api import ConfigRequest, ErrorCode, ExecRequest, IoRequest, PtyctlError, SessionReply, SessionRequest
from ptyctl.api.blocks import BlocksRead, BlocksReply, BlocksSince
from ptyctl.controller.destinations import Destination
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from transports.receiver import Receiver

Result = TypeVar("Result")
#: Holder and fence of a lock, or None.
Lock = tuple[str, int] | None

PROMPT = b"old> "
LINE = b"a line of output\r\n"
TTL_MS = 3_600_000
_TIMEOUT_MS = 30_000
_PIECE_BYTES = 1_000_000


class ScriptedDevice(MemoryChannel):
    """A connection to a device, which echoes a command and answers `show N` with N lines."""

    def __init__(self, far_end: FarEnd) -> None:
        super().__init__(_answer)
        self._far_end = far_end

    async def open(self, receiver: Receiver) -> None:
        await super().open(receiver)
        self._far_end.connections.append(self)
        assert len(self._far_end.connections) == 1, "a console has two connections"
        self.feed(PROMPT)

    def feed(self, data: bytes) -> None:
        self._far_end.text += data.replace(b"\r\n", b"\n")
        super().feed(data)

    async def close(self, *, force: bool = False) -> None:
        if self in self._far_end.connections:
            self._far_end.connections.remove(self)
        await super().close(force=force)


class FarEnd:
    """A device.

    Attributes:
        text: the text that it has sent since the session was opened.
        connections: the open connections, at most one.
    """

    def __init__(self, text: bytes = b"") -> None:
        self.text = bytearray(text)
        self.connections: list[ScriptedDevice] = []

    def print_log(self, lines: int) -> None:
        """Print log lines after the prompt, and the prompt again."""
        for connection in self.connections:
            connection.feed(b"\r\n" + LINE * lines + PROMPT)

    def hang_up(self) -> None:
        """End the connections."""
        for connection in list(self.connections):
            self.connections.remove(connection)
            connection.end()


def _answer(data: bytes) -> bytes:
    command, _, count = data.strip().partition(b" ")
    output = LINE * int(count) if command == b"show" else b""
    return data.replace(b"\r", b"\r\n") + output + PROMPT


def devices(far_ends: dict[str, FarEnd]) -> Callable[[Destination], ScriptedDevice]:
    """Return a factory of channels to these devices."""
    return lambda destination: ScriptedDevice(far_ends[destination.request.device_id or ""])


@dataclass
class Acknowledged:
    """Results of calls on a console.

    Attributes:
        session_id: its session; empty before the first open.
        fence: the largest fence.
        locks: the locks that may be in force: the acknowledged one, and those of calls that have not returned.
        sizes: the sizes that the terminal may have.
        outputs: outputs of finished commands by block id; None if it may be in memory only.
        text: what reads have returned, from the start on.
        closed: the session was closed; None while it is being closed.
        damaged: its files have failed: output and rows from there on may be in memory only, which an alarm reports.
        stored: how much of `text` survives a crash.
    """

    device_id: str
    session_id: str = ""
    fence: int = 0
    locks: list[Lock] = field(default_factory=lambda: [None])
    sizes: list[tuple[int, int]] = field(default_factory=lambda: [(120, 40)])
    outputs: dict[str, str | None] = field(default_factory=dict)
    text: bytes = b""
    closed: bool | None = False
    damaged: bool = False
    stored: int = 0


#: What a client's calls had returned, and what the device had sent, when the files were copied.
Record = tuple[Acknowledged, bytes]


class ConsoleClient:
    """Makes calls on a console, as the only client that changes it.

    Attributes:
        may_fail: whether files fail at present, so that calls may raise errors.
        errors: the errors of the calls.
    """

    def __init__(self, controller: LocalController, seen: Acknowledged, far_end: FarEnd) -> None:
        self.controller = controller
        self.seen = seen
        self.far_end = far_end
        self.may_fail = False
        self.errors: list[PtyctlError] = []

    @property
    def holder(self) -> str | None:
        """The task that holds the lock."""
        lock = self.seen.locks[0]
        return lock[0] if lock is not None else None

    async def open(self) -> None:
        """Open the console, or connect it again."""
        reply = await self._attempt(
            self.controller.session(
                SessionRequest.of(
                    {
                        "action": "open", "protocol": "telnet", "host": "scripted", "platform": "cisco_ios",
                        "session_type": "console", "device_id": self.seen.device_id,
                        "expect": {"settle_ms": 1, "prompt_regex": "old> $"},
                    }
                )
            )
        )  # fmt: skip
        if reply is not None:
            assert reply.session_id
            if reply.session_id == self.seen.session_id:
                assert self.seen.closed is not True, "a closed session was continued"
                if self.seen.closed is None:  # it was recovered, since it could not be stored that it was closed
                    self.seen.closed = False
                    self._verify_lock(reply)
            else:
                assert not self.seen.session_id or self.seen.closed is not False, "the session was lost"
                self.seen = Acknowledged(self.seen.device_id, reply.session_id)
                # A server that was killed during an open may have left the session, with the prompt of that connection.
                self.far_end.text = bytearray(PROMPT * (int(reply.next_cursor or 0) // len(PROMPT) or 1))

    async def run(self, count: int) -> None:
        """Run a command that prints `count` lines."""
        request = {
            "session_id": self.seen.session_id,
            "cmd": f"show {count}",
            "timeout_ms": _TIMEOUT_MS,
            "task_id": self.holder,
        }
        done = await self._attempt(self.controller.exec(ExecRequest.of(request | {"max_output_bytes": 1 << 20})))
        if done is not None:
            assert done.done_reason == "prompt", done
            assert done.stdout == LINE.decode().replace("\r", "") * count
            assert done.block_id is not None
            if not done.notices:
                self.seen.outputs[done.block_id] = None if self.seen.damaged else done.stdout

    async def lock(self, task_id: str, *, force: bool = False) -> None:
        """Take the lock, which is free or this task's, or by force."""
        await self._change_lock(task_id, "lock", task_id, force=force, lock_ttl_ms=TTL_MS)

    async def heartbeat(self) -> None:
        """Extend the lock."""
        await self._change_lock(self.holder, "heartbeat", self.holder, lock_ttl_ms=TTL_MS)

    async def unlock(self) -> None:
        """Release the lock."""
        await self._change_lock(None, "unlock", self.holder)

    async def resize(self, cols: int, rows: int) -> None:
        """Resize the terminal."""
        request = {"session_id": self.seen.session_id, "action": "resize", "cols": cols, "rows": rows, "task_id": self.holder}
        before, self.seen.sizes = self.seen.sizes, [*self.seen.sizes, (cols, rows)]
        if await self._attempt(self.controller.config(ConfigRequest.of(request))) is not None:
            self.seen.sizes = [(cols, rows)] if not self.may_fail else [*before, (cols, rows)]

    async def read(self) -> None:
        """Read the output that has not been read yet."""
        seen, text = self.seen, self.far_end.text
        while True:
            cursor = len(seen.text)
            request = {"session_id": seen.session_id, "action": "read", "mode": "history", "cursor": str(cursor)}
            reply = await self._attempt(self.controller.io(IoRequest.of(request | {"max_bytes": _PIECE_BYTES})))
            if reply is None or int(reply.next_cursor or 0) == cursor:
                break
            chunk, end = (reply.chunk or "").encode(), int(reply.next_cursor or 0)
            begin = end - len(chunk)
            assert begin == cursor or seen.damaged
            if len(text) < end:  # output that a killed server had received, and that is not stored
                assert not chunk
                text += b"?" * (end - len(text))
            assert text[begin:end] == chunk, (begin, chunk[-80:], text[-80:])
            seen.text = bytes(text[:end])
        if not seen.damaged:
            seen.stored = len(seen.text)

    def begin_faults(self) -> None:
        """Record that the session's files may fail from now on."""
        self.may_fail = self.seen.damaged = True

    async def recover(self) -> None:
        """Check that the session is served after its files have failed."""
        if self.seen.session_id and self.seen.closed is False:
            await self.lock("next", force=True)
            await self.read()

    async def close(self) -> None:
        """Close the session."""
        self.seen.closed = None
        request = {"action": "close", "session_id": self.seen.session_id, "force": True}
        if await self._attempt(self.controller.session(SessionRequest.of(request))) is not None:
            self.seen.closed = True

    async def status(self) -> SessionReply:
        """Return the session's status."""
        return await self.controller.session(SessionRequest.of({"action": "status", "session_id": self.seen.session_id}))

    def record(self) -> Record:
        """Return the results that a copy of the current files must contain."""
        return copy.deepcopy(self.seen), bytes(self.far_end.text)

    async def verify(self) -> None:
        """Check that the results of calls are valid in a server that has recovered the session."""
        seen, text = self.seen, self.seen.text
        if not seen.session_id:
            return
        stored, seen.text = seen.stored, b""
        await self.read()
        assert len(seen.text) >= len(text), f"cursor {len(text)} is past the end, {len(seen.text)}"
        assert seen.text.startswith(text[:stored]), "output that was read is lost"
        self.far_end.text = bytearray(seen.text)  # the killed server has not received the rest
        await self._verify_blocks()
        if seen.closed is not False and not await self._is_live():
            return
        assert seen.closed is not True
        seen.closed = False
        self._verify_lock(await self.status())
        config = await self.controller.config(ConfigRequest.of({"action": "get", "session_id": seen.session_id}))
        assert (config.cols, config.rows) in seen.sizes
        seen.sizes = [(config.cols or 0, config.rows or 0)]

    async def resume(self, *, run: bool = True) -> None:
        """Check the recovered state, and that the console can be used; `run`: also run a command, the slowest check."""
        await self.verify()
        await self.open()
        await self.lock("next", force=True)
        if run:
            await self.run(2)
        await self.read()
        await self.verify()

    async def _is_live(self) -> bool:
        try:
            await self.status()
        except PtyctlError as error:
            if error.code is not ErrorCode.ALREADY_CLOSED:
                raise
            return False
        return True

    def _verify_lock(self, reply: SessionReply) -> None:
        lock = (reply.lock_holder, reply.fence or 0) if reply.lock_holder else None
        assert lock in self.seen.locks, (lock, self.seen.locks)
        self.seen.locks = [lock]

    async def _verify_blocks(self) -> None:
        request = BlocksSince.of({"session_id": self.seen.session_id, "limit": 1000})
        reply = await self.controller.pty(request)
        assert isinstance(reply, BlocksReply), reply
        blocks = {block.block_id: block for block in reply.items or ()}
        assert all(block.ts_end is not None for block in blocks.values())
        for block_id, output in self.seen.outputs.items():
            assert blocks[block_id].status == "completed", blocks[block_id]
            read_request = BlocksRead.of({"session_id": self.seen.session_id, "block_id": block_id, "max_bytes": 1 << 20})
            read = await self.controller.pty(read_request)
            assert isinstance(read, BlocksReply)
            assert output is None or read.data == output

    async def _change_lock(self, holder: str | None, action: str, task_id: str | None, **fields: Any) -> None:
        seen = self.seen
        request = {"action": action, "session_id": seen.session_id, "task_id": task_id, **fields}
        before, granted = seen.locks, None if holder is None else (holder, seen.fence + (holder != self.holder))
        seen.locks = [*before, granted]
        reply = await self._attempt(self.controller.session(SessionRequest.of(request)))
        if reply is None:
            seen.locks = before
        elif granted is None:  # without a place to store it, the lock is in force again after a crash until it expires
            seen.locks = [None, *(before if self.may_fail else ())]
        else:
            assert reply.fence is not None
            assert (reply.lock_holder, reply.fence >= granted[1]) == (holder, True)
            seen.locks, seen.fence = [(granted[0], reply.fence)], reply.fence

    async def _attempt(self, call: Awaitable[Result]) -> Result | None:
        """Return the result of a call, or None if files failed."""
        try:
            return await call
        except PtyctlError as error:
            if not self.may_fail or error.code not in (ErrorCode.IO_ERROR, ErrorCode.LIMIT_EXCEEDED):
                raise
            self.errors.append(error)
            return None


@asynccontextmanager
async def recovering_client(state: Path, record: Record) -> AsyncIterator[ConsoleClient]:
    """Start a server on a copy of a killed server's files, and return the same client on it. Check the files at the end."""
    far_end = FarEnd(record[1])
    async with LocalController(Settings(state_dir=state), devices({record[0].device_id: far_end})) as controller:
        client = ConsoleClient(controller, copy.deepcopy(record[0]), far_end)
        yield client
    if client.seen.session_id:
        check_files(state / "sessions" / client.seen.session_id)


def check_files(folder: Path) -> None:
    """Check that each block in events.jsonl has one start and one end, in this order."""
    events = [json.loads(line) for line in (folder / "events.jsonl").read_bytes().splitlines()]
    blocks: dict[str, list[str]] = {}
    for event in events:
        if event["type"] in ("agent_block_begin", "agent_block_end"):
            blocks.setdefault(event["block"]["block_id"], []).append(event["type"].removeprefix("agent_block_"))
    assert all(kinds == ["begin", "end"] for kinds in blocks.values()), blocks

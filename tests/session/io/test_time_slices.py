"""Long writes and output with many commands: what one iteration of the event loop does is bounded, by counts of operations."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.loop_turns import counted_turns
from fixtures.memory_channel import MemoryChannel
from ptyctl.platforms import Platforms
from ptyctl.session.approvals import Approvals
from ptyctl.session.io import time_slice
from ptyctl.session.io.time_slice import base64_text
from ptyctl.session.runs.run_output import OutputRenderer
from ptyctl.session.session import Session
from tests.session.file_faults import intercept
from tests.session.scripted_session import connect_session, write_to
from tests.session.test_authorization import Rules


@pytest.mark.parametrize("size", [0, 1, 2, 3, 393_215, 393_216, 393_217, 2_000_000])
async def test_base64_text_lets_other_tasks_run(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The fake clock counts each look at it as longer than a slice."""
    times = itertools.count()
    monkeypatch.setattr(time_slice, "clock", lambda: float(next(times)))
    data = os.urandom(size)
    with counted_turns() as turns:
        assert await base64_text(data) == base64.b64encode(data).decode()
    assert turns.count >= size // 393_216 - 1


#: What the fake clock counts for each write to the channel (seconds): three writes are longer than a slice.
WRITE_S = 0.001


class CostlyChannel(MemoryChannel):
    """Each write takes time on the clock of the slices. `iterations` has the number of writes in each iteration of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(self._take)
        self.iterations = [0]
        self.largest = 0
        self._now = 0.0
        monkeypatch.setattr("ptyctl.session.io.time_slice.clock", lambda: self._now)

    def take_time(self) -> None:
        """Count a step."""
        self._now += WRITE_S
        self.iterations[-1] += 1

    def _take(self, data: bytes) -> bytes:
        self.take_time()
        self.largest = max(self.largest, len(data))
        return b""

    async def count(self) -> None:
        """Count iterations until cancelled."""
        while True:
            self.iterations.append(0)
            await asyncio.sleep(0)


async def costly(folder: Path, monkeypatch: pytest.MonkeyPatch, **fields: object) -> tuple[Session, CostlyChannel]:
    """Write to a session with a policy, as `ptyctl_session_io` does, while iterations of the loop are counted."""
    channel = CostlyChannel(monkeypatch)
    session = await connect_session(folder, channel, protocol="ssh", platform="cisco_ios", probe_shell=False)
    session.set_platform(Platforms(None).get("cisco_ios"))
    session.authorization.set_policy(Rules(), Approvals())
    counting = asyncio.create_task(channel.count())
    try:
        await write_to(session, **fields)
    finally:
        counting.cancel()
    return session, channel


async def test_write_of_many_lines_sends_few_of_them_in_one_iteration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, channel = await costly(tmp_path, monkeypatch, data="show clock\n" * 30)
    assert channel.written.count(b"\r") == 30
    assert max(channel.iterations) <= 3
    await session.close()


async def test_write_of_many_keys_sends_few_of_them_in_one_iteration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Following each key in the model of the line takes time too, so that a part has few of them."""
    keys = b"\r" * 6000
    session, channel = await costly(tmp_path, monkeypatch, data=base64.b64encode(keys).decode(), encoding="base64")
    assert bytes(channel.written) == keys
    assert (max(channel.iterations) <= 3, channel.largest) == (True, 512)
    await session.close()


async def test_secret_of_many_bytes_is_sent_in_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its echo is masked as a whole."""
    session, channel = await costly(tmp_path, monkeypatch, data="s" * 2000 + "\n", sensitive=True)
    assert channel.largest == 2001
    await session.close()


async def test_long_output_is_rendered_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = CostlyChannel(monkeypatch)
    session = await connect_session(tmp_path, channel)
    channel.feed(b"one\x1b[Ctwo\r\n" * 4000)
    renderer, feed = OutputRenderer(session.stream, 0), OutputRenderer._feed
    monkeypatch.setattr(OutputRenderer, "_feed", lambda self, end: (feed(self, end), channel.take_time()))
    counting = asyncio.create_task(channel.count())
    while renderer.raw < session.stream.raw_size:
        await renderer.next_text(session.stream.raw_size)
    counting.cancel()
    assert (sum(channel.iterations) > 30, max(channel.iterations) <= 3) == (True, True)
    await session.close()


async def test_marks_of_many_commands_in_one_chunk_are_written_once(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    marks = (("P;0;1;/", "$ x\r\n"), ("B;true", "out\r\n"), ("E;0", ""))
    rows = [(mark, text) for _ in range(20) for mark, text in marks]
    chunk = "".join(
        f"\x1b]7717;{session.shell_nonce};{place};{mark}\x07{text}" for place, (mark, text) in enumerate(rows, start=1)
    )
    writes = list[Path]()

    def record(name: str, operation: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        writes.append(Path(f"/proc/self/fd/{arguments[0]}").readlink())
        return operation(*arguments)

    with intercept(record, tmp_path, [(os, "write")]):
        channel.feed(chunk.encode())
    assert [path.name for path in writes].count("blocks.jsonl") == 1
    assert (
        len((tmp_path / "s" / "blocks.jsonl").read_text().splitlines()) == 39
    )  # the last one has not ended: no prompt follows
    await session.close()

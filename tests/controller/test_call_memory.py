"""Calls that arrive twice are performed once, also by the next server, and forgotten after a while."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.messages import decode_reply
from ptyctl.api.model import Reply
from ptyctl.api.operator import NotifyReply
from ptyctl.controller import call_memory
from ptyctl.controller.call_memory import (
    CANCELLED_BY_CLIENT,
    KEEP_DURABLE_S,
    REPEAT_S,
    CallJournal,
    CallMemory,
    DurableCallMemory,
    repeatable,
    was_refused,
)
from ptyctl.core import json_lines
from ptyctl.core.limits import LIMITS

KEY = ("p", "1", "")


class Counted:
    """A call that ends when it may, and counts how often it was performed."""

    def __init__(self) -> None:
        self.times = 0
        self.may_end = asyncio.Event()
        self.was_cancelled = False

    async def __call__(self) -> Reply:
        self.times += 1
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return Reply()


async def test_repeated_call_gets_the_answer_of_the_first() -> None:
    memory, call = CallMemory(), Counted()
    first = asyncio.create_task(memory.once(KEY, call))
    await asyncio.sleep(0)
    first.cancel()  # the connection was lost
    second = asyncio.create_task(memory.once(KEY, call))
    await asyncio.sleep(0)
    call.may_end.set()
    assert await second is await memory.once(KEY, call)
    assert call.times == 1


async def test_other_call_with_the_same_id_is_performed() -> None:
    memory, call = CallMemory(), Counted()
    call.may_end.set()
    await memory.once(KEY, call)
    await memory.once(("p", "1", "other"), call)
    assert call.times == 2


async def test_call_that_its_client_cancels_ends() -> None:
    memory, call = CallMemory(), Counted()
    waiting = asyncio.create_task(memory.once(KEY, call))
    await asyncio.sleep(0)
    waiting.cancel(CANCELLED_BY_CLIENT)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0)
    assert call.was_cancelled


async def test_memory_is_bounded_while_one_call_runs() -> None:
    memory, running, ended = CallMemory(LIMITS["max_forwarded_calls"]._replace(maximum=10)), Counted(), Counted()
    ended.may_end.set()
    waiting = asyncio.create_task(memory.once(KEY, running))
    await asyncio.sleep(0)
    for number in range(50):
        await memory.once(("p", str(number), "x"), ended)
    assert len(memory) == 51  # any of them may be repeated
    for call in memory._calls.values():
        if call.ended_at is not None:
            call.ended_at -= REPEAT_S + 1
    await memory.once(("p", "last", "x"), ended)
    assert len(memory) <= 10
    running.may_end.set()
    await waiting


class Durable:
    """Calls of one request on the memory of a server, which can be started again.

    Attributes:
        performed: how often the call was performed.
        outcome: the reply of the call, or its error.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "calls.jsonl"
        self.performed = 0
        self.outcome: Reply | Exception = NotifyReply(session_id="s", observers=[])
        self.memory = DurableCallMemory()

    async def start(self, max_bytes: int = 1_000_000) -> None:
        """Start a server, the one before was killed."""
        self.memory = DurableCallMemory(max_bytes=max_bytes)
        await self.memory.store_in(self._path)

    async def call(self, request_id: str = "r") -> tuple[Reply, bool]:
        with repeatable(request_id, durable=True) as call:
            return await self.memory.perform("exec", self._perform, refused=was_refused), call.repeated

    async def error(self, request_id: str = "r") -> PtyctlError:
        with pytest.raises(PtyctlError) as error:
            await self.call(request_id)
        return error.value

    async def _perform(self) -> Reply:
        self.performed += 1
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.fixture
async def durable(tmp_path: Path) -> Durable:
    calls = Durable(tmp_path)
    await calls.start()
    return calls


async def test_durable_call_has_the_same_answer_after_a_restart(durable: Durable) -> None:
    reply, repeated = await durable.call()
    assert not repeated
    for _ in range(2):
        assert await durable.call() == (reply, True)
        await durable.start()
    assert durable.performed == 1


@pytest.mark.parametrize("error", [ErrorCode.POLICY_DENIED, ErrorCode.IO_ERROR])
async def test_durable_call_that_failed_has_the_same_error_after_a_restart(durable: Durable, error: ErrorCode) -> None:
    durable.outcome = PtyctlError(error, "no", {"rule": "x"}, hint="ask")
    for _ in range(2):
        assert (await durable.error()).payload() == durable.outcome.payload()
        await durable.start()
    assert durable.performed == 1


async def test_durable_call_without_an_end_is_unknown_and_not_performed_again(durable: Durable) -> None:
    durable.outcome = RuntimeError("the process was killed")
    with pytest.raises(RuntimeError):
        await durable.call()
    for _ in range(2):
        await durable.start()
        assert (await durable.error()).details == {"delivery": "unknown"}
    assert durable.performed == 1


async def test_durable_call_that_was_refused_is_performed_again(durable: Durable) -> None:
    durable.outcome = PtyctlError(ErrorCode.LOCKED, "locked")
    await durable.error()
    await durable.error()
    await durable.start()
    durable.outcome = Reply()
    await durable.call()
    assert durable.performed == 3


@pytest.mark.parametrize(
    ("details", "refused"),
    [({"reason": "expired"}, True), ({"bytes_written": 0}, True), ({"bytes_written": 1}, False), ({"block_id": "1_2"}, False)],
)
def test_call_without_its_lock_was_refused_only_if_nothing_was_typed(details: dict[str, object], refused: bool) -> None:
    assert was_refused(PtyctlError(ErrorCode.LOCK_LOST, "lost", details)) is refused


async def test_durable_call_that_cannot_be_recorded_is_not_performed(durable: Durable, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "fdatasync", fail)
        error = await durable.error()
    assert (error.code, error.details, durable.performed) == (ErrorCode.IO_ERROR, {"delivery": "not_sent"}, 0)
    await durable.call()
    await durable.start()
    assert ((await durable.call())[1], durable.performed) == (True, 1)


async def test_durable_call_waits_for_a_file_that_can_be_read(durable: Durable, tmp_path: Path) -> None:
    await durable.call()
    path = tmp_path / "calls.jsonl"
    content = path.read_bytes()
    path.unlink()
    path.mkdir()
    await durable.start()
    assert (await durable.error()).details == {"delivery": "not_sent"}
    path.rmdir()
    path.write_bytes(content)
    assert ((await durable.call())[1], durable.performed) == (True, 1)


async def test_answers_that_take_too_much_memory_are_dropped_and_not_performed_again(durable: Durable, tmp_path: Path) -> None:
    durable.outcome = NotifyReply(session_id="s" * 4000, observers=[])
    await durable.start(max_bytes=10_000)
    for request_id in "abcdefgh":
        await durable.call(request_id)
    for _ in range(2):
        assert (await durable.error("a")).details == {"delivery": "sent"}
        assert (await durable.call("h"))[1]
        await durable.start(max_bytes=10_000)
    assert durable.performed == 8
    assert (tmp_path / "calls.jsonl").stat().st_size < 25_000


async def test_durable_call_is_forgotten_after_a_day(durable: Durable, tmp_path: Path) -> None:
    await durable.call()
    path = tmp_path / "calls.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**row, "at": row["at"] - KEEP_DURABLE_S}) + "\n" for row in rows))
    await durable.start()
    assert path.read_bytes() == b""
    assert (await durable.call())[1] is False


async def test_forgotten_calls_are_removed_from_the_file_once_an_hour(
    durable: Durable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_memory, "KEEP_DURABLE_S", -1.0)
    await durable.start()
    for request_id in "abcd":
        await durable.call(request_id)
    rows = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert [row["key"][1] for row in rows] == ["b", "b", "c", "c", "d", "d"]


async def test_file_that_cannot_be_rewritten_refuses_no_call(
    durable: Durable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(CallJournal, "replace", fail)
    await durable.start(max_bytes=1)
    await durable.call()
    assert (durable.performed, len((tmp_path / "calls.jsonl").read_text().splitlines())) == (1, 2)


def test_row_after_a_replaced_file_that_cannot_be_opened_is_in_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, open_file = tmp_path / "calls.jsonl", os.open
    journal = CallJournal(path)
    journal.open()

    def fail(name: Path, *rest: int) -> int:
        if name == path:
            raise OSError(errno.EMFILE, "Too many open files")
        return open_file(name, *rest)

    with monkeypatch.context() as full:
        full.setattr(os, "open", fail)
        with pytest.raises(OSError, match="Too many"):
            journal.replace(b"1\n")
    journal.append(b"2\n")
    journal.close()
    assert path.read_bytes() == b"1\n2\n"


async def test_full_memory_encodes_no_dropped_answer_again(durable: Durable, monkeypatch: pytest.MonkeyPatch) -> None:
    durable.outcome = NotifyReply(session_id="s" * 1000, observers=[])
    await durable.start(max_bytes=5_000)
    for number in range(40):
        await durable.call(str(number))
    encoded, encode = 0, json_lines.encode

    def count(value: object) -> bytes:
        nonlocal encoded
        encoded += 1
        return encode(value)

    monkeypatch.setattr(json_lines, "encode", count)
    await durable.call("next")
    assert encoded < 10


async def test_calls_of_the_file_are_decoded_in_a_thread(durable: Durable, monkeypatch: pytest.MonkeyPatch) -> None:
    await durable.call()
    threads: set[int] = set()

    def note(reply: Any) -> Reply:
        threads.add(threading.get_ident())
        return decode_reply(reply)

    monkeypatch.setattr(call_memory, "decode_reply", note)
    await durable.start()
    assert len(threads) == 1
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("end", [b"", b'{"key": ["p", "x", "exec"], "at": 1', b'{"at": 5}\n[1]\nx\n'])
async def test_damaged_end_of_the_file_loses_no_other_call(durable: Durable, tmp_path: Path, end: bytes) -> None:
    await durable.call()
    path = tmp_path / "calls.jsonl"
    path.write_bytes(path.read_bytes() + end)
    await durable.start()
    assert (await durable.call())[1] is True
    await durable.call("next")
    await durable.start()
    assert (await durable.call("next"))[1] is True


async def test_answer_of_another_version_is_not_performed_again(durable: Durable, tmp_path: Path) -> None:
    await durable.call()
    path = tmp_path / "calls.jsonl"
    path.write_text(path.read_text().replace("NotifyReply", "LaterReply"))
    await durable.start()
    assert (await durable.error()).details == {"delivery": "sent"}

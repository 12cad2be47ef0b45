"""Performs each call once, although a client may repeat a call whose answer was lost.

`CallMemory` is for short interruptions of a connection. `DurableCallMemory` also survives the end of its process, and is for
calls whose client may be started again before it repeats them: `CallJournal` is their file, calls.jsonl, with a row before each
call and one after its end. The last row of a call counts.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError, decode_payload
from ptyctl.api.messages import decode_reply, encode_reply
from ptyctl.api.model import Reply
from ptyctl.core import json_lines
from ptyctl.core.limits import LIMITS, Limit
from ptyctl.files import open_file, replace_file
from ptyctl.session.clients import current_principal
from ptyctl.session.transcript.jsonl import cut_torn_line, read_rows
from ptyctl.session.transcript.meta_file import is_number

_LOG = logging.getLogger(__name__)

#: How long after their end calls are remembered (seconds). Beyond the limit of their number, they are remembered while clients
#: may repeat them: a client notices a lost connection within 16 s, and repeats its call for 5 s.
KEEP_S, REPEAT_S = 60.0, 25.0
#: The same of durable calls, and the size of all their rows in bytes.
KEEP_DURABLE_S = 24 * 3600.0
MAX_DURABLE_BYTES = 16 * 1024 * 1024
#: A file of this size was not written by a server (bytes).
_MAX_DAMAGED_BYTES = 1 << 30
#: Their file is rewritten without forgotten calls this often at most, and again after a failure (seconds).
REWRITE_INTERVAL_S = 3600.0
REWRITE_RETRY_S = 60.0
#: How long a call continues whose connection was lost, if its client does not repeat it (seconds).
GRACE_S = 10.0
#: The argument of the CancelledError of a call that its client has cancelled.
CANCELLED_BY_CLIENT = "by the client"
#: Errors that mean that the command was not executed, and that may be transient.
REFUSALS = frozenset(
    {
        ErrorCode.ALREADY_CLOSED,
        ErrorCode.BUSY,
        ErrorCode.INVALID_ARGUMENT,
        ErrorCode.LIMIT_EXCEEDED,
        ErrorCode.LOCKED,
        ErrorCode.LOCK_REQUIRED,
        ErrorCode.NOT_FOUND,
        ErrorCode.UNSUPPORTED,
    }
)
_MAX_ID_CHARACTERS = 256
#: Fields of a row before its call: `key` and `at`.
_BEGIN_FIELDS = 2

#: Name of the caller, the request's id, and the call: another call with the same id is not a repetition.
CallKey = tuple[str, str, str]
_R = TypeVar("_R", bound=Reply)


@dataclass(slots=True)
class RepeatableCall:
    """A call with an id. A call with the same id is not performed again.

    Attributes:
        durable: whether it is remembered also after the end of the server.
        repeated: whether it was performed before, and its answer is that of the first time.
    """

    request_id: str
    durable: bool = False
    repeated: bool = False


_current: ContextVar[RepeatableCall | None] = ContextVar("repeatable_call", default=None)


def current_call() -> RepeatableCall | None:
    """Return the call of the running task; None if it is not repeatable."""
    return _current.get()


@contextmanager
def repeatable(request_id: str, *, durable: bool = False) -> Iterator[RepeatableCall]:
    """Make the call in this context repeatable."""
    call = RepeatableCall(request_id, durable)
    token = _current.set(call)
    try:
        yield call
    finally:
        _current.reset(token)


def mark_repeated() -> None:
    """Record that the running task's call is answered with the reply of an earlier call."""
    if (call := _current.get()) is not None:
        call.repeated = True


def encode_call() -> dict[str, Any]:
    """Return the fields of a message that make its call repeatable; none if the running task's call is not."""
    call = current_call()
    if call is None:
        return {}
    return {"request_id": call.request_id, **({"durable": True} if call.durable else {})}


@contextmanager
def decode_call(message: dict[str, Any]) -> Iterator[RepeatableCall | None]:
    """Make the call in this context repeatable, if its message has the fields of `encode_call`."""
    request_id = message.get("request_id")
    if not isinstance(request_id, str) or not 0 < len(request_id) <= _MAX_ID_CHARACTERS:
        yield None
        return
    with repeatable(request_id, durable=message.get("durable") is True) as call:
        yield call


def was_refused(error: BaseException) -> bool:
    """Return whether a call certainly had no effect, and may have one later."""
    details, code = getattr(error, "details", {}), getattr(error, "code", None)
    if code is ErrorCode.REMOTE_CLOSED:
        return "block_id" not in details  # the connection was lost before the command began
    if code is ErrorCode.LOCK_LOST:
        return "block_id" not in details and not details.get("bytes_written")
    return details.get("delivery") == "not_sent" or code in REFUSALS


class CallMemory:
    """The calls of the last minute by their ids, with their answers."""

    def __init__(self, limit: Limit = LIMITS["max_forwarded_calls"], keep_s: float = KEEP_S) -> None:
        self._limit = limit
        self._keep_s = keep_s
        self._calls: dict[CallKey, _Call] = {}

    def __len__(self) -> int:
        """Return the number of calls that are remembered."""
        return len(self._calls)

    def limits_in_use(self) -> dict[str, int]:
        """Return the number of calls that are remembered, by the name of its limit."""
        return {self._limit.name: len(self)}

    async def once(self, key: CallKey, perform: Callable[[], Awaitable[Reply]]) -> Reply:
        """Perform a call, or wait for the one with the same key; return its reply, or raise its error."""
        self._forget_old()
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = self._start(key, perform)
        else:
            mark_repeated()
        return await call.wait()

    def _start(self, key: CallKey, perform: Callable[[], Awaitable[Reply]]) -> _Call:
        return _Call(asyncio.ensure_future(perform()))

    def _forget_old(self) -> None:
        """Forget the oldest ended calls, except those that may still be repeated."""
        now = asyncio.get_running_loop().time()
        surplus = len(self._calls) - self._limit.maximum + 1
        old: list[CallKey] = []
        for key, call in self._calls.items():  # in the order of their start: the rest is younger, and is not scanned
            if call.ended_at is not None:
                age_s = now - call.ended_at
                if age_s <= self._keep_s and not (len(old) < surplus and age_s > REPEAT_S):
                    break
                old.append(key)
        for key in old:
            self._forget(key)

    def _forget(self, key: CallKey) -> None:
        del self._calls[key]


class DurableCallMemory(CallMemory):
    """Calls that are never performed again, also after the end of the process, and their answers.

    A call is recorded before it is performed, and continues if its client leaves. One that had not ended at the end of its
    process fails with IO_ERROR and `delivery` unknown. A call that was refused is forgotten: its repetition is a new one.
    """

    def __init__(self, limit: Limit = LIMITS["max_remembered_calls"], *, max_bytes: int = MAX_DURABLE_BYTES) -> None:
        """Create the memory. Calls are not stored on disk before `store_in` is called."""
        super().__init__(limit, KEEP_DURABLE_S)
        self._max_bytes = max_bytes
        self._path: Path | None = None
        self._journal: CallJournal | None = None
        self._writing = asyncio.Lock()
        #: The last row of each call, the oldest one first, and the size of all.
        self._rows: dict[CallKey, bytes] = {}
        self._bytes = 0
        #: The calls whose rows have an answer, with the times of the rows, the oldest one first.
        self._answers: OrderedDict[CallKey, float] = OrderedDict()
        #: Whether the file has rows of forgotten calls, and when it may be rewritten for them, and for its size.
        self._has_forgotten = False
        self._rewrite_forgotten_at = 0.0
        self._rewrite_at = 0.0

    async def store_in(self, path: Path) -> None:
        """Restore the calls of an earlier process, and store those of this one.

        Without the file, no durable call is performed.
        """
        self._path = path
        try:
            await self._restored(path)
        except OSError as error:  # the next call tries again
            _LOG.error("calls cannot be stored", extra={"file": str(path), "why": error.strerror})

    async def _restored(self, path: Path) -> None:
        """Restore the calls. Continues if the caller is cancelled, because nothing else may use the file. Raises OSError."""
        await asyncio.shield(asyncio.create_task(self._restore(path), name="restore calls"))

    async def _restore(self, path: Path) -> None:
        """Raises OSError."""
        journal = CallJournal(path)
        async with self._writing:
            if self._journal is not None:
                return
            calls = await asyncio.to_thread(_read_calls, journal, self._keep_s, self._limit.maximum)
            now, loop_now = time.time(), asyncio.get_running_loop().time()
            for call in calls:
                ended_at = loop_now - max(now - call.at, 0.0)
                self._calls[call.key] = _Call(_ended_future(call.outcome), ended_at=ended_at, is_durable=True)
                self._set_row(call.key, call.row, call.at, has_answer=True)
            self._limit_bytes()
            if journal.size != self._bytes:
                await self._rewrite(journal)
            self._journal = journal

    async def aclose(self) -> None:
        """Close the file. Unfinished calls remain recorded as begun."""
        running = [call for call in self._calls.values() if call.ended_at is None]
        for call in running:
            call.cancel()
        async with self._writing:
            if self._journal is not None:
                await asyncio.to_thread(self._journal.close)

    def perform(self, name: str, call: Callable[[], Awaitable[_R]], *, refused: Callable[[Exception], bool]) -> Awaitable[_R]:
        """Perform a call, once if the running task has made it durable.

        Args:
            name: of the call within its request.
            refused: whether an error means that the call had no effect.

        Raises:
            PtyctlError: as the call; IO_ERROR with `delivery` not_sent if it cannot be recorded: it is not performed then.
        """
        current = current_call()
        if current is None or not current.durable:
            return call()
        return self._perform_once(current.request_id, name, call, refused)

    async def _perform_once(
        self, request_id: str, name: str, call: Callable[[], Awaitable[_R]], refused: Callable[[Exception], bool]
    ) -> _R:
        if self._path is not None and self._journal is None:
            try:
                await self._restored(self._path)
            except OSError as error:
                raise _unrecorded_error(error) from None

        async def record() -> Reply:
            return await self._record(key, call, refused)

        key = (current_principal().name, request_id, name)
        return cast(_R, await self.once(key, record))

    def _start(self, key: CallKey, perform: Callable[[], Awaitable[Reply]]) -> _Call:
        return _Call(asyncio.ensure_future(perform()), is_durable=True)

    def _forget(self, key: CallKey) -> None:
        super()._forget(key)
        self._pop_row(key)
        self._has_forgotten = True

    async def _record(self, key: CallKey, call: Callable[[], Awaitable[Reply]], refused: Callable[[Exception], bool]) -> Reply:
        """Perform a call between its two rows."""
        try:
            await self._write(key, {}, sync=True)
        except OSError as error:
            self._forget(key)
            raise _unrecorded_error(error) from None
        outcome: dict[str, Any] = {}
        try:
            reply = await call()
        except Exception as error:
            if refused(error):
                outcome = {"void": True}
            elif isinstance(error, PtyctlError):
                outcome = {"error": error.payload()}
            raise
        else:
            outcome = {"reply": encode_reply(reply)}
            return reply
        finally:
            if outcome:
                await self._write_outcome(key, outcome)

    async def _write_outcome(self, key: CallKey, outcome: dict[str, Any]) -> None:
        """Record the outcome of a call. If the write fails, the next process cannot return the outcome."""
        try:
            await self._write(key, outcome)
        except OSError as error:
            _LOG.error("the end of a call cannot be recorded", extra={"why": error.strerror})
        if "void" in outcome:
            self._forget(key)

    async def _write(self, key: CallKey, outcome: dict[str, Any], *, sync: bool = False) -> None:
        """Record a call. Raises OSError."""
        at = time.time()
        row = json_lines.encode({"key": key, "at": at, **outcome})
        self._set_row(key, row, at, has_answer=bool(outcome))
        self._limit_bytes()
        async with self._writing:
            if self._journal is None:
                return
            await asyncio.to_thread(self._journal.append, row, sync=sync)
            if self._must_rewrite(self._journal):
                await self._rewrite(self._journal)

    def _must_rewrite(self, journal: CallJournal) -> bool:
        now = asyncio.get_running_loop().time()
        if journal.size > 2 * self._max_bytes:
            return now >= self._rewrite_at
        return self._has_forgotten and now >= self._rewrite_forgotten_at

    async def _rewrite(self, journal: CallJournal) -> None:
        """Remove the rows that do not count any more from the file. A failure is logged: the file has all others."""
        try:
            self._has_forgotten = False
            await asyncio.to_thread(journal.replace, b"".join(self._rows.values()))
        except OSError as error:
            self._has_forgotten = True
            self._rewrite_at = self._rewrite_forgotten_at = asyncio.get_running_loop().time() + REWRITE_RETRY_S
            _LOG.error("the file of calls cannot be rewritten", extra={"why": error.strerror})
        else:
            self._rewrite_forgotten_at = asyncio.get_running_loop().time() + REWRITE_INTERVAL_S

    def _set_row(self, key: CallKey, row: bytes, at: float, *, has_answer: bool) -> None:
        """Make a row the last one of its call, and of all."""
        self._pop_row(key)
        self._rows[key] = row
        self._bytes += len(row)
        if has_answer:
            self._answers[key] = at

    def _pop_row(self, key: CallKey) -> None:
        self._bytes -= len(self._rows.pop(key, b""))
        self._answers.pop(key, None)

    def _limit_bytes(self) -> None:
        """Replace the oldest answers by the fact that there was one, if all take too much memory."""
        while self._bytes > self._max_bytes and self._answers:
            key, at = self._answers.popitem(last=False)
            short = json_lines.encode({"key": key, "at": at, "dropped": True})
            call, surplus = self._calls.get(key), len(self._rows[key]) - len(short)
            if surplus > 0 and call is not None:
                self._rows[key] = short
                self._bytes -= surplus
                call.drop_answer()


class CallJournal:
    """The rows of calls on disk. Its methods block, and wait for each other: a cancelled task leaves its thread running.

    Attributes:
        size: of the file in bytes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._is_replaced = False
        self._is_torn = False
        self._using = threading.RLock()
        self.size = 0

    def open(self) -> list[dict[str, Any]]:
        """Open the file, and return the last row of each call that had an effect or may have had one. Raises OSError."""
        if self._path.exists() and self._path.stat().st_size > _MAX_DAMAGED_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(self._path))
        cut_torn_line(self._path)
        self._open()
        rows: dict[str, dict[str, Any]] = {}
        for row in read_rows(self._path):
            if not _is_row(row):
                continue
            key = "\n".join(row["key"])
            rows.pop(key, None)
            if "void" not in row:
                rows[key] = row
        return list(rows.values())

    def replace(self, rows: bytes) -> None:
        """Replace the content; later rows are appended to it.

        Raises:
            OSError: the content may or may not have been replaced; the next row goes to the file that then has this name.
        """
        with self._using:
            if self._is_torn:
                self._cut()
            self._is_replaced = True
            replace_file(self._path, rows.decode(), sync=True)
            self._open()

    def _open(self) -> None:
        """Open the file, then close the one before. Raises OSError."""
        fd = open_file(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.close()
        self._fd = fd
        self._is_replaced = self._is_torn = False
        self.size = os.fstat(fd).st_size

    def append(self, row: bytes, *, sync: bool = False) -> None:
        """Append a row. With `sync`, return when it is on the disk.

        Raises:
            OSError: the file is as before, or will be before the next row.
        """
        with self._using:
            if self._is_replaced:
                self._open()
            if self._is_torn:
                self._cut()
            try:
                if os.write(self._fd, row) < len(row):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if sync:
                    os.fdatasync(self._fd)
            except OSError:
                self._is_torn = True
                with suppress(OSError):
                    self._cut()
                raise
            self.size += len(row)

    def _cut(self) -> None:
        """Remove the incomplete row of a failed write: the next row must begin a line. Raises OSError."""
        os.ftruncate(self._fd, self.size)
        self._is_torn = False

    def close(self) -> None:
        """Close the file."""
        with self._using:
            self._is_replaced = False
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1


@dataclass(frozen=True, slots=True)
class _StoredCall:
    """A call of an earlier process, the time of its last row, and the row."""

    key: CallKey
    at: float
    row: bytes
    outcome: Reply | PtyctlError


def _read_calls(journal: CallJournal, keep_s: float, max_calls: int) -> list[_StoredCall]:
    """Open the file, and return its last calls that are not too old, the oldest one first. Blocks. Raises OSError."""
    oldest = time.time() - keep_s
    rows = [row for row in journal.open() if row["at"] >= oldest]
    return [_StoredCall(_row_key(row), row["at"], json_lines.encode(row), _row_outcome(row)) for row in rows[-max_calls:]]


class _Call:
    """A call that runs in a separate task, or the outcome of an earlier one; and the number of connections that wait for it."""

    def __init__(self, task: asyncio.Future[Reply], *, ended_at: float | None = None, is_durable: bool = False) -> None:
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._waiting = 0
        self._is_durable = is_durable
        self.ended_at = ended_at
        if ended_at is None:
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Future[Reply]) -> None:
        self.ended_at = self._loop.time()
        if not task.cancelled():
            task.exception()  # mark it as retrieved: the connection that waited may be lost

    def cancel(self) -> None:
        """Cancel the call."""
        self._task.cancel()

    def drop_answer(self) -> None:
        """Forget the reply of a call that has ended."""
        if self.ended_at is not None:
            self._task = _ended_future(_dropped_error())

    async def wait(self) -> Reply:
        self._waiting += 1
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError as error:
            if self._task.cancelled() and not _is_being_cancelled():
                raise PtyctlError(ErrorCode.IO_ERROR, "the call was cancelled on another connection") from None
            if self._is_durable:
                raise
            if error.args != (CANCELLED_BY_CLIENT,):
                self._loop.call_later(GRACE_S, self._cancel_unused)
            elif self._waiting == 1:
                self._task.cancel()
            raise
        finally:
            self._waiting -= 1

    def _cancel_unused(self) -> None:
        if not self._waiting:
            self._task.cancel()


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _row_key(row: dict[str, Any]) -> CallKey:
    principal, request_id, name = row["key"]
    return str(principal), str(request_id), str(name)


def _row_outcome(row: dict[str, Any]) -> Reply | PtyctlError:
    """Return how a recorded call has ended."""
    try:
        if "reply" in row:
            return decode_reply(row["reply"])
        if "error" in row:
            return decode_payload(row["error"])
        return _unknown_error() if len(row) == _BEGIN_FIELDS else _dropped_error()
    except (KeyError, TypeError, ValueError):  # of another version
        return _dropped_error()


def _ended_future(outcome: Reply | PtyctlError) -> asyncio.Future[Reply]:
    """Return a future that has ended."""
    future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    if isinstance(outcome, PtyctlError):
        future.set_exception(outcome)
        future.exception()  # a call that is not repeated is not reported
    else:
        future.set_result(outcome)
    return future


def _unrecorded_error(error: OSError) -> PtyctlError:
    message = f"the call cannot be recorded, and was not performed: {error.strerror}"
    return PtyctlError(ErrorCode.IO_ERROR, message, {"delivery": "not_sent"})


def _unknown_error() -> PtyctlError:
    message = "the server ended during the call; whether it was performed is unknown, and it is not performed again"
    return PtyctlError(ErrorCode.IO_ERROR, message, {"delivery": "unknown"}, hint=NextStep.READ_STATE)


def _dropped_error() -> PtyctlError:
    message = "the call was performed before, and its answer is not kept any more"
    return PtyctlError(ErrorCode.IO_ERROR, message, {"delivery": "sent"}, hint=NextStep.READ_OUTPUT)


def _is_row(row: dict[str, Any]) -> bool:
    key = row.get("key")
    is_key = isinstance(key, list) and len(key) == 3 and all(isinstance(part, str) for part in key)
    return is_key and is_number(row.get("at"))

"""Files that fail while a console is closed or recovered: results of calls are valid after the next start."""

from __future__ import annotations

import copy
import errno
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from ptyctl.api.methods import PTY_REQUESTS
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from tests.controller.acknowledged_calls import (
    Acknowledged,
    ConsoleClient,
    FarEnd,
    Record,
    devices,
    recovering_client,
)
from tests.controller.session_calls import BASH, config, copy_state, read, refused, session
from tests.session.file_faults import FileFaults, intercept

#: Operations of a recovery and a reconnect; checked below.
OPERATIONS = 60


def killed(state: Path, name: str) -> Path:
    """Return a copy of the files as a killed server leaves them."""
    copy = state.with_name(name)
    copy_state(state, copy)
    return copy


@asynccontextmanager
async def console_client(state: Path, far_end: FarEnd) -> AsyncIterator[ConsoleClient]:
    """Yield a client that has locked, used and read a console."""
    async with LocalController(Settings(state_dir=state), devices({"sw1": far_end})) as controller:
        client = ConsoleClient(controller, Acknowledged("sw1"), far_end)
        await client.open()
        await client.lock("one")
        await client.run(2)
        await client.read()
        yield client


async def test_close_on_full_disk_is_refused_until_it_is_stored(tmp_path: Path) -> None:
    state, far_end = tmp_path / "state", FarEnd()
    async with console_client(state, far_end) as client:
        with intercept(FileFaults(0, errno.ENOSPC, lasting=True).perform, state):
            client.may_fail = True
            for _ in range(2):
                await client.close()
        assert [error.code for error in client.errors] == [ErrorCode.IO_ERROR] * 2
        assert (client.seen.closed, far_end.connections) == (None, [])
        refused = killed(state, "refused"), client.record()
        await client.read()
        await client.close()
        assert client.seen.closed is True
        stored = killed(state, "stored"), client.record()
        await client.open()  # another session
        assert client.seen.closed is False
    async with recovering_client(*refused) as client:
        await client.resume()
        assert client.seen.closed is False
    async with recovering_client(*stored) as client:
        await client.verify()


async def test_close_without_its_folder_succeeds(tmp_path: Path) -> None:
    """Nothing is left that could come back."""
    state, far_end = tmp_path / "state", FarEnd()
    async with LocalController(Settings(state_dir=state), devices({"sw1": far_end})) as controller:
        client = ConsoleClient(controller, Acknowledged("sw1"), far_end)
        await client.open()
        shutil.rmtree(state / "sessions")
        await client.close()
    assert client.seen.closed is True


async def test_history_is_read_on_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, far_end = tmp_path / "state", FarEnd()
    async with LocalController(Settings(state_dir=state), devices({"sw1": far_end})) as controller:
        client = ConsoleClient(controller, Acknowledged("sw1"), far_end)
        await client.open()
        await client.close()
    full = FileFaults(0, errno.ENOSPC, lasting=True)
    with intercept(full.perform, state, [(os, "posix_fallocate"), (os, "write")]):
        async with recovering_client(state, client.record()) as client:
            await client.read()
    assert client.seen.text == bytes(far_end.text)


def read_only(name: str, operation: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Perform an operation as on a file system that is read-only."""
    how = arguments[1] if name == "open" and len(arguments) > 1 else "r"
    reads = how in ("r", "rb") if isinstance(how, str) else not how & (os.O_ACCMODE | os.O_CREAT)
    if name in ("open", "mmap", "sendfile") and reads:
        return operation(*arguments)
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


async def test_read_only_state_directory_is_reported_in_each_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, access = tmp_path / "state", os.access
    async with LocalController(Settings(state_dir=state)) as controller:
        shell = await SessionHandle.open(controller, protocol="local", command=BASH, task_id="one")
        block_id = (await shell.exec("true")).block_id
        reads: dict[str, dict[str, Any]] = {
            "blocks_since": {},
            "blocks_get": {"block_id": block_id},
            "blocks_read": {"block_id": block_id},
            "blocks_search": {"query": "x"},
            "pty_read_raw": {},
            "pty_read_screen": {},
            "pty_read_screen_deltas": {},
            "pty_read_scrollback": {},
            "pty_read_spool": {"from_cursor": 0},
            "pty_screen_status": {},
            "pty_status": {},
        }

        def replies() -> list[Awaitable[Any]]:
            request = {"session_id": shell.session_id}
            return [
                shell.exec("echo alive"),
                shell.write("# typed\n"),
                read(shell, timeout_ms=0),
                read(shell, mode="tail"),
                read(shell, mode="screen", timeout_ms=0),
                shell.status(),
                config(shell, "resize", cols=90, rows=30),
                *(controller.pty(PTY_REQUESTS[tool].of({**request, **fields})) for tool, fields in reads.items()),
                controller.pty(PTY_REQUESTS["blocks_get"].of({**request, "block_id": "none"})),  # fails
            ]

        # As the kernel answers root too on a file system that is mounted read-only.
        monkeypatch.setattr(os, "access", lambda path, mode, **fields: mode != os.W_OK and access(path, mode, **fields))
        with intercept(read_only, state):
            for waiting in replies():
                reply = await waiting
                assert (reply.notices or [""])[0].startswith(f"alarm: {state}"), reply
            (entry,) = (await session(controller, "list")).sessions or ()
            assert (entry.alarm or "").startswith(f"alarm: {state}")
            with refused(ErrorCode.IO_ERROR, "Read-only file system") as error:
                await shell.lock()
            assert error.value.details["notices"][0].startswith(f"alarm: {state}")
        monkeypatch.undo()
        assert (await shell.exec("echo $((40 + 2))")).stdout == "42\n"


async def live_and_kill(tmp_path: Path) -> tuple[Path, Record]:
    """Use a console, part of whose output is in memory only, and kill the server."""
    state, far_end = tmp_path / "state", FarEnd()
    async with console_client(state, far_end) as client:
        with intercept(FileFaults(0, errno.ENOSPC, lasting=True).perform, state):
            client.begin_faults()
            far_end.print_log(8_000)
            await client.read()
        return killed(state, "killed"), client.record()


@pytest.mark.parametrize(
    ("error", "lasting", "operations"),
    [
        (errno.ENOSPC, True, range(OPERATIONS)),
        # The first operation reads meta.json. A file that is unreadable for another reason than a limit counts as damaged, so
        # that it does not prevent opens of other consoles.
        (errno.EIO, False, range(1, OPERATIONS)),
        (errno.EMFILE, True, range(0, OPERATIONS, 3)),
        (None, False, range(0, OPERATIONS, 3)),
    ],
    ids=["full disk", "one error", "no descriptors", "short write"],
)
async def test_failed_file_operation_of_recovery_loses_nothing_acknowledged(
    tmp_path: Path, error: int | None, lasting: bool, operations: range
) -> None:
    left, (seen, text) = await live_and_kill(tmp_path)
    for first in operations:
        state, far_end, faults = killed(left, f"recovery-{first}"), FarEnd(text), FileFaults(first, error, lasting)
        async with LocalController(Settings(state_dir=state), devices({"sw1": far_end})) as controller:
            client = ConsoleClient(controller, copy.deepcopy(seen), far_end)
            with intercept(faults.perform, state):
                client.may_fail = True
                await client.open()
                await client.lock("next", force=True)
                await client.read()
            again = killed(state, f"killed-{first}"), client.record()
        try:
            async with recovering_client(*again) as client:
                await client.resume(run=False)
        except AssertionError as wrong:
            raise AssertionError(f"operation {first} failed: {faults.failed[:1]}") from wrong
        if first >= faults.count:
            break
    assert faults.count <= OPERATIONS, faults.count

"""Requests to a Controller by keyword, sessions of known programs, and expected errors."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ptyctl.api import (
    ConfigReply,
    ConfigRequest,
    Controller,
    ErrorCode,
    ExecReply,
    ExecRequest,
    IoReply,
    IoRequest,
    PtyctlError,
    SessionReply,
    SessionRequest,
)
from ptyctl.api.handle import SessionHandle

#: Limit of a wait. Only a failing test reaches it.
PATIENCE_MS = 50_000
BASH = ("bash", "--norc", "--noprofile")
_SCRIPTED_PROGRAM = (sys.executable, "-I", "-S", str(Path(__file__).with_name("scripted_program.py")))

#: Creates a controller with the given settings, named as in PTYCTL_* variables.
MakeController = Callable[..., Awaitable[Controller]]
#: Opens a session that is closed after the test.
Open = Callable[..., Awaitable[SessionHandle]]


@pytest.fixture(params=["marks", "marker"])
def each_strategy(request: pytest.FixtureRequest) -> str:
    """Runs the tests of `bash` with marks and with a marker, in a module that sets `strategy = each_strategy`."""
    return str(request.param)


async def session(controller: Controller, action: str, **fields: Any) -> SessionReply:
    return await controller.session(SessionRequest.of({"action": action, **fields}))


async def read(handle: SessionHandle, **fields: Any) -> IoReply:
    """A read with these fields only: unlike the handle's own, without a cursor unless one is given."""
    request = IoRequest.of({"session_id": handle.session_id, "action": "read", **fields})
    return in_time(await handle.controller.io(request), fields)


async def write(handle: SessionHandle, task_id: str | None = None, **fields: Any) -> IoReply:
    who = {"task_id": task_id} if task_id else {}
    request = IoRequest.of({"session_id": handle.session_id, "action": "write", **who, **fields})
    return in_time(await handle.controller.io(request), fields)


def in_time(reply: IoReply, fields: Mapping[str, Any]) -> IoReply:
    """Check that a wait without another limit than `PATIENCE_MS` has not reached it: the test would only be slow."""
    assert not (reply.timed_out and fields.get("timeout_ms") == PATIENCE_MS), f"{fields} has not come: {reply.chunk!r}"
    return reply


async def execute(handle: SessionHandle, **fields: Any) -> ExecReply:
    return await handle.controller.exec(ExecRequest.of({"session_id": handle.session_id, **fields}))


async def config(handle: SessionHandle, action: str, **fields: Any) -> ConfigReply:
    return await handle.controller.config(ConfigRequest.of({"session_id": handle.session_id, "action": action, **fields}))


@contextmanager
def refused(code: ErrorCode, *parts: str) -> Iterator[pytest.ExceptionInfo[PtyctlError]]:
    """Expect an error with this code whose message and hint contain all `parts`."""
    with pytest.raises(PtyctlError) as caught:
        yield caught
    assert caught.value.code is code, caught.value
    shown = f"{caught.value.message}; {caught.value.hint}"
    assert [part for part in parts if part not in shown] == [], shown


async def scripted_program(open_session: Open, *greeting: bytes, **fields: Any) -> SessionHandle:
    """Open a session that prints what `say` sends. Its cursor is after the greeting."""
    return await _open_program(open_session, "say", greeting, fields)


async def key_log(open_session: Open, *greeting: bytes, **fields: Any) -> SessionHandle:
    """Open a session that prints the bytes it receives, in hex."""
    return await _open_program(open_session, "keys", greeting, fields)


async def _open_program(open_session: Open, role: str, greeting: tuple[bytes, ...], fields: dict[str, Any]) -> SessionHandle:
    command = (*_SCRIPTED_PROGRAM, role, *(text.hex() for text in greeting))
    handle = await open_session(command=command, **fields)
    assert (await handle.read(until_regex="ready\n", timeout_ms=PATIENCE_MS)).matched
    return handle


async def say(handle: SessionHandle, *pieces: bytes, task_id: str | None = None) -> None:
    """Print each piece by one write(2)."""
    for piece in pieces:
        await write(handle, task_id or handle.task_id, data=piece.hex() + "\n")


async def heard(handle: SessionHandle, data: bytes, text: bytes | None = None) -> str:
    """Let the session print `data`, which becomes `text`, and wait for its end. Return the cursor before it."""
    end = int((await read(handle, timeout_ms=0)).buffer_end_cursor or 0)
    await say(handle, data)
    await until_at(handle, end + len(data if text is None else text))
    return str(end)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Poll for a condition that no request can wait for."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.01)


async def execute_when_free(handle: SessionHandle, **fields: Any) -> ExecReply:
    """Execute a command; while another task's text prevents it, ask again."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while True:
            try:
                return await execute(handle, **fields, timeout_ms=PATIENCE_MS)
            except PtyctlError as error:
                if error.details.get("reason") not in ("half_typed", "no_prompt"):
                    raise
                await asyncio.sleep(0.05)


def copy_state(state_dir: Path, copy: Path) -> None:
    """Copy the files of a running server. The audit writer's thread may rename its temporary files meanwhile."""
    shutil.copytree(state_dir, copy, ignore=shutil.ignore_patterns("*.new"))


async def until_ended(handle: SessionHandle) -> None:
    """Wait for the end of the program."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while not (await read(handle, until_regex="never", timeout_ms=1_000)).eof:
            pass


async def until_at(handle: SessionHandle, end: int) -> None:
    """Wait until the spool has the size `end`."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while int((await read(handle, timeout_ms=50)).buffer_end_cursor or 0) < end:
            pass

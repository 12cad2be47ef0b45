"""Replies about a run whose command was not typed yet: it waits for a prompt."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fixtures.memory_channel import MemoryChannel
from fixtures.virtual_clock import run_virtually
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.api.io import IoRequest
from ptyctl.session.calls import lock
from ptyctl.session.calls.exec import execute
from ptyctl.session.calls.write import write
from ptyctl.session.session import Session
from tests.session.scripted_session import connect_session

PROMPT = b"R1# "


class SilentDevice(MemoryChannel):
    """Shows its prompt when a test feeds it, and answers each line."""

    def __init__(self) -> None:
        super().__init__(lambda data: data.replace(b"\r", b"\r\n") + b"answer\r\n" + PROMPT if data.strip() else b"")


@asynccontextmanager
async def silent_device() -> AsyncIterator[tuple[Session, SilentDevice]]:
    device = SilentDevice()
    with tempfile.TemporaryDirectory() as folder:
        session = await connect_session(Path(folder), device, platform="generic")
        try:
            yield session, device
        finally:
            await session.close(force=True)


async def call(session: Session, **fields: object) -> ExecReply:
    return await execute(session, ExecRequest.of({"session_id": "s", **fields}), None)


def test_exec_that_times_out_before_the_prompt_reports_that_nothing_was_typed() -> None:
    async def check() -> None:
        async with silent_device() as (session, device):
            reply = await call(session, cmd="show it", timeout_ms=100)
            assert (reply.done_reason, reply.timed_out, reply.exit_code_reason) == ("timeout", True, "it was not typed yet")
            assert "nothing of the command was typed yet" in (reply.message or "")
            assert b"show" not in device.written
            device.feed(PROMPT)
            ended = await call(session, block_id=reply.block_id, timeout_ms=50_000)
            assert (ended.done_reason, ended.stdout, ended.message) == ("prompt", "answer\n", None)

    run_virtually(check())


@pytest.mark.parametrize("interrupt", ["a key", "cancel_after_ms"])
def test_command_that_is_interrupted_before_the_prompt_is_never_typed(interrupt: str) -> None:
    async def check() -> None:
        async with silent_device() as (session, device):
            cancel = {"cancel_after_ms": 100} if interrupt == "cancel_after_ms" else {}
            reply = await call(session, cmd="show it", timeout_ms=200, **cancel)
            assert reply.exit_code_reason == "it was not typed yet"
            if interrupt == "a key":
                await write(session, IoRequest(session_id="s", action="write", key="ctrl_c"))
            device.feed(PROMPT)
            ended = await call(session, block_id=reply.block_id, timeout_ms=50_000)
            assert (ended.done_reason, ended.stdout, ended.exit_code) == ("cancelled", "", None)
            assert ended.exit_code_reason == "it was interrupted before it was typed"
            assert b"show" not in device.written
            assert (await call(session, cmd="show other", timeout_ms=50_000)).stdout.endswith("answer\n")

    run_virtually(check())


def test_lock_that_ends_before_the_prompt_reports_that_nothing_was_typed() -> None:
    async def check() -> None:
        async with silent_device() as (session, device):
            await lock.lock(session, "t", 0.1)
            with pytest.raises(PtyctlError, match=r"waited for the prompt .* nothing of the command was typed yet") as caught:
                await call(session, cmd="show it", timeout_ms=1_000, task_id="t")
            assert caught.value.code is ErrorCode.LOCK_LOST
            assert b"show" not in device.written

    run_virtually(check())


@pytest.mark.parametrize("lines", [("one",), ("one", "two")])
def test_exec_that_times_out_after_typing_still_runs(lines: tuple[str, ...]) -> None:
    async def check() -> None:
        device = MemoryChannel()
        with tempfile.TemporaryDirectory() as folder:
            session = await connect_session(Path(folder), device, platform="generic")
            device.feed(PROMPT)
            reply = await call(session, lines=lines, timeout_ms=1_000)
            assert (reply.timed_out, reply.exit_code_reason) == (True, "it still runs")
            assert "typed yet" not in (reply.message or "")
            await session.close(force=True)

    run_virtually(check())

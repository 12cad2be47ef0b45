"""The Python library: `open_session` and `connect`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.library import connect, open_session
from tests.controller.session_calls import BASH, PATIENCE_MS


async def test_open_session_runs_a_command() -> None:
    async with open_session(protocol="local", command=BASH) as session:
        assert (await session.exec("echo hi")).stdout == "hi\n"
        await session.write("echo typed\n")
        assert (await session.read(until_regex="\ntyped\n", timeout_ms=PATIENCE_MS)).matched
        assert (await session.status()).state == "open"
    with pytest.raises(PtyctlError) as caught:
        await session.exec("echo late")
    assert caught.value.code is ErrorCode.ALREADY_CLOSED


async def test_session_is_closed_when_the_block_raises() -> None:
    with pytest.raises(RuntimeError, match="of the block"):
        async with open_session(protocol="local", command=BASH) as session:
            raise RuntimeError("of the block")
    assert (await session.read(timeout_ms=0)).eof


async def test_failed_open_raises_its_error() -> None:
    with pytest.raises(PtyctlError) as caught:
        async with open_session(protocol="local", command=("no-such-program",)):
            pass
    assert caught.value.code is ErrorCode.CONNECT_FAILED


async def test_read_continues_after_the_last_read() -> None:
    async with open_session(protocol="local", command=("sh", "-c", "echo one; echo two")) as session:
        assert (await session.read(until_regex="one\n", timeout_ms=PATIENCE_MS)).chunk == "one\n"
        assert (await session.read(until_regex="two\n", timeout_ms=PATIENCE_MS)).chunk == "two\n"
        assert (await session.read(mode="tail")).chunk == "one\ntwo\n"


async def test_programs_share_the_daemons_sessions(runtime_dir: RuntimeDir) -> None:
    async with connect() as daemon:
        session = await daemon.open(protocol="local", command=BASH, task_id="one")
        assert (await session.exec("echo hi")).stdout == "hi\n"
    async with connect(start=False) as daemon:
        (entry,) = await daemon.sessions()
        assert entry.session_id == session.session_id
        same = await daemon.session(entry.session_id, task_id="two")
        await same.lock()
        await same.exec("echo again")
        assert [block.cmd for block in await same.blocks()] == ["echo hi", "echo again"]
        assert [hit.text for hit in await same.search("aga")] == ["again"]
        assert "again\n" in ((await same.read(timeout_ms=0)).chunk or "")
        with pytest.raises(PtyctlError) as caught:
            await same.search("(", regex=True)
        assert caught.value.code is ErrorCode.INVALID_ARGUMENT


async def test_events_are_yielded_until_close(runtime_dir: RuntimeDir) -> None:
    async with connect() as daemon:
        session = await daemon.open(protocol="local", command=BASH)
        begun, kinds = asyncio.Event(), []

        async def listen() -> None:
            async with aclosing(session.watch()) as watched:
                async for item in watched:
                    begun.set()
                    if item.event is not None:
                        kinds.append(item.event["type"])

        listening = asyncio.create_task(listen())
        await begun.wait()
        events = session.events()
        first = asyncio.ensure_future(anext(events))
        while await session.exec("true") and not first.done():
            pass
        assert (await first)["type"].startswith("agent_block_")
        await session.exec("true")
        await session.close()
        assert [event async for event in events][-1]["type"] == "agent_block_end"
        await listening
        assert kinds[:1] == ["agent_block_begin"]


async def test_connect_without_daemon_fails(runtime_dir: RuntimeDir) -> None:
    with pytest.raises(PtyctlError) as caught:
        async with connect(start=False):
            pass
    assert caught.value.code is ErrorCode.CONNECT_FAILED

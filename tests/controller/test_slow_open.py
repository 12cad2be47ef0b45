"""An open whose connection or login takes longer than one call may wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api import ErrorCode, IoRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.controller import session_actions
from ptyctl.controller.local import LocalController
from tests.controller.session_calls import refused, session, until
from transports.errors import ChannelError, ConnectTimeout
from transports.receiver import Receiver

ADDRESS = {"protocol": "telnet", "host": "scripted"}
CONSOLE = {**ADDRESS, "session_type": "console", "device_id": "sw1"}


class SlowChannel(MemoryChannel):
    """A far end that accepts or refuses the connection on the test's request."""

    def __init__(self) -> None:
        super().__init__()
        self.result: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, receiver: Receiver) -> None:
        await self.result
        await super().open(receiver)

    def refuse(self, error: ChannelError) -> None:
        self.result.set_exception(error)


@pytest.fixture
async def channels() -> list[SlowChannel]:
    return []


@pytest.fixture
async def controller(channels: list[SlowChannel], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalController]:
    monkeypatch.setattr(session_actions, "OPEN_WAIT_S", 0.05)

    def create(_destination: Any) -> SlowChannel:
        channels.append(SlowChannel())
        return channels[-1]

    async with LocalController(create_channel=create) as controller:
        yield controller


async def state_of(controller: LocalController, session_id: str | None) -> str | None:
    return (await session(controller, "status", session_id=session_id)).state


async def test_slow_open_returns_opening_and_status_reports_the_end(
    controller: LocalController, channels: list[SlowChannel]
) -> None:
    opened = await session(controller, "open", **ADDRESS, acquire_lock=True, task_id="t")
    assert (opened.state, opened.lock_acquired) == ("opening", False)
    status = await session(controller, "status", session_id=opened.session_id)
    assert (status.state, status.lock_holder) == ("opening", None)
    with refused(ErrorCode.CONNECT_FAILED, "still being opened"):
        await controller.io(IoRequest.of({"session_id": opened.session_id, "action": "write", "data": "x"}))
    channels[0].result.set_result(None)

    async def is_open() -> bool:
        return await state_of(controller, opened.session_id) == "open"

    await until(is_open)
    assert (await session(controller, "status", session_id=opened.session_id)).lock_holder == "t"
    channels[0].feed(b"hello")
    reply = await controller.io(IoRequest.of({"session_id": opened.session_id, "action": "read", "cursor": "0"}))
    assert reply.chunk == "hello"


async def until_no_session(controller: LocalController) -> None:
    async def has_none() -> bool:
        return not (await session(controller, "list")).sessions

    await until(has_none)


async def test_error_of_slow_open_is_reported_by_status(controller: LocalController, channels: list[SlowChannel]) -> None:
    opened = await session(controller, "open", **ADDRESS)
    channels[0].refuse(ConnectTimeout("no answer"))
    await until_no_session(controller)
    for _ in range(2):
        with refused(ErrorCode.CONNECT_TIMEOUT, "no answer"):
            await session(controller, "status", session_id=opened.session_id)
    with refused(ErrorCode.ALREADY_CLOSED, "no answer"):
        await session(controller, "lock", session_id=opened.session_id, task_id="t")


async def test_second_open_of_console_joins_and_reports_slow_one(
    controller: LocalController, channels: list[SlowChannel]
) -> None:
    first = await session(controller, "open", **CONSOLE)
    second = await session(controller, "open", **CONSOLE)
    assert (second.state, second.existing_session_id) == ("opening", first.session_id)
    joined = asyncio.create_task(session(controller, "open", **CONSOLE))
    channels[0].result.set_result(None)
    assert ((await joined).state, (await joined).session_id) == ("open", first.session_id)
    assert len(channels) == 1


async def test_open_after_failed_slow_open_of_console_reports_it_once(
    controller: LocalController, channels: list[SlowChannel]
) -> None:
    first = await session(controller, "open", **CONSOLE)
    channels[0].refuse(ConnectTimeout("no answer"))
    await until_no_session(controller)
    with refused(ErrorCode.CONNECT_TIMEOUT, "no answer"):
        await session(controller, "open", **CONSOLE)
    again = await session(controller, "open", **CONSOLE)
    assert (again.state, again.session_id != first.session_id, len(channels)) == ("opening", True, 2)


async def test_library_waits_for_slow_open(controller: LocalController, channels: list[SlowChannel]) -> None:
    opening = asyncio.create_task(SessionHandle.open(controller, **ADDRESS, acquire_lock=True, task_id="t"))

    async def is_continued() -> bool:
        return bool((await session(controller, "list")).sessions)

    await until(is_continued)
    channels[0].result.set_result(None)
    handle = await opening
    assert (handle.opened.state, handle.opened.lock_holder) == ("open", "t")


async def test_slow_open_is_closed_on_request(controller: LocalController, channels: list[SlowChannel]) -> None:
    opened = await session(controller, "open", **ADDRESS)
    await session(controller, "close", session_id=opened.session_id, task_id="t")
    channels[0].result.set_result(None)
    with refused(ErrorCode.ALREADY_CLOSED, "by t"):
        await session(controller, "status", session_id=opened.session_id)


async def test_cancelled_open_leaves_no_session(controller: LocalController, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_actions, "OPEN_WAIT_S", 60)
    opening = asyncio.create_task(session(controller, "open", **ADDRESS))
    folder = controller.settings.state_dir / "sessions"

    async def has_begun() -> bool:
        return folder.is_dir() and any(folder.iterdir())

    await until(has_begun)
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    assert list(folder.iterdir()) == []

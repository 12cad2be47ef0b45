"""An open whose connection or login takes longer than one call may wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api import ErrorCode, IoRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.api.pty import PtyReply, PtyReset
from ptyctl.controller.local import LocalController
from ptyctl.controller.registry import SessionRegistry
from tests.controller.session_calls import refused, session, until
from transports.errors import ChannelError, ConnectTimeout
from transports.receiver import Receiver

ADDRESS = {"protocol": "telnet", "host": "scripted"}
ENDS_IN_TIME = SessionRegistry.ends_in_time
CONSOLE = {**ADDRESS, "session_type": "console", "device_id": "sw1"}


class SlowChannel(MemoryChannel):
    """A far end that accepts or refuses the connection on the test's request."""

    def __init__(self) -> None:
        super().__init__()
        self.result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.connecting = self.opened = False

    async def open(self, receiver: Receiver) -> None:
        self.connecting = True
        try:
            await self.result
        finally:
            self.connecting = False
        await super().open(receiver)
        self.opened = True

    def refuse(self, error: ChannelError) -> None:
        self.result.set_exception(error)


@pytest.fixture
async def channels() -> list[SlowChannel]:
    return []


@pytest.fixture
async def controller(channels: list[SlowChannel], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalController]:

    async def until_far_end_is_silent(_registry: SessionRegistry, attempt: asyncio.Task[Any]) -> bool:
        """Instead of 55 s, wait until a far end keeps the attempt, or the one that it waits for, from ending."""

        async def decided() -> bool:
            return attempt.done() or any(channel.connecting and not channel.result.done() for channel in channels)

        await until(decided)
        return attempt.done()

    def create(_destination: Any) -> SlowChannel:
        channels.append(SlowChannel())
        return channels[-1]

    monkeypatch.setattr(SessionRegistry, "ends_in_time", until_far_end_is_silent)
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


async def test_list_and_status_report_the_same_state_during_the_login(
    controller: LocalController, channels: list[SlowChannel]
) -> None:
    """The channel is open then, and the session is not: its login is in progress."""
    auth = {"auth": {"password": "p"}, "username": "u"}
    opened = await session(controller, "open", **ADDRESS, **auth)
    channels[0].result.set_result(None)

    async def is_open() -> bool:
        return channels[0].opened

    await until(is_open)
    (entry,) = (await session(controller, "list")).sessions
    assert (entry.state, await state_of(controller, opened.session_id)) == ("opening", "opening")


async def test_slow_reset_returns_opening_and_continues(controller: LocalController, channels: list[SlowChannel]) -> None:
    opening = asyncio.create_task(session(controller, "open", **ADDRESS))
    session_id = (await opening).session_id
    channels[0].result.set_result(None)

    async def is_open() -> bool:
        return await state_of(controller, session_id) == "open"

    await until(is_open)
    reset = await controller.pty(PtyReset(session_id=session_id))
    assert isinstance(reset, PtyReply)
    assert (reset.ok, reset.state, reset.session_id, reset.resume_cursor) == (True, "opening", session_id, 0)
    assert await state_of(controller, session_id) == "opening"
    again = await controller.pty(PtyReset(session_id=session_id))
    assert isinstance(again, PtyReply)
    assert again.state == "opening"
    channels[1].refuse(ConnectTimeout("no answer"))

    async def has_begun() -> bool:
        return len(channels) == 3

    await until(has_begun)  # the second reset, after the first has failed
    channels[2].result.set_result(None)
    await until(is_open)


async def test_failed_reset_returns_its_error(
    controller: LocalController, channels: list[SlowChannel], monkeypatch: Any
) -> None:
    session_id = (await session(controller, "open", **ADDRESS)).session_id
    channels[0].result.set_result(None)

    async def is_open() -> bool:
        return await state_of(controller, session_id) == "open"

    await until(is_open)
    monkeypatch.setattr(SessionRegistry, "ends_in_time", ENDS_IN_TIME)
    resetting = asyncio.create_task(controller.pty(PtyReset(session_id=session_id)))

    async def has_begun() -> bool:
        return len(channels) == 2

    await until(has_begun)
    channels[1].refuse(ConnectTimeout("no answer"))
    reply = await resetting
    assert (reply.ok, "no answer" in str(reply.message)) == (False, True)


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
    monkeypatch.setattr(SessionRegistry, "ends_in_time", ENDS_IN_TIME)
    opening = asyncio.create_task(session(controller, "open", **ADDRESS))
    folder = controller.settings.state_dir / "sessions"

    async def has_begun() -> bool:
        return folder.is_dir() and any(folder.iterdir())

    await until(has_begun)
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    assert list(folder.iterdir()) == []

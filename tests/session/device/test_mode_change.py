"""Mode changes on a scripted device, in situations that a real device does not reproduce on demand."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import SecretStr

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.platforms import Platforms
from ptyctl.session.calls.mode_change import change_mode, mode_at, save
from ptyctl.session.clients import lock_owner
from ptyctl.session.device.login import LoginAccount, LoginCredentials
from ptyctl.session.io.gate import Writer
from ptyctl.session.session import Session
from tests.session.conftest import Connect
from tests.session.scripted_session import run_command, wait_until

ME = Writer("me")


async def device(connect: Connect, channel: MemoryChannel, family: str = "cisco_ios", prompt: bytes = b"sw1#") -> Session:
    """A session at a prompt of that family, without an automatic device."""
    platform = Platforms().get(family)
    session = await connect(channel, platform=family, expect=platform.expect())
    session.platform, session.credentials = platform, LoginCredentials()
    channel.feed(prompt)
    return session


async def typed(channel: MemoryChannel, data: bytes) -> None:
    await wait_until(lambda: channel.written.endswith(data))


async def test_exec_and_save_during_mode_change_are_busy(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await device(connect, channel)
    going = asyncio.create_task(change_mode(session, "config", ME))
    await typed(channel, b"configure terminal\r")
    with pytest.raises(PtyctlError, match="busy with the change to mode config") as caught:
        await run_command(session, "show clock")
    assert (caught.value.code, caught.value.retryable) == (ErrorCode.BUSY, True)
    with pytest.raises(PtyctlError, match="busy with the change to mode config"):
        await save(session, ME)
    channel.feed(b"configure terminal\r\nsw1(config)#")
    assert await going == "config" == mode_at(session)


async def test_cancelled_mode_change_is_finished(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await device(connect, channel, "cisco_ios", b"sw1>")
    going = asyncio.create_task(change_mode(session, "config", ME))
    await typed(channel, b"enable\r")
    going.cancel()
    channel.feed(b"enable\r\nsw1#")
    await typed(channel, b"configure terminal\r")
    channel.feed(b"configure terminal\r\nsw1(config)#")
    await wait_until(lambda: mode_at(session) == "config")


async def test_username_placeholder_is_answered_with_login_name(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await device(connect, channel, "hp_procurve", b"sw1> ")
    session.credentials = LoginCredentials((LoginAccount("netops"),), enable_secret=SecretStr("En4ble-secret"))
    going = asyncio.create_task(change_mode(session, "manager", ME))
    await typed(channel, b"enable\r")
    channel.feed(b"enable\r\nUsername: ")
    await typed(channel, b"netops\r")
    channel.feed(b"netops\r\nPassword: ")
    await typed(channel, b"En4ble-secret\r")
    channel.feed(b"\r\nsw1# ")
    assert await going == "manager"


async def test_connection_closed_during_mode_change_is_remote_closed(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await device(connect, channel)
    going = asyncio.create_task(change_mode(session, "config", ME))
    await typed(channel, b"configure terminal\r")
    channel.end()
    with pytest.raises(PtyctlError, match="the far end closed the connection") as caught:
        await going
    assert caught.value.code is ErrorCode.REMOTE_CLOSED


async def test_mode_change_at_pending_question_is_busy(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await device(connect, channel, prompt=b"Proceed with reload? [confirm]")
    with pytest.raises(PtyctlError, match=r"a question waits for an answer: 'Proceed with reload\? \[confirm\]'") as caught:
        await change_mode(session, "config", ME)
    assert caught.value.code is ErrorCode.BUSY
    assert not channel.written


async def test_question_that_cannot_be_interrupted_gets_no_enter(connect: Connect) -> None:
    """A transition asks it, and an interrupt does not leave it."""
    channel = MemoryChannel()
    session = await device(connect, channel)
    going = asyncio.create_task(change_mode(session, "config", ME))
    await typed(channel, b"configure terminal\r")
    channel.feed(b"configure terminal\r\nClear the running configuration? [yes/no]: ")
    await typed(channel, b"\x03")
    channel.feed(b"^C\r\nClear the running configuration? [yes/no]: ")
    with pytest.raises(PtyctlError, match=r"which only you can answer \(it still waits for the answer") as caught:
        await going
    assert caught.value.code is ErrorCode.POLICY_DENIED
    assert channel.written == b"configure terminal\r\x03"


async def test_log_lines_after_prompt_do_not_stop_mode_change(connect: Connect) -> None:
    """A single Enter shows the prompt again."""
    channel = MemoryChannel()
    session = await device(connect, channel)
    going = asyncio.create_task(change_mode(session, "config", ME))
    await typed(channel, b"configure terminal\r")
    log = b"*Nov 20 17:00:00.123: %SYS-5-CONFIG_I: Configured from console by console\r\n"
    channel.feed(b"configure terminal\r\nsw1(config)#" + b"\r\n" + log)
    await typed(channel, b"terminal\r\r")
    channel.feed(b"\r\nsw1(config)#")
    assert await going == "config"


async def test_mode_change_without_lock_finishes_current_command_only(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await device(connect, channel, prompt=b"sw1>")
    session.credentials = LoginCredentials(enable_secret=SecretStr("En4ble-secret"))
    going = asyncio.create_task(change_mode(session, "config", ME))
    await typed(channel, b"enable\r")
    session.leases.take_over(lock_owner("another"), 60.0, session.terminal.now())
    channel.feed(b"enable\r\nPassword: ")
    await typed(channel, b"En4ble-secret\r")
    channel.feed(b"\r\nsw1#")
    with pytest.raises(PtyctlError) as caught:
        await going
    assert caught.value.code is ErrorCode.LOCKED
    assert channel.written.endswith(b"En4ble-secret\r")
    assert b"En4ble" not in (session.stream.folder / "input.jsonl").read_bytes()


async def test_mode_change_at_pager_is_busy_and_types_nothing(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await device(connect, channel, prompt=b"sw1#show log\r\nline 1\r\n --More-- ")
    with pytest.raises(PtyctlError) as caught:
        await change_mode(session, "config", ME)
    assert (caught.value.code, caught.value.details) == (ErrorCode.BUSY, {"reason": "pager"})
    assert not channel.written

"""A console whose line is lost is connected anew by itself: the same session, a login of its own, the lock kept."""

from __future__ import annotations

import asyncio
import json

import pytest

from fixtures.servers.relay import Relay
from ptyctl import LocalController
from ptyctl.api import ErrorCode, ExecReply, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.session import SessionEntry
from ptyctl.controller import reconnect
from ptyctl.session.io.publisher import Publisher
from ptyctl.simulator import SimulatedSwitch
from tests.controller.session_calls import PATIENCE_MS, refused, session
from tests.integration.devices.switch_inventory import SwitchInventory

PATIENCE_S = PATIENCE_MS / 1000


async def entry(controller: LocalController) -> SessionEntry:
    (only,) = (await session(controller, "list")).sessions or []
    return only


async def state(controller: LocalController, session_id: str, *wanted: str) -> str:
    """Waits until the session is in one of these states."""
    found = await controller._registry.find(session_id)
    async with asyncio.timeout(PATIENCE_S):
        while found.state not in wanted:
            await found.signal.wait()
    return found.state


async def console(controller: LocalController, **fields: object) -> SessionHandle:
    return await SessionHandle.open(
        controller, device="sw-console", acquire_lock=True, task_id="t", lock_ttl_ms=600_000, **fields
    )


async def as_soon_as_possible(handle: SessionHandle, cmd: str) -> ExecReply:
    """As an agent does it: what is retryable is made again."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await handle.exec(cmd)
            except PtyctlError as error:
                if not error.retryable:
                    raise
                await asyncio.sleep(error.details.get("retry_after_ms", 20) / 1000)


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_a_lost_line_comes_back(controller: LocalController, inventory: SwitchInventory, how: str) -> None:
    one = await console(controller)
    before = (await one.exec("show version")).stdout
    getattr(inventory.relay, how)()
    await state(controller, one.session_id, "reconnecting")
    await state(controller, one.session_id, "open")
    status = await one.status()
    assert status.lock_holder == "t"
    assert any("the line was lost" in notice for notice in status.notices or [])
    assert (await as_soon_as_possible(one, "show version")).stdout == before  # logged in anew
    assert ((await entry(controller)).incarnation, (await entry(controller)).session_id) == (2, one.session_id)


async def test_a_lost_ssh_console_comes_back(
    controller: LocalController, inventory: SwitchInventory, switch: SimulatedSwitch
) -> None:
    async with Relay(switch.ssh_port) as relay:
        device = f'[devices.con]\nhost = "127.0.0.1"\nport = {relay.port}\nprotocol = "ssh"\nsession_type = "console"\n'
        options = f'host_key_fingerprint = "{switch.host_key_fingerprint}", use_openssh_config = false'
        inventory.write(telnet=inventory.relay.port, more=f"{device}ssh_options = {{ {options} }}\n")
        one = await SessionHandle.open(controller, device="con", acquire_lock=True, task_id="t")
        relay.reset()
        await state(controller, one.session_id, "reconnecting")
        await state(controller, one.session_id, "open")
        assert (await as_soon_as_possible(one, "show version")).mode == "privileged"


async def test_meanwhile_calls_are_told_when_the_next_try_is(controller: LocalController, inventory: SwitchInventory) -> None:
    one = await console(controller)
    inventory.write(telnet=1)  # nobody listens there
    inventory.relay.reset()
    await state(controller, one.session_id, "reconnecting")
    for call in (lambda: one.exec("show version"), lambda: one.write("x"), lambda: one.key("ctrl_c")):
        with refused(ErrorCode.CONNECT_FAILED, "reconnecting", "call again") as caught:
            await call()
        assert caught.value.retryable
        assert caught.value.details["retry_after_ms"] >= 0
    assert "reconnecting" in ((await one.status()).message or "")
    assert (await one.read(timeout_ms=0)).eof  # history can be read all the time


async def test_an_open_does_not_wait_for_the_next_try(
    controller: LocalController, inventory: SwitchInventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconnect, "FIRST_DELAY_S", 3600.0)
    one = await console(controller)
    inventory.relay.reset()
    await state(controller, one.session_id, "reconnecting")
    again = await SessionHandle.open(controller, device="sw-console")
    assert (again.session_id, again.opened.state) == (one.session_id, "open")


async def test_a_device_that_has_moved_goes_on_at_its_new_place(
    controller: LocalController, inventory: SwitchInventory
) -> None:
    one = await console(controller)
    inventory.write(telnet=1)
    with refused(ErrorCode.INVALID_ARGUMENT, "is open already"):  # nobody's line is taken away for that
        await session(controller, "open", device="sw-console")
    inventory.relay.reset()
    await state(controller, one.session_id, "reconnecting")
    with refused(ErrorCode.CONNECT_FAILED):
        await session(controller, "open", device="sw-console")
    assert (await one.status()).state == "reconnecting"  # it is tried on
    inventory.write(telnet=inventory.switch.telnet_port)
    again = await SessionHandle.open(controller, device="sw-console")
    assert again.session_id == one.session_id
    assert (await entry(controller)).port == inventory.switch.telnet_port


async def test_a_close_ends_the_trying(controller: LocalController, inventory: SwitchInventory) -> None:
    one = await console(controller)
    inventory.relay.reset()
    await state(controller, one.session_id, "reconnecting")
    await one.close()
    assert await state(controller, one.session_id, "closed") == "closed"
    await asyncio.gather(*controller._reconnector._tasks.values())
    assert (await SessionHandle.open(controller, device="sw-console")).session_id != one.session_id


async def test_refused_credentials_are_not_tried_again(controller: LocalController, inventory: SwitchInventory) -> None:
    """Else the account would be locked by and by."""
    one = await console(controller)
    inventory.keep("password", "not-the-one")
    inventory.relay.reset()
    assert await state(controller, one.session_id, "lost") == "lost"
    await asyncio.gather(*controller._reconnector._tasks.values())
    notices = (await one.status()).notices or []
    assert any("not connected again" in notice for notice in notices)
    assert not any("not-the-one" in notice for notice in notices)


async def test_a_line_that_goes_away_again_and_again(inventory: SwitchInventory, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is lost in the middle of the login, too."""
    monkeypatch.setattr(reconnect, "FIRST_DELAY_S", 0.01)
    async with LocalController(inventory.settings()) as controller:
        one = await console(controller)
        found = await controller._registry.find(one.session_id)
        for incarnation in (2, 3, 4):
            inventory.relay.reset()
            async with asyncio.timeout(PATIENCE_S):
                while found.incarnation < incarnation or found.state != "open":
                    await found.signal.wait()
        assert (await as_soon_as_possible(one, "show version")).mode == "privileged"


async def test_a_close_in_the_middle_of_a_try(inventory: SwitchInventory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconnect, "FIRST_DELAY_S", 0.01)
    async with LocalController(inventory.settings()) as controller:
        one = await console(controller)
        inventory.relay.reset()
        await state(controller, one.session_id, "reconnecting")
        await state(controller, one.session_id, "open")  # the login is under way now
        await one.close(force=True)
        await asyncio.gather(*controller._reconnector._tasks.values())
        assert await state(controller, one.session_id, "closed") == "closed"


async def test_it_gives_up_in_the_end(inventory: SwitchInventory, switch: SimulatedSwitch) -> None:
    async with LocalController(inventory.settings(reconnect_for_s=0.01)) as controller:
        one = await console(controller)
        inventory.write(telnet=1)
        inventory.relay.reset()
        await state(controller, one.session_id, "lost")
        await asyncio.gather(*controller._reconnector._tasks.values())
        with refused(ErrorCode.REMOTE_CLOSED, "open again"):
            await one.exec("show version")


async def test_it_can_be_turned_off(inventory: SwitchInventory) -> None:
    async with LocalController(inventory.settings(reconnect_for_s=0)) as controller:
        one = await console(controller)
        inventory.relay.reset()
        assert await state(controller, one.session_id, "lost", "reconnecting") == "lost"


async def test_what_is_no_console_stays_lost(controller: LocalController, inventory: SwitchInventory) -> None:
    one = await SessionHandle.open(controller, device="sw-telnet")
    inventory.relay.reset()
    assert await state(controller, one.session_id, "lost", "reconnecting") == "lost"


async def test_after_a_restart_the_consoles_of_the_inventory_come_back(inventory: SwitchInventory, relay: Relay) -> None:
    """The server was killed: its session's files are as it left them, and credentials are fetched anew."""
    first = LocalController(inventory.settings())
    one = await console(first)
    killed = await first._registry.find(one.session_id)
    killed.flush()
    killed._publisher = Publisher()  # the killed server reacts to nothing
    assert killed.channel is not None
    await killed.channel.close(force=True)
    killed.release_files()
    meta = json.loads((inventory.folder / "state" / "sessions" / one.session_id / "meta.json").read_text())
    assert (meta["spec"]["device"], meta["state"]) == ("sw-console", "lost")
    async with LocalController(inventory.settings(), persistent=True) as second:
        assert second._reconnector._restoring is not None
        await second._reconnector._restoring
        await state(second, one.session_id, "open")
        assert ((await entry(second)).incarnation, (await entry(second)).lock_holder) == (2, "t")

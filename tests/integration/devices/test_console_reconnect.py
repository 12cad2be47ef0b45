"""Reconnecting of a lost console: the session and the lock are kept, and the login is repeated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from fixtures.servers.relay import Relay
from ptyctl import LocalController
from ptyctl.api import ErrorCode, ExecReply, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.session import SessionEntry
from ptyctl.controller import console_reconnector
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.io.publisher import Publisher
from ptyctl.session.session import Session
from ptyctl.simulator import SimulatedSwitch
from tests.controller.session_calls import PATIENCE_MS, refused, session
from tests.integration.devices.switch_inventory import PASSWORD, SwitchInventory

pytestmark = pytest.mark.waits

PATIENCE_S = PATIENCE_MS / 1000


@pytest.fixture
def short_first_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_reconnector, "FIRST_DELAY_S", 0.1)


async def only_entry(controller: LocalController) -> SessionEntry:
    (only,) = (await session(controller, "list")).sessions or []
    return only


async def wait_for_state(controller: LocalController, session_id: str, *wanted: str) -> str:
    """Wait until the session is in one of these states."""
    found = await controller._registry.find(session_id)
    async with asyncio.timeout(PATIENCE_S):
        while found.state not in wanted:
            await found.signal.wait()
    return found.state


async def open_console(controller: LocalController, **fields: object) -> SessionHandle:
    return await SessionHandle.open(
        controller, device="sw-console", acquire_lock=True, task_id="t", lock_ttl_ms=600_000, **fields
    )


async def exec_with_retries(handle: SessionHandle, cmd: str) -> ExecReply:
    """Execute, and repeat after retryable errors."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await handle.exec(cmd)
            except PtyctlError as error:
                if not error.retryable:
                    raise
                await asyncio.sleep(error.details.get("retry_after_ms", 20) / 1000)


@pytest.mark.usefixtures("short_first_delay")
@pytest.mark.parametrize("how", ["reset", "close"])
async def test_lost_telnet_console_reconnects_and_logs_in(
    controller: LocalController, inventory: SwitchInventory, how: str
) -> None:
    one = await open_console(controller)
    before = (await one.exec("show version")).stdout
    getattr(inventory.relay, how)()
    await wait_for_state(controller, one.session_id, "reconnecting")
    await wait_for_state(controller, one.session_id, "open")
    status = await one.status()
    assert status.lock_holder == "t"
    assert any("the connection was lost" in notice for notice in status.notices or [])
    assert (await exec_with_retries(one, "show version")).stdout == before  # logged in again
    assert ((await only_entry(controller)).incarnation, (await only_entry(controller)).session_id) == (2, one.session_id)


@pytest.mark.usefixtures("short_first_delay")
async def test_lost_ssh_console_reconnects_and_logs_in(
    controller: LocalController, inventory: SwitchInventory, switch: SimulatedSwitch
) -> None:
    async with Relay(switch.ssh_port) as relay:
        device = f'[devices.con]\nhost = "127.0.0.1"\nport = {relay.port}\nprotocol = "ssh"\nsession_type = "console"\n'
        options = f'host_key_fingerprint = "{switch.host_key_fingerprint}", use_openssh_config = false'
        inventory.write_devices(telnet=inventory.relay.port, more=f"{device}ssh_options = {{ {options} }}\n")
        one = await SessionHandle.open(controller, device="con", acquire_lock=True, task_id="t")
        relay.reset()
        await wait_for_state(controller, one.session_id, "reconnecting")
        await wait_for_state(controller, one.session_id, "open")
        assert (await exec_with_retries(one, "show version")).mode == "privileged"


async def test_calls_while_reconnecting_report_retry_delay(controller: LocalController, inventory: SwitchInventory) -> None:
    one = await open_console(controller)
    inventory.write_devices(telnet=1)  # a closed port
    inventory.relay.reset()
    await wait_for_state(controller, one.session_id, "reconnecting")
    for call in (lambda: one.exec("show version"), lambda: one.write("x"), lambda: one.key("ctrl_c")):
        with refused(ErrorCode.CONNECT_FAILED, "reconnecting", "call again") as caught:
            await call()
        assert caught.value.retryable
        assert caught.value.details["retry_after_ms"] >= 0
    assert "reconnecting" in ((await one.status()).message or "")
    assert (await one.read(timeout_ms=0)).eof  # history remains readable


async def test_open_while_reconnecting_tries_immediately(
    controller: LocalController, inventory: SwitchInventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_reconnector, "FIRST_DELAY_S", 3600.0)
    one = await open_console(controller)
    inventory.relay.reset()
    await wait_for_state(controller, one.session_id, "reconnecting")
    again = await SessionHandle.open(controller, device="sw-console")
    assert (again.session_id, again.opened.state) == (one.session_id, "open")


async def test_device_with_new_address_reconnects_there(controller: LocalController, inventory: SwitchInventory) -> None:
    one = await open_console(controller)
    inventory.write_devices(telnet=1)
    with refused(ErrorCode.INVALID_ARGUMENT, "is open already"):  # an open connection is not replaced
        await session(controller, "open", device="sw-console")
    inventory.relay.reset()
    await wait_for_state(controller, one.session_id, "reconnecting")
    with refused(ErrorCode.CONNECT_FAILED):
        await session(controller, "open", device="sw-console")
    assert (await one.status()).state == "reconnecting"  # retries continue
    inventory.write_devices(telnet=inventory.switch.telnet_port)
    again = await SessionHandle.open(controller, device="sw-console")
    assert again.session_id == one.session_id
    assert (await only_entry(controller)).port == inventory.switch.telnet_port


async def test_close_while_reconnecting_stops_retries(controller: LocalController, inventory: SwitchInventory) -> None:
    one = await open_console(controller)
    inventory.relay.reset()
    await wait_for_state(controller, one.session_id, "reconnecting")
    await one.close()
    assert await wait_for_state(controller, one.session_id, "closed") == "closed"
    await asyncio.gather(*controller._reconnector._tasks.values())
    assert (await SessionHandle.open(controller, device="sw-console")).session_id != one.session_id


@pytest.mark.usefixtures("short_first_delay")
async def test_refused_credentials_stop_retries(controller: LocalController, inventory: SwitchInventory) -> None:
    """Further attempts could lock the account."""
    one = await open_console(controller)
    inventory.write_secret("password", "not-the-one")
    inventory.relay.reset()
    assert await wait_for_state(controller, one.session_id, "lost") == "lost"
    await asyncio.gather(*controller._reconnector._tasks.values())
    notices = (await one.status()).notices or []
    assert any("reconnecting has ended" in notice for notice in notices)
    assert not any("not-the-one" in notice for notice in notices)


@pytest.fixture
def fail_output(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function after whose call every read of output raises an exception, as a bug does."""

    def fail(stream: OutputStream, nbytes: int) -> None:
        raise ValueError

    return lambda: monkeypatch.setattr(OutputStream, "buffer_updated", fail)


async def wait_for_internal_error(controller: LocalController, one: SessionHandle, incarnation: int) -> None:
    """Wait for the end of the incarnation, and check that the session reports it and no attempt follows."""
    found = await controller._registry.find(one.session_id)
    async with asyncio.timeout(PATIENCE_S):
        while found.internal_error is None:
            await found.signal.wait()
        await asyncio.gather(*controller._reconnector._tasks.values())
    assert (found.state, found.incarnation, found.reconnect) == ("lost", incarnation, None)
    status = await one.status()
    assert (status.state, "internal error" in (status.message or "")) == ("lost", True)
    notices = (await session(controller, "status", session_id=one.session_id, task_id="other")).notices or []
    assert sum("reconnecting has ended: internal error" in notice for notice in notices) == 1
    with refused(ErrorCode.REMOTE_CLOSED, "internal error", "open a new session"):
        await one.write("x")


async def test_internal_error_leaves_console_lost(
    controller: LocalController, fail_output: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that shows the same bytes again would cause the same error."""
    monkeypatch.setattr(console_reconnector, "FIRST_DELAY_S", 0.01)
    one = await open_console(controller)
    fail_output()
    with refused(ErrorCode.REMOTE_CLOSED, "internal error"):
        await one.exec("show version")
    await wait_for_internal_error(controller, one, incarnation=1)
    monkeypatch.undo()
    again = await SessionHandle.open(controller, device="sw-console")  # a person may try again
    assert (again.session_id, again.opened.state) == (one.session_id, "open")
    assert (await one.status()).message is None


async def test_internal_error_during_reconnect_stops_retries(
    controller: LocalController, inventory: SwitchInventory, fail_output: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_reconnector, "FIRST_DELAY_S", 0.01)
    one = await open_console(controller)
    fail_output()
    inventory.relay.reset()
    await wait_for_internal_error(controller, one, incarnation=2)


async def test_console_lost_repeatedly_reconnects_each_time(
    inventory: SwitchInventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Includes losses during the login."""
    monkeypatch.setattr(console_reconnector, "FIRST_DELAY_S", 0.01)
    async with LocalController(inventory.settings()) as controller:
        one = await open_console(controller)
        found = await controller._registry.find(one.session_id)
        for incarnation in (2, 3, 4):
            async with asyncio.timeout(PATIENCE_S):
                await inventory.relay.linked.wait()
                inventory.relay.reset()
                while found.incarnation < incarnation or found.state != "open":
                    await found.signal.wait()
        assert (await exec_with_retries(one, "show version")).mode == "privileged"


async def test_close_during_reconnect_login_closes_session(inventory: SwitchInventory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_reconnector, "FIRST_DELAY_S", 0.01)
    async with LocalController(inventory.settings()) as controller:
        one = await open_console(controller)
        inventory.relay.reset()
        await wait_for_state(controller, one.session_id, "reconnecting")
        await wait_for_state(controller, one.session_id, "open")  # the login is in progress
        await one.close(force=True)
        await asyncio.gather(*controller._reconnector._tasks.values())
        assert await wait_for_state(controller, one.session_id, "closed") == "closed"


@pytest.mark.usefixtures("short_first_delay")
async def test_reconnect_gives_up_after_configured_time(inventory: SwitchInventory, switch: SimulatedSwitch) -> None:
    async with LocalController(inventory.settings(reconnect_for_s=0.01)) as controller:
        one = await open_console(controller)
        inventory.write_devices(telnet=1)
        inventory.relay.reset()
        await wait_for_state(controller, one.session_id, "lost")
        await asyncio.gather(*controller._reconnector._tasks.values())
        with refused(ErrorCode.REMOTE_CLOSED, "open a new session"):
            await one.exec("show version")


async def test_reconnect_disabled_by_setting_leaves_session_lost(inventory: SwitchInventory) -> None:
    async with LocalController(inventory.settings(reconnect_for_s=0)) as controller:
        one = await open_console(controller)
        inventory.relay.reset()
        assert await wait_for_state(controller, one.session_id, "lost", "reconnecting") == "lost"


async def test_session_without_console_stays_lost(controller: LocalController, inventory: SwitchInventory) -> None:
    one = await SessionHandle.open(controller, device="sw-telnet")
    inventory.relay.reset()
    assert await wait_for_state(controller, one.session_id, "lost", "reconnecting") == "lost"


async def kill(server: LocalController, session_id: str) -> None:
    """End a server's hold on a session, as a kill does: it does not react, and writes nothing more."""
    killed = await server._registry.find(session_id)
    killed.flush()
    killed._publisher = Publisher()
    if killed.channel is not None:
        await killed.channel.close(force=True)
    killed.release_files()


def stored_meta(inventory: SwitchInventory, session_id: str) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads((inventory.folder / "state" / "sessions" / session_id / "meta.json").read_text())
    return meta


async def restored(server: LocalController, session_id: str) -> Session:
    """Return the session after a persistent server has decided which consoles it reconnects."""
    assert server._reconnector._restoring is not None
    await server._reconnector._restoring
    return await server._registry.find(session_id)


@pytest.mark.usefixtures("short_first_delay")
async def test_restarted_server_reconnects_consoles_of_inventory(inventory: SwitchInventory, relay: Relay) -> None:
    """The first server is killed; the second one reads the session from disk and fetches the credentials again."""
    first = LocalController(inventory.settings())
    one = await open_console(first)
    await kill(first, one.session_id)
    meta = stored_meta(inventory, one.session_id)
    assert (meta["spec"]["device"], meta["state"]) == ("sw-console", "lost")
    async with LocalController(inventory.settings(), persistent=True) as second:
        await restored(second, one.session_id)
        await wait_for_state(second, one.session_id, "open")
        assert ((await only_entry(second)).incarnation, (await only_entry(second)).lock_holder) == (2, "t")


async def refuse_credentials(controller: LocalController, inventory: SwitchInventory, one: SessionHandle) -> None:
    """Lose the line of a console whose password has changed, and wait until the login was refused."""
    inventory.write_secret("password", "not-the-one")
    inventory.relay.reset()
    await wait_for_state(controller, one.session_id, "lost")
    await asyncio.gather(*controller._reconnector._tasks.values())


async def test_restarted_server_does_not_repeat_refused_login(
    inventory: SwitchInventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more login of each restart could lock the account."""
    monkeypatch.setattr(console_reconnector, "FIRST_DELAY_S", 0.01)
    first = LocalController(inventory.settings())
    one = await open_console(first)
    await refuse_credentials(first, inventory, one)
    await kill(first, one.session_id)
    reason = stored_meta(inventory, one.session_id)["given_up"]["reason"]
    assert "refused" in reason
    assert "not-the-one" not in reason
    async with LocalController(inventory.settings(), persistent=True) as second:
        found = await restored(second, one.session_id)
        assert (found.state, found.reconnect, found.incarnation) == ("lost", None, 2)
        entry, status = await only_entry(second), await session(second, "status", session_id=one.session_id)
        assert entry.given_up is not None
        assert (entry.given_up.reason, status.given_up, status.message) == (reason, entry.given_up, reason)
        assert await second.given_up("sw-console") == entry.given_up
        with refused(ErrorCode.REMOTE_CLOSED, reason):
            await SessionHandle(second, one.session_id, "t").write("x")
        inventory.write_secret("password", PASSWORD)
        again = await SessionHandle.open(second, device="sw-console")  # a person may try again
        assert (again.session_id, again.opened.state) == (one.session_id, "open")
        assert ((await only_entry(second)).given_up, "given_up" in stored_meta(inventory, one.session_id)) == (None, False)


async def test_restarted_server_leaves_console_with_internal_error_lost(
    inventory: SwitchInventory, fail_output: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = LocalController(inventory.settings())
    one = await open_console(first)
    fail_output()
    with refused(ErrorCode.REMOTE_CLOSED, "internal error"):
        await one.exec("show version")
    await wait_for_internal_error(first, one, incarnation=1)
    await kill(first, one.session_id)
    monkeypatch.undo()
    async with LocalController(inventory.settings(), persistent=True) as second:
        found = await restored(second, one.session_id)
        assert (found.state, found.reconnect, found.incarnation) == ("lost", None, 1)
        assert "internal error" in ((await session(second, "status", session_id=one.session_id)).message or "")


async def test_open_that_is_refused_ends_automatic_attempts(
    controller: LocalController, inventory: SwitchInventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_reconnector, "FIRST_DELAY_S", 3600.0)
    one = await open_console(controller)
    inventory.write_secret("password", "not-the-one")
    inventory.relay.reset()
    await wait_for_state(controller, one.session_id, "reconnecting")
    with refused(ErrorCode.AUTH_FAILED):
        await session(controller, "open", device="sw-console")
    await asyncio.gather(*controller._reconnector._tasks.values())
    assert (await one.status()).state == "lost"
    assert "given_up" in stored_meta(inventory, one.session_id)


async def test_open_of_given_up_console_that_is_not_reached_keeps_it_given_up(
    controller: LocalController, inventory: SwitchInventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_reconnector, "FIRST_DELAY_S", 0.01)
    one = await open_console(controller)
    await refuse_credentials(controller, inventory, one)
    inventory.write_devices(telnet=1)
    with refused(ErrorCode.CONNECT_FAILED):
        await session(controller, "open", device="sw-console")
    assert "refused" in stored_meta(inventory, one.session_id)["given_up"]["reason"]
    assert not controller._reconnector._tasks


async def test_end_of_time_limit_and_other_owner_are_no_reason_for_next_server() -> None:
    """Only what another login would meet again is stored."""
    errors = {code: console_reconnector._is_permanent(PtyctlError(code, "")) for code in ErrorCode}
    assert [code for code in (ErrorCode.AUTH_FAILED, ErrorCode.HOSTKEY_MISMATCH, ErrorCode.NOT_FOUND) if not errors[code]] == []
    assert [code for code in (ErrorCode.SESSION_MOVED, ErrorCode.CLAIM_LOST, ErrorCode.CONNECT_FAILED) if errors[code]] == []

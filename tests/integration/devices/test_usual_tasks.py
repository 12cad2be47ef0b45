"""Usual tasks on a simulated switch and on zebra: `guarded` asks for none, and `readonly` lets show commands pass only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from fixtures.servers.frr import Zebra
from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from ptyctl.api.pty import PtyExpectSend, PtyReply
from ptyctl.controller.local import LocalController
from tests.controller.session_calls import PATIENCE_MS, config, execute, read, refused, write
from tests.integration.devices.switch_inventory import SwitchInventory

pytestmark = pytest.mark.waits


@dataclass(frozen=True)
class Tasks:
    """Commands of a device: shown text by command, and lines of its configuration."""

    shows: dict[str, str]
    configuration: tuple[str, ...]


TASKS = {
    "simulator": Tasks(
        {
            "show version": "Cisco IOS",
            "show clock": "UTC",
            "show ip interface brief": "Vlan",
            "show interfaces status": "Status",
            "show running-config": "hostname",
            "show logging": "",
        },
        ("interface GigabitEthernet1/0/7", "description uplink", "switchport access vlan 10", "no shutdown", "exit", "vlan 10"),
    ),
    "zebra": Tasks(
        {"show version": "FRRouting", "show running-config": "hostname", "show interface brief": "", "show ip route": ""},
        ("interface lo", "description uplink", "exit", "ip route 192.0.2.0/24 blackhole", "no ip route 192.0.2.0/24 blackhole"),
    ),
}


@pytest.fixture(params=TASKS)
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["guarded"])
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def device(inventory: SwitchInventory, zebra: Zebra, target: str, policy: str) -> AsyncIterator[SessionHandle]:
    auth = {"password": zebra.password, "enable_secret": zebra.enable_password}
    frr = {"protocol": "telnet", "host": zebra.host, "port": zebra.port, "platform": "frr", "auth": auth}
    async with LocalController(inventory.settings(policy=policy)) as controller:
        where = {"device": "sw-telnet"} if target == "simulator" else frr
        async with await SessionHandle.open(controller, **where) as handle:  # type: ignore[arg-type]
            yield handle


async def show_by_keys(device: SessionHandle, command: str) -> str:
    """Type a command without `exec`; return what is shown until the next prompt."""
    typed = await write(device, data=command)
    assert typed.next_cursor is not None
    await write(device, data="\n")
    shown = await read(device, cursor=typed.next_cursor, until_regex=r"(?m)^\S+[#>] ?$", timeout_ms=PATIENCE_MS)
    assert shown.matched, shown
    return shown.chunk or ""


async def test_usual_tasks_need_no_approval_with_guarded(device: SessionHandle, target: str) -> None:
    tasks = TASKS[target]
    for command, text in tasks.shows.items():
        reply = await execute(device, cmd=command, timeout_ms=PATIENCE_MS)
        assert (reply.done_reason, text in reply.stdout, reply.policy) == ("prompt", True, None), reply
    for command in list(tasks.shows)[:2]:
        await show_by_keys(device, command)
    reply = await execute(device, lines=list(tasks.configuration), mode="config", timeout_ms=PATIENCE_MS)
    assert (reply.done_reason, reply.policy) == ("prompt", None), reply
    await config(device, "mode", mode="privileged")


@pytest.mark.parametrize("policy", ["readonly"], indirect=True)
async def test_readonly_lets_show_commands_pass_and_nothing_else(device: SessionHandle, target: str) -> None:
    tasks = TASKS[target]
    for command, text in tasks.shows.items():
        reply = await execute(device, cmd=command, timeout_ms=PATIENCE_MS)
        assert (reply.done_reason, text in reply.stdout) == ("prompt", True), reply
    reply = await execute(device, lines=list(tasks.shows)[:2], timeout_ms=PATIENCE_MS)
    assert reply.done_reason == "prompt"
    await show_by_keys(device, "show version")
    for command in ("configure terminal", "write memory", "clear ip route", "hostname x"):
        with refused(ErrorCode.POLICY_DENIED):
            await execute(device, cmd=command)
        with refused(ErrorCode.POLICY_DENIED):
            await write(device, data=f"{command}\n")
    with refused(ErrorCode.POLICY_DENIED):
        await execute(device, lines=["show version", "configure terminal", "hostname x"])
    with refused(ErrorCode.POLICY_DENIED):
        await execute(device, lines=list(tasks.configuration), mode="config")
    for action, fields in (("mode", {"mode": "config"}), ("save", {})):
        with refused(ErrorCode.POLICY_DENIED):
            await config(device, action, **fields)
    reply = await execute(device, cmd="show version", timeout_ms=PATIENCE_MS)
    assert (reply.mode, reply.done_reason) == ("privileged", "prompt")


async def answer_prompt(device: SessionHandle, send: str) -> PtyReply:
    """Send a text as the answer to the prompt of the device."""
    cursor = int((await read(device, mode="tail")).next_cursor or 0)
    await write(device, data="\n")
    request = PtyExpectSend(
        session_id=device.session_id,
        expect=r"[>#] ?$",
        expect_type="regex",
        send=send,
        from_cursor=cursor,
        timeout_ms=PATIENCE_MS,
    )
    reply = await device.controller.pty(request)
    assert isinstance(reply, PtyReply)
    return reply


@pytest.mark.parametrize("policy", ["readonly"], indirect=True)
async def test_answers_are_judged_when_they_are_sent_with_readonly(device: SessionHandle, target: str) -> None:
    await execute(device, cmd="show version", timeout_ms=PATIENCE_MS)
    shown = TASKS[target].shows["show version"]
    sent = await answer_prompt(device, "show version\n")
    assert sent.ok, sent
    assert (await read(device, cursor=str(sent.resume_cursor), until_regex=shown, timeout_ms=PATIENCE_MS)).matched
    for line in ("configure terminal\n", "conf t\n", "write memory\n"):
        refusal = await answer_prompt(device, line)
        assert (refusal.ok, refusal.error) == (False, "policy_denied"), refusal
    reply = await execute(device, cmd="show version", timeout_ms=PATIENCE_MS)
    assert (reply.mode, reply.done_reason) == ("privileged", "prompt")


async def test_answers_of_usual_tasks_need_no_approval_with_guarded(device: SessionHandle, target: str) -> None:
    await execute(device, cmd="show version", timeout_ms=PATIENCE_MS)
    for line in ("configure terminal\n", f"{TASKS[target].configuration[0]}\n", "end\n"):
        sent = await answer_prompt(device, line)
        assert (sent.ok, sent.approval) == (True, None), sent
    if target == "simulator":
        held = await answer_prompt(device, "reload\n")
        assert (held.ok, held.error) == (False, "approval_pending"), held
    reply = await execute(device, cmd="show version", timeout_ms=PATIENCE_MS)
    assert (reply.mode, reply.done_reason) == ("privileged", "prompt")

"""The planned drain of a node: its consoles move with their locks, and it takes no new one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.session import SessionRequest
from ptyctl.fleet import drain
from ptyctl.fleet.certificates import CA_FILE, Authority
from ptyctl.fleet.control import request
from ptyctl.fleet.credentials import ADMIN
from ptyctl.fleet.directory import NodeRow, find_candidates
from ptyctl.simulator import SimulatedSwitch
from tests.fleet.nodes import MakeNode, until, until_known

pytestmark = pytest.mark.waits

DEVICES = """
[devices.rack]
protocol = "telnet"
host = "127.0.0.1"
port = {port}
session_type = "console"
platform = "cisco_ios"
username = "admin"
password = {{ command = ["echo", "demo"] }}
"""


@pytest.fixture
def admin(tmp_path: Path) -> Path:
    """The administrator's certificate, next to that of the authority."""
    authority = Authority.create("test")
    (tmp_path / CA_FILE).write_text(authority.certificate_pem())
    file = tmp_path / "admin.pem"
    file.write_text(authority.issue(ADMIN))
    return file


@pytest.fixture
def ca(admin: Path) -> Path:
    return admin.with_name(CA_FILE)


@pytest.fixture
async def devices() -> AsyncIterator[str]:
    async with SimulatedSwitch(password="demo", enable_secret="demo") as switch:
        yield DEVICES.format(port=switch.telnet_port)


async def test_drained_node_hands_its_console_over_with_the_lock(
    make_node: MakeNode, admin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "_COMMAND_S", 60.0)  # a busy machine can stop a command for seconds
    a, b = await make_node("a"), await make_node("b")
    first = await SessionHandle.open(a.local, device="rack", acquire_lock=True, task_id="t", lock_ttl_ms=60_000)
    await until_known(a, "a", "b")
    await a.fleet.publish()
    await until(lambda: b.fleet.sessions.node_of(first.session_id) == "a")
    await first.exec("show clock")
    calling = asyncio.create_task(keep_calling(SessionHandle(b.controller, first.session_id)))
    (moved,) = (await request(a.fleet._client, "site", "a", "drain", admin))["consoles"]
    assert (moved["device_id"], moved["node"], moved["why"]) == ("rack", "b", None)
    refused = await calling
    assert refused.code is ErrorCode.SESSION_MOVED
    assert refused.details == {"node": "b", "session_id": moved["session_id"]}
    there = SessionHandle(b.controller, moved["session_id"])
    there.task_id = "t"
    status = await there.status()
    assert (status.lock_holder, status.state) == ("t", "open")
    assert first.opened.fence is not None
    assert status.fence is not None
    assert status.fence > first.opened.fence
    assert "UTC" in (await there.exec("show clock")).stdout
    assert "show" in (await SessionHandle(b.controller, first.session_id).read()).chunk  # the old transcript stays readable


async def keep_calling(handle: SessionHandle) -> PtyctlError:
    """Run commands until the session has moved; fail on an error that is not retryable."""
    handle.task_id = "t"
    async with asyncio.timeout(30):
        while True:
            try:
                await handle.exec("show clock")
            except PtyctlError as error:
                if error.code is ErrorCode.SESSION_MOVED:
                    return error
                assert error.retryable, error  # noqa: PT017
                await asyncio.sleep(0.02)


async def test_drained_node_takes_no_console_until_it_is_undrained(make_node: MakeNode, admin: Path) -> None:
    a = await make_node("a")
    assert (await request(a.fleet._client, "site", "a", "drain", admin))["consoles"] == []
    with pytest.raises(PtyctlError, match="node a is drained") as refused:
        await a.local.session(SessionRequest(action="open", device="rack"))
    assert refused.value.retryable
    await until(lambda: [row.draining for row in a.fleet.nodes.up()] == [True])
    await request(a.fleet._client, "site", "a", "undrain", admin)
    await SessionHandle.open(a.local, device="rack")


async def test_console_that_no_other_node_may_take_is_released_with_the_reason(make_node: MakeNode, admin: Path) -> None:
    a = await make_node("a")
    await SessionHandle.open(a.local, device="rack")
    (moved,) = (await request(a.fleet._client, "site", "a", "drain", admin))["consoles"]
    assert (moved["node"], moved["why"]) == (None, "no other node that is up may reach it")
    b = await make_node("b")
    await SessionHandle.open(b.local, device="rack")


async def test_unknown_action_is_refused_with_those_that_exist(make_node: MakeNode, admin: Path) -> None:
    a = await make_node("a")
    with pytest.raises(PtyctlError, match="drain, undrain"):
        await request(a.fleet._client, "site", "a", "stop", admin)


def row(node: str, sessions: int = 0, *labels: str, draining: bool = False) -> NodeRow:
    return NodeRow(node, "1", "host", 0.0, sessions, labels, draining)


def test_candidates_are_able_nodes_with_the_least_loaded_first() -> None:
    rows = [row("a", 5, "x"), row("b", 1, "x", "y"), row("c", 0), row("d", 1, "x"), row("e", 0, "x", draining=True)]
    assert find_candidates(rows, ["x"]) == ["b", "d", "a"]
    assert find_candidates(rows, ["x"], prefer="d") == ["d", "b", "a"]
    assert find_candidates(rows, ["x", "y"]) == ["b"]
    assert find_candidates(rows, ["a"]) == ["a"]
    assert find_candidates(rows, ["z"]) == []

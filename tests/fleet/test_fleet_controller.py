"""Calls on sessions of another node."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from fixtures.loop_turns import counted_turns
from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.messages import decode_reply, encode_request
from ptyctl.api.model import Id, Request
from ptyctl.api.operator import NotifyReply, WatchItem, WatchRequest
from ptyctl.api.session import SessionEntry, SessionReply, SessionRequest
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.daemon.errors import DaemonConnectionLost
from ptyctl.fleet import controller as fleet_controller
from ptyctl.fleet.controller import _LIST_BATCH, FleetController
from ptyctl.session.clients import serving_connection
from tests.fleet.nodes import TIMES, MakeNode, RunningNode, until

CONSOLE = {"protocol": "local", "command": ["cat"], "session_type": "console", "device_id": "rack-1"}


async def listed(controller: Controller, count: int) -> list[SessionEntry]:
    """Return the sessions once there are `count`."""
    async with asyncio.timeout(60):
        while True:
            entries = (await controller.session(SessionRequest(action="list"))).sessions or []
            if len(entries) == count:
                return entries
            await asyncio.sleep(0.05)


def on(node: RunningNode, handle: SessionHandle) -> SessionHandle:
    """Return the session as a client of another node uses it."""
    return SessionHandle(node.controller, handle.session_id)


async def test_session_of_another_node_is_listed_read_and_used(make_node: MakeNode) -> None:
    a, b = await make_node("a"), await make_node("b")
    handle = await SessionHandle.open(a.controller, protocol="local", command=["sh"])
    (entry,) = await listed(b.controller, 1)
    assert (entry.session_id, entry.node, entry.unreachable_s) == (handle.session_id, "a", None)
    there = on(b, handle)
    assert (await there.exec("echo forwarded; exit_code() { return 3; }; exit_code")).exit_code == 3
    assert (await there.status()).state == "open"
    with pytest.raises(PtyctlError) as refused:
        await there.read(cursor="999999")
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT
    await there.close(force=True)
    await listed(b.controller, 0)


async def test_open_of_a_console_that_another_node_owns_returns_its_session(make_node: MakeNode) -> None:
    a, b = await make_node("a"), await make_node("b")
    first = await SessionHandle.open(a.controller, **CONSOLE, acquire_lock=True, task_id="t")
    second = await SessionHandle.open(b.controller, **CONSOLE, task_id="u")
    assert second.session_id == first.session_id
    with pytest.raises(PtyctlError) as locked:
        await second.write("x\n")
    assert locked.value.code is ErrorCode.LOCKED


async def test_forwarded_call_is_checked_with_the_principal_of_its_client(make_node: MakeNode) -> None:
    a, b = await make_node("a"), await make_node("b")
    handle = await SessionHandle.open(a.controller, protocol="local", command=["cat"])
    await listed(b.controller, 1)
    with serving_connection(Principal("eve", Kind.PERSON, Role.VIEWER)):
        await on(b, handle).status()
        with pytest.raises(PtyctlError) as refused:
            await on(b, handle).write("x\n")
    assert refused.value.code is ErrorCode.FORBIDDEN


async def test_sessions_of_a_dead_node_are_listed_as_unreachable_and_not_called(make_node: MakeNode) -> None:
    a, b = await make_node("a"), await make_node("b")
    handle = await SessionHandle.open(a.controller, protocol="local", command=["cat"])
    await listed(b.controller, 1)
    await a.fleet.__aexit__()
    async with asyncio.timeout(60):
        while (await listed(b.controller, 1))[0].unreachable_s is None:  # noqa: ASYNC110  (silence is no event)
            await asyncio.sleep(TIMES.renew_s)
    (notice,) = (await b.controller.session(SessionRequest(action="list"))).notices or []
    assert "node a has not announced itself since" in notice
    with pytest.raises(PtyctlError, match="node a is not reachable") as refused:
        await on(b, handle).status()
    assert refused.value.details == {"node": "a", "delivery": "not_sent"}


async def test_call_is_performed_once_although_the_link_was_lost_before_its_answer(make_node: MakeNode, tmp_path: Path) -> None:
    a, b = await make_node("a"), await make_node("b")
    handle = await SessionHandle.open(a.controller, protocol="local", command=["sh"])
    await listed(b.controller, 1)
    there = on(b, handle)
    await there.status()  # opens the link
    calls, release = tmp_path / "calls", tmp_path / "release"
    os.mkfifo(release)
    running = asyncio.create_task(there.exec(f"echo one >>{calls}; cat {release} {calls}", timeout_ms=50_000))
    await until(calls.exists)
    await (await b.fleet.links.controller("a")).aclose()
    await asyncio.to_thread(release.write_bytes, b"")
    assert (await running).stdout.split() == ["one"]


async def test_watch_of_another_nodes_session_arrives_whole(make_node: MakeNode) -> None:
    a, b = await make_node("a"), await make_node("b")
    handle = await SessionHandle.open(a.controller, protocol="local", command=["sh"])
    await listed(b.controller, 1)
    items = b.controller.watch(WatchRequest(session_id=handle.session_id))
    received = b""
    async with asyncio.timeout(60):
        assert (await anext(items)).kind == "begin"
        await handle.write("seq 1 20000; echo the-''end\n")
        while b"the-end" not in received:
            item = await anext(items)
            received += base64.b64decode(item.data_b64 or "")
    await items.aclose()
    assert b"\r\n".join(str(number).encode() for number in range(1, 20_001)) in received


def fleet_of(own: Any, links: Any, publish: Callable[[], Awaitable[None]]) -> FleetController:
    nodes = Mock()
    nodes.unreachable_for.return_value = None
    return FleetController(own, Mock(), links, nodes, Mock(), Mock(), publish)


async def test_call_that_ran_long_before_its_answer_was_lost_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_controller, "_REPEAT_S", 0)
    answers: list[NotifyReply | DaemonConnectionLost] = [DaemonConnectionLost(), NotifyReply(session_id="s", observers=[])]

    async def call(remote: object) -> NotifyReply:
        monkeypatch.setattr(fleet_controller, "_REPEAT_S", 60)  # counts from here
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    links = AsyncMock()
    links.process_of = Mock(return_value="one")
    assert (await fleet_of(Mock(), links, AsyncMock())._forward("b", call)).session_id == "s"


async def test_call_is_not_repeated_to_a_node_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_controller, "_REPEAT_S", 3600)
    links = AsyncMock()
    links.process_of = Mock(return_value="one")
    fleet = fleet_of(Mock(), links, AsyncMock())

    async def call(remote: object) -> NotifyReply:
        fleet._nodes.unreachable_for.return_value = 0.5  # type: ignore[attr-defined]
        raise DaemonConnectionLost

    with pytest.raises(PtyctlError) as raised:
        async with asyncio.timeout(60):
            await fleet._forward("b", call)
    assert (raised.value.code, raised.value.details["delivery"]) == (ErrorCode.IO_ERROR, "unknown")


class OlderWatchRequest(Request):
    """The request as a node of an earlier version knows it."""

    session_id: Id
    from_offset: int | None = None


class OlderNode:
    """A node of an earlier version. Its watch sends the items that are put into `items`."""

    def __init__(self) -> None:
        self.items = asyncio.Queue[WatchItem]()
        self.requests: list[WatchRequest] = []

    async def watch(self, request: WatchRequest) -> AsyncGenerator[WatchItem, None]:
        OlderWatchRequest.of(encode_request(request))
        self.requests.append(request)
        while True:
            yield await self.items.get()


def fleet_with(node: object) -> FleetController:
    links = AsyncMock()
    links.controller.return_value = node
    links.process_of = Mock(return_value="one")
    fleet = fleet_of(Mock(), links, AsyncMock())
    fleet._local.holds.return_value = False  # type: ignore[attr-defined]
    fleet._sessions.node_of.return_value = "b"  # type: ignore[attr-defined]
    return fleet


async def test_watch_of_an_older_nodes_session_has_ticks() -> None:
    node = OlderNode()
    node.items.put_nowait(WatchItem(kind="begin", raw_offset=7, data_b64="eA==", cols=80, rows=24, state="open"))
    items = fleet_with(node).watch(WatchRequest(session_id="s", from_offset=7, tick_ms=100))
    async with asyncio.timeout(60):
        assert (await anext(items)).kind == "begin"
        tick = WatchItem(kind="terminal", cols=80, rows=24, state="open")
        assert [await anext(items), await anext(items)] == [tick, tick]
        output = WatchItem(kind="output", raw_offset=8, data_b64="eQ==")
        node.items.put_nowait(output)
        while (item := await anext(items)) == tick:
            pass
        assert item == output
        await items.aclose()
    assert node.requests == [WatchRequest(session_id="s", from_offset=7)]


async def test_request_with_a_field_that_an_older_node_does_not_know_names_that_node() -> None:
    with pytest.raises(PtyctlError) as raised:
        await anext(fleet_with(OlderNode()).watch(WatchRequest(session_id="s", scrollback=5)))
    assert (raised.value.code, raised.value.details["fields"]) == (ErrorCode.UNSUPPORTED, ["scrollback"])
    assert "node b runs an older version, which does not know scrollback; nothing was done" in raised.value.message

    async def call(remote: object) -> NotifyReply:
        OlderWatchRequest.of({"session_id": "s", "not_after": 5})
        raise AssertionError

    with pytest.raises(PtyctlError, match="not_after") as raised:
        await fleet_with(OlderNode())._forward("b", call)
    assert (raised.value.code, raised.value.hint) == (ErrorCode.UNSUPPORTED, "update ptyctl on that node")


def test_reply_of_a_newer_node_is_read_without_fields_that_are_unknown() -> None:
    reply = {"type": "SessionReply", "reply": {"action": "list", "sessions": [], "new_field": {"a": [1]}}}
    assert decode_reply(reply) == SessionReply(action="list", sessions=[])


async def test_watch_without_ticks_sends_no_field_that_an_older_client_does_not_know(make_node: MakeNode) -> None:
    node = await make_node("a")
    handle = await SessionHandle.open(node.controller, protocol="local", command=["cat"])
    for request, has_clock in (
        (WatchRequest(session_id=handle.session_id), False),
        (WatchRequest(session_id=handle.session_id, tick_ms=1000), True),
    ):
        items = node.controller.watch(request)
        assert ((await anext(items)).ts is not None) == has_clock
        await items.aclose()


async def test_open_does_not_wait_until_the_session_is_published() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def publish() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()  # NATS does not answer
        finally:
            cancelled.set()

    own = AsyncMock()
    fleet = fleet_of(own, AsyncMock(), publish)
    async with asyncio.timeout(60):
        assert await fleet._open_here(SessionRequest(action="open", device="rack")) is own.session.return_value
        await begun.wait()
        await fleet.aclose()
    assert cancelled.is_set()


async def test_list_of_many_sessions_lets_other_calls_run() -> None:
    own = AsyncMock()
    own.session.return_value = SessionReply(action="list", sessions=[])
    fleet = fleet_of(own, Mock(), AsyncMock())
    fleet._nodes.degraded.return_value = []  # type: ignore[attr-defined]
    row = Mock(state="open", node="b")
    fleet._sessions.others.return_value = [row] * 10 * _LIST_BATCH  # type: ignore[attr-defined]
    with counted_turns() as turns:
        reply = await fleet.session(SessionRequest(action="list"))
    assert len(reply.sessions or ()) == 10 * _LIST_BATCH
    assert turns.count >= 9

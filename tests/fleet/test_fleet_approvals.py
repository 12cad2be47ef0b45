"""Approval requests of other nodes: listed, watched and answered here, and used by the owner of the session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.servers.nats import NatsCluster
from ptyctl.api.approvals import ApprovalEntry, ApprovalsReply, ApprovalsRequest
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.lease import Owner
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.fleet.approvals import FleetApprovals
from ptyctl.fleet.directory import NodeRow
from ptyctl.session.approvals import HeldText
from ptyctl.session.clients import serving_connection
from tests.fleet.nodes import running_node, until_known

ADA = Principal("ada", Kind.PERSON, Role.APPROVER)
HELD = HeldText(
    session_id="s1", device="sw1", platform="cisco_ios", mode="exec", owner=Owner("bot", "night"), text="reload",
    canonical="reload", rules=("reload",), reason="it restarts the device", binding="hash", block_id="1_1",
)  # fmt: skip


async def test_request_of_another_node_is_approved_here_and_used_there_once(nats_server: NatsCluster, tmp_path: Path) -> None:
    async with running_node(nats_server, "a", tmp_path / "a") as a, running_node(nats_server, "b", tmp_path / "b") as b:
        await until_known(b, "a", "b")
        first = a.local.approval_requests.ask(HELD)
        with serving_connection(ADA):
            begin = await b.controller.approvals(ApprovalsRequest(action="watch"))
            assert [entry.approval_id for entry in begin.approvals or ()] == [first.approval_id]
            waiting = asyncio.create_task(
                b.controller.approvals(ApprovalsRequest(action="watch", since=begin.cursor, timeout_ms=30_000))
            )
            listed = await b.controller.approvals(ApprovalsRequest(action="list"))
            assert [entry.approval_id for entry in listed.approvals or ()] == [first.approval_id]
            second = a.local.approval_requests.ask(replace(HELD, text="reload in 5"))
            assert [entry.approval_id for entry in (await waiting).approvals or ()] == [second.approval_id]
            answer = await b.controller.approvals(ApprovalsRequest(action="approve", approval_id=first.approval_id))
            assert answer.approval is not None
            assert (answer.approval.state, answer.approval.decided_by) == ("approved", "ada")
            with pytest.raises(PtyctlError) as unknown:
                await b.controller.approvals(ApprovalsRequest(action="approve", approval_id="ap-00000000"))
            assert unknown.value.code is ErrorCode.NOT_FOUND
        with serving_connection(Principal("eve", Kind.PERSON, Role.OPERATOR)), pytest.raises(PtyctlError) as refused:
            await b.controller.approvals(ApprovalsRequest(action="approve", approval_id=second.approval_id))
        assert refused.value.code is ErrorCode.FORBIDDEN
        assert first.redeem() == "reload"
        with pytest.raises(PtyctlError):
            first.redeem()
        assert second.state == "pending"


class Node:
    """A node that answers with fixed requests, or with an error."""

    def __init__(self, *ids: str, error: ErrorCode = ErrorCode.NOT_FOUND) -> None:
        self.ids = ids
        self.error = error
        self.answered: list[str | None] = []

    async def approvals(self, request: ApprovalsRequest) -> ApprovalsReply:
        if request.action in ("list", "watch"):
            if self.error is not ErrorCode.NOT_FOUND:
                raise PtyctlError(self.error, "no")
            return ApprovalsReply(approvals=[_entry(name) for name in self.ids], answerable=False, cursor="1")
        if request.approval_id not in self.ids:
            raise PtyctlError(self.error, "no")
        if request.action != "get":
            self.answered.append(request.approval_id)
        return ApprovalsReply(approval=_entry(request.approval_id or ""), answerable=True)


class Up:
    node = "here"

    def __init__(self, *names: str) -> None:
        self.names = names
        self.down: list[str] = []

    def up(self) -> list[NodeRow]:
        return [NodeRow(name, "1", "host", 0.0, 0) for name in ("here", *self.names)]

    def silent(self) -> list[str]:
        return self.down


def _entry(name: str) -> ApprovalEntry:
    return ApprovalEntry(
        approval_id=name, state="pending", created_at=int(name[-1]), expires_at=9, session_id="s", principal="bot", text="x",
        canonical="x", rules=[], reason="r",
    )  # fmt: skip


def fleet(**nodes: Node) -> FleetApprovals:
    async def ask(node: str, request: ApprovalsRequest) -> ApprovalsReply:
        return await nodes[node].approvals(request)

    others = Up(*(name for name in nodes if name != "here"))
    asked: Callable[[str, ApprovalsRequest], Awaitable[ApprovalsReply]] = ask
    return FleetApprovals(nodes["here"], others, asked, asked)  # type: ignore[arg-type]


async def test_answer_goes_to_the_node_of_the_request_alone() -> None:
    here, there, third = Node("ap-1"), Node("ap-2"), Node("ap-3")
    await fleet(here=here, there=there, third=third).answer(ApprovalsRequest(action="decline", approval_id="ap-2"))
    assert (here.answered, there.answered, third.answered) == ([], ["ap-2"], [])


async def test_request_is_not_reported_as_unknown_while_a_node_is_silent() -> None:
    calls = fleet(here=Node("ap-1"), there=Node(error=ErrorCode.CONNECT_FAILED))
    with pytest.raises(PtyctlError, match="did not answer: there") as refused:
        await calls.answer(ApprovalsRequest(action="approve", approval_id="ap-9"))
    assert refused.value.retryable


async def test_request_is_not_reported_as_unknown_while_a_known_node_is_not_up() -> None:
    calls = fleet(here=Node("ap-1"), there=Node("ap-2"))
    calls._nodes.down = ["gone"]  # type: ignore[attr-defined]
    with pytest.raises(PtyctlError, match="did not answer: gone") as refused:
        await calls.answer(ApprovalsRequest(action="approve", approval_id="ap-9"))
    assert refused.value.code is ErrorCode.CONNECT_FAILED
    await calls.answer(ApprovalsRequest(action="decline", approval_id="ap-2"))


async def test_lists_are_merged_by_time_within_the_limit_without_silent_nodes() -> None:
    calls = fleet(here=Node("ap-1", "ap-4"), there=Node("ap-2", "ap-3"), dead=Node(error=ErrorCode.CONNECT_FAILED))
    reply = await calls.answer(ApprovalsRequest(action="list", limit=3))
    assert [entry.approval_id for entry in reply.approvals or ()] == ["ap-2", "ap-3", "ap-4"]
    assert reply.truncated

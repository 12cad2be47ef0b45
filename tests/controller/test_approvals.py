"""Calls on approval requests: who sees and answers them, watches, the file, the audit log and the notify command."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ptyctl.api import Controller, ErrorCode
from ptyctl.api.approvals import ApprovalEntry, ApprovalsReply, ApprovalsRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.api.methods import METHODS
from ptyctl.api.operator import AuditRequest
from ptyctl.controller import approvals as approvals_module
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.core.lease import Owner
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.session.approvals import Approval, HeldText
from ptyctl.session.clients import Client, serving, user, user_agent
from tests.controller.session_calls import BASH, PATIENCE_MS, MakeController, Open, refused, session

ADA = Principal("ada", Kind.PERSON, Role.APPROVER)
SWITCHES = Principal("sue", Kind.PERSON, Role.APPROVER, ("sw*",))
AGENT = Principal("bot", Kind.AGENT, Role.OPERATOR)
HELD = HeldText(
    session_id="s1", device="sw1", platform="cisco_ios", mode="exec", owner=Owner(AGENT.name, "night"), text="reload",
    canonical="reload", rules=("reload",), reason="it restarts the device", binding="hash", screen=("sw1#",), block_id="1_1",
)  # fmt: skip


@pytest.fixture
def ask(controller: Controller, servers: dict[Controller, LocalController]) -> Callable[..., Approval]:
    """Make a request, as a session does."""
    return lambda **fields: servers[controller].approval_requests.ask(replace(HELD, **fields))


async def approvals(controller: Controller, action: str = "list", **fields: object) -> ApprovalsReply:
    return await controller.approvals(ApprovalsRequest.of({"action": action, **fields}))


async def answered(controller: Controller, action: str, request: Approval, **fields: object) -> ApprovalEntry:
    reply = await approvals(controller, action, approval_id=request.approval_id, **fields)
    assert reply.approval is not None
    return reply.approval


def ids(reply: ApprovalsReply) -> list[str]:
    return [entry.approval_id for entry in reply.approvals or []]


@pytest.mark.also_remote("requests, replies and errors")
async def test_request_is_listed_shown_and_approved(controller: Controller, ask: Callable[..., Approval]) -> None:
    request = ask()
    listed = await approvals(controller)
    assert listed.approvals is not None
    (entry,) = listed.approvals
    assert entry.payload() == {
        "approval_id": request.approval_id, "state": "pending", "created_at": request.created_at,
        "expires_at": request.expires_at, "session_id": "s1", "device": "sw1", "platform": "cisco_ios", "mode": "exec",
        "principal": "bot", "task_id": "night", "block_id": "1_1", "text": "reload", "canonical": "reload",
        "rules": ["reload"], "reason": "it restarts the device",
    }  # fmt: skip
    assert (await answered(controller, "get", request)).screen == ["sw1#"]
    approved = await answered(controller, "approve", request, comment="go", text="reload in 5", keys_s=60, via="cli")
    assert (approved.state, approved.edited, approved.approved_text) == ("approved", True, "reload in 5")
    assert (approved.decided_by, approved.via, approved.comment) == (user().name, "cli", "go")
    assert approved.scope is not None
    assert (approved.scope.same_until, approved.scope.keys_until is None) == (None, False)
    assert request.redeem() == "reload in 5"
    with refused(ErrorCode.ALREADY_CLOSED):
        await answered(controller, "decline", request)
    revoked = await answered(controller, "revoke", request)
    assert (revoked.state, revoked.used, revoked.scope) == ("approved", True, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "approve"},
        {"action": "get"},
        {"action": "decline", "approval_id": "x", "text": "y"},
        {"action": "list", "approval_id": "x"},
        {"action": "approve", "approval_id": "x", "keys_s": 0},
        {"action": "approve", "approval_id": "x", "for_s": 86_401},
        {"action": "approve", "approval_id": "x", "comment": ""},
    ],
    ids=str,
)
def test_request_with_wrong_fields_is_refused(fields: dict[str, Any]) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT):
        ApprovalsRequest.of(fields)


@pytest.mark.also_remote("requests of other principals")
async def test_agent_sees_its_own_requests_and_answers_none(
    controller: Controller, servers: dict[Controller, LocalController], ask: Callable[..., Approval]
) -> None:
    access = AccessController(servers[controller])
    own, other = ask(), ask(owner=Owner("another", "night"))
    for role in (Role.OPERATOR, Role.ADMIN):
        with serving(Client(replace(AGENT, role=role))):
            assert ids(await approvals(access)) == [own.approval_id]
            tool = METHODS["ptyctl_approvals"]
            query = tool.request.of({"action": "get", "approval_id": own.approval_id})
            shown = await tool.call(access, query, None)
            assert shown.payload()["approval"]["screen"] == ["sw1#"]
            with refused(ErrorCode.NOT_FOUND):
                await answered(access, "get", other)
            for action in ("approve", "decline", "revoke"):
                with refused(ErrorCode.FORBIDDEN):
                    await answered(access, action, own)
    assert own.state == "pending"


async def test_people_without_the_role_see_their_own_requests_only(
    controller: Controller, servers: dict[Controller, LocalController], ask: Callable[..., Approval]
) -> None:
    access = AccessController(servers[controller])
    ask()
    own = ask(owner=Owner("eve", "night"))
    with serving(Client(Principal("eve", Kind.PERSON, Role.OPERATOR))):
        assert ids(await approvals(access)) == [own.approval_id]
        watched = await approvals(access, "watch")
        assert (ids(watched), watched.answerable) == ([own.approval_id], False)
        with refused(ErrorCode.FORBIDDEN, "approver"):
            await approvals(access, "approve", approval_id=own.approval_id)
    with serving(Client(replace(AGENT, role=Role.OPERATOR))), refused(ErrorCode.FORBIDDEN, "approver"):
        await approvals(access, "watch")


async def test_approver_with_devices_answers_for_these_only(
    controller: Controller, servers: dict[Controller, LocalController], ask: Callable[..., Approval]
) -> None:
    access = AccessController(servers[controller])
    shown, core, local = ask(), ask(device="core-1"), ask(device=None, session_id="s2")
    with serving(Client(SWITCHES)):
        assert ids(await approvals(access)) == [shown.approval_id]
        assert ids(await approvals(access, "watch")) == [shown.approval_id]
        for hidden in (core, local):
            with refused(ErrorCode.NOT_FOUND, "no approval request"):
                await answered(access, "approve", hidden)
        assert (await answered(access, "approve", shown)).state == "approved"
    with serving(Client(ADA)):
        assert ids(await approvals(access)) == [shown.approval_id, core.approval_id, local.approval_id]


async def test_approver_sees_requests_by_each_name_of_the_session(
    controller: Controller, servers: dict[Controller, LocalController], ask: Callable[..., Approval]
) -> None:
    console = await SessionHandle.open(controller, protocol="local", command=BASH, session_type="console", device_id="sw7")
    shown = ask(session_id=console.session_id, device="core-1")
    with serving(Client(SWITCHES)):
        assert ids(await approvals(AccessController(servers[controller]))) == [shown.approval_id]


async def test_person_approves_their_agents_request_and_not_their_own(
    controller: Controller, servers: dict[Controller, LocalController], ask: Callable[..., Approval]
) -> None:
    access = AccessController(servers[controller])
    agents = ask(owner=Owner(user_agent().name, "night"))
    own = ask(owner=Owner(user().name, "night"))
    assert (await answered(access, "approve", agents)).decided_by == user().name
    with refused(ErrorCode.FORBIDDEN, "their own"):
        await answered(access, "approve", own)


async def test_setting_allows_approval_of_own_requests(
    make_controller: MakeController, servers: dict[Controller, LocalController]
) -> None:
    controller = await make_controller(approvals={"allow_self": True})
    own = servers[controller].approval_requests.ask(replace(HELD, owner=Owner(user().name, "night")))
    assert (await answered(controller, "approve", own)).state == "approved"


async def test_list_filters_by_session_state_and_number(controller: Controller, ask: Callable[..., Approval]) -> None:
    first, second, third = ask(), ask(session_id="s2"), ask(session_id="s2")
    first.withdraw("test")
    assert ids(await approvals(controller, session_id="s2")) == [second.approval_id, third.approval_id]
    assert ids(await approvals(controller, state="withdrawn")) == [first.approval_id]
    newest = await approvals(controller, limit=1)
    assert (ids(newest), newest.truncated) == ([third.approval_id], True)


async def test_list_stays_within_the_size_of_a_reply(controller: Controller, ask: Callable[..., Approval]) -> None:
    for number in range(60):
        ask(session_id=f"s{number // 10}", text="x" * 60_000, canonical="x" * 60_000, owner=Owner(f"p{number // 10}", "t"))
    reply = await approvals(controller)
    assert reply.truncated
    assert len(json.dumps(reply.payload())) < 5 << 20


@pytest.mark.also_remote("a call that waits")
async def test_watch_returns_current_requests_then_each_change(controller: Controller, ask: Callable[..., Approval]) -> None:
    old, ended = ask(), ask(session_id="s2")
    ended.withdraw("test")
    reply = await approvals(controller, "watch", timeout_ms=60_000)
    assert ids(reply) == [old.approval_id]
    assert reply.answerable
    waiting = asyncio.ensure_future(approvals(controller, "watch", since=reply.cursor, timeout_ms=60_000))
    new = ask()
    reply = await waiting
    assert ids(reply) == [new.approval_id]
    old.set_stale("test")
    reply = await approvals(controller, "watch", since=reply.cursor, timeout_ms=60_000)
    assert [(entry.approval_id, entry.state) for entry in reply.approvals or []] == [(old.approval_id, "stale")]
    assert ids(await approvals(controller, "watch", since=reply.cursor, timeout_ms=1)) == []
    assert ids(await approvals(controller, "watch", since="of an earlier server", timeout_ms=60_000)) == [new.approval_id]


async def test_watches_are_limited(tmp_path: Path) -> None:
    async with LocalController(Settings(state_dir=tmp_path, max_approval_watches=1)) as controller:
        cursor = (await approvals(controller, "watch")).cursor
        waiting = asyncio.ensure_future(approvals(controller, "watch", since=cursor, timeout_ms=60_000))
        await asyncio.sleep(0)
        assert controller.limits_in_use()["max_approval_watches"] == 1
        with refused(ErrorCode.LIMIT_EXCEEDED, "max_approval_watches"):
            await approvals(controller, "watch")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (await approvals(controller, "watch")).approvals == []
        assert controller.limits_in_use()["max_approval_watches"] == 0


async def test_pending_requests_of_an_earlier_server_are_expired(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path / "state")
    async with LocalController(settings, persistent=True) as first:
        pending, used, unused = (first.approval_requests.ask(replace(HELD, session_id=f"s{number}")) for number in range(3))
        await answered(first, "approve", used, text="reload in 5", comment="go")
        used.redeem()
        await answered(first, "approve", unused)
        file = tmp_path / "state" / "approvals.jsonl"
        assert file.stat().st_mode & 0o777 == 0o600
        stored = file.read_bytes()
    file.write_bytes(stored + b'{"approval_id": "ap-1"}\nnot json\n{"torn')
    async with LocalController(settings, persistent=True) as second:
        entries = {entry.approval_id: entry for entry in (await approvals(second)).approvals or []}
        found = [entries[request.approval_id] for request in (pending, used, unused)]
        assert [(entry.state, entry.used, entry.comment) for entry in found] == [
            ("expired", None, "the server was restarted"),
            ("approved", True, "go"),
            ("expired", None, "the server was restarted"),
        ]
        assert (found[1].decided_by, found[1].approved_text) == (user().name, "reload in 5")
        with refused(ErrorCode.ALREADY_CLOSED, "restarted"):
            await answered(second, "approve", pending)
        again = second.approval_requests.find(pending.approval_id, "s0", HELD.owner)
        with refused(ErrorCode.DECLINED, "restarted"):
            again.redeem()
        assert len(file.read_bytes().splitlines()) == 3


async def test_file_is_bounded_and_keeps_the_last_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals_module, "MAX_FILE_BYTES", 10_000)
    async with LocalController(Settings(state_dir=tmp_path / "state"), persistent=True) as controller:
        for _ in range(100):
            controller.approval_requests.ask(HELD).withdraw("test")
            controller.approval_requests._requests.clear()
        last = controller.approval_requests.ask(HELD)
        file = tmp_path / "state" / "approvals.jsonl"
        assert file.stat().st_size < 20_000
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        assert rows[-1]["approval_id"] == last.approval_id


async def test_unwritable_file_does_not_stop_approvals(tmp_path: Path) -> None:
    (tmp_path / "state" / "approvals.jsonl").mkdir(parents=True)
    (tmp_path / "state").chmod(0o700)
    async with LocalController(Settings(state_dir=tmp_path / "state"), persistent=True) as controller:
        request = controller.approval_requests.ask(HELD)
        assert (await answered(controller, "approve", request)).state == "approved"


async def test_text_that_is_no_utf8_is_shown_escaped_and_stops_nothing(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path / "state", approvals={"notify_command": ["true"]})
    async with LocalController(settings, persistent=True) as controller:
        request = controller.approval_requests.ask(replace(HELD, text="reload \udcff", canonical="reload \udcff"))
        other = controller.approval_requests.ask(replace(HELD, session_id="s2"))
        reply = await approvals(controller)
        assert ids(reply) == [request.approval_id, other.approval_id]
        assert "reload \\\\udcff" in reply.model_dump_json()
        controller.approval_requests.session_ended("s1", "closed")
        stored = (tmp_path / "state" / "approvals.jsonl").read_text()
    assert [json.loads(line)["state"] for line in stored.splitlines()] == ["pending", "pending", "withdrawn"]


async def test_fault_in_storing_a_request_stops_neither_it_nor_its_session(
    controller: Controller, servers: dict[Controller, LocalController], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **fields: object) -> None:
        raise ValueError("a fault")

    monkeypatch.setattr(servers[controller].audit_log, "record", fail)
    requests = servers[controller].approval_requests
    request = requests.ask(HELD)
    requests.session_ended("s1", "closed")
    monkeypatch.undo()
    assert request.state == "withdrawn"


async def test_each_change_is_in_the_audit_log(controller: Controller, servers: dict[Controller, LocalController]) -> None:
    requests = servers[controller].approval_requests
    request = requests.ask(HELD)
    await answered(controller, "approve", request, comment="go", text="reload in 5", keys_s=60, via="web")
    request.redeem()
    requests.lock_ended("s1", HELD.owner)
    requests.ask(HELD).set_stale("the mode changed")
    await asyncio.to_thread(servers[controller].audit_log.close)
    rows = (await controller.audit(AuditRequest(event="approval"))).rows
    names = ("action", "principal", "requester", "text", "via", "comment")
    person = user().name
    assert [tuple(row.get(name) for name in names) for row in rows] == [
        ("ask", "bot", None, "reload", None, None),
        ("approve", person, "bot", "reload in 5", "web", "go"),
        ("redeem", "bot", None, "reload in 5", None, None),
        ("grant_end", None, "bot", None, None, "the lock ended"),
        ("ask", "bot", None, "reload", None, None),
        ("set_stale", None, "bot", None, None, "the mode changed"),
    ]
    assert {row["task"] for row in rows} == {"night"}
    assert rows[0]["rules"] == ["reload"]
    assert "keys_until" in rows[1]


@pytest.fixture
def notified(make_controller: MakeController, servers: dict[Controller, LocalController]) -> Any:
    """Make a request on a controller with a notify command, and return it with the controller when the command has ended."""

    async def run(*command: str) -> tuple[LocalController, Approval]:
        local = servers[await make_controller(approvals={"notify_command": command})]
        request = local.approval_requests.ask(HELD)
        while local._approval_calls._notifier._tasks:
            await asyncio.gather(*local._approval_calls._notifier._tasks)
        return local, request

    return run


Notified = Callable[..., Awaitable[tuple[LocalController, Approval]]]
WRITE_INPUT = "import json, os, sys; json.dump([sys.stdin.read(), dict(os.environ)], open(sys.argv[1], 'w'))"


async def test_notify_command_gets_request_on_stdin_and_no_other_variables(
    notified: Notified, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCH_PASSWORD", "hunter2")
    monkeypatch.setenv("PTYCTL_TOKEN", "hunter3")
    out = tmp_path / "out $(touch shell)"
    local, request = await notified(sys.executable, "-c", WRITE_INPUT, str(out))
    text, variables = json.loads(out.read_text())
    assert json.loads(text)["approval_id"] == request.approval_id
    assert json.loads(text)["screen"] == ["sw1#"]
    assert variables["PATH"] == os.environ["PATH"]
    assert not {"SWITCH_PASSWORD", "PTYCTL_TOKEN"} & variables.keys()
    reply = await approvals(local)
    assert (reply.answerable, reply.problem) == (True, None)


@pytest.mark.parametrize(
    ("command", "problem"),
    [(("/missing/program",), "cannot be started"), (("false",), "exit code 1"), (("sleep", "600"), "within")],
)
async def test_failed_notify_command_is_reported(
    notified: Notified, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], problem: str
) -> None:
    monkeypatch.setattr(approvals_module, "NOTIFY_S", 0.2 if command[0] == "sleep" else 60)
    local, request = await notified(*command)
    reported = (await approvals(local)).problem or ""
    assert problem in reported
    assert command[0] in reported
    assert request.state == "pending"


@pytest.mark.parametrize("end", ["expired", "released", "taken over"])
async def test_request_whose_lock_has_ended_is_not_pending(open_session: Open, end: str) -> None:
    bash = await open_session(task_id="one")
    await bash.lock(lock_ttl_ms=60_000)
    reply = await bash.exec("mkfs.ext4 /dev/nope", timeout_ms=0)
    assert (reply.done_reason, reply.approval is None) == ("approval", False)
    listed = await approvals(bash.controller, "watch")
    assert [entry.state for entry in listed.approvals or []] == ["pending"]
    waiting = asyncio.create_task(approvals(bash.controller, "watch", since=listed.cursor, timeout_ms=PATIENCE_MS))
    if end == "expired":
        await bash.heartbeat(lock_ttl_ms=1)  # nothing else uses the session then
    elif end == "released":
        await bash.unlock()
    else:
        await session(bash.controller, "lock", session_id=bash.session_id, task_id="two", force=True, reason="test")
    (entry,) = (await waiting).approvals or []
    assert (entry.state, entry.comment) == ("stale", "the lock under which it was asked for has ended")
    assert (await approvals(bash.controller, state="pending")).approvals == []
    (row,) = (await session(bash.controller, "list")).sessions or []
    assert not row.pending_approvals

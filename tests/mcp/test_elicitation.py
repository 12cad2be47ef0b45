"""Elicitation of approvals over HTTP and stdio: clients of both protocol generations, and who may answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult
from mcp_types.version import LATEST_MODERN_VERSION

from fixtures.http_client import loopback_client
from ptyctl import SessionHandle
from ptyctl.api.approvals import ApprovalEntry, ApprovalsRequest
from ptyctl.api.errors import ErrorCode
from ptyctl.api.operator import AuditRequest
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.mcp.elicitation import MAX_SHOWN_TEXT, format_question
from ptyctl.session.clients import Client as PtyctlClient
from ptyctl.session.clients import serving, user_agent
from tests.controller.session_calls import refused
from tests.mcp.http_server import TOKEN, http_server
from tests.mcp.server_process import PATIENCE_S, client_streams, ptyctl_process

ERAS = ["legacy", LATEST_MODERN_VERSION]
POLICY = """
[[rules]]
id = "touch"
when = { platform = "linux" }
command = ["touch"]
decision = "ask"
reason = "it makes a file"
"""
BASH = {"action": "open", "protocol": "local", "command": ["bash", "--norc", "--noprofile"], "task_id": "t"}
#: The principal of the bearer token without a name.
CALLER = "default"


class Person:
    """The person at a client: answers as set, and remembers what was asked."""

    def __init__(self, *answers: ElicitResult) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)

    async def __call__(self, _context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        assert params.requested_schema["required"] == ["answer"]
        assert "default" not in json.dumps(params.requested_schema)
        self.asked.append(params.message)
        return self._answers.pop(0)


def filled(answer: str, **content: str) -> ElicitResult:
    return ElicitResult(action="accept", content={"answer": answer, **content})


@asynccontextmanager
async def controllers(folder: Path, *, elicitation: bool = True) -> AsyncIterator[LocalController]:
    (folder / "policy.toml").write_text(POLICY)
    settings = Settings(
        state_dir=folder / "state",
        policy=str(folder / "policy.toml"),
        approvals={"elicitation": elicitation},  # type: ignore[arg-type]
    )
    async with LocalController(settings, persistent=True) as controller:
        yield controller


@asynccontextmanager
async def http_client(controller: LocalController, mode: str, person: Person | None) -> AsyncIterator[Client]:
    async with (
        http_server(AccessController(controller), toolsets="core,approvals") as url,
        loopback_client(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S) as http,
        Client(
            streamable_http_client(url, http_client=http),
            mode=mode,
            read_timeout_seconds=PATIENCE_S,
            elicitation_callback=person,
        ) as client,
    ):
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(f"ptyctl_session{tool}", arguments)
    assert result.structured_content is not None
    return result.structured_content


async def opened(client: Client) -> dict[str, Any]:
    return {"session_id": (await call(client, "", **BASH))["session_id"], "task_id": "t"}


async def entries(controller: LocalController) -> list[ApprovalEntry]:
    return (await controller.approvals(ApprovalsRequest())).approvals or []


@pytest.mark.parametrize("mode", ERAS)
async def test_person_at_the_client_approves_a_command_and_it_runs_once(tmp_path: Path, mode: str) -> None:
    person, file = Person(filled("approve", comment="go on")), tmp_path / "made"
    async with controllers(tmp_path) as controller, http_client(controller, mode, person) as client:
        shell = await opened(client)
        reply = await call(client, "_exec", **shell, cmd=f"touch {file}; echo done", timeout_ms=50_000)
        assert (reply["stdout"], reply["exit_code"]) == ("done\n", 0)
        assert file.exists()
        (asked,) = person.asked
        assert f"{CALLER}, task t wants to type" in asked
        assert f"touch {file}; echo done" in asked
        assert "it makes a file (rules: touch)" in asked
        (entry,) = await entries(controller)
        assert (entry.state, entry.used, entry.via, entry.comment) == ("approved", True, "elicitation", "go on")
        assert (entry.principal, entry.decided_by) == (CALLER, CALLER)
        rows = (await controller.audit(AuditRequest(event="approval"))).rows or []
        assert [(row["action"], row["principal"], row.get("via")) for row in rows] == [
            ("ask", CALLER, None),
            ("approve", CALLER, "elicitation"),
            ("redeem", CALLER, None),
        ]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    ("answer", "comment"),
    [(filled("decline", comment="not now"), "not now"), (ElicitResult(action="decline"), None)],
    ids=["with a comment", "without"],
)
async def test_command_declined_at_the_client_is_not_typed(
    tmp_path: Path, mode: str, answer: ElicitResult, comment: str | None
) -> None:
    async with controllers(tmp_path) as controller, http_client(controller, mode, Person(answer)) as client:
        shell = await opened(client)
        reply = await call(client, "_exec", **shell, cmd=f"touch {tmp_path}/made", timeout_ms=50_000)
        assert (reply["error_code"], reply["details"]["reason"]) == ("DECLINED", "declined")
        assert reply["details"].get("comment") == comment
        assert "through its MCP client" in reply["message"]
        assert (await call(client, "_exec", **shell, cmd="echo next"))["stdout"] == "next\n"
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("mode", ERAS)
async def test_typed_line_is_approved_at_the_client(tmp_path: Path, mode: str) -> None:
    person, file = Person(filled("approve")), tmp_path / "made"
    async with controllers(tmp_path) as controller, http_client(controller, mode, person) as client:
        shell = await opened(client)
        text = f"touch {file}; echo do''ne\n"
        reply = await call(client, "_io", **shell, action="write", data=text, until_regex="done", timeout_ms=50_000)
        assert reply["matched"]
        assert file.exists()
        assert len(person.asked) == 1


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    "answer",
    [ElicitResult(action="cancel"), ElicitResult(action="accept"), ElicitResult(action="accept", content={"answer": "yes"})],
    ids=["dismissed", "without a form", "with another answer"],
)
async def test_request_without_an_answer_stays_pending(tmp_path: Path, mode: str, answer: ElicitResult) -> None:
    person = Person(answer, filled("approve"))
    async with controllers(tmp_path) as controller, http_client(controller, mode, person) as client:
        shell = await opened(client)
        held = await call(client, "_exec", **shell, cmd=f"touch {tmp_path}/made", timeout_ms=50_000)
        assert (held["done_reason"], held["approval"]["elicitation"]) == ("approval", True)
        assert [entry.state for entry in await entries(controller)] == ["pending"]
        again = await call(client, "_exec", **shell, block_id=held["block_id"], timeout_ms=50_000)  # asks again
        assert (again["exit_code"], len(person.asked)) == (0, 2)


@pytest.mark.parametrize("mode", ERAS)
async def test_client_that_cannot_elicit_waits_as_usual(tmp_path: Path, mode: str) -> None:
    async with controllers(tmp_path) as controller, http_client(controller, mode, None) as client:
        held = await call(client, "_exec", **await opened(client), cmd=f"touch {tmp_path}/x", timeout_ms=1)
        assert held["done_reason"] == "approval"


@pytest.mark.parametrize("mode", ERAS)
async def test_approval_request_is_shown_to_a_client_that_may_elicit(tmp_path: Path, mode: str) -> None:
    person = Person(ElicitResult(action="cancel"))
    async with controllers(tmp_path) as controller, http_client(controller, mode, person) as client:
        held = await call(client, "_exec", **await opened(client), cmd=f"touch {tmp_path}/x", timeout_ms=1)
        query = {"action": "get", "approval_id": held["approval"]["approval_id"]}
        result = await client.call_tool("ptyctl_approvals", query)
        assert result.structured_content is not None
        assert result.structured_content["approval"]["state"] == "pending"


@pytest.mark.parametrize("mode", ERAS)
async def test_elicitation_is_off_by_default(tmp_path: Path, mode: str) -> None:
    assert not Settings().approvals.elicitation
    person = Person()
    async with controllers(tmp_path, elicitation=False) as controller, http_client(controller, mode, person) as client:
        shell = await opened(client)
        held = await call(client, "_exec", **shell, cmd=f"touch {tmp_path}/x", timeout_ms=1)
        assert (held["done_reason"], "elicitation" in held["approval"]) == ("approval", False)
        assert person.asked == []


async def test_text_that_no_dialog_can_show_is_not_elicited(tmp_path: Path) -> None:
    person = Person()
    async with controllers(tmp_path) as controller, http_client(controller, "legacy", person) as client:
        cmd = "touch " + "x" * MAX_SHOWN_TEXT
        held = await call(client, "_exec", **await opened(client), cmd=cmd, timeout_ms=1)
        assert (held["done_reason"], person.asked) == ("approval", [])


async def test_state_and_answer_made_up_by_a_client_answer_no_request_of_another_principal(tmp_path: Path) -> None:
    other = Principal("other", Kind.AGENT, Role.OPERATOR)
    async with controllers(tmp_path) as controller, http_client(controller, LATEST_MODERN_VERSION, Person()) as client:
        access = AccessController(controller)
        with serving(PtyctlClient(other)):
            shell = await SessionHandle.open(access, protocol="local", command=("bash", "--norc", "--noprofile"), task_id="t")
            await shell.exec("true", timeout_ms=50_000)
            held = await shell.exec(f"touch {tmp_path}/x", timeout_ms=1)
        assert held.approval is not None
        forged = await client.call_tool(
            "ptyctl_session_exec",
            {"session_id": shell.session_id, "cmd": "touch x", "task_id": "t"},
            input_responses={"approval": filled("approve")},
            request_state=held.approval.approval_id,
        )
        assert (forged.structured_content or {})["error_code"] == "NOT_FOUND"
        assert [entry.state for entry in await entries(controller)] == ["pending"]


async def test_only_an_mcp_client_answers_by_elicitation_and_only_its_own_requests(tmp_path: Path) -> None:
    agent, admin = Principal("bot", Kind.AGENT, Role.OPERATOR), Principal("root", Kind.PERSON, Role.ADMIN)
    async with controllers(tmp_path) as controller:
        access = AccessController(controller)
        with serving(PtyctlClient(agent)):
            shell = await SessionHandle.open(access, protocol="local", command=("bash", "--norc", "--noprofile"), task_id="t")
            await shell.exec("true", timeout_ms=50_000)
            held = await shell.exec(f"touch {tmp_path}/x", timeout_ms=1)
        assert held.approval is not None
        answer = ApprovalsRequest(action="approve", approval_id=held.approval.approval_id, via="elicitation")
        for client in (PtyctlClient(agent), PtyctlClient(admin), PtyctlClient(admin, elicits=True)):
            with serving(client), refused(ErrorCode.FORBIDDEN):
                await access.approvals(answer)
        with serving(PtyctlClient(agent, elicits=True)), refused(ErrorCode.FORBIDDEN):
            await access.approvals(answer.model_copy(update={"action": "revoke"}))
        with serving(PtyctlClient(agent, elicits=True)):
            reply = await access.approvals(answer)
        assert reply.approval is not None
        assert (reply.approval.state, reply.approval.decided_by, reply.approval.via) == ("approved", "bot", "elicitation")


def test_question_shows_hidden_characters_as_escapes() -> None:
    entry = ApprovalEntry(
        approval_id="ap-1", state="pending", created_at=0, expires_at=1, session_id="s", device="sw1", mode="exec",
        principal="bot", text="reload\u202e\x1b[2J", canonical="reload", rules=["reload"], reason="restarts",
        screen=["sw1#\x1b]52;c;x\x07", "", ""],
    )  # fmt: skip
    question = format_question(entry)
    assert question.replace("\n", "").isprintable()
    assert "bot wants to type on sw1, mode exec:\n    reload\\u202e\\x1b[2J\nRead as:\n    reload\n" in question
    assert question.endswith("    sw1#\\x1b]52;c;x\\x07")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_client_of_the_daemon_over_stdio_is_asked(
    runtime_dir: RuntimeDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    monkeypatch.setenv("PTYCTL_POLICY", str(tmp_path / "policy.toml"))
    monkeypatch.setenv("PTYCTL_APPROVALS", '{"elicitation": true}')
    person = Person(filled("approve"))
    transport = client_streams(ptyctl_process("mcp"))
    async with Client(transport, mode=mode, read_timeout_seconds=PATIENCE_S, elicitation_callback=person) as client:
        shell = await opened(client)
        reply = await call(client, "_exec", **shell, cmd=f"touch {tmp_path}/made", timeout_ms=50_000)
        assert reply["exit_code"] == 0
        assert f"{user_agent().name}, task t wants to type" in person.asked[0]
    assert (tmp_path / "made").exists()

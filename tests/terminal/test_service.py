"""The actions of the contract on real shells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api.approvals import ApprovalsRequest
from ptyctl.api.exec import ExecRequest
from ptyctl.api.io import IoRequest
from ptyctl.api.session import SessionRequest
from ptyctl.controller.local import LocalController
from ptyctl.terminal.service import ServiceState, TerminalService

#: A destructive command that does nothing here: the device does not exist.
MKFS = "mkfs.ext4 /dev/nope"
HEADLESS = {"mode": "headless", "intent": "execute_command"}
INTERACTIVE = {"mode": "interactive", "intent": "execute_command"}


class Caller:
    """Calls a service, and checks what every response has."""

    def __init__(self, service: TerminalService, state: ServiceState) -> None:
        self._service, self.state = service, state

    async def __call__(self, action: str, **fields: Any) -> dict[str, Any]:
        correlation = {"trace_id": "trace_test", "request_id": "req_test"}
        response = await self._service.handle({"action": action, "correlation": correlation, **fields})
        assert response["correlation"] == correlation
        assert response["success"] == (response["error"] is None) == ("fallback" not in response)
        return response

    async def until_ended(self, target: dict[str, Any]) -> dict[str, Any]:
        """Read until the command has ended; return the last response with all output."""
        output = ""
        for _ in range(30):
            response = await self("read_output", target=target, runtime={"timeout_ms": 10_000})
            output += response["result"]["stdout"]
            if not response["result"]["running"]:
                return {**response, "output": output}
        raise AssertionError(output)


@pytest.fixture
async def controller(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalController]:
    monkeypatch.setenv("SHELL", require_program("bash", "bash"))
    async with LocalController() as controller:
        yield controller


@pytest.fixture
def call(controller: LocalController) -> Caller:
    state = ServiceState()
    return Caller(TerminalService(controller, state, {}, "me"), state)


async def test_headless_execute_returns_output_and_exit_code_and_closes(call: Caller) -> None:
    execution = {"command": "sh", "args": ["-c", 'echo "$GREETING" there; exit 3'], "env": {"GREETING": "hi"}}
    response = await call("execute", invocation=HEADLESS, execution=execution, runtime={"cwd": "/", "timeout_ms": 50_000})
    assert response["status"] == "completed"
    expected = {"authorization": "allowed", "stdout": "hi there\n", "exit_code": 3, "running": False}
    assert {name: response["result"][name] for name in expected} == expected
    assert (await call("list"))["result"]["items"] == []
    target = {"session_id": response["identity"]["session_id"]}
    assert (await call("read_output", target=target, runtime={"cursor": "0"}))["result"]["exit_code"] == 3
    assert (await call("terminate", target=target))["success"]  # idempotent


async def test_headless_execute_that_takes_longer_is_accepted_and_terminated(call: Caller) -> None:
    execution = {"command": "echo first; read -r line; echo last"}
    response = await call("execute", invocation=HEADLESS, execution=execution, runtime={"timeout_ms": 500})
    assert (response["status"], response["result"]["running"]) == ("accepted", True)
    target = {"session_id": response["identity"]["session_id"]}
    (item,) = (await call("list"))["result"]["items"]
    assert (item["session_id"], item["running"], item["command"]) == (target["session_id"], True, execution["command"])
    ended = await call("terminate", target=target)
    assert ended["status"] == "completed"
    assert (await call("list"))["result"]["items"] == []


async def test_interactive_terminal_is_opened_used_and_terminated(call: Caller) -> None:
    opened = await call(
        "execute",
        invocation={"mode": "interactive", "intent": "open_only"},
        execution={"name": "build"},
        runtime={"workspace_id": "w1"},
    )
    target = {"terminal_id": "term_build"}
    assert opened["identity"]["terminal_id"] == "term_build"
    sent = await call("execute", invocation=INTERACTIVE, execution={"command": "cd /; pwd"}, target=target)
    assert sent["resolved"]["mode"] == "interactive"
    done = sent if sent["status"] == "completed" else await call.until_ended(target)
    assert done.get("output", done["result"]["stdout"]).endswith("/\n")
    assert done["result"]["exit_code"] == 0
    elsewhere = {"command": "pwd; echo $A", "env": {"A": "x y"}}
    sent = await call("execute", invocation=INTERACTIVE, execution=elsewhere, target=target, runtime={"cwd": "/usr"})
    assert sent["result"]["stdout"] == "/usr\nx y\n"
    assert [item["terminal_id"] for item in (await call("list", runtime={"workspace_id": "w1"}))["result"]["items"]]
    assert (await call("list", runtime={"workspace_id": "w2"}))["result"]["items"] == []
    assert (await call("terminate", target=target))["success"]
    missing = await call("read_output", target=target)
    assert (missing["error"]["code"], missing["fallback"]["next_action"]) == ("PM_TERM_NOT_FOUND", "list")


async def test_terminate_ends_the_command_and_keeps_an_interactive_terminal(call: Caller) -> None:
    sent = await call("execute", invocation=INTERACTIVE, execution={"command": "sleep 60"}, runtime={"timeout_ms": 200})
    target = {"terminal_id": sent["identity"]["terminal_id"]}
    assert sent["result"]["running"]
    assert (await call("terminate", target=target))["success"]
    (item,) = (await call("list"))["result"]["items"]
    assert (item["terminal_id"], item["running"]) == (target["terminal_id"], False)


async def test_two_terminals_of_one_name_have_two_ids(call: Caller) -> None:
    fields = {"invocation": {"mode": "interactive", "intent": "open_only"}, "execution": {"name": "a"}}
    ids = [(await call("execute", **fields))["identity"]["terminal_id"] for _ in range(2)]
    assert ids == ["term_a", "term_a-2"]


async def test_destructive_command_waits_for_a_person_who_declines_it(controller: LocalController, call: Caller) -> None:
    execution = {"command": MKFS}
    held = await call("execute", invocation=HEADLESS, execution=execution, runtime={"timeout_ms": 0})
    approval = held["result"]["pending_approval"]
    assert (held["status"], held["result"]["running"]) == ("accepted", True)
    await controller.approvals(ApprovalsRequest(action="decline", approval_id=approval["approval_id"], comment="not this one"))
    target = {"session_id": held["identity"]["session_id"]}
    declined = await call("read_output", target=target, runtime={"timeout_ms": 10_000})
    assert declined["error"]["code"] == "PM_TERM_DECLINED"
    assert "not this one" in declined["error"]["message"]
    assert declined["fallback"] == {
        "strategy": "report_decline",
        "next_action": None,
        "recommended_mode": None,
        "user_message": "The command was not approved. Report it; do not try it again.",
        "can_auto_retry": False,
    }


async def test_concurrent_headless_commands_do_not_share_a_session(call: Caller) -> None:
    async def run(number: int) -> tuple[str, str]:
        execution = {"command": f"echo {number}"}
        response = await call("execute", invocation=HEADLESS, execution=execution, runtime={"timeout_ms": 50_000})
        return response["identity"]["session_id"], response["result"]["stdout"]

    results = await asyncio.gather(*map(run, range(3)))
    assert [output for _, output in results] == ["0\n", "1\n", "2\n"]
    assert len({session_id for session_id, _ in results}) == 3


async def test_open_session_of_others_is_no_terminal(controller: LocalController, call: Caller) -> None:
    request = {"action": "open", "protocol": "local", "acquire_lock": True, "task_id": "person"}
    opened = await controller.session(SessionRequest.of(request))
    for action in ("read_output", "terminate"):
        response = await call(action, target={"session_id": opened.session_id})
        assert response["error"]["code"] == "PM_TERM_NOT_FOUND"
    status = await controller.session(SessionRequest(action="status", session_id=opened.session_id))
    assert (status.state, status.lock_holder) == ("open", "person")


@pytest.mark.parametrize("target", [{}, {"session_id": None, "terminal_id": None}])
async def test_target_without_ids_is_no_target(call: Caller, target: dict[str, Any]) -> None:
    opened = await call("execute", invocation={"mode": "interactive", "intent": "open_only"})
    execution = {"command": "echo hi"}
    run = await call("execute", invocation=HEADLESS, execution=execution, target=target, runtime={"timeout_ms": 50_000})
    assert run["result"]["stdout"] == "hi\n"
    assert run["identity"]["session_id"] != opened["identity"]["session_id"]


async def test_command_in_a_missing_folder_runs_nowhere(call: Caller) -> None:
    execution = {"command": "echo a; echo b # comment"}
    runtime = {"timeout_ms": 50_000}
    sent = await call("execute", invocation=INTERACTIVE, execution=execution, runtime=runtime)
    target = {"terminal_id": sent["identity"]["terminal_id"]}
    assert sent["result"]["stdout"] == "a\nb\n"
    fields = {"invocation": INTERACTIVE, "execution": execution, "target": target}
    missing = await call("execute", **fields, runtime={**runtime, "cwd": "/nonexistent"})
    assert ("No such file" in missing["result"]["stdout"], missing["result"]["exit_code"]) == (True, 125)
    assert (await call("execute", **fields, runtime={**runtime, "cwd": "/"}))["result"]["stdout"] == "a\nb\n"


async def test_read_output_returns_the_callers_own_command(controller: LocalController, call: Caller) -> None:
    execution = {"command": "read -r line; echo got $line"}
    sent = await call("execute", invocation=INTERACTIVE, execution=execution, runtime={"timeout_ms": 2_000})
    session_id = sent["identity"]["session_id"]
    assert sent["result"]["running"]
    await controller.io(IoRequest(action="write", session_id=session_id, data="it\n"))
    await controller.exec(ExecRequest(session_id=session_id, cmd="true", timeout_ms=50_000))
    done = await call("read_output", target={"session_id": session_id}, runtime={"timeout_ms": 50_000})
    assert done["result"]["stdout"].endswith("got it\n")


async def test_concurrent_terminals_of_one_name_have_different_ids(call: Caller) -> None:
    fields = {"invocation": {"mode": "interactive", "intent": "open_only"}, "execution": {"name": "a"}}
    opened = await asyncio.gather(*(call("execute", **fields) for _ in range(3)))
    assert len({response["identity"]["terminal_id"] for response in opened}) == 3


async def test_too_long_command_is_an_invalid_payload(call: Caller) -> None:
    response = await call("execute", invocation=HEADLESS, execution={"command": "x" * 140_000})
    assert response["error"]["code"] == "PM_TERM_INVALID_PAYLOAD"
    assert response["error"]["details"]["violations"][0]["path"] == "execution.command"


async def test_reads_of_another_principal_move_no_read_position(controller: LocalController, call: Caller) -> None:
    execution = {"command": "echo first; read -r line; echo last"}
    sent = await call("execute", invocation=INTERACTIVE, execution=execution, runtime={"timeout_ms": 2_000})
    target = {"session_id": sent["identity"]["session_id"]}
    await controller.io(IoRequest(action="write", session_id=target["session_id"], data="x\n"))
    done = await call("read_output", target=target, runtime={"timeout_ms": 50_000})
    assert done["result"]["stdout"].endswith("last\n")
    other = Caller(TerminalService(controller, call.state, {}, "another"), call.state)
    assert (await other("read_output", target=target))["result"]["stdout"].startswith("first\n")

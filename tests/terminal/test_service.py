"""The actions of the contract on real shells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api.approvals import ApprovalsRequest
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import ExecRequest
from ptyctl.api.io import IoRequest
from ptyctl.api.operator import WatchRequest
from ptyctl.api.session import SessionReply, SessionRequest
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.terminal.adapters.base import BundledAdapter, SentRequest
from ptyctl.terminal.errors import TerminalError, TerminalErrorCode
from ptyctl.terminal.service import ServiceState, TerminalService
from tests.controller.session_calls import PATIENCE_MS, until

#: A destructive command that does nothing here: the device does not exist.
MKFS = "mkfs.ext4 /dev/nope"
HEADLESS = {"mode": "headless", "intent": "execute_command"}
INTERACTIVE = {"mode": "interactive", "intent": "execute_command"}


class Caller:
    """Calls a service, and checks what every response has."""

    def __init__(self, service: TerminalService, state: ServiceState) -> None:
        self._service, self.state = service, state

    async def __call__(self, action: str, **fields: Any) -> dict[str, Any]:
        correlation = {"trace_id": "trace_test", "request_id": f"req_{self.state.requests}"}
        request = {"action": action, "correlation": correlation, **fields}
        response = await self._service.handle(request)
        assert response["correlation"] == request["correlation"]
        assert response["success"] == (response["error"] is None) == ("fallback" not in response)
        return response

    async def until_printed(self, sent: dict[str, Any], text: str) -> None:
        """Read until a command has printed a text: a program that has just been sent may not run yet."""
        output = sent["result"]["stdout"]
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while text not in output:
                target = {"session_id": sent["identity"]["session_id"]}
                output += (await self("read_output", target=target, runtime={"timeout_ms": 50}))["result"]["stdout"]

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


async def test_headless_execute_without_a_pty_keeps_stdout_and_stderr_apart(call: Caller, controller: LocalController) -> None:
    command = "echo out; echo err >&2; test -t 0 || echo no terminal; printf '\\303\\251' >&2; exit 3"
    response = await call(
        "execute", invocation=HEADLESS, execution={"command": command, "pty": False}, runtime={"cwd": "/", "timeout_ms": 50_000}
    )
    expected = {"stdout": "out\nno terminal\n", "stderr": "err\né", "exit_code": 3, "running": False, "truncated": False}
    assert {name: response["result"][name] for name in expected} == expected
    target = {"session_id": response["identity"]["session_id"]}
    async with LocalController() as later:  # a later server, which finds the transcript
        again = Caller(TerminalService(later, ServiceState(), {}, "me"), call.state)
        read = await again("read_output", target=target)
    assert {name: read["result"][name] for name in expected} == expected


async def test_output_without_a_pty_is_read_once_from_each_stream(controller: LocalController, call: Caller) -> None:
    execution = {"command": "echo 1; echo a >&2; read -r line; echo 2; echo b >&2; read -r line; echo 3", "pty": False}
    sent = await call("execute", invocation=HEADLESS, execution=execution, runtime={"timeout_ms": 0})
    session_id = sent["identity"]["session_id"]
    stdout, stderr, running = sent["result"]["stdout"], sent["result"]["stderr"], True
    for wanted in ("1\n", "1\n2\n"):
        while stdout != wanted:
            read = await call("read_output", target={"session_id": session_id}, runtime={"timeout_ms": 50})
            stdout, stderr = stdout + read["result"]["stdout"], stderr + read["result"]["stderr"]
        await controller.io(IoRequest(action="write", session_id=session_id, data="\n"))
    while running:
        read = await call("read_output", target={"session_id": session_id}, runtime={"timeout_ms": 50_000})
        running = read["result"]["running"]
        stdout, stderr = stdout + read["result"]["stdout"], stderr + read["result"]["stderr"]
    assert (stdout, stderr) == ("1\n2\n3\n", "a\nb\n")


async def test_command_without_a_pty_is_judged_and_terminated(call: Caller) -> None:
    held = await call("execute", invocation=HEADLESS, execution={"command": MKFS, "pty": False}, runtime={"timeout_ms": 0})
    assert held["result"]["pending_approval"]["approval_id"]
    sleeping = await call(
        "execute", invocation=HEADLESS, execution={"command": "sleep 60", "pty": False}, runtime={"timeout_ms": 200}
    )
    assert sleeping["result"]["running"]
    for response in (held, sleeping):
        target = {"session_id": response["identity"]["session_id"]}
        assert (await call("terminate", target=target))["success"]
    read = await call("read_output", target={"session_id": sleeping["identity"]["session_id"]})
    assert (read["result"]["running"], read["result"]["exit_code"]) == (False, 130)
    assert (await call("list"))["result"]["items"] == []


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


async def test_terminate_by_session_id_ends_the_command_and_by_terminal_id_the_terminal(call: Caller) -> None:
    sent = await call("execute", invocation=INTERACTIVE, execution={"command": "sleep 60"}, runtime={"timeout_ms": 200})
    identity = sent["identity"]
    assert sent["result"]["running"]
    for _ in range(2):  # idempotent
        assert (await call("terminate", target={"session_id": identity["session_id"]}))["success"]
        (item,) = (await call("list"))["result"]["items"]
        assert (item["terminal_id"], item["running"]) == (identity["terminal_id"], False)
    for _ in range(2):
        ended = await call("terminate", target={"terminal_id": identity["terminal_id"]})
        assert (ended["status"], ended["identity"]) == ("completed", identity)
        assert (await call("list"))["result"]["items"] == []
    for unknown in ({"terminal_id": "term_unknown"}, {"session_id": "20260101-000000-00000000"}):
        for action in ("terminate", "read_output"):
            assert (await call(action, target=unknown))["error"]["code"] == "PM_TERM_NOT_FOUND"


async def test_terminate_withdraws_a_command_that_waits_for_an_approval(controller: LocalController, call: Caller) -> None:
    held = await call("execute", invocation=INTERACTIVE, execution={"command": MKFS}, runtime={"timeout_ms": 0})
    assert (await call("terminate", target={"session_id": held["identity"]["session_id"]}))["success"]
    approval_id = held["result"]["pending_approval"]["approval_id"]
    entry = (await controller.approvals(ApprovalsRequest(action="get", approval_id=approval_id))).approval
    assert entry is not None
    assert entry.state == "withdrawn"


async def test_terminate_of_a_shell_that_ignores_signals_closes_the_terminal(call: Caller) -> None:
    busy = {"command": "trap '' INT HUP; echo ready; while :; do read -r line || sleep 1; done"}
    sent = await call("execute", invocation=INTERACTIVE, execution=busy, runtime={"timeout_ms": 0})
    await call.until_printed(sent, "ready\n")
    assert (await call("terminate", target={"session_id": sent["identity"]["session_id"]}))["success"]
    assert (await call("list"))["result"]["items"] == []


async def test_repeated_request_is_answered_from_memory(controller: LocalController, call: Caller, tmp_path: Path) -> None:
    request = {
        "action": "execute",
        "correlation": {"request_id": "req_once", "trace_id": "trace_1"},
        "invocation": HEADLESS,
        "execution": {"command": f"echo ran >> {tmp_path}/runs; cat {tmp_path}/runs"},
        "runtime": {"timeout_ms": 50_000},
    }
    service = TerminalService(controller, call.state, {}, "me")
    lost = asyncio.create_task(service.handle(request))
    await asyncio.sleep(0)  # the client disconnects in mid-call
    lost.cancel()
    repeats = [{**request, "correlation": {"request_id": "req_once", "trace_id": f"trace_{n}"}} for n in range(2)]
    responses = await asyncio.gather(*map(service.handle, repeats))
    assert [response["result"]["stdout"] for response in responses] == ["ran\n", "ran\n"]
    assert [response["correlation"]["trace_id"] for response in responses] == ["trace_0", "trace_1"]
    assert [response["resolved"].get("repeated") for response in responses] == [True, True]
    other = await TerminalService(controller, call.state, {}, "another").handle(request)
    assert "repeated" not in other["resolved"]
    assert other["result"]["stdout"] == "ran\nran\n"
    different = await service.handle({**request, "execution": {"command": "echo different"}})
    assert different["result"]["stdout"] == "different\n"


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


async def test_list_has_the_state_of_each_terminal(controller: LocalController, call: Caller) -> None:
    fields = {"invocation": INTERACTIVE, "runtime": {"workspace_id": "w", "timeout_ms": 50_000}}
    sent = await call("execute", **fields, execution={"command": "(exit 4)", "name": "a"})
    session_id = sent["identity"]["session_id"]
    watching = controller.watch(WatchRequest(session_id=session_id, task_id="viewer"))
    await anext(watching)
    (item,) = (await call("list"))["result"]["items"]
    await watching.aclose()
    assert item.pop("started_at") > 1_700_000_000_000
    assert item == {
        "session_id": session_id,
        "terminal_id": "term_a",
        "mode": "interactive",
        "workspace_id": "w",
        "command": "(exit 4)",
        "running": False,
        "exit_code": 4,
        "viewers": 1,
        "pending_approvals": 0,
    }


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\nb", ""])
async def test_name_with_control_characters_is_refused(call: Caller, name: str) -> None:
    opening = {"invocation": {"mode": "interactive", "intent": "open_only"}, "execution": {"name": name}}
    response = await call("execute", **opening)
    assert [each["path"] for each in response["error"]["details"]["violations"]] == ["execution.name"]


@pytest.mark.parametrize("pty", [None, False])
@pytest.mark.parametrize(("decision", "code"), [pytest.param("deny", True, id="spec-3.1-8"), ("warn", False)])
async def test_verdict_of_the_policy_is_the_authorization(
    decision: str, code: bool, pty: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = f'[[rules]]\nid = "r"\ncommand = ["forbidden"]\ndecision = "{decision}"\nreason = "not here"\n'
    (tmp_path / "policy.toml").write_text(rule)
    async with LocalController(Settings(policy=str(tmp_path / "policy.toml"))) as controller:
        service = TerminalService(controller, ServiceState(), {}, "me")
        request = {"action": "execute", "invocation": HEADLESS, "execution": {"command": "forbidden", "pty": pty}}
        response = await service.handle(request | {"runtime": {"timeout_ms": 50_000}})
        listed = (await service.handle({"action": "list"}))["result"]["items"]
    if code:
        assert response["error"]["code"] == "PM_TERM_BLOCKED_DESTRUCTIVE"
        assert response["fallback"]["strategy"] == "reject_with_safety_hint"
    else:
        result = response["result"]
        assert (result["authorization"], result["warning"]) == ("allowed_with_warning", "not here")
        assert result["exit_code"] == 127
    assert listed == []


class Failing:
    """A Controller whose commands fail. `closed`: whether its session was closed."""

    def __init__(self, error: BaseException, close_error: PtyctlError | None = None) -> None:
        self._error, self._close_error = error, close_error
        self.closed = False

    async def session(self, request: SessionRequest) -> SessionReply:
        if request.action == "close":
            if self._close_error is not None:
                raise self._close_error
            self.closed = True
        return SessionReply(success=True, action=request.action, session_id="s", sessions=[])

    async def exec(self, request: ExecRequest, progress: Any) -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("mode", "error", "closed"),
    [
        (INTERACTIVE, PtyctlError(ErrorCode.POLICY_DENIED, "no"), True),
        (INTERACTIVE, PtyctlError(ErrorCode.DECLINED, "no"), True),
        (INTERACTIVE, PtyctlError(ErrorCode.REMOTE_CLOSED, "lost", {"block_id": "b"}), False),
        (INTERACTIVE, PtyctlError(ErrorCode.REMOTE_CLOSED, "it was closed before"), True),
        (HEADLESS, PtyctlError(ErrorCode.IO_ERROR, "unknown", {"delivery": "unknown"}), False),
        (INTERACTIVE, TerminalError(TerminalErrorCode.TIMEOUT, "late", {"delivery": "sent"}), False),
        (HEADLESS, TerminalError(TerminalErrorCode.DISCONNECTED, "lost", {"delivery": "not_sent"}), False),
        (HEADLESS, TerminalError(TerminalErrorCode.INVALID_PAYLOAD, "long", {"delivery": "not_sent"}), True),
        (HEADLESS, TerminalError(TerminalErrorCode.TIMEOUT, "late", {"delivery": "sent"}), False),
        (HEADLESS, PtyctlError(ErrorCode.INTERNAL, "fault"), True),
    ],
)
async def test_terminal_of_a_failed_command_is_closed_or_named(
    mode: dict[str, str], error: PtyctlError | TerminalError, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = BundledAdapter.send_request

    async def fail_exec(self: BundledAdapter, method: str, request: Any) -> SentRequest:
        if isinstance(request, ExecRequest) and error.details.get("delivery") == "not_sent":
            raise error
        return await send(self, method, request)

    monkeypatch.setattr(BundledAdapter, "send_request", fail_exec)
    lost = error.code == TerminalErrorCode.DISCONNECTED
    controller: Any = Failing(error, PtyctlError(ErrorCode.IO_ERROR, "cannot close") if lost else None)
    service = TerminalService(controller, ServiceState(), {}, "me")
    response = await service.handle({"action": "execute", "invocation": mode, "execution": {"command": "x"}})
    assert response["error"]["message"] == error.message
    assert (controller.closed, response["identity"]["session_id"]) == (closed, None if closed else "s")
    assert (response["identity"]["terminal_id"] is None) == (closed or mode is HEADLESS)


async def test_headless_session_of_a_cancelled_request_is_closed() -> None:
    controller: Any = Failing(asyncio.CancelledError())
    service = TerminalService(controller, ServiceState(), {}, "me")
    with pytest.raises(asyncio.CancelledError):
        await service.handle({"action": "execute", "invocation": HEADLESS, "execution": {"command": "x"}})
    assert controller.closed


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
    execution = {"command": "echo ready; read -r line; echo got $line"}
    sent = await call("execute", invocation=INTERACTIVE, execution=execution, runtime={"timeout_ms": 0})
    session_id = sent["identity"]["session_id"]
    await call.until_printed(sent, "ready\n")
    await controller.io(IoRequest(action="write", session_id=session_id, data="it\n"))

    async def has_ended() -> bool:
        (item,) = (await call("list"))["result"]["items"]
        return not item["running"]

    await until(has_ended)
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
    sent = await call("execute", invocation=INTERACTIVE, execution=execution, runtime={"timeout_ms": 0})
    target = {"session_id": sent["identity"]["session_id"]}
    await call.until_printed(sent, "first\n")
    await controller.io(IoRequest(action="write", session_id=target["session_id"], data="x\n"))
    done = await call("read_output", target=target, runtime={"timeout_ms": 50_000})
    assert done["result"]["stdout"].endswith("last\n")
    other = Caller(TerminalService(controller, call.state, {}, "another"), call.state)
    assert (await other("read_output", target=target))["result"]["stdout"].startswith("first\n")

"""The tool of the terminal contract, with MCP clients of both protocol eras."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp_types.version import LATEST_MODERN_VERSION

from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.fleet.controller import FleetController
from ptyctl.mcp.server import build_server, definition
from ptyctl.mcp.terminal_tool import TerminalCall, call_terminal
from ptyctl.mcp.toolsets import TOOLSETS
from ptyctl.session.clients import Client as SessionClient
from ptyctl.session.clients import serving

(TOOL,) = TOOLSETS["terminal"]
TRACE = {"trace_id": "trace_1", "request_id": "req_1"}


@pytest.mark.parametrize("mode", ["legacy", LATEST_MODERN_VERSION])
async def test_client_runs_a_command_and_gets_structured_errors(mode: str) -> None:
    validator = Draft202012Validator(definition(TOOL).output_schema)

    async def call(arguments: dict[str, Any]) -> dict[str, Any]:
        result = await client.call_tool(TOOL.name, arguments)
        assert not result.is_error
        assert result.structured_content is not None
        validator.validate(result.structured_content)
        return result.structured_content

    async with LocalController() as controller, Client(build_server(controller, [TOOL]), mode=mode) as client:
        done = await call(
            {
                "action": "execute",
                "correlation": TRACE,
                "invocation": {"mode": "headless", "intent": "execute_command"},
                "execution": {"command": "echo", "args": ["a b"]},
                "runtime": {"timeout_ms": 50_000},
            }
        )
        assert (done["status"], done["result"]["stdout"], done["correlation"]) == ("completed", "a b\n", TRACE)
        legacy = await call({"action": "run", "command": "echo $((1 + 1))", "timeout": 50_000})
        assert (legacy["result"]["stdout"], legacy["resolved"]["legacy_action"]) == ("2\n", "run")
        assert legacy["compat"] == {"alias_applied": True}
        for arguments, code in (({"action": "spawn"}, "INVALID_ACTION"), ({"action": "execute"}, "INVALID_PAYLOAD")):
            failed = await call({**arguments, "correlation": TRACE})
            assert (failed["error"]["code"], failed["correlation"]) == (f"PM_TERM_{code}", TRACE)
            assert failed["fallback"]["strategy"] == "reject_no_retry"


@pytest.mark.parametrize("row", ["spec-9.1-1"])
def test_toolset_has_one_tool_with_the_canonical_actions(row: str) -> None:
    assert TOOL.name == "memory_terminal_interactive"
    described = definition(TOOL).input_schema["properties"]["action"]["description"]
    assert described == "execute, read_output, terminate or list"


async def test_internal_error_names_the_trace_and_not_the_exception(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("secret")

    async with LocalController() as controller, Client(build_server(controller, [TOOL])) as client:
        monkeypatch.setattr(controller, "session", fail)
        result = await client.call_tool(TOOL.name, {"action": "list", "correlation": TRACE})
    failed = result.structured_content
    assert failed is not None
    assert (failed["error"]["code"], failed["error"]["details"]["trace_id"]) == ("PM_TERM_INTERNAL", "trace_1")
    assert "secret" not in str(result)
    (record,) = (record for record in caplog.records if record.name == "ptyctl.internal_error")
    assert vars(record)["trace_id"] == "trace_1"


@pytest.mark.parametrize(
    ("role", "devices", "local_sessions", "allowed"),
    [
        (Role.OPERATOR, (), True, True),
        (Role.OPERATOR, ("sw-*",), True, False),
        (Role.OPERATOR, (), False, False),
        (Role.VIEWER, (), True, False),
    ],
    ids=["operator", "limited to devices", "no local sessions", "viewer"],
)
async def test_other_runtimes_are_for_clients_that_may_open_any_session(
    role: Role, devices: tuple[str, ...], local_sessions: bool, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PM_TERM_ADAPTER_MODE", "container_bridge")
    principal = Principal("agent", Kind.AGENT, role, devices)
    async with LocalController() as local:
        with serving(SessionClient(principal)):
            controller = AccessController(local, local_sessions=local_sessions)
            nothing: Any = None
            fleet = FleetController(controller, local, nothing, nothing, nothing, nothing, nothing)
            request = TerminalCall.of({"action": "list"})
            responses = [await call_terminal(server, request, None) for server in (controller, fleet)]
    expected = "PM_TERM_INVALID_MODE" if allowed else "PM_TERM_BLOCKED_DESTRUCTIVE"
    assert [response.payload()["error"]["code"] for response in responses] == [expected] * 2


@pytest.mark.parametrize(
    "arguments",
    [
        *({"action": action} for action in (["exec"], {"a": 1}, None, 1)),
        *({"action": "execute", name: '{"a":"\ud800"}'} for name in ("execution", "target")),
        {"action": "execute", "execution": {"command": '["\ud800"]'}},
    ],
)
def test_arguments_of_any_type_are_kept_for_the_report_of_the_contract(arguments: dict[str, Any]) -> None:
    assert TerminalCall.of(arguments).arguments == arguments

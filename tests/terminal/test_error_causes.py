"""Section 3.1 of the contract: each error code by a real cause, as an MCP client gets it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from fixtures.servers.programs import free_port, require_program
from ptyctl.api.approvals import ApprovalsRequest
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.mcp.server import build_server
from ptyctl.mcp.terminal_tool import close_runtimes
from ptyctl.mcp.toolsets import TOOLSETS

(TOOL,) = TOOLSETS["terminal"]
CORRELATION = {"trace_id": "trace_t", "request_id": "req_t", "client_request_id": "mine"}
HEADLESS = {"mode": "headless", "intent": "execute_command"}
#: Destructive commands that do nothing here: the device does not exist. The policy asks about one, and denies the other.
HELD, DENIED = "mkfs.ext4 /dev/nope", "mkfs.xfs /dev/nope"
POLICY = f'[[rules]]\nid = "r"\ncommand = ["{DENIED}"]\ndecision = "deny"\nreason = "not here"\n'
#: A program of the adapter `local`, after it has read the handshake's first line.
READY = (
    '{"ready": true, "protocol": "ptyctl-terminal", "version": 1, "capabilities": ["rpc"], "trace_id": "trace_t",'
    ' "runtime_session_id": "rt_' + "0" * 32 + '"}'
)
FAULT = '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "internal error in the daemon"}}'
PROGRAMS = {
    "TIMEOUT": "read -r hello; read -r never",
    "DISCONNECTED": f"read -r hello; echo '{READY}'; read -r call; exit 1",
    "INTERNAL": f"read -r hello; echo '{READY}'; read -r call; echo '{FAULT}'; read -r end",
}
Call = Callable[..., Awaitable[dict[str, Any]]]


async def decline(call: Call, controller: LocalController) -> dict[str, Any]:
    """Return the response after a person has declined the command."""
    held = await call("execute", invocation=HEADLESS, execution={"command": HELD}, runtime={"timeout_ms": 0})
    approval_id = held["result"]["pending_approval"]["approval_id"]
    await controller.approvals(ApprovalsRequest(action="decline", approval_id=approval_id, comment="no"))
    return await call("read_output", target={"session_id": held["identity"]["session_id"]}, runtime={"timeout_ms": 50_000})


def arguments(code: str) -> tuple[str, dict[str, Any]]:
    """Return the action and the fields of the request that fails with a code."""
    runtime = {"adapter_override": "local", "spawn_timeout_ms": 300 if code == "TIMEOUT" else 20_000}
    return {
        "INVALID_ACTION": ("spawn", {}),
        "INVALID_PAYLOAD": ("execute", {"invocation": HEADLESS}),
        "INVALID_MODE": ("execute", {"invocation": {**HEADLESS, "mode": "visible"}, "execution": {"command": "ls"}}),
        "GUI_UNAVAILABLE": ("list", {"runtime": {"adapter_override": "container_bridge"}}),
        "BLOCKED_DESTRUCTIVE": ("execute", {"invocation": HEADLESS, "execution": {"command": DENIED}}),
        "NOT_FOUND": ("read_output", {"target": {"terminal_id": "term_missing"}}),
    }.get(code, ("list", {"runtime": runtime}))


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("INVALID_ACTION", id="spec-3.1-1"),
        pytest.param("INVALID_PAYLOAD", id="spec-3.1-2"),
        pytest.param("INVALID_MODE", id="spec-3.1-3"),
        pytest.param("DECLINED", id="spec-3.1-4"),
        pytest.param("TIMEOUT", id="spec-3.1-5"),
        pytest.param("DISCONNECTED", id="spec-3.1-6"),
        pytest.param("GUI_UNAVAILABLE", id="spec-3.1-7"),
        pytest.param("BLOCKED_DESTRUCTIVE", id="spec-3.1-8"),
        pytest.param("NOT_FOUND", id="spec-3.1-9"),
        pytest.param("INTERNAL", id="spec-3.1-10"),
    ],
)
async def test_real_cause_has_its_code_and_every_field_of_a_failure(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", require_program("bash", "bash"))
    monkeypatch.setenv("PM_INTERACTIVE_TERMINAL_TOKEN", "t" * 43)
    monkeypatch.setenv("PM_INTERACTIVE_TERMINAL_HOST_ALIAS", "127.0.0.1")
    monkeypatch.setenv("PM_INTERACTIVE_TERMINAL_HOST_FALLBACK_ALIAS", "127.0.0.1")
    monkeypatch.setenv("PM_INTERACTIVE_TERMINAL_HOST_PORT", str(free_port()))
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{PROGRAMS.get(code, 'exit 1')}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PM_INTERACTIVE_TERMINAL_BINARY", str(program))
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    action, fields = arguments(code)

    async def call(action: str, **fields: Any) -> dict[str, Any]:
        override = {} if "runtime" in fields and "adapter_override" in fields["runtime"] else {"adapter_override": "bundled"}
        fields["runtime"] = {**fields.get("runtime", {}), **override}
        result = await client.call_tool(TOOL.name, {"action": action, "correlation": CORRELATION, **fields})
        assert result.structured_content is not None
        return result.structured_content

    async with AsyncExitStack() as stack:
        local = await stack.enter_async_context(
            LocalController(Settings(policy=str(policy)) if DENIED in str(fields) else None)
        )
        controller = AccessController(local)
        client = await stack.enter_async_context(Client(build_server(controller, [TOOL])))
        response = await (decline(call, local) if code == "DECLINED" else call(action, **fields))
        await close_runtimes(controller)
    assert (response["success"], response["status"], response["correlation"]) == (False, "failed", CORRELATION)
    assert response["error"]["code"] == f"PM_TERM_{code}"
    assert set(response["error"]) == {"code", "category", "message", "retriable", "details"}
    assert set(response["resolved"]) == {"canonical_action", "alias_applied", "legacy_action", "mode"}
    assert set(response["fallback"]) == {"strategy", "next_action", "recommended_mode", "user_message", "can_auto_retry"}
    assert {"action", "identity", "result"} <= set(response)

"""Each tool on a real shell: every reply matches the tool's schema, and a short text equals its structured content."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp_types import TextContent

from ptyctl.mcp.server import definition
from ptyctl.mcp.tool_call import MAX_REPEATED_TEXT
from ptyctl.mcp.toolsets import Tool, choose
from tests.mcp.pty_client import PATIENCE_MS, connected, held

TOOLS = choose("all")
#: A value for each field that any tool requires.
REQUIRED: dict[str, Any] = {
    "action": "status",
    "cmd": "true",
    "steps": [],
    "from_cursor": 0,
    "expect": "x",
    "send": "y",
    "data": "z",
    "cols": 80,
    "rows": 24,
    "block_id": "1_1",
    "query": "q",
}
#: Optional fields that make a call with the required fields valid.
WHOLE = {
    "ptyctl_session_io": {"action": "read"},
    "ptyctl_session_exec": {"cmd": "true"},
    "ptyctl_session_config": {"action": "get"},
    "pty_wait_for": {"match": "x"},
    "pty_send": {"data": "z"},
}
#: Calls of all tools, ordered so that each succeeds. `$` is the session, `@` a cursor, `#` a block.
WALK: list[tuple[str, dict[str, Any]]] = [
    ("ptyctl_session", {"action": "list"}),
    ("ptyctl_session", {"action": "lock", "session_id": "$", "task_id": "t"}),
    ("ptyctl_session", {"action": "heartbeat", "session_id": "$", "task_id": "t"}),
    ("ptyctl_session", {"action": "status", "session_id": "$", "task_id": "t"}),
    ("ptyctl_session", {"action": "unlock", "session_id": "$", "task_id": "t"}),
    ("ptyctl_session_exec", {"session_id": "$", "cmd": "seq 1 500", "max_output_bytes": 256}),
    ("ptyctl_session_exec", {"session_id": "$", "cmd": "sleep 0.1", "timeout_ms": 0}),
    ("ptyctl_session_exec", {"session_id": "$", "block_id": "#", "timeout_ms": PATIENCE_MS}),
    ("ptyctl_session_io", {"session_id": "$", "action": "write", "data": "true\n"}),
    ("ptyctl_session_io", {"session_id": "$", "action": "read", "until_idle_ms": 1}),
    ("ptyctl_session_io", {"session_id": "$", "action": "read", "mode": "tail"}),
    ("ptyctl_session_io", {"session_id": "$", "action": "read", "mode": "screen"}),
    ("ptyctl_session_config", {"session_id": "$", "action": "get"}),
    ("ptyctl_session_config", {"session_id": "$", "action": "resize", "cols": 80, "rows": 24}),
    ("ptyctl_session_config", {"session_id": "$", "action": "expect", "expect": {"prompt_regex": "> $"}}),
    ("pty_exec_interactive_expect", {"cmd": "read -p 'a? '", "steps": [{"expect": "a? ", "send": "b\n"}]}),
    ("pty_exec_interactive", {"cmd": "cat"}),
    ("pty_send", {"data": "told\n"}),
    ("pty_wait_for", {"match": "told", "from_cursor": "@"}),
    ("pty_enter", {}),
    ("pty_expect_send", {"expect": "\n", "send": "more\n", "from_cursor": "@"}),
    ("pty_status", {}),
    ("pty_ctrl_d", {}),
    ("pty_wait_prompt", {"from_cursor": "@"}),
    ("pty_exec_block", {"cmd": "sleep 60"}),
    ("pty_ctrl_c", {}),
    ("pty_wait_prompt", {"from_cursor": "@"}),
    ("pty_end_session", {}),
    ("pty_read_spool", {"from_cursor": 0}),
    ("blocks_since", {}),
    ("blocks_get", {"block_id": "#"}),
    ("blocks_read", {"block_id": "#"}),
    ("blocks_read", {"block_id": "#", "format": "raw"}),
    ("blocks_search", {"query": "told"}),
    ("pty_read_screen", {"attributes": True}),
    ("pty_read_screen_deltas", {}),
    ("pty_screen_status", {}),
    ("pty_read_scrollback", {}),
    ("pty_read_raw", {}),
    ("pty_resize", {"cols": 70, "rows": 20}),
    ("pty_reset", {}),
    ("pty_close", {}),
    ("ptyctl_approvals", {}),
    ("ptyctl_session", {"action": "close", "session_id": "$"}),
]


@cache
def output_validators() -> dict[str, Draft202012Validator]:
    """Validators of the tools' replies. They are not built by a worker that only collects the tests."""
    return {tool.name: Draft202012Validator(definition(tool).output_schema or {}) for tool in TOOLS}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with held(connected()) as client:
        yield client


async def answered(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the validated reply. `error` is the error code of either kind of tool, or None."""
    result = await client.call_tool(tool, arguments)
    payload = result.structured_content
    (text,) = result.content
    assert isinstance(text, TextContent)
    if len(text.text) > MAX_REPEATED_TEXT or not text.text.startswith("The result is in structuredContent"):
        assert json.loads(text.text) == payload
    else:
        assert len(json.dumps(payload)) > MAX_REPEATED_TEXT
    output_validators()[tool].validate(payload)
    assert bool(result.is_error) == ("error_code" in payload)
    error = payload.get("error_code", payload.get("error"))
    assert (error is None) == payload.get("ok", not result.is_error)
    return {**payload, "error": error}


def addressed(tool: Tool, **fields: Any) -> dict[str, Any]:
    """Return valid arguments for a session that does not exist."""
    if tool.name == "ptyctl_approvals":
        return {"action": "get", "approval_id": "nope", **fields}
    required = {name for name, field in tool.request.model_fields.items() if field.is_required()} - {"session_id"}
    return {**{name: REQUIRED[name] for name in required}, **WHOLE.get(tool.name, {}), "session_id": "nope", **fields}


async def test_every_tool_reply_matches_its_schema(client: Client) -> None:
    opened = await answered(client, "ptyctl_session", {"action": "open", "protocol": "local", "command": ["bash", "--norc"]})
    substitutes = {"$": opened["session_id"]}
    for tool, fields in WALK:
        address = {} if tool.startswith("ptyctl_") else {"session_id": "$"}
        call = {name: substitutes.get(value, value) if isinstance(value, str) else value for name, value in fields.items()}
        reply = await answered(client, tool, {**call, **{name: substitutes[value] for name, value in address.items()}})
        assert reply["error"] is None, (tool, reply)
        substitutes |= {sign: reply[name] for sign, name in (("@", "resume_cursor"), ("#", "block_id")) if name in reply}
    assert {tool for tool, _ in WALK} == {tool.name for tool in TOOLS}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
async def test_unknown_session_returns_not_found(client: Client, tool: Tool) -> None:
    assert (await answered(client, tool.name, addressed(tool)))["error"] in ("NOT_FOUND", "not_found")


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
async def test_missing_or_unknown_field_is_named(client: Client, tool: Tool) -> None:
    whole = addressed(tool)
    wrong = {"bogus": {**whole, "bogus": 1}}
    for name, field in tool.request.model_fields.items():
        if field.is_required():
            wrong[name] = {key: value for key, value in whole.items() if key != name}
    for name, arguments in wrong.items():
        reply = await answered(client, tool.name, arguments)
        assert reply["error"] in ("INVALID_ARGUMENT", "invalid_argument")
        assert name in reply["message"]

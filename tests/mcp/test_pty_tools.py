"""Definitions and errors of the pty_*, blocks_* and screen tools."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.pty import encode_error
from ptyctl.mcp.server import definition
from ptyctl.mcp.tool_call import call_tool
from ptyctl.mcp.toolsets import TOOLSETS, Tool
from tests.mcp.stub_controller import StubController

TOOLS = TOOLSETS["pty"] + TOOLSETS["blocks"] + TOOLSETS["screen"]
SECRET = "hunter2-Geheim"


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_definition_matches_request_and_reply_fields(tool: Tool) -> None:
    defined = definition(tool)
    for schema in (defined.input_schema, defined.output_schema):
        assert schema is not None
        Draft202012Validator.check_schema(schema)
    unlisted = {"client_id", "since_ts", "until_ts", "paint", *(["task_id"] if tool.read_only else [])}
    assert set(defined.input_schema["properties"]) == set(tool.request.model_fields) - unlisted
    assert tool.reply_fields is not None
    assert defined.output_schema is not None
    assert set(defined.output_schema["properties"]) == set(tool.reply_fields)
    assert "next_cursor" not in str(defined)
    assert defined.annotations is not None
    assert not (defined.annotations.read_only_hint and defined.annotations.destructive_hint)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_error_reply_of_each_code_matches_output_schema(tool: Tool) -> None:
    validator = Draft202012Validator(definition(tool).output_schema)
    for code in ErrorCode:
        payload = encode_error(PtyctlError(code, "why", {"mode": "idle", "block_id": "1_1", "resume_cursor": 3})).payload()
        validator.validate(payload)
        assert payload["ok"] is False


@pytest.mark.parametrize(
    ("name", "arguments", "named"),
    [
        ("pty_status", {}, "conversation_id"),
        ("pty_status", {"conversation_id": "c", "session_id": "s"}, "not both"),
        ("pty_wait_for", {"conversation_id": "c", "match": "", "from_cursor": 0}, "must not be empty"),
        ("pty_wait_for", {"conversation_id": "c", "match": "x", "from_cursor": -1}, "from_cursor"),
        ("pty_exec_block", {"conversation_id": "c", "cmd": "echo \0x"}, "cmd: contains a NUL"),
        ("pty_exec_interactive", {"conversation_id": "c", "cmd": "x", "cwd": "/tmp\0"}, "cwd: contains a NUL"),
        (
            "pty_exec_interactive_expect",
            {"conversation_id": "c", "cmd": "x", "steps": SECRET},
            "steps: Input should be an array",
        ),
        ("pty_wait_for", {"conversation_id": "c", "match": "\ud800", "from_cursor": 0}, "match: contains a lone surrogate"),
        (
            "pty_expect_send",
            {"conversation_id": "c", "expect": "x", "send": "\ud800", "from_cursor": 0},
            "send: contains a lone surrogate",
        ),
        ("pty_send", {"conversation_id": "c", "data": {"v": SECRET}, "sensitive": True}, "data"),
        ("pty_read_screen", {"conversation_id": "c", "at": -1}, "at"),
        ("pty_read_screen_deltas", {"conversation_id": "c", "limit": -1}, "limit"),
        ("blocks_read", {"conversation_id": "c", "block_id": "1_1", "next_cursor": SECRET}, "next_cursor"),
    ],
)
async def test_invalid_arguments_are_named_and_not_repeated(name: str, arguments: dict[str, Any], named: str) -> None:
    (tool,) = [tool for tool in TOOLS if tool.name == name]
    result = await call_tool(tool, StubController(), arguments, None)  # type: ignore[arg-type]
    assert not result.is_error
    assert result.structured_content is not None
    assert (result.structured_content["ok"], result.structured_content["error"]) == (False, "invalid_argument")
    assert named in result.structured_content["message"]
    assert SECRET not in result.model_dump_json()

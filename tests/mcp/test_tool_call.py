"""Results of one tool call: replies, each error code, invalid arguments and internal errors. None repeats a secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent
from mcp_types.version import LATEST_MODERN_VERSION

from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.mcp.server import build_server
from ptyctl.mcp.tool_call import MAX_REPEATED_TEXT, call_tool
from ptyctl.mcp.toolsets import TOOLSETS
from ptyctl.stderr_log import KeyValueFormatter
from tests.mcp.stub_controller import StubController

SECRET = "hunter2-Geheim"
TOOL = {tool.name: tool for tool in TOOLSETS["core"]}


async def result_of(tool: str, arguments: dict[str, Any]) -> CallToolResult:
    return await call_tool(TOOL[tool], StubController(), arguments, None)


async def executed(cmd: str) -> CallToolResult:
    return await result_of("ptyctl_session_exec", {"session_id": "s", "cmd": cmd})


def texts(result: CallToolResult) -> list[str]:
    assert all(isinstance(part, TextContent) for part in result.content)
    return [part.text for part in result.content if isinstance(part, TextContent)]


async def test_reply_has_equal_structured_content_and_text() -> None:
    result = await result_of("ptyctl_session_io", {"session_id": "s", "action": "read"})
    assert not result.is_error
    assert result.structured_content["chunk"] == "größe ☃\n"
    (text,) = texts(result)
    assert json.loads(text) == result.structured_content
    assert "größe ☃" in text  # readable, not escaped


async def test_large_reply_is_sent_once_to_clients_that_read_structured_content() -> None:
    arguments = {"session_id": "s", "cmd": "big 20000"}
    old = await call_tool(TOOL["ptyctl_session_exec"], StubController(), arguments, None)
    new = await call_tool(TOOL["ptyctl_session_exec"], StubController(), arguments, None, full_text=False)
    assert new.structured_content == old.structured_content == json.loads(texts(old)[0])
    assert "stdout" in texts(new)[0]
    assert len(new.model_dump_json()) < 1.1 * len(json.dumps(new.structured_content))
    short = await call_tool(TOOL["ptyctl_session_exec"], StubController(), {**arguments, "cmd": "hi x"}, None, full_text=False)
    assert json.loads(texts(short)[0]) == short.structured_content


@pytest.mark.parametrize(
    ("mode", "full_text", "repeated"),
    [
        ("legacy", None, True),
        ("legacy", False, False),
        (LATEST_MODERN_VERSION, None, False),
        (LATEST_MODERN_VERSION, True, True),
    ],
)
async def test_large_reply_is_repeated_as_text_for_clients_that_need_it(
    mode: str, full_text: bool | None, repeated: bool
) -> None:
    server = build_server(StubController(), TOOLSETS["core"], full_text=full_text)
    async with Client(server, mode=mode) as client:
        result = await client.call_tool("ptyctl_session_exec", {"session_id": "s", "cmd": "big 20000"})
        assert result.structured_content["stdout"] == "x" * 20000
        (text,) = texts(result)
        assert ("x" * 20000 in text, "ptyctl mcp --full-text" in text) == (repeated, not repeated)


async def test_long_error_is_always_sent_as_text() -> None:
    arguments = {"session_id": "s", **{f"unknown_{number}": 1 for number in range(100)}}
    result = await call_tool(TOOL["ptyctl_session_exec"], StubController(), arguments, None, full_text=False)
    (text,) = texts(result)
    assert result.is_error
    assert len(text) > MAX_REPEATED_TEXT
    assert json.loads(text) == result.structured_content


async def test_exec_without_exit_code_returns_null() -> None:
    assert (await executed("echo hi")).structured_content["exit_code"] is None


@pytest.mark.parametrize("code", ErrorCode)
async def test_error_of_each_code_is_returned_as_payload(code: ErrorCode) -> None:
    result = await executed(f"fail {code}")
    error = PtyctlError(code, f"what {code} means, and the next step", {"lock_holder": "t1"})
    assert result.is_error
    assert result.structured_content == error.payload()
    (text,) = texts(result)
    assert json.loads(text) == error.payload()


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("ptyctl_session", {}, "action"),
        ("ptyctl_session", {"action": "fly"}, "action"),
        ("ptyctl_session", {"action": "open", "protocol": "ssh"}, "host"),
        ("ptyctl_session", {"action": "open", "protocol": "ssh", "host": "h", "auth": {"pasword": SECRET}}, "auth.pasword"),
        ("ptyctl_session", {"action": "open", "protocol": "ssh", "host": "h", "auth": {"password": [SECRET]}}, "auth.password"),
        ("ptyctl_session", {"action": "open", "protocol": "ssh", "host": "h", "auth": SECRET}, "auth"),
        ("ptyctl_session", {"action": "open", "protocol": "local", "auth": {"password": SECRET}}, "auth"),
        ("ptyctl_session", {"action": "open", "protocol": "local", "env": {"TOKEN": [SECRET]}}, "env.TOKEN"),
        ("ptyctl_session", {"action": "open", "protocol": "local", "pty": SECRET}, "pty: Input should be an object"),
        ("ptyctl_session", {"action": "open", "protocol": "local", "command": [""], "env": [SECRET]}, "env"),
        ("ptyctl_session", {"action": "open", "protocol": "local", "command": ["a", {"b": SECRET}]}, "command.1: "),
        ("ptyctl_session_exec", {"session_id": "s", "lines": {"text": SECRET}}, "lines: Input should be an array"),
        ("ptyctl_session_exec", {"session_id": "s", "cmd": "x", "rc_mode": {"enabled": SECRET}}, "'auto', True or False"),
        ("ptyctl_session_io", {"session_id": "s", "action": "write", "data": {"v": SECRET}, "sensitive": True}, "data"),
        ("ptyctl_session_io", {"session_id": "s", "action": "write", "data": SECRET, "key": "enter"}, "data and key"),
        ("ptyctl_session_io", {"session_id": "s", "action": "read", "cursor": 5.5, "data": SECRET}, "cursor"),
        ("ptyctl_session_exec", {"session_id": "s", "cmd": "x", "responses": [{"match": "", "send": SECRET}]}, "responses.0"),
        ("ptyctl_session_exec", {"session_id": "s", "cmd": "x", "responses": SECRET}, "responses"),
        ("ptyctl_session_config", {"session_id": "s", "action": "resize", "cols": SECRET, "rows": 1}, "cols"),
    ],
)
async def test_invalid_arguments_are_named_and_not_repeated(tool: str, arguments: dict[str, Any], named: str) -> None:
    result = await result_of(tool, arguments)
    assert result.is_error
    assert result.structured_content["error_code"] == "INVALID_ARGUMENT"
    assert named in result.structured_content["message"]
    assert SECRET not in result.model_dump_json()


async def test_error_about_long_arguments_stays_short() -> None:
    long = "x" * 100_000
    for wrong, message in (
        ({"session_id": long}, "at most 256 characters"),
        ({"task_id": long}, "at most 256 characters"),
        ({"block_id": long, "cmd": None}, "at most 256 characters"),
        ({"responses": ["?"] * 1000}, "responses.0: Input should be an object"),
        ({f"unknown{number}": 1 for number in range(900)}, "; and at least 890 more"),
    ):
        result = await result_of("ptyctl_session_exec", {"session_id": "s", "cmd": "x", **wrong})
        assert result.structured_content["error_code"] == "INVALID_ARGUMENT"
        assert len(result.model_dump_json()) < 4000
        assert result.structured_content["message"].endswith(message)


async def test_unexpected_exception_returns_trace_id_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    result = await executed(f"crash {SECRET}")
    assert result.is_error
    error = result.structured_content
    assert error["error_code"] == "INTERNAL"
    trace_id = error["details"]["trace_id"]
    log = "\n".join(KeyValueFormatter().format(record) for record in caplog.records)
    assert trace_id in error["message"]
    assert trace_id in log
    assert f"{Path(__file__).with_name('stub_controller.py').name}:" in log  # where it broke
    assert SECRET not in result.model_dump_json() + log


async def test_reply_that_is_not_utf8_returns_internal_error() -> None:
    assert (await executed("torn")).structured_content["error_code"] == "INTERNAL"

"""The MCP server with clients in the same process, independent of the transport."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from mcp_types.version import LATEST_MODERN_VERSION

from ptyctl.api import ConfigRequest, ExecRequest, IoRequest, SessionRequest
from ptyctl.api.model import Request
from ptyctl.mcp.server import build_server, definition
from ptyctl.mcp.toolsets import choose
from tests.mcp.stub_controller import StubController

CORE = choose("core")
ERAS = ["legacy", LATEST_MODERN_VERSION]


@pytest.mark.parametrize("mode", ERAS)
async def test_list_tools_returns_definitions(mode: str) -> None:
    async with Client(build_server(StubController(), CORE), mode=mode) as client:
        listed = await client.list_tools()
        assert listed.tools == [definition(tool) for tool in CORE]
        assert listed.ttl_ms == (300_000 if mode == LATEST_MODERN_VERSION else 0)


@pytest.mark.parametrize("mode", ERAS)
async def test_tool_that_was_not_chosen_is_unknown(mode: str) -> None:
    async with Client(build_server(StubController(), CORE[:1]), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["ptyctl_session"]
        with pytest.raises(MCPError, match=r"^No such tool\. Available: ptyctl_session$") as refused:
            await client.call_tool("ptyctl_session_exec", {"session_id": "s", "cmd": "hunter2"})
        assert refused.value.code == INVALID_PARAMS


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    ("tool", "arguments", "request_type"),
    [
        ("ptyctl_session", {"action": "open", "protocol": "local"}, SessionRequest),
        ("ptyctl_session_exec", {"session_id": "s", "cmd": "echo"}, ExecRequest),
        ("ptyctl_session_io", {"session_id": "s", "action": "write", "data": "x\n"}, IoRequest),
        ("ptyctl_session_config", {"session_id": "s", "action": "get"}, ConfigRequest),
    ],
)
async def test_tool_call_reaches_its_controller_method(
    mode: str, tool: str, arguments: dict[str, Any], request_type: type[Request]
) -> None:
    controller = StubController()
    async with Client(build_server(controller, CORE), mode=mode) as client:
        assert not (await client.call_tool(tool, arguments)).is_error  # the SDK validates the result against the output schema
    assert controller.requests == [request_type.of(arguments)]


@pytest.mark.parametrize("mode", ERAS)
async def test_server_serves_several_clients_and_leaves_controller_open(mode: str) -> None:
    controller = StubController()
    server = build_server(controller, CORE)
    async with Client(server, mode=mode) as one, Client(server, mode=mode) as two:
        for number, client in enumerate([one, two, one], 1):
            reply = await client.call_tool("ptyctl_session", {"action": "list"})
            assert reply.structured_content["message"] == f"call {number}"
    assert not controller.closed

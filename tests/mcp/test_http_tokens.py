"""Named tokens over HTTP: their role, revocation during a session, and sessions that belong to a token."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_types.version import LATEST_MODERN_VERSION

from fixtures.http_client import loopback_client
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.controller.tokens import TokenFile, Tokens
from ptyctl.core.principal import Kind, Principal, Role
from tests.mcp.http_server import TOKEN, http_client, http_server
from tests.mcp.server_process import PATIENCE_S

ERAS = ["legacy", LATEST_MODERN_VERSION]
OPEN = {"action": "open", "protocol": "local", "command": ["cat"]}
LIST = {"action": "list"}
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path)


@asynccontextmanager
async def server(file: TokenFile) -> AsyncIterator[str]:
    async with LocalController() as controller, http_server(AccessController(controller), Tokens(file, TOKEN)) as url:
        yield url


def create(file: TokenFile, name: str, role: Role, *devices: str) -> str:
    return file.create(Principal(name, Kind.AGENT, role, devices), None)


@pytest.mark.parametrize("mode", ERAS)
async def test_client_has_the_name_the_role_and_the_devices_of_its_token(file: TokenFile, mode: str) -> None:
    operator, viewer = create(file, "night", Role.OPERATOR), create(file, "reader", Role.VIEWER)
    limited = create(file, "switches", Role.OPERATOR, "sw-*")
    async with server(file) as url:
        async with http_client(url, mode, operator) as client:
            opened = (await client.call_tool("ptyctl_session", OPEN)).structured_content or {}
        async with http_client(url, mode, viewer) as client:
            (entry,) = ((await client.call_tool("ptyctl_session", LIST)).structured_content or {})["sessions"]
            assert (entry["session_id"], entry["opened_by"]) == (opened["session_id"], "night")
            refused = await client.call_tool("ptyctl_session", OPEN)
            assert (refused.structured_content or {})["error_code"] == "FORBIDDEN"
        async with http_client(url, mode, limited) as client:
            assert ((await client.call_tool("ptyctl_session", LIST)).structured_content or {})["sessions"] == []
        async with http_client(url, mode) as client:
            close = {"action": "close", "session_id": opened["session_id"]}
            refused = await client.call_tool("ptyctl_session", close)
            assert "default has the role operator" in (refused.structured_content or {})["message"]


class ByHand:
    """Requests of the 2025 revisions in one MCP session."""

    def __init__(self, http: httpx2.AsyncClient, url: str, token: str, session_id: str | None = None) -> None:
        self._http, self._url, self._token, self.session_id = http, url, token, session_id

    async def ask(self, method: str, params: dict[str, Any]) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json, text/event-stream"}
        if self.session_id is not None:
            headers["Mcp-Session-Id"] = self.session_id
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self._http.post(self._url, headers=headers, json=message, timeout=PATIENCE_S)

    async def begin(self) -> None:
        response = await self.ask("initialize", INITIALIZE)
        self.session_id = response.headers["mcp-session-id"]

    async def list_sessions(self) -> int:
        return (await self.ask("tools/call", {"name": "ptyctl_session", "arguments": LIST})).status_code


async def test_revoked_token_is_rejected_at_the_next_request_of_its_session(file: TokenFile) -> None:
    async with server(file) as url, loopback_client() as http:
        client = ByHand(http, url, create(file, "night", Role.OPERATOR))
        await client.begin()
        assert await client.list_sessions() == 200
        file.revoke("night")
        assert await client.list_sessions() == 401


async def test_token_of_another_state_directory_is_refused(file: TokenFile, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir(mode=0o700)
    create(file, "night", Role.OPERATOR)
    foreign = create(TokenFile(tmp_path / "other"), "night", Role.OPERATOR)
    async with server(file) as url, loopback_client() as http:
        response = await ByHand(http, url, foreign).ask("initialize", INITIALIZE)
    assert response.status_code == 401
    assert 'error="invalid_token"' in response.headers["www-authenticate"]
    assert "does not match this server's" in response.text


async def test_session_of_a_token_does_not_exist_for_other_tokens(file: TokenFile) -> None:
    first, second = create(file, "first", Role.OPERATOR), create(file, "second", Role.ADMIN)
    async with server(file) as url, loopback_client() as http:
        client = ByHand(http, url, first)
        await client.begin()
        for other in (second, TOKEN):
            assert await ByHand(http, url, other, client.session_id).list_sessions() == 404
        assert await client.list_sessions() == 200
        file.revoke("first")
        same_name = create(file, "first", Role.OPERATOR)
        assert await ByHand(http, url, same_name, client.session_id).list_sessions() == 404


async def test_session_keeps_the_role_of_its_token_after_a_request_of_another_one(file: TokenFile) -> None:
    viewer, admin = create(file, "reader", Role.VIEWER), create(file, "boss", Role.ADMIN)
    async with server(file) as url, loopback_client() as http:
        client = ByHand(http, url, viewer)
        await client.begin()
        assert await ByHand(http, url, admin, client.session_id).list_sessions() == 404
        response = await client.ask("tools/call", {"name": "ptyctl_session", "arguments": OPEN})
        assert "FORBIDDEN" in response.text

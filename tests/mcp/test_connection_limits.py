"""Limits of HTTP connections: header timeout, number of connections, and sessions of clients that left."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.core.limits import LIMITS
from ptyctl.http import connection_limits
from tests.mcp.http_server import TOKEN, http_client, http_server
from tests.mcp.server_process import PATIENCE_S
from tests.mcp.stub_controller import StubController
from tests.mcp.test_http import BEARER, CALL, EXEC, OPENINGS, by_hand, posted
from tests.session.scripted_session import wait_until

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
REQUEST = f"GET /other HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()


async def connected(url: str, closing: AsyncExitStack, sent: bytes = b"") -> Streams:
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    closing.callback(writer.close)
    writer.write(sent)
    return reader, writer


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Return the status of a response whose body is one line; empty if the server closed the connection."""
    try:
        header = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        await asyncio.wait_for(reader.readline(), PATIENCE_S)
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    return header.split()[1]


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127"])
async def test_connection_without_complete_header_is_closed(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "HEADER_TIMEOUT_S", 0.2)
    async with http_server(StubController()) as url, AsyncExitStack() as closing:
        reader, _ = await connected(url, closing, sent)
        assert await answer(reader) == b""


async def test_incomplete_header_after_a_response_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with http_server(StubController()) as url, AsyncExitStack() as closing:
        reader, writer = await connected(url, closing, REQUEST)
        assert await answer(reader) == b"404"
        monkeypatch.setattr(connection_limits, "HEADER_TIMEOUT_S", 0.2)
        writer.write(b"GET")
        assert await answer(reader) == b""


async def test_rejected_client_is_disconnected() -> None:
    async with http_server(StubController()) as url, AsyncExitStack() as closing:
        reader, _ = await connected(url, closing, REQUEST.replace(TOKEN.encode(), b"wrong"))
        assert await answer(reader) == b"401"
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""


async def test_silent_connections_do_not_starve_a_client() -> None:
    """Those that wait the longest are closed; a running call is not."""
    controller = StubController()
    limits = {**LIMITS, "max_http_connections": LIMITS["max_http_connections"]._replace(maximum=8)}
    async with http_server(controller, limits=limits) as url, AsyncExitStack() as closing:
        session = {"Mcp-Session-Id": (await posted(url, OPENINGS["2025"], **BEARER)).headers["Mcp-Session-Id"]}
        call = by_hand("tools/call", {"name": EXEC, "arguments": {"session_id": "s", "cmd": "hang"}})
        calling = asyncio.create_task(posted(url, call, **BEARER, **session))
        await asyncio.wait_for(controller.hanging.wait(), PATIENCE_S)
        silent = [await connected(url, closing) for _ in range(20)]
        async with http_client(url, "auto") as client:
            assert (await client.call_tool(EXEC, CALL)).structured_content["stdout"] == "hi"
        closed = [await asyncio.wait_for(reader.read(), PATIENCE_S) for reader, _ in silent[:12]]
        assert closed == [b""] * 12
        controller.released.set()
        assert (await calling).status_code == 200


async def test_sessions_of_clients_that_left_make_room() -> None:
    """The session that was not used for the longest time ends; one with a running call does not."""
    controller = StubController()
    limits = {**LIMITS, "max_mcp_sessions": LIMITS["max_mcp_sessions"]._replace(maximum=3)}
    async with http_server(controller, limits=limits) as url:

        async def opened() -> dict[str, str]:
            reply = await posted(url, OPENINGS["2025"], **BEARER)
            assert reply.status_code == 200
            return {**BEARER, "Mcp-Session-Id": reply.headers["Mcp-Session-Id"]}

        async def status(session: dict[str, str]) -> int:
            return (await posted(url, by_hand("tools/call", {"name": EXEC, "arguments": CALL}), **session)).status_code

        calling, used, left = await opened(), await opened(), await opened()
        hanging = by_hand("tools/call", {"name": EXEC, "arguments": {"session_id": "s", "cmd": "hang"}})
        call = asyncio.create_task(posted(url, hanging, **calling))
        await asyncio.wait_for(controller.hanging.wait(), PATIENCE_S)
        assert await status(used) == 200
        another = await opened()
        assert [await status(session) for session in (left, used, another)] == [404, 200, 200]
        controller.released.set()
        assert (await call).status_code == 200


async def test_each_mcp_session_has_its_own_limits(tmp_path: Path) -> None:
    opening = {"action": "open", "protocol": "local", "command": ["cat"]}
    async with (
        LocalController(Settings(state_dir=tmp_path / "state", max_client_sessions=1)) as controller,
        http_server(controller) as url,
    ):
        async with http_client(url, "legacy") as one, http_client(url, "legacy") as two:
            results = [await client.call_tool("ptyctl_session", opening) for client in (one, one, two)]
            assert controller.limits_in_use()["max_client_sessions"] == 1
        await wait_until(lambda: not controller.limits_in_use()["max_client_sessions"])
        assert [result.is_error for result in results] == [False, True, False]
        assert results[1].structured_content is not None
        assert results[1].structured_content["details"] == {"limit": "max_client_sessions", "max_client_sessions": 1}

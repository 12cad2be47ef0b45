"""Attacks on the WebSocket of the web console, and its end with the login."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from ptyctl.api import Controller
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.http import connection_limits
from ptyctl.session.clients import current_principal
from ptyctl.web import app
from tests.http.silent_websocket import SilentWebSocket
from tests.session.scripted_session import wait_until
from tests.web.console import PATIENCE_S, Console, console, open_program

CAROL = Principal("carol", Kind.PERSON, Role.APPROVER)


@asynccontextmanager
async def socket(
    server: Console, *, origin: str | None = "", host: str = "", **headers: str
) -> AsyncIterator[ClientConnection]:
    """Open a WebSocket with the console's Origin and Host by default."""
    address = f"ws://{host or f'127.0.0.1:{server.port}'}/api/stream"
    async with connect(
        address,
        host="127.0.0.1",
        port=server.port,
        origin=server.url if origin == "" else origin,
        additional_headers=headers,
        compression=None,
        open_timeout=PATIENCE_S,
        proxy=None,
    ) as connection:
        yield connection


async def refusal(server: Console, *, origin: str | None = "", host: str = "", **headers: str) -> int:
    """Return the status of a refused upgrade."""
    with pytest.raises(InvalidStatus) as refused:
        async with socket(server, origin=origin, host=host, **headers):
            pass
    assert refused.value.response.headers["X-Content-Type-Options"] == "nosniff"
    assert b"error_code" in refused.value.response.body
    return refused.value.response.status_code


async def next_message(connection: ClientConnection) -> dict[str, Any]:
    """Return the next message of the stream that is not a tick."""
    async with asyncio.timeout(PATIENCE_S):
        while (message := json.loads(await connection.recv()))["op"] == "tick":
            pass
    return dict(message)


@asynccontextmanager
async def logged_in(server: Console, token: str | None = None) -> AsyncIterator[str]:
    """Yield the Cookie header of a login."""
    async with server.browser({"token": token} if token else None) as browser:
        yield f"ptyctl_session={browser.cookies['ptyctl_session']}"


async def greet(websocket: WebSocket, _controller: Controller) -> None:
    """Send the name of the principal, then echo."""
    await websocket.accept()
    await websocket.send_text(current_principal().name)
    async for text in websocket.iter_text():
        await websocket.send_text(text)


async def test_stream_is_served_to_a_login(tmp_path: Path) -> None:
    async with console(tmp_path) as server, logged_in(server) as cookie, socket(server, Cookie=cookie) as connection:
        await connection.send(json.dumps({"op": "subscribe", "id": 1, "topic": "sessions"}))
        message = await next_message(connection)
        assert (message["op"], message["sessions"], message["full"]) == ("sessions", [], True)


async def test_stream_is_served_to_a_bearer_token_without_origin(tmp_path: Path) -> None:
    async with console(tmp_path, serve_stream=greet) as server:
        bearer = f"Bearer {server.token_file.create(CAROL, None)}"
        async with socket(server, origin=None, Authorization=bearer) as connection:
            assert await asyncio.wait_for(connection.recv(), PATIENCE_S) == "carol"
        assert await refusal(server, origin="http://evil.example", Authorization=bearer) == 403
        assert await refusal(server, origin=None, Authorization="Bearer guess") == 401


@pytest.mark.parametrize(
    "origin",
    [None, "null", "http://evil.example", "http://127.0.0.1:1", "http://localhost:{port}", "https://127.0.0.1:{port}"],
)
async def test_upgrade_from_another_origin_is_refused(tmp_path: Path, origin: str | None) -> None:
    async with console(tmp_path, serve_stream=greet) as server, logged_in(server) as cookie:
        foreign = origin and origin.format(port=server.port)
        assert await refusal(server, origin=foreign, Cookie=cookie) == 403


async def test_upgrade_with_foreign_host_is_refused(tmp_path: Path) -> None:
    async with console(tmp_path, serve_stream=greet) as server, logged_in(server) as cookie:
        host = f"evil.example:{server.port}"
        assert await refusal(server, host=host, origin=f"http://{host}", Cookie=cookie) == 403


@pytest.mark.parametrize("cookie", [None, "ptyctl_session=", "ptyctl_session=guess"])
async def test_upgrade_without_login_is_refused(tmp_path: Path, cookie: str | None) -> None:
    async with console(tmp_path, serve_stream=greet) as server:
        assert await refusal(server, **({} if cookie is None else {"Cookie": cookie})) == 401


async def test_socket_closes_when_its_token_is_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "RECHECK_S", 0.05)
    async with console(tmp_path, serve_stream=greet) as server:
        token = server.token_file.create(CAROL, None)
        async with logged_in(server, token) as cookie, socket(server, Cookie=cookie) as connection:
            assert await asyncio.wait_for(connection.recv(), PATIENCE_S) == "carol"
            server.token_file.revoke("carol")
            with pytest.raises(ConnectionClosed) as closed:
                await asyncio.wait_for(connection.recv(), PATIENCE_S)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4401


async def test_socket_of_revoked_token_closes_although_its_client_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "RECHECK_S", 0.05)
    monkeypatch.setattr(app, "CLOSE_MESSAGE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(connection_limits, "UNREAD_TIMEOUT_S", 3600.0)
    monkeypatch.setattr(connection_limits, "CLOSE_TIMEOUT_S", 0.1)
    ended = asyncio.Event()

    async def flood(websocket: WebSocket, _controller: Controller) -> None:
        await websocket.accept()
        try:
            while True:
                await websocket.send_bytes(bytes(1 << 16))
        finally:
            ended.set()

    async with console(tmp_path, serve_stream=flood) as server:
        bearer = {"Authorization": f"Bearer {server.token_file.create(CAROL, None)}"}
        async with SilentWebSocket.open(server.port, "/api/stream", bearer):
            server.token_file.revoke("carol")
            await wait_until(ended.is_set)
            await wait_until(lambda: server.limits.in_use == 0)


async def test_socket_closes_at_logout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "RECHECK_S", 0.05)
    async with (
        console(tmp_path, serve_stream=greet) as server,
        server.browser() as browser,
        socket(server, Cookie=f"ptyctl_session={browser.cookies['ptyctl_session']}") as connection,
    ):
        assert await asyncio.wait_for(connection.recv(), PATIENCE_S) == "alice"
        assert (await browser.post("/api/logout")).status_code == 204
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(connection.recv(), PATIENCE_S)


async def test_socket_closes_when_the_server_stops(tmp_path: Path) -> None:
    async with AsyncExitStack() as opened:
        async with console(tmp_path, serve_stream=greet) as server, logged_in(server) as cookie:
            connection = await opened.enter_async_context(socket(server, Cookie=cookie))
            assert await asyncio.wait_for(connection.recv(), PATIENCE_S) == "alice"
        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.wait_for(connection.recv(), PATIENCE_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012


async def exchange(connection: ClientConnection, message: str | Iterable[str]) -> None:
    await connection.send(message)
    await asyncio.wait_for(connection.recv(), PATIENCE_S)


@pytest.mark.parametrize("fragments", [1, 65])
async def test_oversized_frame_closes_the_socket(tmp_path: Path, fragments: int) -> None:
    async with console(tmp_path, serve_stream=greet) as server, logged_in(server) as cookie:
        async with socket(server, Cookie=cookie) as connection:
            assert await asyncio.wait_for(connection.recv(), PATIENCE_S) == "alice"
            await connection.send("x" * 64 * 1024)
            assert len(await asyncio.wait_for(connection.recv(), PATIENCE_S)) == 64 * 1024
            large = "x" * (64 * 1024 + 1) if fragments == 1 else iter(["x" * 1024] * fragments)
            with pytest.raises(ConnectionClosed) as closed:
                await exchange(connection, large)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009
        await wait_until(lambda: server.limits.in_use <= 1)


async def test_message_of_many_empty_fragments_closes_the_socket(tmp_path: Path) -> None:
    async with console(tmp_path, serve_stream=greet) as server:
        bearer = {"Authorization": f"Bearer {server.token_file.create(CAROL, None)}"}
        async with SilentWebSocket.open(server.port, "/api/stream", bearer) as client:
            with contextlib.suppress(ConnectionError):
                await client.send_fragments(5000)
            await wait_until(lambda: server.limits.in_use == 0)


@pytest.mark.parametrize("is_token", [False, True])
async def test_sockets_of_a_principal_are_limited(tmp_path: Path, is_token: bool) -> None:
    async with console(tmp_path, serve_stream=greet, limits={"max_client_sockets": 3}) as server, AsyncExitStack() as logins:
        carol = {"Authorization": f"Bearer {server.token_file.create(CAROL, None)}"}
        alice = [{"Cookie": await logins.enter_async_context(logged_in(server))} for _ in range(2)]
        own, other = ([carol, carol], alice[0]) if is_token else (alice, carol)
        async with AsyncExitStack() as opened:
            for _ in range(3):
                connection = await opened.enter_async_context(socket(server, **own[0]))
                await asyncio.wait_for(connection.recv(), PATIENCE_S)
            assert await refusal(server, **own[1]) == 429
            async with socket(server, **other) as connection:
                await asyncio.wait_for(connection.recv(), PATIENCE_S)
        await wait_until(lambda: server.limits.in_use <= 2)
        async with socket(server, **own[1]) as connection:
            await asyncio.wait_for(connection.recv(), PATIENCE_S)


async def test_watches_of_a_token_are_limited_on_all_its_sockets(tmp_path: Path) -> None:
    async with console(tmp_path, limits={"max_client_watches": 1}) as server, AsyncExitStack() as opened:
        bearer = {"Authorization": f"Bearer {server.token_file.create(CAROL, None)}"}
        session_id = await open_program(server)
        answers = []
        for _ in range(2):
            connection = await opened.enter_async_context(socket(server, **bearer))
            await connection.send(json.dumps({"op": "subscribe", "id": 1, "topic": f"terminal:{session_id}"}))
            answers.append(await next_message(connection))
        assert [answer["op"] for answer in answers] == ["snapshot", "error"]
        assert answers[1]["error"]["details"]["limit"] == "max_client_watches"


async def test_a_thousand_sockets_harm_no_open_one(tmp_path: Path) -> None:
    """Sockets beyond the limit of connections are closed; those that are open still work, and room is reused."""
    async with (
        console(tmp_path, serve_stream=greet, limits={"max_http_connections": 50, "max_client_sockets": 1000}) as server,
        logged_in(server) as cookie,
    ):

        async def attempt(opened: AsyncExitStack) -> ClientConnection | None:
            try:
                return await opened.enter_async_context(socket(server, Cookie=cookie))
            except (OSError, EOFError, WebSocketException):
                return None

        async with AsyncExitStack() as opened:
            connections: list[ClientConnection] = []
            for _ in range(20):  # 50 at a time
                found = await asyncio.gather(*(attempt(opened) for _ in range(50)))
                connections += [connection for connection in found if connection is not None]
            assert 0 < len(connections) <= 50
            assert server.limits.in_use <= 50
            for connection in connections[:3]:
                assert await asyncio.wait_for(connection.recv(), PATIENCE_S) == "alice"
                await connection.send("still here")
                assert await asyncio.wait_for(connection.recv(), PATIENCE_S) == "still here"
        await wait_until(lambda: server.limits.in_use <= 1)
        async with socket(server, Cookie=cookie) as connection:
            assert await asyncio.wait_for(connection.recv(), PATIENCE_S) == "alice"


async def test_upgrade_of_another_path_is_refused(tmp_path: Path) -> None:
    async with console(tmp_path, serve_stream=greet) as server, logged_in(server) as cookie:
        for path in ("/", "/mcp", "/api/me", "/api/call/ptyctl_session"):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(
                    f"ws://127.0.0.1:{server.port}{path}", origin=server.url, additional_headers={"Cookie": cookie}, proxy=None
                ):
                    pass
            assert refused.value.response.status_code in (403, 404)

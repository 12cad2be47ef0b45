"""Limits of downloads: their number, their end with the login, and no work for HEAD."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.web import app, downloads
from tests.session.scripted_session import wait_until
from tests.web.console import PATIENCE_S, Console, console, error_code, open_program

CAROL = Principal("carol", Kind.PERSON, Role.APPROVER)
_NAME = "max_client_downloads"


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let downloads have no end. The list has the session of each one that has begun."""
    names: list[str] = []

    async def pieces(_controller: object, session_id: str, _writer: object) -> AsyncGenerator[str, None]:
        names.append(session_id)
        while True:
            yield "x" * 65536
            await asyncio.sleep(0)

    monkeypatch.setattr(downloads, "_pieces", pieces)
    monkeypatch.setattr(app, "RECHECK_S", 0.05)
    return names


def in_use(server: Console) -> int:
    return server.controller.limits_in_use()[_NAME]


@asynccontextmanager
async def begun_download(server: Console, session_id: str, **headers: str) -> AsyncIterator[asyncio.StreamReader]:
    """Request a download, and read the start of its response only."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"GET /api/session/{session_id}/text HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{fields}\r\n".encode())
    try:
        assert await asyncio.wait_for(reader.readexactly(12), PATIENCE_S) == b"HTTP/1.1 200"
        yield reader
    finally:
        writer.close()


async def test_downloads_of_a_principal_are_limited(tmp_path: Path) -> None:
    async with console(tmp_path, limits={_NAME: 1}) as server, AsyncExitStack() as opened:
        session_id = await open_program(server)
        one, two = [await opened.enter_async_context(server.browser()) for _ in range(2)]
        async with begun_download(server, session_id, Cookie=f"ptyctl_session={one.cookies['ptyctl_session']}"):
            for name in ("text", "cast"):
                refused = await two.get(f"/api/session/{session_id}/{name}")
                assert (refused.status_code, error_code(refused)) == (429, "LIMIT_EXCEEDED")
                assert (await two.head(f"/api/session/{session_id}/{name}")).status_code == 200
            bearer = f"Bearer {server.token_file.create(CAROL, None)}"
            async with begun_download(server, session_id, Authorization=bearer):
                assert in_use(server) == 1
        await wait_until(lambda: in_use(server) == 0)


@pytest.mark.parametrize("is_token", [True, False])
async def test_download_ends_with_its_login(tmp_path: Path, is_token: bool) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        bearer = {"Authorization": f"Bearer {server.token_file.create(CAROL, None)}"}
        login = bearer if is_token else {"Cookie": f"ptyctl_session={browser.cookies['ptyctl_session']}"}
        async with begun_download(server, await open_program(server), **login) as reader:
            assert in_use(server) == 1
            if is_token:
                server.token_file.revoke("carol")
            else:
                assert (await browser.post("/api/logout")).status_code == 204
            await wait_until(lambda: in_use(server) == 0)
            rest = b""
            with contextlib.suppress(ConnectionError):
                while block := await asyncio.wait_for(reader.read(65536), PATIENCE_S):  # read() reads `limit` bytes at a time
                    rest = rest[-8:] + block
            assert not rest.endswith(b"0\r\n\r\n")  # the end of a response that is complete


async def test_head_of_download_makes_nothing(tmp_path: Path, begun: list[str]) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        session_id = await open_program(server)
        for name, suffix in (("text", "txt"), ("cast", "cast")):
            head = await browser.head(f"/api/session/{session_id}/{name}")
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-disposition"] == f'attachment; filename="{session_id}.{suffix}"'
            assert (await browser.head(f"/api/session/unknown/{name}")).status_code == 404
        assert not begun

"""The web console of a controller in this process, on a real socket, and clients that send what a browser sends."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from ptyctl.api.handle import SessionHandle
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.controller.tokens import TokenFile, Tokens
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.http.access import NOT_EXPOSED, Address, Exposure, open_listener
from ptyctl.http.connection_limits import ConnectionLimits
from ptyctl.http.origins import Origins
from ptyctl.http.server import serve
from ptyctl.web.app import ServeStream, WebApp

PATIENCE_S = 60
ALICE = Principal("alice", Kind.PERSON, Role.ADMIN)


@dataclass
class Console:
    """A running console. `rows` are those that it added to the audit log."""

    url: str
    app: WebApp
    token_file: TokenFile
    limits: ConnectionLimits
    controller: LocalController
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @asynccontextmanager
    async def client(self, *, trusted: ssl.SSLContext | None = None, **headers: str) -> AsyncIterator[httpx2.AsyncClient]:
        """Yield a client without a login. It sends the Origin of the console unless another one is given.

        It trusts no certificates by default: to load those of the system takes longer than most tests.
        """
        origin, verify = {"Origin": self.url} | headers, trusted or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        async with httpx2.AsyncClient(base_url=self.url, headers=origin, timeout=PATIENCE_S, verify=verify) as client:
            yield client

    @asynccontextmanager
    async def browser(self, body: Mapping[str, str] | None = None) -> AsyncIterator[httpx2.AsyncClient]:
        """Yield a client that is logged in, as alice by a ticket by default. It sends the CSRF header."""
        async with self.client() as client:
            reply = await client.post("/api/login", json=body or {"ticket": self.app.mint_ticket(ALICE)})
            assert reply.status_code == 200, reply.text
            client.headers["X-Ptyctl-CSRF"] = reply.json()["csrf"]
            yield client


@asynccontextmanager
async def console(
    folder: Path,
    *,
    exposure: Exposure = NOT_EXPOSED,
    serve_stream: ServeStream | None = None,
    limits: Mapping[str, int] | None = None,
    policy: str | None = None,
) -> AsyncIterator[Console]:
    """Serve a console on a free port of 127.0.0.1, with these limits and the text of a policy instead of the default ones."""
    settings: dict[str, Any] = {"state_dir": folder / "state", **dict(limits or {})}
    if policy is not None:
        (folder / "policy.toml").write_text(policy)
        settings["policy"] = str(folder / "policy.toml")
    async with LocalController(Settings(**settings)) as controller:
        listener, token_file = open_listener(Address("127.0.0.1", 0)), TokenFile(folder)
        connections = ConnectionLimits(controller.settings.limits.use["max_http_connections"])
        rows: list[dict[str, Any]] = []

        def record(event: str, **fields: object) -> None:
            rows.append({"event": event, **fields})

        origins, access = Origins(exposure.public), AccessController(controller)
        app = WebApp(
            access, Tokens(token_file, None), record, origins, controller.settings.limits.use, serve_stream=serve_stream
        )
        url = f"{'http' if exposure.tls is None else 'https'}://127.0.0.1:{listener.getsockname()[1]}"
        serving = asyncio.create_task(serve(app, listener, websockets=True, limits=connections, exposure=exposure))
        try:
            yield Console(url, app, token_file, connections, controller, rows)
        finally:
            serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(serving, PATIENCE_S)
            app.close()


async def open_program(server: Console) -> str:
    """Open a session whose program waits for input; return its id."""
    opened = await SessionHandle.open(server.controller, protocol="local", command=("sh", "-c", "echo text; exec sleep 1000"))
    await opened.read(until_regex="text", timeout_ms=50_000)
    return opened.session_id


def error_code(reply: httpx2.Response) -> str:
    """Return the error code of a response, which is an error."""
    error = reply.json()["error"]
    assert set(error) - {"hint"} == {"error_code", "message", "details", "retryable"}
    return str(error["error_code"])

"""`ptyctl web`, and the console of `ptyctl serve`: the daemon listens, and a ticket logs in."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from fixtures.forked_process import PTYCTL, ForkedProgram
from fixtures.http_client import loopback_client
from fixtures.servers.programs import free_port
from ptyctl.api.errors import PtyctlError
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.daemon.control import BlockingClient, find_daemon, hand_over
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.daemon.web_service import WebOpenRequest, WebService
from ptyctl.http.access import Address, open_listener
from ptyctl.session.clients import Client, current_client, serving
from ptyctl.web.app import WebApp
from tests.daemon.test_serve_command import PATIENCE_S, end, first_message, refusal, start
from tests.http.certificates import make_certificate
from tests.mcp.http_server import TOKEN
from tests.mcp.test_http import OPENINGS, posted
from tests.session.scripted_session import wait_until
from tests.web.console import ALICE
from transports.caller import Caller, current_caller, on_behalf_of

pytestmark = pytest.mark.waits

ANY_PORT = "127.0.0.1:0"


class Run(NamedTuple):
    """The output and the exit code of a command."""

    stdout: str
    stderr: str
    returncode: int | None


def ptyctl(*arguments: str, **variables: str) -> Run:
    program = ForkedProgram(PTYCTL, *arguments, environment={**os.environ, **variables})
    return Run(*program.communicate(), program.returncode)


def open_web(runtime_dir: RuntimeDir, listen: str = ANY_PORT) -> dict[str, Any]:
    with BlockingClient(runtime_dir) as daemon:
        return daemon.call("web", {"listen": listen})


def log_in(reply: dict[str, Any]) -> httpx2.Response:
    body = {"ticket": reply["ticket"]}
    return httpx2.post(f"{reply['url']}/api/login", json=body, headers={"Origin": reply["url"]}, timeout=PATIENCE_S)


def test_web_starts_the_daemon_and_prints_an_address_that_logs_in(runtime_dir: RuntimeDir) -> None:
    BlockingClient(runtime_dir).__exit__()  # starts a daemon that is ended after the test
    for arguments in (["--json"], ["--no-open"], []):
        run = ptyctl("web", "--listen", ANY_PORT, *arguments, DISPLAY="", WAYLAND_DISPLAY="", BROWSER="")
        assert run.returncode == 0, run.stderr
        printed = json.loads(run.stdout)["url"] if arguments == ["--json"] else run.stdout.strip()
        url, _, ticket = printed.partition("/#ticket=")
        reply = log_in({"url": url, "ticket": ticket})
        assert (reply.status_code, reply.json()["principal"]["role"]) == (200, "admin")


def test_browser_gets_a_file_that_others_cannot_read(runtime_dir: RuntimeDir, tmp_path: Path) -> None:
    BlockingClient(runtime_dir).__exit__()
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >{tmp_path}/opened\n')
    browser.chmod(0o755)
    run = ptyctl("web", "--listen", ANY_PORT, BROWSER=f"{browser} %s")
    assert run.returncode == 0, run.stderr
    page = Path((tmp_path / "opened").read_text().strip().removeprefix("file://"))
    assert page.stat().st_mode & 0o777 == 0o600
    assert run.stdout.strip() in page.read_text()


def test_open_console_is_used_again_wherever_it_listens(runtime_dir: RuntimeDir) -> None:
    first, second = open_web(runtime_dir), open_web(runtime_dir)
    assert (first["url"], first["opened"], second["opened"]) == (second["url"], True, False)
    run = ptyctl("web", "--no-open", "--listen", f"127.0.0.1:{free_port()}")
    assert f"the console listens at {first['url']} already" in run.stderr
    assert run.stdout.startswith(f"{first['url']}/#ticket=")
    assert {log_in(reply).status_code for reply in (first, second)} == {200}


def test_busy_port_is_an_error_with_next_step(runtime_dir: RuntimeDir) -> None:
    BlockingClient(runtime_dir).__exit__()
    with open_listener(Address("127.0.0.1", 0)) as other:
        run = ptyctl("web", "--listen", f"127.0.0.1:{other.getsockname()[1]}")
    assert run.returncode == 2
    assert "the port is in use; choose another one" in run.stderr
    assert ptyctl("web", "--no-open", "--listen", ANY_PORT).returncode == 0


@pytest.mark.parametrize("listen", ["0.0.0.0:8022", "example.com:80", "x", "127.0.0.1:99999"])
def test_address_that_is_not_loopback_is_refused(runtime_dir: RuntimeDir, listen: str) -> None:
    with pytest.raises(PtyctlError, match=r"loopback only|not an address"):
        open_web(runtime_dir, listen)


def test_agent_may_not_open_the_console(runtime_dir: RuntimeDir) -> None:
    agent = {"name": "a", "kind": "agent", "role": "admin", "devices": []}
    operator = {"name": "o", "kind": "person", "role": "operator", "devices": []}
    with BlockingClient(runtime_dir) as daemon, daemon._link.makefile("rwb") as stream:
        for number, principal in enumerate((agent, operator)):
            message = {"jsonrpc": "2.0", "id": number, "method": "web", "params": {}, "principal": principal}
            stream.write(json.dumps(message).encode() + b"\n")
            stream.flush()
            answer = json.loads(stream.readline())
            assert answer["error"]["data"]["error_code"] == "FORBIDDEN"


def test_logins_end_with_the_daemon(runtime_dir: RuntimeDir) -> None:
    first = open_web(runtime_dir, f"127.0.0.1:{free_port()}")  # the system gives it to no one else meanwhile
    ticket = open_web(runtime_dir)["ticket"]
    cookie = log_in(first).cookies["ptyctl_session"]
    hand_over(runtime_dir)
    listen = first["url"].removeprefix("http://")
    second = open_web(runtime_dir, listen)
    assert second["url"] == first["url"]
    headers = {"Cookie": f"ptyctl_session={cookie}"}
    assert httpx2.get(f"{second['url']}/api/me", headers=headers, timeout=PATIENCE_S).status_code == 401
    assert log_in({"url": first["url"], "ticket": ticket}).status_code == 401
    assert log_in(second).status_code == 200


async def test_console_is_used_while_it_has_connections(tmp_path: Path) -> None:
    """The daemon does not end as idle meanwhile."""
    async with LocalController(Settings(state_dir=tmp_path)) as controller:
        service = WebService(AccessController(controller), tmp_path, lambda event, **fields: None)
        assert not service.is_used()
        opened = await service.open(WebOpenRequest(listen=ANY_PORT))
        assert not service.is_used()
        _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(opened.url).port)
        await wait_until(service.is_used)
        writer.close()
        await wait_until(lambda: not service.is_used())
        await service.close()


async def test_requests_do_not_inherit_the_client_that_opened_the_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    async def app(_app: WebApp, scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend((current_caller(), current_client()))
        await PlainTextResponse("ok")(scope, receive, send)

    monkeypatch.setattr(WebApp, "__call__", app)
    async with LocalController(Settings(state_dir=tmp_path)) as controller:
        service = WebService(AccessController(controller), tmp_path, lambda event, **fields: None)
        with on_behalf_of(Caller("/tmp", {"SSH_AUTH_SOCK": "/tmp/agent"})), serving(Client(ALICE)):
            opened = await service.open(WebOpenRequest(listen=ANY_PORT))
        async with loopback_client(base_url=opened.url, timeout=PATIENCE_S) as client:
            assert (await client.get("/")).status_code == 200
        await service.close()
    assert seen == [None, None]


async def test_serve_has_mcp_and_console_on_one_listener(runtime_dir: RuntimeDir) -> None:
    server = start()
    mcp_url = (await first_message(server)).split()[-1]
    url = mcp_url.removesuffix("/mcp")
    assert await first_message(server) == f"ptyctl: serving the web console at {url}/\n"
    await asyncio.to_thread(server.stdout.read)  # ends once the socket listens
    reply = await asyncio.to_thread(open_web, runtime_dir)
    assert (reply["url"], reply["opened"]) == (url, False)
    assert (await asyncio.to_thread(log_in, reply)).json()["principal"]["kind"] == "person"
    async with loopback_client(base_url=url, headers={"Origin": url}, timeout=PATIENCE_S) as client:
        assert (await client.post("/mcp", json={})).status_code == 401
        agent = await client.post("/api/login", json={"token": TOKEN})
        assert agent.json()["principal"] == {"name": "default", "kind": "agent", "role": "operator"}
        assert (await posted(mcp_url, OPENINGS["2025"], Authorization=f"Bearer {TOKEN}")).status_code == 200
        await asyncio.to_thread(open_web, runtime_dir)
        status = await asyncio.to_thread(find_daemon, runtime_dir)
        in_use = {use["name"]: use["in_use"] for use in status.limits} if status is not None else {}
        assert [in_use[name] for name in ("max_web_logins", "max_web_tickets", "max_mcp_sessions")] == [2, 1, 1]
        assert in_use["max_http_connections"] >= 1
    await end(server)


async def test_serve_over_tls_tells_the_public_origin(runtime_dir: RuntimeDir, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    files = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    server = start("serve", "--listen", "0.0.0.0:0", *files, "--public-origin", "https://127.0.0.1:8443")
    assert await first_message(server) == "ptyctl: serving MCP at https://127.0.0.1:8443/mcp\n"
    await asyncio.to_thread(server.stdout.read)
    reply = await asyncio.to_thread(open_web, runtime_dir)
    assert (reply["url"], reply["opened"]) == ("https://127.0.0.1:8443", False)
    await end(server)


async def test_serve_beyond_loopback_needs_encryption(runtime_dir: RuntimeDir) -> None:
    assert "without TLS ptyctl listens on loopback only" in await refusal("serve", "--listen", "0.0.0.0:0")
    assert "needs encryption" in await refusal("serve", "--public-origin", "https://console.example")

"""Attacks on the requests of the web console: foreign pages, DNS rebinding, missing headers, oversized bodies."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest

from ptyctl.core.principal import Kind, Principal, Role
from tests.web.console import ALICE, PATIENCE_S, console, error_code

LIST = {"action": "list"}
CALL = "/api/call/ptyctl_session"
CAROL = Principal("carol", Kind.PERSON, Role.APPROVER)
FOREIGN = [
    "http://evil.example",
    "https://127.0.0.1:{port}",
    "http://127.0.0.1:1",
    "http://127.0.0.1",
    "http://localhost:{port}",
    "http://127.0.0.1:{port}/",
    "http://user@127.0.0.1:{port}",
    "http://[::1]:{port}",
    "null",
    "",
]


@pytest.mark.parametrize("origin", FOREIGN)
async def test_post_from_another_origin_is_refused(tmp_path: Path, origin: str) -> None:
    """Also from another port of the same host, for whose pages a browser sends the cookie."""
    async with console(tmp_path) as server, server.browser() as browser:
        foreign = {"Origin": origin.format(port=server.port)}
        for path in (CALL, "/api/logout", "/api/login"):
            reply = await browser.post(path, json=LIST, headers=foreign)
            assert (reply.status_code, error_code(reply)) == (403, "FORBIDDEN")
        assert (await browser.post(CALL, json=LIST)).status_code == 200


async def test_post_without_origin_is_refused_unless_it_has_a_token(tmp_path: Path) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        del browser.headers["Origin"]
        assert (await browser.post(CALL, json=LIST)).status_code == 403
        assert (await browser.post("/api/login", json={"ticket": server.app.mint_ticket(ALICE)})).status_code == 403
        assert server.rows[-1]["why"] == "no Origin header"
        bearer = {"Authorization": f"Bearer {server.token_file.create(CAROL, None)}"}
        assert (await browser.post(CALL, json=LIST, headers=bearer)).status_code == 200
        foreign = bearer | {"Origin": "http://evil.example"}
        assert (await browser.post(CALL, json=LIST, headers=foreign)).status_code == 403


@pytest.mark.parametrize("csrf", [None, "", "wrong", "\u00fc"])
async def test_post_without_the_csrf_header_of_the_login_is_refused(tmp_path: Path, csrf: str | None) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        del browser.headers["X-Ptyctl-CSRF"]
        headers = {} if csrf is None else {"X-Ptyctl-CSRF": csrf.encode("latin-1")}
        reply = await browser.post(CALL, json=LIST, headers=headers)
        assert (reply.status_code, error_code(reply)) == (403, "FORBIDDEN")


async def test_csrf_value_of_another_login_is_refused(tmp_path: Path) -> None:
    async with console(tmp_path) as server, server.browser() as one, server.browser() as other:
        reply = await one.post(CALL, json=LIST, headers={"X-Ptyctl-CSRF": other.headers["X-Ptyctl-CSRF"]})
        assert reply.status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "192.0.2.1", ""])
async def test_request_with_foreign_host_is_refused(tmp_path: Path, host: str) -> None:
    """DNS rebinding: the page and its Origin are of the attacker's name, which resolves to a loopback address."""
    async with console(tmp_path) as server, server.browser() as browser:
        name = host.format(port=server.port)
        for path in ("/", "/static/app.js", "/api/me"):
            reply = await browser.get(path, headers={"Host": name})
            assert (reply.status_code, error_code(reply)) == (403, "FORBIDDEN")
        assert (await browser.post(CALL, json=LIST, headers={"Host": name, "Origin": f"http://{name}"})).status_code == 403


async def test_tunnel_with_another_local_port_is_served(tmp_path: Path) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        tunnel = {"Host": "localhost:9000", "Origin": "http://localhost:9000"}
        assert (await browser.post(CALL, json=LIST, headers=tunnel)).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_read_by_a_page_of_another_origin_is_refused(tmp_path: Path, site: str) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        assert (await browser.get("/api/me", headers={"Sec-Fetch-Site": site})).status_code == 403
        assert (await browser.get("/api/me", headers={"Sec-Fetch-Site": "same-origin"})).status_code == 200


async def test_no_response_allows_another_origin(tmp_path: Path) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
        for reply in (await browser.options(CALL, headers=preflight), await browser.get("/api/me"), await browser.get("/x")):
            assert not [name for name in reply.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("path", ["/", "/s/x", "/api/me", "/api/none", "/static/none", "/api/login"])
async def test_every_response_has_the_security_headers(tmp_path: Path, path: str) -> None:
    async with console(tmp_path) as server, server.client() as client:
        policies = set()
        for _ in range(2):
            headers = (await client.get(path)).headers
            policy = {name: values for name, *values in map(str.split, headers["content-security-policy"].split(";"))}
            assert (
                policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == ["'none'"]
            )
            assert policy["script-src"] == policy["connect-src"] == ["'self'"]
            assert policy["require-trusted-types-for"] == ["'script'"]
            assert policy["style-src"][1].startswith("'nonce-")
            policies.add(headers["content-security-policy"])
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
            assert headers["cache-control"] == "no-store"
        assert len(policies) == 2  # a nonce is used once


@pytest.mark.parametrize("path", ["/api/me", "/api/call/ptyctl_session", "/api/none", "/api//me", "/api/session/x/text"])
async def test_path_of_the_api_needs_a_login(tmp_path: Path, path: str) -> None:
    async with console(tmp_path) as server, server.client() as client:
        for reply in (await client.get(path), await client.post(path, json=LIST)):
            assert (reply.status_code, error_code(reply)) == (401, "AUTH_FAILED")
        for cookie in ("", "guess", "\u00fc"):
            headers = {"Cookie": f"ptyctl_session={cookie}".encode("latin-1")}
            assert (await client.get(path, headers=headers)).status_code == 401


async def test_oversized_body_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with console(tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        header = f"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nOrigin: {server.url}\r\n"
        writer.write(f"{header}Content-Length: 1000000000\r\n\r\n".encode() + b" " * 10_000)
        assert (await asyncio.wait_for(reader.readline(), PATIENCE_S)).split()[1] == b"413"
        await asyncio.wait_for(reader.read(), PATIENCE_S)  # the server closes the connection
        writer.close()
        await writer.wait_closed()


async def test_call_with_oversized_body_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptyctl.core.json_lines.MAX_LINE_BYTES", 1000)
    async with console(tmp_path) as server, server.browser() as browser:
        reply = await browser.post(CALL, json={"action": "x" * 2000})
        assert (reply.status_code, error_code(reply)) == (413, "INVALID_ARGUMENT")


async def test_logins_of_another_server_are_refused(tmp_path: Path) -> None:
    """As after a restart of the daemon."""
    async with console(tmp_path) as server, server.browser() as browser:
        cookies = dict(browser.cookies)
        ticket = server.app.mint_ticket(ALICE)
    async with console(tmp_path) as server, server.client() as client:
        client.cookies.update(cookies)
        assert (await client.get("/api/me")).status_code == 401
        assert (await client.post("/api/login", json={"ticket": ticket})).status_code == 401


async def test_refused_requests_have_rows_in_the_audit_log(tmp_path: Path) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        assert isinstance(browser, httpx2.AsyncClient)
        await browser.post(CALL, json=LIST, headers={"Origin": "http://evil.example"})
        await browser.get("/", headers={"Host": "evil.example"})
        await browser.post(CALL, json=LIST, headers={"X-Ptyctl-CSRF": "x"})
        assert [row["event"] for row in server.rows] == ["connect", "refused", "refused", "refused"]
        assert "another origin" in server.rows[1]["why"]
        assert "Host" in server.rows[2]["why"]
        assert "X-Ptyctl-CSRF" in server.rows[3]["why"]

"""Logins of the web console: tickets, tokens, cookies and their end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ptyctl.core.limits import LIMITS
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.http import bearer
from ptyctl.web import app, security
from ptyctl.web.security import WebSessions
from tests.web.console import ALICE, PATIENCE_S, Console, console, error_code

CAROL = Principal("carol", Kind.PERSON, Role.APPROVER)


async def test_ticket_logs_in_as_its_principal(tmp_path: Path) -> None:
    async with console(tmp_path) as server, server.client() as client:
        reply = await client.post("/api/login", json={"ticket": server.app.mint_ticket(ALICE)})
        assert reply.status_code == 200
        assert reply.json()["principal"] == {"name": "alice", "kind": "person", "role": "admin"}
        assert reply.json()["task_id"] == "web"
        assert (again := (await client.get("/api/me")).json()) | {"ts": 0} == reply.json() | {"ts": 0}
        assert again["ts"] >= reply.json()["ts"] > 0
        assert server.rows == [{"event": "connect", "via": "web", "principal": "alice", "by": "ticket", "address": "127.0.0.1"}]


async def test_cookie_is_hidden_from_scripts_and_other_sites(tmp_path: Path) -> None:
    async with console(tmp_path) as server, server.client() as client:
        reply = await client.post("/api/login", json={"ticket": server.app.mint_ticket(ALICE)})
        name, *flags = (part.strip() for part in reply.headers["set-cookie"].split(";"))
        assert name.startswith("ptyctl_session=")
        assert len(name) >= 43
        assert {flag.lower() for flag in flags} == {"httponly", "samesite=strict", "path=/", "max-age=43200"}


async def test_ticket_is_valid_once(tmp_path: Path) -> None:
    async with console(tmp_path) as server, server.client() as client:
        ticket = {"ticket": server.app.mint_ticket(ALICE)}
        assert (await client.post("/api/login", json=ticket)).status_code == 200
        client.cookies.clear()
        reply = await client.post("/api/login", json=ticket)
        assert (reply.status_code, error_code(reply)) == (401, "AUTH_FAILED")
        assert server.rows[-1]["why"] == "unknown, used or expired ticket"
        assert (await client.get("/api/me")).status_code == 401


async def test_ticket_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(tmp_path) as server, server.client() as client:
        ticket = {"ticket": server.app.mint_ticket(ALICE)}
        later = time.clock_gettime(time.CLOCK_BOOTTIME) + security.TICKET_LIFETIME_S
        monkeypatch.setattr(security, "boot_time", lambda: later)
        assert (await client.post("/api/login", json=ticket)).status_code == 401


async def test_login_ends_after_its_lifetime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        later = time.clock_gettime(time.CLOCK_BOOTTIME) + security.SESSION_LIFETIME_S
        monkeypatch.setattr(security, "boot_time", lambda: later)
        assert (await browser.get("/api/me")).status_code == 401


async def test_token_logs_in_as_its_principal_until_it_is_revoked(tmp_path: Path) -> None:
    async with console(tmp_path) as server:
        token = server.token_file.create(CAROL, None)
        async with server.browser({"token": token}) as browser:
            assert (await browser.get("/api/me")).json()["principal"] == {"name": "carol", "kind": "person", "role": "approver"}
            opened = await browser.post("/api/call/ptyctl_session", json={"action": "open", "protocol": "local"})
            assert (opened.status_code, error_code(opened)) == (403, "FORBIDDEN")
            server.token_file.revoke("carol")
            assert (await browser.get("/api/me")).status_code == 401
            listed = await browser.post("/api/call/ptyctl_session", json={"action": "list"})
            assert (listed.status_code, error_code(listed)) == (401, "AUTH_FAILED")


async def test_bearer_token_needs_no_login(tmp_path: Path) -> None:
    async with console(tmp_path) as server:
        token = server.token_file.create(CAROL, None)
        async with server.client(Authorization=f"Bearer {token}") as client:
            del client.headers["Origin"]
            assert (await client.get("/api/me")).json()["principal"]["name"] == "carol"
            assert (await client.post("/api/call/ptyctl_session", json={"action": "list"})).status_code == 200
            server.token_file.revoke("carol")
            reply = await client.post("/api/call/ptyctl_session", json={"action": "list"})
            assert (reply.status_code, reply.headers["www-authenticate"].split()[0]) == (401, "Bearer")


async def test_wrong_tokens_of_requests_and_logins_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer, "GUESS_PERIOD_S", 3600)
    async with console(tmp_path) as server, server.client() as client:
        for _ in range(5):
            assert (await client.get("/api/me", headers={"Authorization": "Bearer x"})).status_code == 401
            assert (await client.post("/api/login", json={"token": "x"})).status_code == 401
        reply = await client.get("/api/me", headers={"Authorization": "Bearer x"})
        assert (reply.status_code, error_code(reply)) == (429, "LIMIT_EXCEEDED")
        assert int(reply.headers["retry-after"]) > 0
        token = server.token_file.create(CAROL, None)
        assert (await client.get("/api/me", headers={"Authorization": f"Bearer {token}"})).status_code == 200


async def test_logout_ends_the_login_and_removes_the_cookie(tmp_path: Path) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        stolen = browser.cookies["ptyctl_session"]
        reply = await browser.post("/api/logout")
        assert (reply.status_code, dict(browser.cookies)) == (204, {})
        assert (await browser.get("/api/me", headers={"Cookie": f"ptyctl_session={stolen}"})).status_code == 401
        assert server.rows[-1] == {"event": "disconnect", "via": "web", "principal": "alice"}


@pytest.mark.parametrize("body", ["", "{", "[]", "{}", '{"ticket": 1}', '{"ticket": "x", "token": "y"}', "[" * 100_000])
async def test_login_with_invalid_body_is_refused(tmp_path: Path, body: str) -> None:
    async with console(tmp_path) as server, server.client() as client:
        reply = await client.post("/api/login", content=body)
        assert reply.status_code in (400, 413)
        assert error_code(reply) == "INVALID_ARGUMENT"


@pytest.mark.parametrize("field", ["ticket", "token"])
async def test_failed_logins_are_limited_and_recorded(tmp_path: Path, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptyctl.audit.audit_log.PERIOD_S", 3600)
    monkeypatch.setattr(bearer, "GUESS_PERIOD_S", 3600)
    async with console(tmp_path) as server, server.client() as client:
        token = server.token_file.create(CAROL, None)
        guesses = [await client.post("/api/login", json={field: f"guess-{number}"}) for number in range(13)]
        assert [reply.status_code for reply in guesses] == 10 * [401] + 3 * [429]
        assert int(guesses[-1].headers["retry-after"]) > 0
        assert (await client.post("/api/login", json={"token": token})).status_code == 200
        assert (await client.post("/api/login", json={"ticket": server.app.mint_ticket(ALICE)})).status_code == 200
        refused = [row for row in server.rows if row["event"] == "refused"]
        assert len(refused) >= 10
        assert {row["address"] for row in refused} == {"127.0.0.1"}
        assert not [row for row in server.rows if "guess" in str(row)]


def test_oldest_ticket_and_session_make_room() -> None:
    limits = {name: limit._replace(maximum=2) for name, limit in LIMITS.items()}
    limits["max_principal_logins"] = LIMITS["max_principal_logins"]
    web_sessions = WebSessions(lambda token: True, limits)
    tickets = [web_sessions.mint_ticket(ALICE) for _ in range(3)]
    assert [web_sessions.redeem(ticket) for ticket in tickets] == [None, ALICE, ALICE]
    web_sessions.mint_ticket(ALICE)
    cookies = [web_sessions.create(ALICE)[0] for _ in range(3)]
    assert [web_sessions.find(cookie) is not None for cookie in cookies] == [False, True, True]
    assert web_sessions.limits_in_use() == {"max_web_tickets": 1, "max_web_logins": 2}


@pytest.mark.parametrize("field", ["ticket", "token"])
async def test_login_with_lone_surrogate_fails(tmp_path: Path, field: str) -> None:
    async with console(tmp_path) as server, server.client() as client:
        guesses = [await client.post("/api/login", content=f'{{"{field}": "\\ud800"}}') for _ in range(11)]
        assert [reply.status_code for reply in guesses] == 10 * [401] + [429]


async def test_logins_of_one_principal_are_limited_and_end_only_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptyctl.audit.audit_log.PERIOD_S", 3600)
    async with console(tmp_path, limits={"max_principal_logins": 3}) as server, server.browser() as other:
        body = {"token": server.token_file.create(CAROL, None)}
        async with server.browser(body) as oldest, server.client() as client:
            for _ in range(25):
                assert (await client.post("/api/login", json=body)).status_code == 200
            assert [(await browser.get("/api/me")).status_code for browser in (oldest, client, other)] == [401, 200, 200]
            assert server.controller.limits_in_use()["max_principal_logins"] == 3
        assert len([row for row in server.rows if row["principal"] == "carol"]) == 20


async def begin_login(server: Console, closing: AsyncExitStack) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    closing.callback(writer.close)
    header = f"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nOrigin: {server.url}\r\nContent-Length: 100\r\n\r\n"
    writer.write(header.encode() + b"{")
    return reader


async def test_login_that_is_not_finished_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "LOGIN_BODY_TIMEOUT_S", 0.2)
    async with console(tmp_path) as server, AsyncExitStack() as closing:
        reader = await begin_login(server, closing)
        assert (await asyncio.wait_for(reader.read(), PATIENCE_S)).split()[1] == b"408"


async def test_unfinished_logins_make_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "LOGIN_BODY_TIMEOUT_S", 3600)
    async with console(tmp_path, limits={"max_http_connections": 4}) as server, AsyncExitStack() as closing:
        unfinished = [await begin_login(server, closing) for _ in range(8)]
        async with server.browser() as browser:
            assert (await browser.get("/api/me")).status_code == 200
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(unfinished[0].read(), PATIENCE_S) == b""

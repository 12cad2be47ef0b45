"""Calls of the Controller over HTTP."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.methods import METHODS
from ptyctl.core import json_lines
from ptyctl.web.errors import error_response
from tests.session.scripted_session import wait_until
from tests.web.console import PATIENCE_S, console, error_code

SESSION = "/api/call/ptyctl_session"


async def test_calls_work_in_one_terminal(tmp_path: Path) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        opening = {"action": "open", "protocol": "local", "command": ["cat"], "task_id": "web", "acquire_lock": True}
        opened = (await browser.post(SESSION, json=opening)).json()
        session = opened["session_id"]
        writing = {"action": "write", "session_id": session, "data": "hello\n", "task_id": "web"}
        assert (await browser.post("/api/call/ptyctl_session_io", json=writing)).json()["bytes_written"] == 6
        reading = {
            "action": "read",
            "session_id": session,
            "timeout_ms": 50_000,
            "cursor": opened["next_cursor"],
            "until_regex": "hello",
        }
        assert "hello" in (await browser.post("/api/call/ptyctl_session_io", json=reading | {"timeout_ms": 50_000})).text
        status = (await browser.post(SESSION, json={"action": "status", "session_id": session})).json()
        assert (status["lock_holder"], status["lock_principal"]) == ("web", "alice")
        refused = await browser.post("/api/call/ptyctl_session_io", json=writing | {"task_id": "other"})
        assert (refused.status_code, error_code(refused)) == (409, "LOCKED")


async def test_method_outside_the_table_is_not_found(tmp_path: Path) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        for name in ("none", "watch", "web", "aclose", "__init__", "x" * 10_000):
            reply = await browser.post(f"/api/call/{name}", json={})
            assert (reply.status_code, error_code(reply)) == (404, "NOT_FOUND")
        assert (await browser.post("/api/call/a/b", json={})).status_code == 404
        assert (await browser.get("/api/call/ptyctl_session")).status_code == 405


@pytest.mark.parametrize(
    "body", ["", "{", "null", "[]", "1", '{"action": "nothing"}', '{"action": "list", "x": 1}', "[" * 9999]
)
async def test_invalid_request_returns_400(tmp_path: Path, body: str) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        reply = await browser.post(SESSION, content=body)
        assert (reply.status_code, error_code(reply)) == (400, "INVALID_ARGUMENT")


async def test_long_structure_returns_413_and_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        monkeypatch.setattr(json_lines, "decode", None)
        reply = await browser.post(SESSION, content='{"x": [' + "[]," * json_lines.MAX_STRUCTURE_BYTES + "[]]}")
        assert (reply.status_code, error_code(reply)) == (413, "INVALID_ARGUMENT")


async def test_unknown_session_returns_404(tmp_path: Path) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        reply = await browser.post(SESSION, json={"action": "status", "session_id": "none"})
        assert (reply.status_code, error_code(reply)) == (404, "NOT_FOUND")


async def test_unexpected_exception_returns_500_without_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def crash(*_: object) -> None:
        raise ValueError("hunter2")

    monkeypatch.setitem(METHODS, "gc", METHODS["gc"].__class__(METHODS["gc"].request, crash))
    async with console(tmp_path) as server, server.browser() as browser:
        reply = await browser.post("/api/call/gc", json={})
        assert (reply.status_code, error_code(reply)) == (500, "INTERNAL")
        assert "hunter2" not in reply.text + caplog.text
        assert reply.json()["error"]["details"]["trace_id"] in str([vars(record) for record in caplog.records])


async def test_call_of_a_client_that_left_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(*_: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    monkeypatch.setitem(METHODS, "gc", METHODS["gc"].__class__(METHODS["gc"].request, hang))
    async with console(tmp_path) as server, server.browser() as browser:
        calling = asyncio.create_task(browser.post("/api/call/gc", json={}))
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        calling.cancel()
        await asyncio.wait_for(cancelled.wait(), PATIENCE_S)
        await asyncio.gather(calling, return_exceptions=True)


async def test_connections_are_counted(tmp_path: Path) -> None:
    async with console(tmp_path) as server:
        async with server.browser():
            assert server.limits.in_use == 1
        await wait_until(lambda: server.limits.in_use == 0)


@pytest.mark.parametrize("code", ErrorCode)
def test_status_of_every_error_is_one_of_the_contract(code: ErrorCode) -> None:
    assert error_response(PtyctlError(code, "x")).status_code in (400, 403, 404, 409, 429, 500)


@pytest.mark.parametrize(
    ("offset_ms", "status", "code"), [(-1, 409, "IO_ERROR"), (60_000, 404, "NOT_FOUND"), (None, 400, "INVALID_ARGUMENT")]
)
async def test_call_after_its_time_limit_is_not_carried_out(
    tmp_path: Path, offset_ms: int | None, status: int, code: str
) -> None:
    async with console(tmp_path) as server, server.browser() as browser:
        limit = "soon" if offset_ms is None else str(int(time.time() * 1000) + offset_ms)
        closing = {"action": "close", "session_id": "none", "task_id": "web"}
        reply = await browser.post(SESSION, json=closing, headers={"X-Ptyctl-Not-After": limit})
        assert (reply.status_code, error_code(reply)) == (status, code)

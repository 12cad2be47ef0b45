"""Rows of the audit log for connections and refused requests over HTTP."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fixtures.http_client import loopback_client
from ptyctl.audit.audit_log import MAX_ROWS
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.controller.tokens import TokenFile, Tokens
from ptyctl.core.principal import Kind, Principal, Role
from tests.mcp.http_server import TOKEN, http_server
from tests.mcp.server_process import PATIENCE_S

Rows = list[dict[str, Any]]


@asynccontextmanager
async def audited(rows: Rows, file: TokenFile | None = None) -> AsyncIterator[str]:
    """A server that adds its rows to the list; its last ones when it has ended."""

    def record(event: str, **fields: object) -> None:
        rows.append({"event": event, **fields})

    async with LocalController() as controller, http_server(AccessController(controller), Tokens(file, TOKEN), record) as url:
        yield url


async def ask(http: httpx2.AsyncClient, url: str, **headers: str) -> int:
    return (await http.get(f"{url}/none", headers=headers, timeout=PATIENCE_S)).status_code


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_each_connection_has_a_row_with_the_name_of_its_token(tmp_path: Path) -> None:
    file, rows = TokenFile(tmp_path), Rows()
    night = file.create(Principal("night", Kind.AGENT, Role.VIEWER), None)
    async with audited(rows, file) as url:
        for _ in range(2):
            async with loopback_client() as http:  # one connection, with three requests
                for token in (night, night, TOKEN):
                    assert await ask(http, url, **bearer(token)) == 404
    connect = {"event": "connect", "via": "http"}
    assert rows == 2 * [{**connect, "principal": "night"}, {**connect, "principal": "default"}]


async def test_refused_requests_have_rows_with_the_reason(tmp_path: Path) -> None:
    file, rows = TokenFile(tmp_path), Rows()
    expired = file.create(Principal("late", Kind.AGENT, Role.VIEWER), int(time.time()) - 1)
    async with audited(rows, file) as url, loopback_client() as http:
        assert await ask(http, url) == 401
        assert await ask(http, url, **bearer("guess")) == 401
        assert await ask(http, url, **bearer(expired)) == 401
        assert await ask(http, url, **bearer(TOKEN), Host="example.com") == 403
        assert await ask(http, url, **bearer(TOKEN), Origin="https://example.com") == 403
    assert [(row["event"], row["via"]) for row in rows] == 5 * [("refused", "http")]
    assert [(row["why"], row.get("principal")) for row in rows] == [
        ("no token", None),
        ("unknown token", None),
        ("expired token", "late"),
        ("the Host header is not a loopback address", None),
        ("a page of another origin", None),
    ]


async def test_flood_of_refused_requests_adds_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptyctl.audit.audit_log.PERIOD_S", 3600)
    rows = Rows()
    async with audited(rows) as url, loopback_client() as http:
        for _ in range(MAX_ROWS + 5):
            await ask(http, url, **bearer("guess"))
        assert len(rows) == MAX_ROWS
    assert rows[MAX_ROWS:] == [{"event": "refused", "via": "http", "suppressed": 5}]

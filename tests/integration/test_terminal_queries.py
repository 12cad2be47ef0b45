"""Screen and replies to terminal queries, over SSH and Telnet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fixtures.servers.openssh import OpenSshServer
from fixtures.servers.telnetd import running_telnetd
from ptyctl import LocalController, SessionHandle
from tests.integration.test_ssh_exec import target

PATIENCE_MS = 50_000
SIZE = {"cols": 50, "rows": 10}
#: Clears the screen, requests the cursor position (DSR 6), and prints the reply.
QUERY_CURSOR = r"""clear; printf 'xy\033[6n'; IFS=';' read -rs -t 20 -d R row col; echo; echo "at ${row#*[} $col" """


@pytest.fixture(params=["ssh", "telnet"])
async def session(request: pytest.FixtureRequest, controller: LocalController, tmp_path: Path) -> AsyncIterator[SessionHandle]:
    if request.param == "ssh":
        server: OpenSshServer = request.getfixturevalue("sshd")
        async with await SessionHandle.open(controller, **target(server), pty=SIZE) as handle:
            yield handle
        return
    async with running_telnetd(tmp_path) as telnetd:
        where = {"protocol": "telnet", "host": telnetd.host, "port": telnetd.port}
        async with await SessionHandle.open(controller, **where, pty=SIZE) as handle:
            assert (await handle.screen(until_regex=r"\$ ?\n", timeout_ms=PATIENCE_MS)).matched
            yield handle


async def test_cursor_query_returns_position(session: SessionHandle) -> None:
    reply = await session.exec(QUERY_CURSOR, timeout_ms=PATIENCE_MS)
    assert "at 1 3\n" in reply.stdout
    shown = await session.screen(until_regex="(?m)^at 1 3$", timeout_ms=PATIENCE_MS)
    assert (shown.matched, shown.cols, shown.rows_count) == (True, 50, 10)
    assert shown.rows is not None
    assert shown.rows[0].startswith("xy")


async def test_each_cursor_query_is_answered_once(session: SessionHandle) -> None:
    for _ in range(3):
        assert "at 1 3\n" in (await session.exec(QUERY_CURSOR, timeout_ms=PATIENCE_MS)).stdout
        await session.screen()
    assert (await session.exec("echo exactly this")).stdout == "exactly this\n"

"""Output of FRR: zebra and bgpd over Telnet, vtysh over SSH with `less` as pager, at several terminal heights."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fixtures.servers.frr import Zebra, running_bgpd
from fixtures.servers.openssh import OpenSshServer
from fixtures.servers.programs import require_program
from ptyctl import ErrorCode, LocalController, SessionHandle
from tests.controller.session_calls import PATIENCE_MS, refused
from tests.integration.test_ssh_exec import target

pytestmark = pytest.mark.waits

EVERYTHING = {"max_output_bytes": 1_000_000, "timeout_ms": PATIENCE_MS}
ROWS = (10, 24, 40)
#: A log line of any priority, as vtysh prints it.
LOG_LINE = re.compile(
    r"(?m)^(?:\d{4}-\d\d-\d\d [\d:.]+ \[[A-Z!]{4}\] \w+: .*|\d+ log messages from \w+ lost \(vtysh reading too slowly\))\n"
)


@pytest.fixture(scope="module")
def bgpd(zebra: Zebra) -> Iterator[Zebra]:
    with running_bgpd(zebra) as daemon:
        yield daemon


@pytest.fixture(params=["zebra", "bgpd"])
def daemon(request: pytest.FixtureRequest) -> Zebra:
    found: Zebra = request.getfixturevalue(request.param)
    return found


@asynccontextmanager
async def logged_in(controller: LocalController, daemon: Zebra, **more: Any) -> AsyncIterator[SessionHandle]:
    auth = {"password": daemon.password, "enable_secret": daemon.enable_password}
    where = {"protocol": "telnet", "host": daemon.host, "port": daemon.port, "platform": "frr", "auth": auth}
    async with await SessionHandle.open(controller, **{**where, **more}) as session:
        yield session


@pytest.mark.parametrize("rows", ROWS)
async def test_paged_output_equals_unpaged_output(controller: LocalController, daemon: Zebra, rows: int) -> None:
    async with logged_in(controller, daemon, pty={"cols": 80, "rows": rows}) as session:
        for command in ("list", "show running-config", "show version"):
            await session.exec("terminal length 0")
            whole = await session.exec(command, **EVERYTHING)
            await session.exec(f"terminal length {rows}")
            paged = await session.exec(command, **EVERYTHING)
            assert (paged.stdout, paged.done_reason) == (whole.stdout, "prompt")
            assert whole.pages is None
            if command == "list":
                assert (paged.pages or 0) >= whole.stdout.count("\n") // rows


async def test_hostname_change_keeps_prompt_detection(controller: LocalController, daemon: Zebra) -> None:
    async with logged_in(controller, daemon) as session:
        for name in ("spine-with-a-much-longer-name", "R1"):
            lines = ("configure terminal", f"hostname {name}", "end")
            for line in lines:
                assert (await session.exec(line)).stdout == ""
            reply = await session.exec("show running-config", **EVERYTHING)
            assert f"\nhostname {name}\n" in reply.stdout
            assert f"{name}#" not in reply.stdout


async def test_wrong_password_is_auth_failed(controller: LocalController, daemon: Zebra) -> None:
    with refused(ErrorCode.AUTH_FAILED):
        async with logged_in(controller, daemon, auth={"password": "wrong"}):
            pass


def vtysh(sshd: OpenSshServer, daemon: Zebra, **more: Any) -> dict[str, Any]:
    require_program("less", "less")
    return target(sshd, command=f"{require_program('vtysh', 'frr')} --vty_socket {daemon.folder}", platform="frr", **more)


async def test_log_lines_during_commands_are_not_in_output(
    controller: LocalController, sshd: OpenSshServer, zebra: Zebra, bgpd: Zebra
) -> None:
    """`terminal monitor` while two other sessions run commands that are logged.

    FRR 8.4 supports it only in vtysh, which prints log lines at its prompt.
    """
    async with await SessionHandle.open(controller, **vtysh(sshd, bgpd)) as session:
        whole = (await session.exec("show version")).stdout
        for line in ("configure terminal", "log commands", "end", "terminal monitor"):
            assert (await session.exec(line)).done_reason == "prompt"
        begin = session.cursor
        async with logged_in(controller, zebra) as one, logged_in(controller, bgpd) as other:
            floods = [asyncio.create_task(log_continuously(other_session)) for other_session in (one, other)]
            try:
                for _ in range(20):
                    reply = await session.exec("show version", **EVERYTHING)
                    assert (reply.stdout, reply.done_reason) == (whole, "prompt")
            finally:
                for flood in floods:
                    flood.cancel()
                await asyncio.gather(*floods, return_exceptions=True)
        seen = await session.read(cursor=begin, until_idle_ms=200, timeout_ms=PATIENCE_MS, max_bytes=1_000_000)
        assert LOG_LINE.search(seen.chunk or "")


async def log_continuously(session: SessionHandle) -> None:
    while True:
        await session.exec("show memory zebra")


@pytest.mark.parametrize("rows", ROWS)
async def test_vtysh_pager_is_not_in_output(controller: LocalController, sshd: OpenSshServer, bgpd: Zebra, rows: int) -> None:
    """`less` draws on the alternate screen; its text is still returned as the command's output, without control sequences."""
    async with await SessionHandle.open(controller, **vtysh(sshd, bgpd, pty={"cols": 80, "rows": rows})) as session:
        for command in ("show version", "show bgp summary", "show running-config", "list"):
            await session.exec("no terminal paginate")
            whole = await session.exec(command, **EVERYTHING)
            await session.exec("terminal paginate")
            paged = await session.exec(command, **EVERYTHING)
            assert (paged.stdout, paged.done_reason) == (whole.stdout, "prompt")
            assert not any(junk in paged.stdout for junk in ("\x1b", "\b", "(END)", "\r", "\n:"))
            assert command != "show running-config" or paged.pages

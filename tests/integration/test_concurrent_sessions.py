"""100 concurrent sessions of each protocol on real servers, without cross-talk."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.openssh import OpenSshServer
from fixtures.servers.programs import require
from fixtures.servers.telnetd import running_telnetd
from ptyctl import LocalController, SessionHandle
from transports import process

SESSIONS = 100
#: Enough for the sessions and the servers in the test process.
OPEN_FILES = 4096
#: Limit of concurrent logins. More would test the server's limits.
CONCURRENT_LOGINS = 20


@pytest.fixture(autouse=True)
def _many_open_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Raise the soft limit of open files: each session holds about ten."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    require(before[1] >= OPEN_FILES, f"the hard limit of open files is {before[1]}: run ulimit -Hn {OPEN_FILES}")
    monkeypatch.setattr(process, "_original_file_limits", [])
    process.raise_open_file_limit()
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def check_each_receives_own_output(controller: LocalController, **fields: Any) -> None:
    """Open the sessions, run a different command in each concurrently, check the outputs, and close them."""
    gate = asyncio.Semaphore(CONCURRENT_LOGINS)

    async def opened() -> SessionHandle:
        async with gate:
            return await SessionHandle.open(controller, **fields)

    sessions = await asyncio.gather(*(opened() for _ in range(SESSIONS)))
    replies = await asyncio.gather(
        *(session.exec(f"echo session-{number}", timeout_ms=50_000) for number, session in enumerate(sessions))
    )
    for number, reply in enumerate(replies):
        assert (reply.stdout, reply.exit_code) == (f"session-{number}\n", 0)
    await asyncio.gather(*(session.close(force=True) for session in sessions))


async def test_hundred_local_sessions_receive_own_output(controller: LocalController) -> None:
    await check_each_receives_own_output(controller, protocol="local", command=["bash", "--norc", "--noprofile"])


async def test_hundred_ssh_sessions_receive_own_output(controller: LocalController, sshd: OpenSshServer) -> None:
    await check_each_receives_own_output(
        controller,
        protocol="ssh",
        host=sshd.host,
        port=sshd.port,
        username=sshd.username,
        auth={"method": "private_key", "private_key_path": str(sshd.key_path)},
        ssh_options={"known_hosts_path": str(sshd.known_hosts), "use_openssh_config": False},
        timeouts={"connect_timeout_ms": 60_000},
    )


async def test_hundred_telnet_sessions_receive_own_output(controller: LocalController, tmp_path: Path) -> None:
    async with running_telnetd(tmp_path) as telnetd:
        await check_each_receives_own_output(controller, protocol="telnet", host=telnetd.host, port=telnetd.port)

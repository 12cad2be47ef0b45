"""A hundred sessions of each protocol at once, on real servers, without cross-talk."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.openssh import OpenSshServer
from fixtures.servers.telnetd import running_telnetd
from ptyctl import LocalController, SessionHandle
from transports import process

SESSIONS = 100
#: A hundred logins at one instant are a load test of the server; so many are under way at a time.
AT_ONCE = 20


@pytest.fixture(autouse=True)
def _many_open_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A session holds ten: more in all than an ordinary user's soft limit."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(process, "_original_file_limits", [])
    process.raise_open_file_limit()
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def each_hears_itself(controller: LocalController, **fields: Any) -> None:
    """Opens them all, lets all run a command of their own at the same time, and closes them."""
    gate = asyncio.Semaphore(AT_ONCE)

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


async def test_local(controller: LocalController) -> None:
    await each_hears_itself(controller, protocol="local", command=["bash", "--norc", "--noprofile"])


async def test_ssh(controller: LocalController, sshd: OpenSshServer) -> None:
    await each_hears_itself(
        controller,
        protocol="ssh",
        host=sshd.host,
        port=sshd.port,
        username=sshd.username,
        auth={"method": "private_key", "private_key_path": str(sshd.key_path)},
        ssh_options={"known_hosts_path": str(sshd.known_hosts), "use_openssh_config": False},
        timeouts={"connect_timeout_ms": 60_000},
    )


async def test_telnet(controller: LocalController, tmp_path: Path) -> None:
    async with running_telnetd(tmp_path) as telnetd:
        await each_hears_itself(controller, protocol="telnet", host=telnetd.host, port=telnetd.port)

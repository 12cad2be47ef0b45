"""Limits of the connections to the daemon, and all limits in its status."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager

import pytest

from fixtures.daemons import daemon_pid
from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.core.limits import LIMITS
from ptyctl.daemon import control
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.connection import hello_line, open_connection
from ptyctl.daemon.control import DaemonStatus
from ptyctl.daemon.errors import ConnectionRejectedError
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.version import __version__

PATIENCE_S = 60
#: More than a daemon without sessions uses.
DESCRIPTORS = 100


@pytest.mark.parametrize("limit", ["max_connections", "max_client_connections"])
async def test_connections_are_limited(runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setenv(f"PTYCTL_{limit.upper()}", "2")
    async with await RemoteController.connect(runtime_dir):
        async with await RemoteController.connect(runtime_dir, start=False):
            with pytest.raises(PtyctlError, match=rf"limit is 2 \({limit}\)") as caught:
                await RemoteController.connect(runtime_dir, start=False)
            assert (caught.value.code, caught.value.details) == (ErrorCode.LIMIT_EXCEEDED, {"limit": limit, limit: 2})
            assert caught.value.hint
        async with asyncio.timeout(PATIENCE_S):
            while True:  # the daemon has noticed the end of a connection
                try:
                    await (await RemoteController.connect(runtime_dir, start=False)).aclose()
                except PtyctlError:
                    continue
                break


async def test_status_reports_all_limits_with_what_is_in_use(runtime_dir: RuntimeDir) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(await RemoteController.connect(runtime_dir))
        await stack.enter_async_context(await RemoteController.connect(runtime_dir))
        handle = await SessionHandle.open(first, protocol="local", command=("cat",))
        status = await asyncio.to_thread(control.find_daemon, runtime_dir)
        assert status is not None
        in_use = {use["name"]: use["in_use"] for use in status.limits}
        assert set(in_use) == set(LIMITS)
        assert (in_use["max_sessions"], in_use["max_client_sessions"]) == (1, 1)
        assert in_use["max_connections"] == in_use["max_client_connections"] == 3
        await handle.close()


def connect_until_rejected(runtime_dir: RuntimeDir, clients: ExitStack) -> None:
    while True:
        clients.enter_context(open_connection(runtime_dir, hello_line("rpc")))


@contextmanager
def connected_up_to(runtime_dir: RuntimeDir, limit: str) -> Iterator[int]:
    """Connect clients until the daemon rejects one at `limit`, and yield the daemon's process."""
    with ExitStack() as clients:
        clients.enter_context(open_connection(runtime_dir, hello_line("rpc")))
        pid = daemon_pid(runtime_dir)
        assert pid is not None
        if limit == "RLIMIT_NOFILE":
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))
        with pytest.raises(ConnectionRejectedError) as caught:
            connect_until_rejected(runtime_dir, clients)
        assert caught.value.error.details["limit"] == limit
        yield pid


@pytest.mark.parametrize("limit", ["max_connections", "max_client_connections", "RLIMIT_NOFILE"])
@pytest.mark.parametrize("end", [control.stop, control.hand_over])
def test_daemon_at_a_connection_limit_is_reported_and_ends(
    runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch, limit: str, end: Callable[[RuntimeDir], DaemonStatus | None]
) -> None:
    if limit != "RLIMIT_NOFILE":
        monkeypatch.setenv(f"PTYCTL_{limit.upper()}", "2")
    with connected_up_to(runtime_dir, limit) as pid:
        status = control.find_daemon(runtime_dir)
        assert status is not None
        assert (status.pid, status.version) == (pid, __version__)
        assert "limit" in (status.rejection or "")
        ended = end(runtime_dir)
        assert ended is not None
        assert ended.pid == pid
    assert control.find_daemon(runtime_dir) is None

"""Limits of the connections to the daemon, and all limits in its status."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.core.limits import LIMITS
from ptyctl.daemon import control
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir

PATIENCE_S = 60


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

"""Clients that connect while the server is at its limit of open files: each gets an answer, and a connection later."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from fixtures.forked_process import ForkedProgram
from fixtures.http_client import loopback_client
from ptyctl.api import ErrorCode, PtyctlError, SessionRequest
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir

#: Serves the daemon's socket and HTTP in its own process, whose limit it lowers until a line arrives on stdin.
SERVER = """
import asyncio, sys
from pathlib import Path
from urllib.parse import urlsplit
from fixtures.descriptors import no_descriptors_left
from ptyctl.controller.local import LocalController
from tests.controller.local_daemon import served
from tests.mcp.http_server import http_server

async def main():
    async with LocalController() as controller, served(controller, Path(sys.argv[1])), http_server(controller) as url:
        # HTTP is served once a request was answered; at the end of the data the server has closed the connection
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        writer.write(b"GET / HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nConnection: close\\r\\n\\r\\n")
        assert await reader.read()
        writer.close()
        await writer.wait_closed()
        with no_descriptors_left():
            print(url, flush=True)
            await asyncio.to_thread(sys.stdin.readline)
        print("free", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


async def test_connections_at_the_descriptor_limit_are_answered(runtime_dir: RuntimeDir, tmp_path: Path) -> None:
    variables = {**os.environ, "PTYCTL_STATE_DIR": str(tmp_path / "state")}
    server = ForkedProgram(SERVER, str(runtime_dir.path), environment=variables)
    try:
        url = (await asyncio.to_thread(server.stdout.readline)).strip()
        async with loopback_client(timeout=60) as http:
            for _ in range(5):
                with pytest.raises(PtyctlError, match="limit of open files") as caught:
                    await RemoteController.connect(runtime_dir, start=False)
                assert caught.value.code is ErrorCode.LIMIT_EXCEEDED
                refused = await http.post(url, content=b"{}")
                assert (refused.status_code, refused.json()["error"]) == (503, "unavailable")
            server.stdin.write("free\n")
            server.stdin.flush()
            assert await asyncio.to_thread(server.stdout.readline) == "free\n"
            assert (await http.post(url, content=b"{}")).status_code == 401
        async with await RemoteController.connect(runtime_dir, start=False) as controller:
            assert (await controller.session(SessionRequest.of({"action": "list"}))).sessions == []
    finally:
        _, errors = await asyncio.to_thread(server.communicate, "end\n")
    assert "Traceback" not in errors, errors
    assert server.returncode == 0

"""A daemon without a fleet."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from fixtures.daemons import daemon_folder
from ptyctl.api.errors import PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.session import SessionRequest
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir


async def connected(runtime_dir: RuntimeDir) -> RemoteController:
    async with asyncio.timeout(60):
        while True:
            with suppress(PtyctlError):
                return await RemoteController.connect(runtime_dir, start=False)
            await asyncio.sleep(0.05)


async def test_daemon_without_a_fleet_imports_nothing_of_it(tmp_path: Path) -> None:
    with daemon_folder() as folder, (tmp_path / "imports").open("wb") as imports:
        environment = {**os.environ, "PTYCTL_RUNTIME_DIR": str(folder), "PTYCTL_STATE_DIR": str(tmp_path / "state")}
        command = [sys.executable, "-X", "importtime", "-m", "ptyctl", "serve", "--listen", "127.0.0.1:0"]
        daemon = await asyncio.create_subprocess_exec(*command, env=environment, stdout=subprocess.DEVNULL, stderr=imports)
        try:
            async with await connected(RuntimeDir(folder)) as client:
                handle = await SessionHandle.open(client, protocol="local", command=["sh"])
                assert (await handle.exec("echo used")).stdout.strip() == "used"
                await client.session(SessionRequest(action="list"))
        finally:
            daemon.terminate()
            await daemon.wait()
    imported = {line.rpartition("|")[2].strip() for line in (tmp_path / "imports").read_text().splitlines()}
    assert "ptyctl.daemon.main" in imported
    assert [name for name in imported if name.startswith(("ptyctl.fleet", "nats", "nkeys"))] == []

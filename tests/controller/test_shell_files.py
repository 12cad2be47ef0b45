"""The files in memory that a local shell reads: the nonce of its marks, and long commands in fish."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fixtures.servers.programs import require_program
from ptyctl import files
from ptyctl.api.handle import SessionHandle
from tests.controller.marked_shells import blocks, in_each
from tests.controller.session_calls import Open


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the files, instead of /dev/shm."""
    folder = tmp_path / "memory"
    folder.mkdir()
    monkeypatch.setattr(files, "_SHARED_MEMORY", folder)
    return folder


@in_each
async def test_nonce_is_in_no_environment_and_its_file_is_removed(shell: SessionHandle, memory: Path) -> None:
    pid = "$fish_pid" if (await shell.exec("echo $FISH_VERSION")).stdout.strip() else "$$"
    if pid == "$$":
        await shell.exec("set -a")  # exports each variable that is set from now on
    environment = Path(f"/proc/{(await shell.exec(f'echo {pid}')).stdout.strip()}/environ").read_bytes()
    of_child = (await shell.exec("env")).stdout
    raw = Path((await blocks(shell))[0].output_path).parents[1] / "output.raw"
    nonces = set(re.findall(rb"\x1b\]7717;(\w+);", raw.read_bytes()))
    assert nonces
    assert [nonce for nonce in nonces if nonce in environment or nonce.decode() in of_child] == []
    assert b"PTYCTL_NONCE_FILE" in environment
    assert "NONCE" not in of_child
    assert list(memory.iterdir()) == []


async def test_nonce_file_that_no_shell_reads_is_private_and_removed_at_the_close(
    open_session: Open, memory: Path, tmp_path: Path
) -> None:
    program = tmp_path / "bash"
    program.write_text("#!/bin/sh\nexec cat\n")
    program.chmod(0o700)
    handle = await open_session(command=(str(program),))
    (file,) = memory.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    await handle.close(force=True)
    assert list(memory.iterdir()) == []


#: Runs as the user nobody if the tests run as root. The first round imports what that user may not be able to read.
LONG_COMMAND = """
import asyncio, json, os, sys
from ptyctl import LocalController, SessionHandle
from ptyctl.controller.settings import Settings

LINE = "stat -c '%a %u' (status filename); status filename; true " + "x" * 3000

async def run(folder):
    async with LocalController(Settings(state_dir=folder)) as controller:
        fish = await SessionHandle.open(controller, protocol="local", command=["fish", "--no-config"], cwd=folder)
        reply = await fish.exec(LINE)
        return [reply.stdout, reply.exit_code, reply.done_reason]

asyncio.run(run(sys.argv[1]))
if os.geteuid() == 0:
    os.chown(sys.argv[2], 65534, 65534)
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
print(json.dumps([os.geteuid(), *asyncio.run(run(sys.argv[2]))]))
"""


def test_long_fish_command_of_an_ordinary_user_runs_from_a_private_file(tmp_path: Path) -> None:
    require_program("fish", "fish")
    root = Path(__file__).parents[2]
    if os.geteuid() == 0 and not all(folder.stat().st_mode & 0o001 for folder in root.parents):
        pytest.skip(f"other users than root cannot read {root}, which has the start-up files of the shells")
    with TemporaryDirectory(dir="/tmp") as folder:  # other users cannot enter tmp_path, nor each TMPDIR
        done = subprocess.run(
            [sys.executable, "-c", LONG_COMMAND, str(tmp_path), folder],
            capture_output=True,
            text=True,
            check=False,
            cwd=root,
            env={**os.environ, "HOME": folder, "PTYCTL_POLICY": "guarded"},  # root's configuration is not readable
        )
    assert done.stdout, done.stderr
    uid, output, exit_code, done_reason = json.loads(done.stdout)
    owner, name = output.splitlines()
    assert (owner, exit_code, done_reason) == (f"600 {uid}", 0, "marks")
    assert uid != 0
    assert not Path(name).exists()

"""A server for `test_server_kill`: shells that print and run commands, and a file with the received sizes of each session.

The file has 16 bytes per session, its raw and its spool size, updated after each read.
"""

from __future__ import annotations

import asyncio
import mmap
import struct
from pathlib import Path

from ptyctl.api.exec import ExecRequest
from ptyctl.api.session import SessionRequest
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings

COUNT = 'i=0; while :; do echo "line $i"; i=$((i+1)); done'
STEADY = 'i=0; while :; do echo "line $i"; i=$((i+1)); sleep 0.001; done'


def serve(state: Path, sizes_file: Path, sessions: int) -> None:
    asyncio.run(_serve(state, sizes_file, sessions))


async def _serve(state: Path, sizes_file: Path, sessions: int) -> None:
    controller = LocalController(Settings(state_dir=state))
    with sizes_file.open("r+b") as file:
        sizes = mmap.mmap(file.fileno(), 16 * sessions)
    workers = []
    for number in range(sessions):
        request = {"action": "open", "protocol": "local", "command": ["bash", "--norc", "--noprofile"]}
        session_id = (await controller.session(SessionRequest.of(request))).session_id
        stream = (await controller._registry.find(session_id)).stream
        stream.subscribe_output(
            lambda raw, data, at=16 * number, stream=stream: struct.pack_into(
                "<QQ", sizes, at, stream.raw_size, stream.spool_end
            )
        )
        print(session_id, flush=True)
        workers.append(asyncio.create_task(work(controller, session_id, number)))
    print("ready", flush=True)
    await asyncio.gather(*workers)


async def work(controller: LocalController, session_id: str, number: int) -> None:
    """Run commands: session 0 prints without pause, session 1 at a steady rate, the others run short commands in a loop."""
    while True:
        command = COUNT if number == 0 else STEADY if number == 1 else "for i in 1 2 3; do echo line $i; done; (exit 3)"
        await controller.exec(ExecRequest.of({"session_id": session_id, "cmd": command, "timeout_ms": 50_000}))

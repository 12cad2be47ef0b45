"""Calls at the limit of open files: each one is answered with the controller's own error, and works again later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

#: Runs in its own process, whose limit it lowers.
PROGRAM = """
import asyncio, json, os, resource
from ptyctl.api import ExecRequest, PtyctlError, SessionRequest
from ptyctl.api.methods import METHODS
from ptyctl.controller.local import LocalController

CALLS = [
    ("ptyctl_session", {"action": "open", "protocol": "local", "command": ["cat"]}),
    ("ptyctl_session", {"action": "open", "protocol": "telnet", "host": "127.0.0.1", "port": 9}),
    ("ptyctl_session", {"action": "list"}),
    ("ptyctl_session", {"action": "status"}),
    ("ptyctl_session", {"action": "lock", "task_id": "t"}),
    ("ptyctl_session", {"action": "unlock", "task_id": "t"}),
    ("ptyctl_session_io", {"action": "read", "mode": "screen"}),
    ("ptyctl_session_io", {"action": "read", "mode": "history", "cursor": "0"}),
    ("ptyctl_session_config", {"action": "resize", "cols": 90, "rows": 30}),
    ("log", {}),
    ("gc", {}),
    ("notify", {"message": "x"}),
    ("pty_exec_block", {"conversation_id": "c", "cmd": "true"}),
    ("blocks_since", {"last": 2}),
    ("blocks_search", {"query": "1"}),
    ("pty_read_screen", {}),
    ("pty_read_scrollback", {}),
    ("pty_read_screen_deltas", {}),
    ("pty_screen_status", {}),
    ("pty_read_spool", {"from_cursor": 0}),
]


async def outcome(controller, name, fields, session_id):
    if name != "gc" and fields.get("action") not in ("open", "list") and "conversation_id" not in fields:
        fields = {**fields, "session_id": session_id}
    method = METHODS[name]
    try:
        reply = await method.call(controller, method.request.of(fields), None)
    except PtyctlError as error:
        return str(error.code)
    except BaseException as error:
        return repr(error)
    return "ok" if getattr(reply, "ok", True) else reply.error


async def main():
    async with LocalController(persistent=True) as controller:
        opened = await controller.session(SessionRequest.of(CALLS[0][1] | {"command": ["bash", "--norc"]}))
        run = ExecRequest.of({"session_id": opened.session_id, "cmd": "seq 3"})
        await controller.exec(run)
        last = max(map(int, os.listdir("/proc/self/fd")))
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (last + 2, limits[1]))
        taken = []
        try:
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            outcomes = [await outcome(controller, name, fields, opened.session_id) for name, fields in CALLS]
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        print(json.dumps([outcomes, (await controller.exec(run)).stdout]))

asyncio.run(main())
"""
OWN = {"ok", "LIMIT_EXCEEDED", "IO_ERROR", "limit_exceeded", "io_error", "LOCK_LOST"}


def test_calls_at_the_descriptor_limit_return_own_errors(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PTYCTL_STATE_DIR": str(tmp_path / "state")},
    )
    assert done.stdout, done.stderr
    outcomes, later = json.loads(done.stdout)
    assert set(outcomes) <= OWN
    assert "ok" in outcomes
    assert later == "1\n2\n3\n"

"""Calls at the limit of open files: each one is answered with the controller's own error, and works again later."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from fixtures.forked_process import ForkedProgram
from fixtures.servers.programs import require_program

#: Runs in its own process, whose limit it lowers.
PROGRAM = """
import asyncio, json
from fixtures.descriptors import no_descriptors_left
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
        with no_descriptors_left():
            outcomes = [await outcome(controller, name, fields, opened.session_id) for name, fields in CALLS]
        print(json.dumps([outcomes, (await controller.exec(run)).stdout]))

asyncio.run(main())
"""
#: Commands whose output is also read in the background, by timers and tasks that belong to no call.
BACKGROUND = """
import asyncio, gc, json, logging, sys
from fixtures.descriptors import no_descriptors_left
from ptyctl.api import ExecRequest, PtyctlError, SessionRequest
from ptyctl.controller.local import LocalController

FLOODS = ["seq 300000; printf '\\\\033[6n'", "head -c 3000000 /dev/zero | tr '\\\\0' x", "printf '\\\\033[6n%20000s' ''"]
ASK = "stty -icanon -echo min 0 time 10; printf '\\\\033[6n'; head -c 6; stty sane"
COMMANDS = [*FLOODS, ASK, "true " + "x" * 3000, "echo last"]
problems = []


class Records(logging.Handler):
    def emit(self, record):
        if record.exc_info:
            problems.append(record.getMessage())


async def main():
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(repr(context)))
    logging.getLogger().addHandler(Records())
    outcomes = []
    async with LocalController(persistent=True) as controller:
        opened = []
        for shell in sys.argv[1:]:
            request = SessionRequest.of({"action": "open", "protocol": "local", "command": shell.split()})
            opened.append((await controller.session(request)).session_id)
            await controller.exec(ExecRequest.of({"session_id": opened[-1], "cmd": "echo first"}))
        with no_descriptors_left():
            for session_id in opened:
                for command in COMMANDS:
                    try:
                        fields = {"session_id": session_id, "cmd": command, "timeout_ms": 50000}
                        outcomes.append((await controller.exec(ExecRequest.of(fields))).done_reason)
                    except PtyctlError as error:
                        outcomes.append(str(error.code))
    gc.collect()
    print(json.dumps([outcomes, problems]))

asyncio.run(main())
"""
OWN = {"ok", "LIMIT_EXCEEDED", "IO_ERROR", "limit_exceeded", "io_error", "LOCK_LOST"}


def result_of(program: str, tmp_path: Path, *arguments: str) -> Any:
    process = ForkedProgram(program, *arguments, environment={**os.environ, "PTYCTL_STATE_DIR": str(tmp_path / "state")})
    output, errors = process.communicate()
    assert output, errors
    return json.loads(output)


def test_calls_at_the_descriptor_limit_return_own_errors(tmp_path: Path) -> None:
    outcomes, later = result_of(PROGRAM, tmp_path)
    assert set(outcomes) <= OWN
    assert "ok" in outcomes
    assert later == "1\n2\n3\n"


def test_background_work_at_the_descriptor_limit_raises_nothing(tmp_path: Path) -> None:
    require_program("fish", "fish")
    outcomes, problems = result_of(BACKGROUND, tmp_path, "bash --norc", "fish --no-config")
    assert problems == []
    assert set(outcomes) <= {"marks", "LIMIT_EXCEEDED"}
    assert "LIMIT_EXCEEDED" in outcomes  # a long command of fish needs a file

"""One command from a person or a script: waited for until its end, however long that takes."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from ptyctl.api.controller import Controller
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.api.io import IoRequest

from . import shown
from .calling import call, found, task_name
from .failing import EXEC_OFFSET, FAILED, TIMED_OUT
from .waiting import CALL_MS

if TYPE_CHECKING:
    from rich.status import Status

_MAX_OUTPUT_BYTES = 16 << 20
_INTERRUPTED = 128 + signal.SIGINT


def execute(name: str, command: str, timeout_s: float | None, task: str | None, as_json: bool) -> int:
    """The command's exit code. Of a device, which has none: 0, or 1 where its output has an error's signs."""
    with shown.progress() as status:
        reply = call(lambda controller: _run(controller, name, command, timeout_s, task_name(task), status))
    if reply is None:
        return _INTERRUPTED
    if as_json:
        shown.as_json(reply.payload())
    else:
        shown.text(reply.stdout)
    if reply.output_truncated:
        whole = f"ptyctl blocks {name} --output {reply.block_id}"
        print(f"ptyctl: {reply.omitted_bytes} bytes are left out in the middle; all of it: {whole}", file=sys.stderr)
    if reply.timed_out:
        print(f"ptyctl: it goes on as block {reply.block_id}; see: ptyctl blocks, ptyctl tail -f", file=sys.stderr)
        return EXEC_OFFSET + TIMED_OUT
    if reply.exit_code is not None:
        return reply.exit_code
    return FAILED if reply.error_hints else 0


async def _run(
    controller: Controller, name: str, command: str, timeout_s: float | None, task_id: str, status: Status | None
) -> ExecReply | None:
    """The reply at its end or at the timeout; None where the user has left."""
    session_id = await found(controller, name)
    execution = _Execution(controller, {"session_id": session_id, "task_id": task_id}, status)
    waiting = asyncio.create_task(execution.run(command, timeout_s))
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, execution.interrupt, waiting)
    with suppress(asyncio.CancelledError):
        return await waiting
    return None


class _Execution:
    def __init__(self, controller: Controller, who: dict[str, str], status: Status | None) -> None:
        self._controller = controller
        self._who = who
        self._status = status
        self._interrupting: asyncio.Task[object] | None = None
        self._before_s = 0.0

    async def run(self, command: str, timeout_s: float | None) -> ExecReply:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        what: dict[str, object] = {"cmd": command}
        while True:
            self._before_s = loop.time() - begun
            left_ms = CALL_MS if timeout_s is None else max((timeout_s - self._before_s) * 1000, 0)
            fields = {**self._who, **what, "timeout_ms": round(min(left_ms, CALL_MS)), "max_output_bytes": _MAX_OUTPUT_BYTES}
            reply = await self._controller.exec(ExecRequest.of(fields), self._tell)
            if not reply.timed_out or (left_ms <= CALL_MS and timeout_s is not None):
                return reply
            what = {"block_id": reply.block_id}

    def interrupt(self, waiting: asyncio.Task[ExecReply]) -> None:
        """The first Ctrl-C is the command's, the second ours."""
        if self._interrupting is not None:
            waiting.cancel()
            return
        request = IoRequest.of({**self._who, "action": "write", "key": "ctrl_c"})
        self._interrupting = asyncio.create_task(self._controller.io(request))
        self._interrupting.add_done_callback(lambda done: done.cancelled() or done.exception())  # without the lock: left alone

    def _tell(self, received: int, seconds: float) -> None:
        if self._status is not None:
            self._status.update(f"{self._before_s + seconds:.0f} s, {shown.size(received)}")

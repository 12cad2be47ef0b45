"""`ptyctl exec` and `send`: run a command, type text, press keys."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ptyctl.api.controller import Controller
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.api.io import IoRequest

from .client import MAX_CALL_MS, call_session, resolve_task
from .errors import (
    EXEC_OFFSET,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_TIMED_OUT,
    REPORTED_ERRORS,
    print_message,
    report_error,
)
from .options import AsJson, SessionName, Task
from .output import format_size, print_json, print_text, progress

if TYPE_CHECKING:
    from rich.status import Status

_MAX_OUTPUT_BYTES = 16 << 20


def exec_(
    name: SessionName,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="The words are joined with spaces and typed as one line.")
    ],
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Stop waiting after this time; the command keeps running. Default: none."),
    ] = None,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Run a command, print its output, and exit with its exit code.

    Ctrl-C interrupts the command; a second Ctrl-C stops waiting for it.

    Exit codes above 100 are ptyctl's own: 103 no such session, 104 locked or busy, 105 timeout, 106 connection lost.
    """
    try:
        code = _exec(name, " ".join(command), timeout, resolve_task(task), as_json)
    except REPORTED_ERRORS as error:
        raise typer.Exit(EXEC_OFFSET + report_error(error)) from None
    raise typer.Exit(code)


def send(
    name: SessionName,
    text: Annotated[str | None, typer.Argument(help="Text to type, followed by Enter; - types stdin unchanged.")] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", "-k", help="Key to press after the text: ctrl_c, up, f1, break ...")
    ] = None,
    enter: Annotated[bool, typer.Option(" /--no-enter", show_default=False, help="Do not press Enter after the text.")] = True,
    sensitive: Annotated[bool, typer.Option("--sensitive", help="The text is a secret: record only its length.")] = False,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Type text or press keys."""
    if text is None and not key:
        raise typer.BadParameter("give a text, or --key")
    data = sys.stdin.read() if text == "-" else None if text is None else text + "\n" * enter
    writes: list[dict[str, Any]] = [{"data": data, **({"sensitive": True} if sensitive else {})}] if data else []
    writes += [{"key": pressed} for pressed in key or []]

    async def write(controller: Controller, session_id: str) -> list[dict[str, Any]]:
        common = {"session_id": session_id, "action": "write", "task_id": resolve_task(task)}
        return [(await controller.io(IoRequest.of({**common, **fields}))).payload() for fields in writes]

    replies = call_session(name, write)
    if as_json:
        # Reading from the first write's cursor returns everything that the writes caused.
        first_cursor = replies[0]["next_cursor"] if replies else None
        print_json({"bytes_written": sum(reply["bytes_written"] for reply in replies), "next_cursor": first_cursor})


def _exec(name: str, command: str, timeout_s: float | None, task_id: str, as_json: bool) -> int:
    """Print the output and return the command's exit code; on a device 0, or 1 if the output has signs of an error."""
    with progress() as status:
        wait = partial(_wait_for_command, command=command, timeout_s=timeout_s, task_id=task_id, status=status)
        reply = call_session(name, wait)
    if reply is None:
        return EXIT_INTERRUPTED
    if as_json:
        print_json(reply.payload())
    else:
        print_text(reply.stdout)
    if reply.output_truncated:
        complete = f"ptyctl blocks {name} --output {reply.block_id}"
        print_message(f"{reply.omitted_bytes} bytes are omitted in the middle; complete output: {complete}")
    if reply.timed_out:
        print_message(f"still running as block {reply.block_id}; follow it with: ptyctl tail -f")
        return EXEC_OFFSET + EXIT_TIMED_OUT
    if reply.exit_code is not None:
        return reply.exit_code
    return EXIT_FAILED if reply.error_hints else 0


async def _wait_for_command(
    controller: Controller, session_id: str, command: str, timeout_s: float | None, task_id: str, status: Status | None
) -> ExecReply | None:
    """Return the reply when the command ends or the timeout passes, or None after a second Ctrl-C."""
    execution = _Execution(controller, session_id, task_id, status)
    waiter = asyncio.create_task(execution.run(command, timeout_s))
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, execution.interrupt, waiter)
    with suppress(asyncio.CancelledError):
        return await waiter
    return None


class _Execution:
    """One command and the calls that wait for it."""

    def __init__(self, controller: Controller, session_id: str, task_id: str, status: Status | None) -> None:
        self._controller = controller
        self._target = {"session_id": session_id, "task_id": task_id}
        self._status = status
        self._interrupt: asyncio.Task[object] | None = None
        self._previous_calls_s = 0.0

    async def run(self, command: str, timeout_s: float | None) -> ExecReply:
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        run: dict[str, object] = {"cmd": command}
        while True:
            self._previous_calls_s = loop.time() - started_at
            remaining_ms = MAX_CALL_MS if timeout_s is None else max((timeout_s - self._previous_calls_s) * 1000, 0)
            limits = {"timeout_ms": round(min(remaining_ms, MAX_CALL_MS)), "max_output_bytes": _MAX_OUTPUT_BYTES}
            reply = await self._controller.exec(ExecRequest.of({**self._target, **run, **limits}), self._show_progress)
            if not reply.timed_out or (remaining_ms <= MAX_CALL_MS and timeout_s is not None):
                return reply
            run = {"block_id": reply.block_id}

    def interrupt(self, waiter: asyncio.Task[ExecReply]) -> None:
        """Send Ctrl-C to the command on the first call; cancel `waiter` on the second."""
        if self._interrupt is not None:
            waiter.cancel()
            return
        request = IoRequest.of({**self._target, "action": "write", "key": "ctrl_c"})
        self._interrupt = asyncio.create_task(self._controller.io(request))
        # A refusal is ignored: without the lock the command cannot be interrupted, only left.
        self._interrupt.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _show_progress(self, received: int, seconds: float) -> None:
        if self._status is not None:
            self._status.update(f"{self._previous_calls_s + seconds:.0f} s, {format_size(received)}")

"""Tasks of a run: responses to questions, and a cancellation after a time; and the eager start of a coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ptyctl.api.errors import PtyctlError
from ptyctl.api.exec import ExecRequest
from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.core.control_sequences import ETX
from ptyctl.core.search import Search, compile_all
from ptyctl.session.io.gate import SYSTEM, Writer
from ptyctl.session.io.pattern_search import find_next_received
from ptyctl.session.io.terminal_state import TerminalState

from .run import Run

#: A pattern, the text that is typed at each match, and the writer.
ResponseRule = tuple[Any, str, Writer]


def compile_responses(request: ExecRequest | None, writer: Writer) -> list[ResponseRule]:
    """Return the request's rules.

    Raises:
        PtyctlError: INVALID_ARGUMENT for a pattern that RE2 rejects.
    """
    if request is None or not request.responses:
        return []
    patterns = compile_all((item.match for item in request.responses), "responses.match")
    return [
        (pattern, item.send, replace(writer, command=False, sensitive=item.sensitive))
        for pattern, item in zip(patterns, request.responses, strict=True)
    ]


def start_run_tasks(
    run: Run, rules: list[ResponseRule], terminal: TerminalState, on_interrupt: Callable[[], None]
) -> list[asyncio.Task[None]]:
    """Start the tasks. The caller cancels them when the run ends.

    `on_interrupt` is called after the run was interrupted.
    """
    if run.request is None:
        return []
    deadline = run.started + min(run.request.timeout_ms, MAX_WAIT_MS) / 1000
    tasks = [asyncio.create_task(_respond(run, rule, terminal, deadline)) for rule in rules]
    if run.request.cancel_after_ms is not None:
        tasks.append(asyncio.create_task(_cancel_later(run, run.request.cancel_after_ms / 1000, terminal, on_interrupt)))
    return tasks


async def _respond(run: Run, rule: ResponseRule, terminal: TerminalState, deadline: float) -> None:
    """Type the response at each match. A search waits for other searches until the deadline of the call that began the run."""
    stream, (pattern, text, writer) = terminal.stream, rule
    while run.spool_begin is None:
        await stream.wait()
    search = Search(pattern, run.spool_begin)
    while True:
        try:
            found = await find_next_received(stream, search, lambda: stream.window, deadline)
        except PtyctlError as error:
            terminal.post_notice(f"responses to block {run.block_id} have ended: {error.message}")
            return
        if found is None or found.start == found.end:
            await stream.wait(coalesce=True)
            continue
        try:
            await terminal.gate.type(text, writer)
        except PtyctlError as error:  # the lock was lost, the channel has ended, or the policy does not allow the response
            terminal.post_notice(f"responses to block {run.block_id} have ended: {error.message}")
            return
        search = Search(pattern, found.end)


async def _cancel_later(run: Run, after_s: float, terminal: TerminalState, on_interrupt: Callable[[], None]) -> None:
    await asyncio.sleep(after_s)
    if run.result is None:
        with suppress(PtyctlError):  # the channel has ended, which ends the run too
            await terminal.gate.interrupt(ETX, SYSTEM)
        on_interrupt()


def start_eagerly(coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None] | None:
    """Run a coroutine synchronously until it first suspends; create a task only for the rest.

    Returns None if the coroutine has finished. Until it first suspends, the coroutine runs in the caller's task, so it must not
    enter an `asyncio.timeout` before that.

    Python 3.12 has `asyncio.eager_task_factory` for this, which can replace it when 3.11 is no longer supported. A task that is
    created for a coroutine that does not suspend costs an iteration of the event loop, about a third of a short command.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return None
    return asyncio.create_task(_Suspended(coroutine, awaited), name=name)


class _Suspended(Coroutine[Any, Any, None]):
    """A suspended coroutine: yields to its new driver what it already waits for, and passes on a cancellation."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], awaited: Any) -> None:
        self._coroutine = coroutine
        self._first = [awaited]

    def send(self, value: Any) -> Any:
        return self._first.pop() if self._first else self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        self._first.clear()
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._coroutine.__await__()

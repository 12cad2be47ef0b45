"""What goes on beside a run where its caller asked for it: answers to what it asks, and a cancel after a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ptyctl.api.errors import PtyctlError
from ptyctl.api.exec import ExecRequest
from ptyctl.core.control_sequences import ETX
from ptyctl.core.search import Search, compile_pattern
from ptyctl.session.io.gate import SYSTEM, Writer
from ptyctl.session.io.terminal_state import TerminalState

from .run import Run


@dataclass(frozen=True, slots=True)
class Answer:
    """`text` is typed each time that the pattern appears behind what was answered before, as long as the writer may."""

    pattern: Any
    text: str
    writer: Writer


def compile_responses(request: ExecRequest | None, writer: Writer) -> list[Answer]:
    """Raises PtyctlError INVALID_ARGUMENT for a pattern that RE2 refuses."""
    asked = (request.responses or ()) if request is not None else ()
    return [
        Answer(compile_pattern(item.match, "responses.match"), item.send, replace(writer, sensitive=item.sensitive))
        for item in asked
    ]


def start_run_tasks(
    run: Run, answers: list[Answer], terminal: TerminalState, interrupted: Callable[[], None]
) -> list[asyncio.Task[None]]:
    """`interrupted` is called when the run has been interrupted. Whoever ends the run ends the tasks."""
    tasks = [asyncio.create_task(_answer(run, answer, terminal)) for answer in answers]
    if run.request is not None and run.request.cancel_after_ms is not None:
        tasks.append(asyncio.create_task(_cancel_later(run, run.request.cancel_after_ms / 1000, terminal, interrupted)))
    return tasks


async def _answer(run: Run, answer: Answer, terminal: TerminalState) -> None:
    stream = terminal.stream
    while run.spool_begin is None:
        await stream.signal.wait()
    search = Search(answer.pattern, run.spool_begin)
    while True:
        found = search.search(stream.window)
        if found is None or found.start == found.end:
            await stream.signal.wait(coalesce=True)
            continue
        try:
            await terminal.gate.type(answer.text, answer.writer)
        except PtyctlError:
            return  # the lock was lost, or the far end is gone: the run goes on, or ends by itself
        search = Search(answer.pattern, found.end)


async def _cancel_later(run: Run, after_s: float, terminal: TerminalState, interrupted: Callable[[], None]) -> None:
    await asyncio.sleep(after_s)
    if run.done_reason is None:
        with suppress(PtyctlError):  # the far end is gone: that ends the run too
            await terminal.gate.interrupt(ETX, SYSTEM)
        interrupted()

"""Base of the completion strategies, which detect the end of a command."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import DoneReason
from ptyctl.core.marks import PlacedMark
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.output_stream import LINE_BYTES, OutputStream
from ptyctl.session.io.terminal_state import TerminalState

from .run import Run, RunResult
from .run_output import kept_error_lines

#: A coroutine that types input for a run.
Typing = Coroutine[Any, Any, object]


class CompletionStrategy:
    """Types one run's command and detects its end.

    Attributes:
        ends_by_marks: whether the shell reports the end; if so, a caller's wait condition does not end the run.
        checks_output: whether to check after each batch of output; otherwise `next_check` is set and is soon enough.
        next_check: when to check again if no output arrives, on the loop's clock.
    """

    ends_by_marks = False
    checks_output = True

    def __init__(self, terminal: TerminalState) -> None:
        self.next_check: float | None = None
        self._terminal = terminal
        self._stream = terminal.stream

    async def type(self, run: Run, writer: Writer) -> None:
        """Type the command."""
        raise NotImplementedError

    def check(self, run: Run) -> Typing | None:
        """Finish the run if it has ended. Otherwise return input that must be typed, if any; check again after that."""
        raise NotImplementedError

    def mark_received(self, run: Run, placed: PlacedMark) -> None:
        """Handle a mark of this session."""

    def _ending_note(self, run: Run, strategy: str, **fields: object) -> Callable[[], None]:
        """Return a function that stores how the end of the run is found, for the next server: call it before the first byte.

        A command whose row in blocks.jsonl is written after it was typed needs none with marks of the shell.
        """
        now = int(time.time() * 1000)
        return partial(self._stream.transcript.note, "run", now, block_id=run.block_id, strategy=strategy, **fields)

    def close(self) -> None:
        """Release the resources of the run, which has ended."""


def has_echoed(stream: OutputStream, typed_raw: int) -> bool:
    """Return whether a line end follows this offset in output.raw, at which a line was typed: its echo has ended."""
    end = typed_raw + LINE_BYTES
    return stream.raw_size > end or b"\n" in stream.read_raw(typed_raw, min(end, stream.raw_size))


def finish_run(
    terminal: TerminalState,
    run: Run,
    reason: DoneReason,
    *,
    raw_end: int | None = None,
    spool_end: int | None = None,
    output_end: int | None = None,
    exit_code: int | None = None,
    exit_code_reason: str | None = None,
    prompt_after: str = "",
    failure: PtyctlError | None = None,
    cancel_reason: str | None = None,
) -> None:
    """Finish a run. Its output ends at the given offsets, or with all output received; see `RunResult`.

    If the command ended the shell, the exit code is that of the shell.
    """
    stream = terminal.stream
    if reason == "eof" and exit_code is None:
        exit_code = terminal.exit_code()
    if output_end is None:
        output_end = spool_end if raw_end is not None and spool_end is not None else stream.spool_end + stream.normaliser.held
    result = RunResult(
        reason,
        round((terminal.now() - run.started) * 1000),
        raw_end=stream.raw_size if raw_end is None else raw_end,
        spool_end=stream.spool_end if spool_end is None else spool_end,
        output_end=output_end,
        exit_code=exit_code,
        exit_code_reason=None if exit_code is not None else exit_code_reason or run.exit_code_reason,
        prompt_after=prompt_after,
        error_hints=kept_error_lines(stream, run, output_end),
        failure=failure,
        cancel_reason=cancel_reason,
    )
    run.finish(result)


async def type_for_run(
    terminal: TerminalState, run: Run, text: str, writer: Writer, before: Callable[[], None] | None = None
) -> None:
    """Type text for a run. If the writer's lock is lost meanwhile, the remaining text is dropped and the run continues.

    `before` is called directly before the first byte.

    Raises:
        PtyctlError: as `Gate.type`; LOCK_LOST if nothing was typed.
    """
    terminal.stream.command_typed()
    try:
        await terminal.gate.type(text, writer, before)
    except PtyctlError as error:
        if error.code is not ErrorCode.LOCK_LOST or not error.details.get("bytes_written"):
            raise
    run.typed()

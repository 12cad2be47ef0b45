"""What runs do with the terminal: type for a run, and finish it with the current offsets."""

from __future__ import annotations

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import DoneReason
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.terminal_state import TerminalState

from .run import Run


def finish_run(terminal: TerminalState, run: Run, reason: DoneReason, raw_end: int | None = None) -> None:
    """Finish a run; its output ends at `raw_end`, or with all output received."""
    end = terminal.stream.raw_size if raw_end is None else raw_end
    run.finish(reason, terminal.now(), raw_end=end, spool_end=terminal.stream.spool_end)


async def type_for_run(terminal: TerminalState, run: Run, text: str, writer: Writer) -> None:
    """Type for a run. If its lock is lost meanwhile, the rest is dropped and the run continues."""
    terminal.stream.command_typed()
    try:
        await terminal.gate.type(text, writer)
    except PtyctlError as error:
        if error.code is not ErrorCode.LOCK_LOST:
            raise
    run.sent = True

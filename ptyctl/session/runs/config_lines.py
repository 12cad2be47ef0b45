"""exec(lines=[...]): each line is checked by what the device said to it (CONTRACTS, ptyctl_session_exec)."""

from __future__ import annotations

from ptyctl.api.exec import FailedLine
from ptyctl.session.io.output_stream import OutputStream

from .output import shown_between
from .run import Run


def check_line(run: Run, number: int, line: str, stream: OutputStream, begin: int, end: int) -> bool:
    """Takes note of a line that was refused, by its output between two raw offsets; whether to go on with the next one.

    A single command has its output for that. Lines that follow a refused one may be meant for a place where they do not stand:
    to go on is the caller's choice.
    """
    if run.request is None or run.request.lines is None:
        return True
    said = run.expect.error_lines(shown_between(stream, begin, end))
    if not said:
        return True
    run.failed_lines.append(FailedLine(number=number, line=line, said=said))
    return run.request.on_error == "continue"


def waiting_line(run: Run) -> str | None:
    """Of several lines the one that a device has not answered yet, for people."""
    lines = run.command.split("\n")
    if len(lines) < 2 or not run.line:
        return None
    what = "asks something" if run.question is not None else "has brought no prompt yet"
    return (
        f"line {run.line} of {len(lines)} ({lines[run.line - 1]!r}) {what}, and nothing behind it was typed; answer what is "
        "asked, or wait with block_id"
    )

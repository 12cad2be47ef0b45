"""What users do with a session, recorded in the audit log."""

from __future__ import annotations

from typing import Protocol

from ptyctl.session.io.gate import Writer
from ptyctl.session.runs.run import Run

from .clients import current_principal

#: Typed text without a line end is recorded at this size, in bytes.
_MAX_TEXT_BYTES = 4096
_LINE_ENDS = (b"\r", b"\n")


class Recorder(Protocol):
    """The audit log; takes rows without waiting.

    Attributes:
        failure: why rows cannot be stored at present, or None.
    """

    failure: str | None

    def record(self, event: str, **fields: object) -> None:
        """Add a row with the fields that are not None."""
        ...

    def check(self) -> None:
        """Check that a console may take input although rows cannot be stored. Raises PtyctlError if not."""
        ...


def caller(task_id: str | None) -> dict[str, str | None]:
    """Return the fields of a row that name who makes the current call."""
    return {"principal": current_principal().name, "task": task_id}


class Activity:
    """Records what users do with one session; nothing before `set_recorder`."""

    def __init__(self, session_id: str, device: str | None, *, console: bool) -> None:
        self._fields = {"session_id": session_id, "device": device}
        self._console = console
        self._recorder: Recorder | None = None
        self._writer: Writer | None = None
        self._text = bytearray()
        self._secret_bytes = 0

    def set_recorder(self, recorder: Recorder) -> None:
        """Record from now on."""
        self._recorder = recorder

    def check(self) -> None:
        """Check that input may be sent: a console takes none while it cannot be recorded, unless the settings allow it.

        Raises:
            PtyctlError: IO_ERROR.
        """
        if self._recorder is not None and self._recorder.failure is not None and self._console:
            self._recorder.check()

    def record(self, event: str, **fields: object) -> None:
        """Add a row about the session, with the fields that are not None."""
        if self._recorder is not None:
            self._recorder.record(event, **self._fields, **fields)

    def run_begun(self, run: Run) -> None:
        """Record the command of a run that a caller began."""
        if run.driven:
            self.record("text", **caller(run.task_id), via="exec", block_id=run.block_id, text=run.submitted or run.command)

    def typed(self, writer: Writer, data: bytes, secret: bool, raw: int) -> None:
        """Record what a caller typed, line by line; of a secret the length. `raw` is the offset of the output."""
        if writer.command or self._recorder is None:
            return
        if self._writer is None or self._writer.owner != writer.owner:
            self.flush(raw)
        self._writer = writer
        if secret:
            self._secret_bytes += len(data)
        else:
            self._text += data
        if data.endswith(_LINE_ENDS) or len(self._text) >= _MAX_TEXT_BYTES:
            self.flush(raw)

    def flush(self, raw: int) -> None:
        """Record what was typed since the last line end."""
        if self._writer is None or not (self._text or self._secret_bytes):
            return
        who = {"principal": self._writer.principal, "task": self._writer.task_id}
        text = self._text.decode("utf-8", "backslashreplace") or None
        self.record("text", **who, via="write", text=text, secret_bytes=self._secret_bytes or None, raw_offset=raw)
        self._text.clear()
        self._secret_bytes = 0

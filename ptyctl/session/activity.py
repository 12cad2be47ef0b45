"""Audit rows about the actions of users in a session."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ptyctl.api.errors import PtyctlError
from ptyctl.core.echo_watch import TypedPiece
from ptyctl.session.io.gate import Review, Writer
from ptyctl.session.runs.run import Run
from ptyctl.trace import current_trace_id

from .clients import current_principal

#: Typed text without a line end is recorded at this size, in bytes.
_MAX_TEXT_BYTES = 4096
#: Typed text without a line end is recorded after this time (seconds).
_LONGEST_WAIT_S = 1.0
_LINE_ENDS = (b"\r", b"\n")


class Recorder(Protocol):
    """The interface of the audit log. Recording a row does not block."""

    @property
    def failure(self) -> str | None:
        """Why rows cannot be stored, or None."""
        ...

    def record(self, event: str, **fields: object) -> None:
        """Add a row with the fields that are not None."""
        ...

    def check(self) -> None:
        """Check that a console may take input although rows cannot be stored. Raises PtyctlError if not."""
        ...


def caller(task_id: str | None) -> dict[str, str | None]:
    """Return the row fields that identify the current caller."""
    return {"principal": current_principal().name, "task": task_id, "trace_id": current_trace_id()}


class Activity:
    """Records the actions of users in one session. Rows before `set_recorder` are dropped."""

    def __init__(self, session_id: str, device: str | None, *, console: bool, raw_size: Callable[[], int]) -> None:
        """Create the object. `raw_size` returns the size of the session's output."""
        self._fields = {"session_id": session_id, "device": device}
        self._console = console
        self._raw_size = raw_size
        self._recorder: Recorder | None = None
        self._run: Run | None = None
        self._writer: Writer | None = None
        self._text: list[TypedPiece] = []
        self._text_bytes = 0
        #: Rows of typed text, from the first one on that waits until it is known whether the far end shows the text.
        self._rows: deque[_TextRow] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def set_recorder(self, recorder: Recorder) -> None:
        """Set the recorder of all further rows."""
        self._recorder = recorder

    def check(self) -> None:
        """Check that input may be sent: a console takes none while it cannot be recorded, unless the settings allow it.

        Raises:
            PtyctlError: IO_ERROR.
        """
        if self._console and self._recorder is not None and self._recorder.failure is not None:
            self._recorder.check()

    def record(self, event: str, **fields: object) -> None:
        """Add a row about the session, with the fields that are not None."""
        if self._recorder is not None:
            self._recorder.record(event, **self._fields, **fields)

    def run_begun(self, run: Run) -> None:
        """Handle the start of a run. Its command is recorded when the first bytes are typed; until then it may be refused."""
        self._run = run if run.driven else None

    def typed(self, writer: Writer, pieces: Sequence[TypedPiece]) -> None:
        """Record input of a caller: a command as a whole, other text by line; by its length what the far end does not show."""
        if self._recorder is None:
            return
        if writer.command:
            self._command_typed(writer, secret=pieces[0].shown is False)
            return
        if self._writer is None or self._writer.owner != writer.owner:
            self.flush()
        self._writer = writer
        self._text += pieces
        self._text_bytes += sum(len(piece.data) for piece in pieces)
        if pieces[-1].data.endswith(_LINE_ENDS) or self._text_bytes >= _MAX_TEXT_BYTES:
            self._end_row()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LONGEST_WAIT_S, self._end_row)

    def _command_typed(self, writer: Writer, *, secret: bool) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        text = run.submitted or run.command
        shown = {"secret_bytes": len(text.encode("utf-8", "surrogateescape"))} if secret else {"text": text, "cwd": run.cwd}
        decision = _decision_fields(run.review, text, secret=secret)
        who, raw = writer_fields(writer), self._raw_size()
        self.record("text", **who, via="exec", block_id=run.block_id, **shown, **decision, raw_offset=raw)

    def refused(self, writer: Writer, text: str, error: PtyctlError, block_id: str | None, via: str) -> None:
        """Record a text that the policy denies; a secret by its length."""
        review, shown = writer.review, text[:_MAX_TEXT_BYTES]
        fields: dict[str, object] = {"text": shown.encode("utf-8", "backslashreplace").decode()} if shown else {}
        if review.is_secret:
            fields = {"secret_bytes": len(text.encode("utf-8", "surrogateescape"))}
        self.record(
            "denied",
            **writer_fields(writer),
            via=via,
            block_id=block_id,
            **fields,
            text_size=len(text) if len(text) > len(shown) else None,
            **_decision_fields(review, text, secret=review.is_secret),
            reason=error.details.get("reason"),
            raw_offset=self._raw_size(),
        )

    def flush(self) -> None:
        """Record the text typed since the last line end; by length if it is not known whether the far end shows it."""
        self._end_row()
        self._record_rows(all_of_them=True)

    def echo_decided(self) -> None:
        """Record the text of which it is known now whether the far end shows it."""
        self._record_rows()

    def _end_row(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writer is None or not self._text:
            return
        whole = b"".join(piece.data for piece in self._text if piece.shown is not False)
        text = whole.decode("utf-8", "backslashreplace") or None
        decision = _decision_fields(self._writer.review, text, secret=text is None)
        fields = {**writer_fields(self._writer), "via": "write", **decision, "raw_offset": self._raw_size()}
        self._rows.append(_TextRow(self._text, fields))
        self._text, self._text_bytes = [], 0
        self._record_rows()

    def _record_rows(self, *, all_of_them: bool = False) -> None:
        while self._rows and (all_of_them or self._rows[0].is_decided):
            self.record("text", **self._rows.popleft().fields())


@dataclass(frozen=True, slots=True)
class _TextRow:
    """Text of one row, and the other fields of the row."""

    pieces: list[TypedPiece]
    others: dict[str, object]

    @property
    def is_decided(self) -> bool:
        return all(piece.shown is not None for piece in self.pieces)

    def fields(self) -> dict[str, object]:
        """Return the fields of the row. What is not certainly shown is recorded by its length, without its canonical form."""
        text = b"".join(piece.data for piece in self.pieces if piece.shown)
        hidden = [piece for piece in self.pieces if not piece.shown]
        fields = {**self.others, "canonical": None} if hidden else self.others
        shown = text.decode("utf-8", "backslashreplace") or None
        return {"text": shown, "secret_bytes": sum(len(piece.data) for piece in hidden) or None, **fields}


def _decision_fields(review: Review, text: str | None, *, secret: bool) -> dict[str, object]:
    """Return the row fields about the policy decision; empty for text that was not submitted yet.

    The canonical form is that of the whole write. Only the first row has it: in each of many lines it would fill the disk.
    """
    verdict, permit = review.verdict, review.permit
    if verdict is None:
        return {} if permit is None else {"approval_id": permit.approval_id}
    is_shown = secret or verdict.canonical == (text or "").rstrip("\r\n")
    return {
        "mode": verdict.mode,
        "verdict": str(verdict.decision),
        "rules": list(verdict.rules) or None,
        "canonical": None if is_shown else review.take_canonical(),
        "approval_id": None if permit is None else permit.approval_id,
    }


def writer_fields(writer: Writer) -> dict[str, object]:
    """Return the row fields that identify the writer."""
    return {"principal": writer.by.name, "task": writer.task_id, "trace_id": writer.trace_id}

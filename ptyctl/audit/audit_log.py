"""Writes the audit log in a thread, so that no caller waits for the disk, and limits rows that clients can cause at will."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Literal

from ptyctl.api.errors import ErrorCode, PtyctlError

from .audit_files import AuditFiles
from .chain import encode

_LOG = logging.getLogger(__name__)

#: Size of the rows that may wait for a disk that does not take them; with more, new ones are lost, and counted.
MAX_WAITING_BYTES = 16 * 1024 * 1024
#: Rows are collected for this time before they are written together (seconds).
BATCH_S = 0.05
#: How long after a failure the next attempt is made (seconds).
_RETRY_S = 1.0
#: Rows that wait for longer count as not writable: the disk hangs (seconds).
_LATE_S = 5.0
#: Interval at which a query that waits for rows checks whether they can be written (seconds).
_QUERY_S = 1.0
#: How long `close` waits for the last rows (seconds).
_CLOSE_S = 5.0

OnFailure = Literal["deny", "allow"]


class AuditLog:
    """Records rows in order. Recording a row never raises an error and never waits for the disk."""

    def __init__(self, files: AuditFiles, on_failure: OnFailure = "deny") -> None:
        """Create the log. `on_failure`: whether consoles take input while rows cannot be written."""
        self._failure: str | None = None
        self._oldest_at = 0.0
        self._files = files
        self._on_failure = on_failure
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._lost = 0
        #: Number of rows that were accepted, and of those that are written.
        self._accepted = self._written = 0
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._is_idle = True
        self._thread: threading.Thread | None = None

    def record(self, event: str, **fields: object) -> None:
        """Add a row with the time, the event, and those fields that are not None."""
        given = {name: value for name, value in fields.items() if value is not None}
        row = encode({"ts": int(time.time() * 1000), "event": event, **given})
        with self._changed:
            if self._waiting_bytes + len(row) > MAX_WAITING_BYTES:
                self._lost += 1
                return
            if not self._waiting:
                self._oldest_at = time.monotonic()
            self._waiting.append(row)
            self._accepted += 1
            self._waiting_bytes += len(row)
            if self._is_idle:  # otherwise the thread reads the queue after its current batch
                self._start_thread()
                self._changed.notify()

    @property
    def failure(self) -> str | None:
        """Why rows cannot be written; None if they can."""
        if self._failure is not None or not self._waiting:
            return self._failure
        is_late = time.monotonic() > self._oldest_at + _LATE_S
        return f"the disk has not taken rows for {_LATE_S:.0f} s" if is_late else None

    def check(self) -> None:
        """Check that input may be sent to a console.

        Raises:
            PtyctlError: IO_ERROR if rows cannot be written, and input is denied then.
        """
        if self.failure is not None and self._on_failure == "deny":
            raise PtyctlError(
                ErrorCode.IO_ERROR,
                f"the audit log cannot be written: {self.failure}; nothing is typed on consoles until it can",
                {"folder": str(self._files.folder)},
                hint="make room there; output can still be read",
            )

    def wait_written(self) -> None:
        """Wait until the rows so far are written, or cannot be written. Blocks: not for an event loop."""
        with self._changed:
            last = self._accepted
            while self._written < last and self.failure is None:
                self._changed.wait(_QUERY_S)

    def close(self) -> None:
        """Write the rows that wait, if the disk takes them, and end."""
        self._closing.set()
        with self._changed:
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
        if self._waiting:
            _LOG.error("rows of the audit log were not written", extra={"rows": len(self._waiting), "why": self.failure})

    def _start_thread(self) -> None:
        """Start the thread with the first row; if the system starts no more threads, the next row tries again."""
        if self._thread is None and not self._closing.is_set():
            thread = threading.Thread(target=self._run, name="audit", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                self._failure = str(error)
            else:
                self._thread = thread

    def _run(self) -> None:
        while self._wait_for_rows():
            is_last = self._closing.wait(BATCH_S)
            with self._changed:
                rows, lost = list(self._waiting), self._lost
            if self._write(rows, lost):
                with self._changed:
                    for row in rows:
                        self._waiting.popleft()
                        self._waiting_bytes -= len(row)
                    self._written += len(rows)
                    self._oldest_at = time.monotonic()
                    self._lost -= lost
                    self._changed.notify_all()
            elif is_last:
                return
            else:
                self._closing.wait(_RETRY_S)

    def _wait_for_rows(self) -> bool:
        """Wait until there are rows. Returns False if the log is closed and all are written."""
        with self._changed:
            self._is_idle = True
            self._changed.wait_for(lambda: self._waiting or self._closing.is_set())
            self._is_idle = False
            return bool(self._waiting)

    def _write(self, rows: list[bytes], lost: int) -> bool:
        note = [encode({"ts": int(time.time() * 1000), "event": "rows_lost", "rows": lost})] if lost else []
        try:
            self._files.append([*rows, *note], time.strftime("%Y-%m", time.gmtime()))
        except Exception as error:  # noqa: BLE001 - the thread must survive, and consoles must take no input meanwhile
            self._failure = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            return False
        self._failure = None
        return True


#: Number of rows in this time (seconds).
MAX_ROWS = 20
PERIOD_S = 60.0


class LimitedRows:
    """Records up to 20 rows a minute, and then one with the number of the others. Belongs to an event loop."""

    def __init__(self, record: Callable[..., None], event: str, **common: object) -> None:
        """Create the recorder. `common` are fields of all rows."""
        self._record = record
        self._event = event
        self._common = common
        self._seen = 0
        self._timer: asyncio.TimerHandle | None = None

    def record(self, **fields: object) -> None:
        """Record a row, or count it."""
        self._seen += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self.flush)
        if self._seen <= MAX_ROWS:
            self._record(self._event, **self._common, **fields)

    def flush(self) -> None:
        """Record the number of suppressed rows, and begin a new minute."""
        left_out, self._seen = self._seen - MAX_ROWS, 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if left_out > 0:
            self._record(self._event, **self._common, suppressed=left_out)

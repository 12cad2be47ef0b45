"""Rows for what clients can cause in any number, so that they do not fill the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: Number of rows in this time (seconds).
MAX_ROWS = 20
PERIOD_S = 60.0


class LimitedRows:
    """Records up to 20 rows a minute, and then one with the number of the others. Belongs to an event loop."""

    def __init__(self, record: Callable[..., None], event: str, **common: object) -> None:
        """Create it. `common` are fields of all rows."""
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
        """Record the number of the rows that were left out, and begin a new minute."""
        left_out, self._seen = self._seen - MAX_ROWS, 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if left_out > 0:
            self._record(self._event, **self._common, suppressed=left_out)

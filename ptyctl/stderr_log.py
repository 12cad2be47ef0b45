"""Logging to stderr, one line per record as `key=value` pairs. stdout is reserved for replies and for the stdio transport."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

#: A statement may log this often in this time (seconds).
RATE_LIMIT = 20
RATE_PERIOD_S = 60.0
_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_PLAIN_VALUE = re.compile(r"[\w./:+-]+", re.ASCII)


class KeyValueFormatter(logging.Formatter):
    """Formats a record as timestamp (UTC), level, logger, event, its `extra` fields, and the traceback, if any."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "timestamp": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _STANDARD_ATTRIBUTES}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return " ".join(f"{name}={_quote(value)}" for name, value in fields.items())


def _quote(value: object) -> str:
    """Return the value as it is, or as a JSON string if it contains anything but ASCII word characters and `./:+-`."""
    text = str(value)
    return text if _PLAIN_VALUE.fullmatch(text) else json.dumps(text)


class RateLimit(logging.Filter):
    """Drops records of one statement beyond RATE_LIMIT in RATE_PERIOD_S; the next one reports how many were `suppressed`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        #: By statement: start of the period, and number of records in it.
        self._counts: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        statement, now = (record.pathname, record.lineno), self._clock()
        begin, count = self._counts.get(statement, (now, 0))
        if now - begin >= RATE_PERIOD_S:
            if count > RATE_LIMIT:
                record.suppressed = count - RATE_LIMIT
            begin, count = now, 0
        self._counts[statement] = (begin, count + 1)
        return count < RATE_LIMIT


class _StderrHandler(logging.StreamHandler[TextIO]):
    def __init__(self, before_write: Callable[[], None]) -> None:
        super().__init__(sys.stderr)
        self._before_write = before_write

    def emit(self, record: logging.LogRecord) -> None:
        self._before_write()
        super().emit(record)


def log_to_stderr(before_write: Callable[[], None] = lambda: None) -> None:
    """Write the warnings and errors of ptyctl and its libraries to stderr. `before_write` may rotate a log file."""
    handler = _StderrHandler(before_write)
    handler.addFilter(RateLimit())
    handler.setFormatter(KeyValueFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)

"""Logging to stderr, one line per record as `key=value` pairs. stdout is reserved for replies and for the stdio transport."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from typing import Any

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


def log_to_stderr(level: int = logging.WARNING) -> None:
    """Write the records of ptyctl and its libraries from `level` upwards to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    logging.basicConfig(handlers=[handler], level=level, force=True)

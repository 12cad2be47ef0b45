"""The daemon's log file: its standard error, opened by the client that starts it."""

from __future__ import annotations

import os
from contextlib import suppress

from .runtime_dir import RuntimeDir

#: A larger log is renamed to daemon.log.1, before the next daemon starts or a running one writes.
MAX_LOG_BYTES = 1 << 20


def open_log(runtime_dir: RuntimeDir) -> int:
    """Open the log for appending: the last lines of a crashed daemon are needed after the next one has started."""
    with suppress(FileNotFoundError):
        if runtime_dir.log.stat().st_size > MAX_LOG_BYTES:
            runtime_dir.log.replace(runtime_dir.previous_log)
    return os.open(runtime_dir.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def rotate_log(runtime_dir: RuntimeDir) -> None:
    """Continue in a new file if standard error is the log and has become too large."""
    with suppress(OSError):  # without room or descriptors for a new file, the daemon continues in the old one
        status = os.fstat(2)
        if status.st_size > MAX_LOG_BYTES and os.path.samestat(status, runtime_dir.log.stat()):
            log = open_log(runtime_dir)
            os.dup2(log, 2)
            os.close(log)

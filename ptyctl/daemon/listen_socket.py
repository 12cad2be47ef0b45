"""The daemon's listening control socket, and the lock that makes the daemon the only one of its runtime directory."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from .control import find_daemon
from .errors import DaemonError
from .runtime_dir import RuntimeDir

_LOCK_POLL_S = 0.05


class ListenSocket(NamedTuple):
    """A listening socket and its file."""

    listener: socket.socket
    runtime_dir: RuntimeDir
    inode: int

    def unlink(self) -> None:
        """Remove the socket file; clients take its absence as the sign of a regular shutdown.

        Does nothing if the file was replaced: another daemon may have started after this one's files were deleted.
        """
        with suppress(FileNotFoundError):
            if self.runtime_dir.socket.stat().st_ino == self.inode:
                self.runtime_dir.socket.unlink()


@contextmanager
def open_listen_socket(runtime_dir: RuntimeDir) -> Iterator[ListenSocket]:
    """Take the daemon lock, then listen on the control socket with mode 0600.

    Waits for a daemon that is shutting down, and replaces the socket file of one that was killed. Raises DaemonError if another
    daemon is up.
    """
    lock = _acquire_lock(runtime_dir)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.ftruncate(lock, 0)
        os.write(lock, b"%d\n" % os.getpid())
        runtime_dir.socket.unlink(missing_ok=True)
        umask = os.umask(0o177)
        try:
            listener.bind(str(runtime_dir.socket))
        finally:
            os.umask(umask)
        listener.listen(socket.SOMAXCONN)
        yield (listen_socket := ListenSocket(listener, runtime_dir, runtime_dir.socket.stat().st_ino))
        listen_socket.unlink()
    finally:
        listener.close()
        os.close(lock)


def _acquire_lock(runtime_dir: RuntimeDir) -> int:
    """Wait for the lock. A lock file that was deleted after it was opened does not count."""
    while True:
        if (running := find_daemon(runtime_dir)) is not None:
            raise DaemonError(
                f"one is up already (process {running.pid})",
                f"end it first: ptyctl daemon stop; or hand its local shells over to this one: kill -HUP {running.pid}",
            )
        lock = os.open(runtime_dir.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_ino == runtime_dir.lock.stat().st_ino:
                return lock
        except (BlockingIOError, FileNotFoundError):
            time.sleep(_LOCK_POLL_S)
        os.close(lock)

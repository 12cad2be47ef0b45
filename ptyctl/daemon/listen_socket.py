"""The daemon's listening control socket, and the lock that makes the daemon the only one of its runtime directory."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ptyctl.files import open_lock_file
from ptyctl.http.listener import Listener

from .control import find_daemon
from .errors import DaemonError, encode_rejection
from .runtime_dir import RuntimeDir

_LOCK_POLL_S = 0.05


class ListenSocket:
    """A listening socket with mode 0600, or 0660 of a system daemon, its file, and the daemon lock.

    Attributes:
        listener: the socket.
    """

    def __init__(self, runtime_dir: RuntimeDir) -> None:
        """Take the lock, then listen. Waits for a daemon that is shutting down, and replaces the file of one that was killed.

        Raises:
            DaemonError: another daemon is up.
        """
        self._runtime_dir = runtime_dir
        self._lock = _acquire_lock(runtime_dir)
        try:
            self.listener, self._inode = self._listen()
        except BaseException:
            os.close(self._lock)
            raise

    def is_reachable(self) -> bool:
        """Return whether clients find the socket, and another daemon would find the lock."""
        try:
            socket_file = self._runtime_dir.socket.stat()
            return socket_file.st_ino == self._inode and _is_current(self._lock, self._runtime_dir)
        except OSError:
            return False

    def restore(self) -> bool:
        """Create the directory, the lock and the socket again after they were deleted.

        The previous listener stays open, and `listener` is the new one. Returns False while another daemon holds the lock.

        Raises:
            OSError: the files cannot be created.
            DaemonError: the directory is now that of another user, or accessible to others.
        """
        RuntimeDir(self._runtime_dir.path, serves_system=self._runtime_dir.is_system)  # creates and checks the directory
        if not _is_current(self._lock, self._runtime_dir):
            lock = _try_lock(self._runtime_dir)
            if lock is None:
                return False
            os.close(self._lock)
            self._lock = lock
        self.listener, self._inode = self._listen()
        return True

    def unlink(self) -> None:
        """Remove the socket file; clients take its absence as the sign of a regular shutdown.

        Does nothing if the file was replaced: another daemon may have started after this one's files were deleted.
        """
        with suppress(FileNotFoundError):
            if self._runtime_dir.socket.stat().st_ino == self._inode:
                self._runtime_dir.socket.unlink()

    def close(self) -> None:
        """Close the socket and release the lock."""
        self.listener.close()
        os.close(self._lock)

    def _listen(self) -> tuple[socket.socket, int]:
        """Write the pid, listen, and replace the socket file: a client that finds none takes the daemon for stopped."""
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, b"%d\n" % os.getpid(), 0)
        draft = self._runtime_dir.socket.with_suffix(".new")
        draft.unlink(missing_ok=True)
        listener = Listener(socket.AF_UNIX, socket.SOCK_STREAM, encode_refusal=encode_rejection)
        umask = os.umask(0o117 if self._runtime_dir.is_system else 0o177)
        try:
            listener.bind(str(draft))
            listener.listen(socket.SOMAXCONN)
            draft.replace(self._runtime_dir.socket)
        except BaseException:
            listener.close()
            raise
        finally:
            os.umask(umask)
        return listener, self._runtime_dir.socket.stat().st_ino


@contextmanager
def open_listen_socket(runtime_dir: RuntimeDir) -> Iterator[ListenSocket]:
    """Open the socket; remove its file and close it at the end. Raises DaemonError if another daemon is up."""
    listen_socket = ListenSocket(runtime_dir)
    try:
        yield listen_socket
        listen_socket.unlink()
    finally:
        listen_socket.close()


def _acquire_lock(runtime_dir: RuntimeDir) -> int:
    """Wait for the lock."""
    while True:
        if (running := find_daemon(runtime_dir)) is not None:
            raise DaemonError(
                f"one is up already (process {running.pid})",
                f"end it first: ptyctl daemon stop; or hand its local shells over to this one: kill -HUP {running.pid}",
            )
        if (lock := _try_lock(runtime_dir)) is not None:
            return lock
        time.sleep(_LOCK_POLL_S)


def _try_lock(runtime_dir: RuntimeDir) -> int | None:
    """Return the lock if it is free. A lock file that was deleted after it was opened does not count."""
    lock = open_lock_file(runtime_dir.lock)
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_current(lock, runtime_dir):
            return lock
    os.close(lock)
    return None


def _is_current(lock: int, runtime_dir: RuntimeDir) -> bool:
    """Return whether an open lock file is still the one in the directory."""
    try:
        return os.fstat(lock).st_ino == runtime_dir.lock.stat().st_ino
    except FileNotFoundError:
        return False

"""The daemon's socket: there is one, and whoever finds it finds the daemon."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from .control import look
from .place import NoPlace, Place

#: How often it is looked whether the one that holds the lock is gone, or up.
_LOOK_S = 0.05


class Door(NamedTuple):
    """A listening socket, and its file."""

    listener: socket.socket
    place: Place
    inode: int

    def remove(self) -> None:
        """Nobody comes in any more; clients take it as a sign that the daemon ends in order."""
        with suppress(FileNotFoundError):
            if self.place.socket.stat().st_ino == self.inode:  # somebody may have removed it, and another one have come
                self.place.socket.unlink()


@contextmanager
def listening(place: Place) -> Iterator[Door]:
    """The socket, 0600. The lock is held as long as it lives: one that ends is waited for, and the socket file that a killed
    one left is replaced.

    Raises:
        NoPlace: another one is up.
    """
    lock = _locked(place)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.ftruncate(lock, 0)
        os.write(lock, b"%d\n" % os.getpid())
        place.socket.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            listener.bind(str(place.socket))
        finally:
            os.umask(before)
        listener.listen(socket.SOMAXCONN)
        door = Door(listener, place, place.socket.stat().st_ino)
        yield door
        door.remove()
    finally:
        listener.close()
        os.close(lock)


def _locked(place: Place) -> int:
    """The lock, as soon as nobody has it; a file that was removed meanwhile is no lock."""
    while True:
        if (up := look(place)) is not None:
            raise NoPlace(
                f"one is up already (process {up.pid}); end it first: ptyctl daemon stop; "
                f"or for this one to go on with its local shells: kill -HUP {up.pid}"
            )
        lock = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_ino == place.lock.stat().st_ino:
                return lock
        except (BlockingIOError, FileNotFoundError):
            time.sleep(_LOOK_S)
        os.close(lock)

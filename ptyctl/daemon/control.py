"""What `ptyctl daemon` does to a daemon that is up: asks how it is, ends it, replaces it."""

from __future__ import annotations

import fcntl
import os
import select
import signal
from contextlib import closing
from dataclasses import dataclass

from .hello import HelloRefused, answer_to, hello
from .place import Place
from .starting import connect

#: How long it may take for what it has to end: programs get a grace after their hang-up.
END_S = 60.0


class NotEnded(Exception):
    """It is still there; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Up:
    """A daemon that answers."""

    pid: int
    version: str


def look(place: Place) -> Up | None:
    """The daemon that is up, of any version."""
    try:
        link = connect(place, start=False)
    except ConnectionRefusedError:
        return None
    with closing(link):
        answer = answer_to(link, hello("rpc", any_version=True))
    if answer is None:
        return None
    if not answer["ok"]:
        raise HelloRefused(answer["message"])
    return Up(answer["pid"], answer["version"])


def stop(place: Place) -> Up | None:
    """Ends the daemon with all its sessions; what they showed stays on disk. Returns which one it was."""
    return _end(place, signal.SIGTERM)


def hand_over(place: Place) -> Up | None:
    """Ends the daemon; local shells live on, and the next one goes on with them. Returns which one it was."""
    return _end(place, signal.SIGHUP)


def start(place: Place) -> Up:
    """Raises NotStarted."""
    connect(place).close()
    up = look(place)
    assert up is not None
    return up


def _end(place: Place, number: signal.Signals) -> Up | None:
    """Raises NotEnded."""
    up = look(place)
    if up is None:
        return None
    try:
        process = os.pidfd_open(up.pid)
    except ProcessLookupError:
        return up
    try:
        signal.pidfd_send_signal(process, number)
        ended, _, _ = select.select([process], [], [], END_S)
    finally:
        os.close(process)
    if not ended:
        raise NotEnded(f"the daemon (process {up.pid}) has not ended for {END_S:.0f} s; look at {place.log}")
    return up


def is_ending(place: Place) -> bool:
    """Whether one that answers no more is still there: it closes its sessions before it lets go of its lock."""
    try:
        lock = os.open(place.lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False

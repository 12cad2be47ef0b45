"""RLIMIT_NOFILE (setrlimit(2)): more for this process, which holds many sessions, and as before for the programs it starts."""

from __future__ import annotations

import resource
from contextlib import suppress

_before: list[tuple[int, int]] = []


def allow_many() -> None:
    """A session holds several files: the usual soft limit of 1024 would end some 200 of them. The hard limit is the user's to
    set."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    _before[:] = _before or [(soft, hard)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def as_before(pid: int) -> None:
    """A program that was just started has the limit that we had: some make a table of all that they might open."""
    with suppress(OSError):  # it has ended already
        for limits in _before:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

"""A command that is too long to be typed: fish lays out and colours the whole line anew for every hundred keys or so, and
100 KB took 50 s. It reads such a command from memory of ours, as a file that no disk ever has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ptyctl.core.marker import Dialect

#: Typing so many characters takes fish about as long as an exec does anyway (20 ms).
_TYPED_LIMIT = 500


@contextmanager
def typeable(command: str, dialect: Dialect | None) -> Iterator[str]:
    """The command, or a short one that does the same as long as the context lasts (memfd_create(2), proc_pid_fd(5)).

    `dialect` None: that of a shell which may not read our memory, as it is another user's or another machine's.
    """
    if dialect != "fish" or len(command) <= _TYPED_LIMIT:
        yield command
        return
    with os.fdopen(os.memfd_create("command"), "wb") as file:
        file.write(command.replace("\r\n", "\n").encode("utf-8", "surrogateescape"))
        file.flush()
        yield f"source /proc/{os.getpid()}/fd/{file.fileno()}"

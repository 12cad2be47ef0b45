"""A command that is too long to be typed: fish lays out and colours the whole line anew for every hundred keys or so, and
100 KB took 50 s. It reads such a command from memory of ours, as a file that no disk ever has."""

from __future__ import annotations

import os
from typing import BinaryIO

from ptyctl.core.shells import Dialect

#: Typing so many characters takes fish about as long as an exec does anyway (20 ms).
_TYPED_LIMIT = 500


class Typeable:
    """`text` is the command, or a short one that does the same until `close` (memfd_create(2), proc_pid_fd(5)).

    `dialect` None: that of a shell which may not read our memory, as it is another user's or another machine's.
    """

    def __init__(self, command: str, dialect: Dialect | None) -> None:
        self.text = command
        self._file: BinaryIO | None = None
        if dialect == "fish" and len(command) > _TYPED_LIMIT:
            self._file = os.fdopen(os.memfd_create("command"), "wb")
            self._file.write(command.replace("\r\n", "\n").encode("utf-8", "surrogateescape"))
            self._file.flush()
            self.text = f"source /proc/{os.getpid()}/fd/{self._file.fileno()}"

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

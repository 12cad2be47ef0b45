"""A shell command in the form in which it is typed."""

from __future__ import annotations

import os
from typing import BinaryIO

from ptyctl.core.shells import Dialect

#: fish lays out and colours the whole line again for about every hundred keys: typing 100 KB took 50 s. Longer commands than
#: this are sourced from a memory file instead; typing this many characters takes fish 20 ms.
_TYPED_LIMIT = 500


class ShellCommand:
    """A command, or for a long one in fish a short command that sources it from memory (memfd_create(2)).

    Attributes:
        text: what to type; valid until `close`.
    """

    def __init__(self, command: str, dialect: Dialect | None) -> None:
        """`dialect` is None if the shell cannot read this process's files: another user's, or on another machine."""
        self.text = command
        self._file: BinaryIO | None = None
        if dialect == "fish" and len(command) > _TYPED_LIMIT:
            self._file = os.fdopen(os.memfd_create("command"), "wb")
            self._file.write(command.replace("\r\n", "\n").encode("utf-8", "surrogateescape"))
            self._file.flush()
            self.text = f"source /proc/{os.getpid()}/fd/{self._file.fileno()}"

    def close(self) -> None:
        """Release the memory."""
        if self._file is not None:
            self._file.close()

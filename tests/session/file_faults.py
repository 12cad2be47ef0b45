"""Injected failures of file operations: one operation of a scenario fails, or all from one on."""

from __future__ import annotations

import errno
import io
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

#: The operations with which a session changes its files. `io.open` is what pathlib opens files with.
OPERATIONS = [
    (os, "open"),
    (os, "write"),
    (os, "ftruncate"),
    (os, "posix_fallocate"),
    (os, "replace"),
    (os, "mkdir"),
    (os, "sendfile"),
    (io, "open"),
    (mmap, "mmap"),
]


@dataclass
class FileFaults:
    """Counts the operations and lets number `first` fail; with `lasting` also all later ones.

    Attributes:
        count: number of operations so far.
        failed: the operations that failed.
    """

    first: int
    error: int = errno.ENOSPC
    lasting: bool = False
    count: int = 0
    enabled: bool = True

    def __post_init__(self) -> None:
        self.failed: list[str] = []

    def check(self, name: str) -> None:
        """Count an operation. Raises OSError if it is to fail."""
        if not self.enabled:
            return
        number, self.count = self.count, self.count + 1
        if number == self.first or (self.lasting and number > self.first):
            self.failed.append(name)
            raise OSError(self.error, os.strerror(self.error))


@contextmanager
def inject(faults: FileFaults) -> Iterator[None]:
    """Let file operations of this process fail as `faults` says."""
    patches = []
    for module, name in OPERATIONS:
        real = getattr(module, name)

        def faulty(*args: Any, _real: Any = real, _name: str = name, **fields: Any) -> Any:
            faults.check(_name)
            return _real(*args, **fields)

        patches.append(patch.object(module, name, faulty))
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()

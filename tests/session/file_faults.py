"""Intercepted file operations: an operation on the files of a folder fails, or the folder is copied before it."""

from __future__ import annotations

import errno
import hashlib
import io
import mmap
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar
from unittest.mock import patch

from ptyctl.session.transcript.raw_log import WritePosition

T = TypeVar("T")

#: The operations with which a session changes its files. `io.open` is what pathlib opens files with.
OPERATIONS = [
    (os, "open"),
    (os, "write"),
    (os, "ftruncate"),
    (os, "posix_fallocate"),
    (os, "replace"),
    (os, "mkdir"),
    (os, "sendfile"),
    (os, "fsync"),
    (os, "fdatasync"),
    (io, "open"),
    (mmap, "mmap"),
]
#: A thread writes the audit log at any time; tests/audit kills its writer.
_IGNORED = ("audit",)
#: Further steps between which a process can be killed; they do not fail on a full disk.
STEPS = [*OPERATIONS, (os, "pwrite"), (os, "unlink"), (os, "rename"), (os, "rmdir"), (WritePosition, "store")]

#: Performs an operation, or something instead of it: gets its name, the operation and its positional arguments.
Interceptor = Callable[[str, Callable[..., Any], tuple[Any, ...]], Any]


@contextmanager
def intercept(interceptor: Interceptor, folder: Path, operations: list[tuple[Any, str]] | None = None) -> Iterator[None]:
    """Pass this process's operations on files in a folder to `interceptor`."""
    with ExitStack() as stack:
        for module, name in OPERATIONS if operations is None else operations:
            real = getattr(module, name)

            def intercepted(*args: Any, _real: Any = real, _name: str = name, **fields: Any) -> Any:
                operation = partial(_real, **fields)
                return interceptor(_name, operation, args) if _is_in(folder, args) else operation(*args)

            stack.enter_context(patch.object(module, name, intercepted))
        yield


def _is_in(folder: Path, arguments: tuple[Any, ...]) -> bool:
    """Return whether an operation is on a file in the folder; its first argument is a path or a descriptor."""
    first = arguments[0]
    if isinstance(first, WritePosition):
        return first._path.is_relative_to(folder)
    if isinstance(first, int):
        try:
            first = Path(f"/proc/self/fd/{first}").readlink()
        except OSError:
            return False  # the descriptor is closed, or -1
    path = Path(os.fsdecode(first))
    return path.is_relative_to(folder) and not any(path.is_relative_to(folder / ignored) for ignored in _IGNORED)


@dataclass
class FileFaults:
    """Counts the operations and lets number `first` fail; with `lasting` also all later ones.

    Attributes:
        error: the error number; None lets a write write only half of its data.
        count: number of operations so far.
        failed: the operations that failed.
    """

    first: int
    error: int | None = errno.ENOSPC
    lasting: bool = False
    count: int = 0
    enabled: bool = True

    def __post_init__(self) -> None:
        self.failed: list[str] = []

    def perform(self, name: str, operation: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Count an operation and perform it. Raises OSError if it is to fail."""
        if not self.enabled:
            return operation(*arguments)
        number, self.count = self.count, self.count + 1
        if (number != self.first and not (self.lasting and number > self.first)) or name not in self._failing():
            return operation(*arguments)
        self.failed.append(name)
        if self.error is None:
            file, data = arguments
            return operation(file, bytes(data[: (len(data) + 1) // 2]))
        raise OSError(self.error, os.strerror(self.error))

    def _failing(self) -> tuple[str, ...]:
        """Return the operations that can fail with this error."""
        if self.error is None:
            return ("write",)
        return ("open",) if self.error == errno.EMFILE else tuple(name for _, name in OPERATIONS)


@dataclass(frozen=True)
class CrashPoint(Generic[T]):
    """The files as a process that is killed before an operation leaves them.

    Attributes:
        name: the operation.
        folder: a copy of the folder.
        record: what the test had recorded by then.
    """

    name: str
    folder: Path
    record: T


class CrashPoints(Generic[T]):
    """Copies a folder before each operation on its files, and in the middle of each write.

    What a process has written, also into a shared mapping, is in the kernel's page cache and survives the process. So a copy is
    exact. There is one copy of each state: an operation that only reads leaves the same files, and a server cannot know where
    among such operations its predecessor was killed.
    """

    def __init__(self, folder: Path, copies: Path, record: Callable[[], T]) -> None:
        """Copy `folder` into folders in `copies`; `record` returns what belongs to a copy."""
        self.points: list[CrashPoint[T]] = []
        self._folder = folder
        self._copies = copies
        self._record = record
        self._digests: list[bytes] = []
        self._lock = threading.RLock()

    def perform(self, name: str, operation: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Copy the folder, and perform the operation. Threads wait for each other."""
        with self._lock:
            self.add(name)
            if name != "write" or len(arguments[1]) < 2:
                return operation(*arguments)
            file, data = arguments
            written = operation(file, bytes(data[: len(data) // 2]))
            self.add("torn write")
            return written + operation(file, bytes(data[written:]))

    def add(self, name: str) -> None:
        """Copy the folder as it is now, after the operation of another thread."""
        with self._lock:
            digest, record = _digest(self._folder), self._record()
            if any(digest == other and record == point.record for other, point in zip(self._digests, self.points, strict=True)):
                return
            copy = self._copies / str(len(self.points))
            shutil.copytree(self._folder, copy, ignore=shutil.ignore_patterns(*_IGNORED))
            self.points.append(CrashPoint(name, copy, record))
            self._digests.append(digest)


def _digest(folder: Path) -> bytes:
    """Return a digest of the names, the modes and the content of the files of a folder, without those that are ignored."""
    digest = hashlib.sha256()
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - set(_IGNORED))
        for name in (*folders, *sorted(set(files) - set(_IGNORED))):
            path = os.path.join(place, name)  # noqa: PTH118 - pathlib opens files with io.open, which is intercepted
            digest.update(f"{path}\0{os.stat(path).st_mode}\0".encode())  # noqa: PTH116
            if name in files:
                with open(path, "rb") as file:  # noqa: PTH123
                    content = file.read()
                digest.update(b"%d\0" % len(content) + content)
    return digest.digest()

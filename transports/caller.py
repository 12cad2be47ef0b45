"""The process on whose behalf a channel is opened: its working directory, environment and umask.

By default this is the current process. A daemon sets the client that it serves in the task's context (PEP 567).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Caller:
    """The state of a process when it connected. `cwd` is absolute; a `umask` of None is unknown."""

    cwd: str
    env: Mapping[str, str]
    umask: int | None = None


_CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


def current_caller() -> Caller | None:
    """Return the caller of the running task; None means this process."""
    return _CALLER.get()


@contextmanager
def on_behalf_of(caller: Caller | None) -> Iterator[None]:
    """Set the caller for the current context."""
    token = _CALLER.set(caller)
    try:
        yield
    finally:
        _CALLER.reset(token)


def environment() -> Mapping[str, str]:
    """Return the caller's environment."""
    caller = _CALLER.get()
    return os.environ if caller is None else caller.env


def umask() -> int | None:
    """Return the caller's umask; None if the caller is this process, or the umask is unknown."""
    caller = _CALLER.get()
    return None if caller is None else caller.umask


def absolute_path(path: str) -> str:
    """Return `path` relative to the caller's working directory, with a leading ~ expanded."""
    caller = _CALLER.get()
    return str(expand_user(path).absolute() if caller is None else Path(caller.cwd, expand_user(path)))


def expand_user(path: str) -> Path:
    """Expand a leading ~, the caller's home directory, or ~user; return the path unchanged if there is no such user."""
    home = environment().get("HOME")
    if home and (path == "~" or path.startswith("~/")):
        return Path(home, path[2:])
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def readable_file(path: str) -> Path:
    """Return the path of a file, which may be missing. Raises OSError for what could block (FIFO, device but /dev/null)."""
    file = Path(path)
    if file.exists() and not (file.is_file() or file.is_dir() or file.samefile(os.devnull)):
        raise OSError(errno.EINVAL, "not a regular file")
    return file


def is_directory(path: Path) -> bool:
    """Return whether `path` is a directory; False where it cannot be examined (too long, or no permission)."""
    try:
        return path.is_dir()
    except OSError:
        return False

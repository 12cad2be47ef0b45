"""For whom a channel is opened: whose environment and umask a program gets, and what a relative path is relative to.

That is this process, unless a door speaks for another one; a task's context carries it (PEP 567).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Caller:
    """A process of the same user, as it was when it connected. `cwd` is absolute; `umask` None is not known."""

    cwd: str
    env: Mapping[str, str]
    umask: int | None = None


_CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


def caller() -> Caller | None:
    """For whom the running task works; None is this process."""
    return _CALLER.get()


@contextmanager
def on_behalf_of(who: Caller | None) -> Iterator[None]:
    token = _CALLER.set(who)
    try:
        yield
    finally:
        _CALLER.reset(token)


def environment() -> Mapping[str, str]:
    """The caller's environment."""
    who = _CALLER.get()
    return os.environ if who is None else who.env


def umask() -> int | None:
    """The caller's, where it is not that of this process."""
    who = _CALLER.get()
    return None if who is None else who.umask


def absolute(path: str) -> str:
    """A path as the caller means it, also with ~."""
    who = _CALLER.get()
    return str(expanded(path).absolute() if who is None else Path(who.cwd, expanded(path)))


def expanded(path: str) -> Path:
    """A path with ~; that of a user who is not there leads nowhere."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def is_folder(path: Path) -> bool:
    """Whether it is one for us: not where its name is too long, or it lies in one that is closed to us."""
    try:
        return path.is_dir()
    except OSError:
        return False

"""The trace id of the running call. Log lines, audit rows and calls to the daemon carry it, so that they can be correlated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Longest trace id, in characters.
MAX_TRACE_ID = 256

_current: ContextVar[str | None] = ContextVar("trace_id", default=None)


def current_trace_id() -> str | None:
    """Return the trace id of the running task, or None."""
    return _current.get()


def is_trace_id(value: object) -> bool:
    """Return whether a value of a caller can be used: a printable text, so that it forges no line of a log."""
    return isinstance(value, str) and 0 < len(value) <= MAX_TRACE_ID and value.isprintable()


@contextmanager
def tracing(trace_id: str | None) -> Iterator[None]:
    """Set the trace id for the current context, and for tasks that are created in it."""
    token = _current.set(trace_id)
    try:
        yield
    finally:
        _current.reset(token)

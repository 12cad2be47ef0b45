"""The clients that use the sessions of this process: a connection of the daemon, an MCP session, or the process on stdio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from weakref import WeakSet

from ptyctl.core.limits import Limit, UseCounter

#: Number of searches in threads of one client at a time: four clients are needed to hold all threads.
CLIENT_SEARCHES = 2


class Client:
    """One client, with counters of what it uses.

    Attributes:
        search_turns: held by its searches in threads.
    """

    def __init__(self) -> None:
        self.search_turns = asyncio.Semaphore(CLIENT_SEARCHES)
        self._counters: dict[Limit, UseCounter] = {}
        _clients.add(self)

    def counter(self, limit: Limit) -> UseCounter:
        """Return this client's counter for a limit."""
        return self._counters.setdefault(limit, UseCounter(limit))


_clients: WeakSet[Client] = WeakSet()
_current: ContextVar[Client | None] = ContextVar("client", default=None)


def current_client() -> Client | None:
    """Return the client of the running task; None is this process itself, which has no limits of its own."""
    return _current.get()


@contextmanager
def serving(client: Client) -> Iterator[None]:
    """Set the client for the current context, and for tasks that are created in it."""
    token = _current.set(client)
    try:
        yield
    finally:
        _current.reset(token)


def most_used(limit: Limit) -> int:
    """Return how much the client that uses most of a limit uses of it."""
    return max((client.counter(limit).in_use for client in _clients), default=0)

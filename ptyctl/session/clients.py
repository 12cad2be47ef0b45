"""The clients that use the sessions of this process: a connection of the daemon, an MCP session, or the process on stdio."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Literal
from weakref import WeakSet

from ptyctl.accounts import login_name
from ptyctl.api.session import LimitUse
from ptyctl.core.lease import Owner
from ptyctl.core.limits import LIMITS, Limit, UseCounter
from ptyctl.core.principal import Kind, Principal, Role, agent_of


class SearchTurns(asyncio.Semaphore):
    """The turns of searches in threads. A search waits for its turn, in order of arrival.

    The limit of each client must be small: several clients are needed to hold all threads.
    """

    def __init__(self, counter: UseCounter) -> None:
        super().__init__(counter.limit.maximum)
        self.counter = counter

    def use(self) -> LimitUse:
        """Return the limit with the number of searches that run."""
        return self.counter.use()

    async def acquire(self) -> Literal[True]:
        await super().acquire()
        self.counter.increase()
        return True

    def release(self) -> None:
        self.counter.decrease()
        super().release()


class Client:
    """One client, with counters of what it uses.

    Attributes:
        principal: on whose behalf it calls.
        elicits: whether it is an MCP client, at which a person may answer its approval requests.
        search_turns: held by its searches in threads.
        left: whether it has disconnected. The sessions that it opened remain.
    """

    def __init__(self, principal: Principal, *, elicits: bool = False) -> None:
        self.principal = principal
        self.elicits = elicits
        self.left = False
        self._counters: dict[Limit, UseCounter] = {}
        self._part_counters: WeakSet[UseCounter] = WeakSet()
        self.search_turns = SearchTurns(self.counter(_search_limit))
        _clients.add(self)

    def counter(self, limit: Limit) -> UseCounter:
        """Return this client's counter for a limit."""
        return self._counters.setdefault(limit, UseCounter(limit))

    def part_counter(self, limit: Limit) -> UseCounter:
        """Return a new counter for a limit of one part of this client, such as a WebSocket."""
        counter = UseCounter(limit)
        self._part_counters.add(counter)
        return counter

    def most_used(self, limit: Limit) -> int:
        """Return the use of a limit; for a limit of parts, that of the part with the highest use."""
        parts = (counter.in_use for counter in self._part_counters if counter.limit == limit)
        return max(parts, default=self.counter(limit).in_use)

    def leave(self) -> None:
        """Record that the client has disconnected."""
        self.left = True


_clients: WeakSet[Client] = WeakSet()
_search_limit = LIMITS["max_client_searches"]
_current: ContextVar[Client | None] = ContextVar("client", default=None)


def set_search_limit(limit: Limit) -> None:
    """Set the limit of searches in threads of each new client, which all controllers of the process share."""
    global _search_limit
    _search_limit = limit


def current_client() -> Client | None:
    """Return the client of the running task; None is this process itself, which has no limits per client."""
    return _current.get()


def current_principal() -> Principal:
    """Return the principal of the running task. That of this process itself is the user."""
    client = _current.get()
    return user() if client is None else client.principal


@cache
def user() -> Principal:
    """Return the principal of the user that this process runs as."""
    return Principal(login_name(os.geteuid()), Kind.PERSON, Role.ADMIN)


@cache
def user_agent() -> Principal:
    """Return the principal of the user's MCP clients that need no token."""
    return agent_of(user())


def lock_owner(task_id: str | None) -> Owner:
    """Return the owner of locks that a call of the running task acts for. Without a task name it owns none."""
    return Owner(current_principal().name, task_id or "")


@contextmanager
def serving(client: Client) -> Iterator[None]:
    """Set the client for the current context, and for tasks that are created in it."""
    token = _current.set(client)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def serving_connection(principal: Principal, *, elicits: bool = False) -> Iterator[None]:
    """Set a new client for the current context, which disconnects at the end of the context; see `serving`."""
    client = Client(principal, elicits=elicits)
    with serving(client):
        try:
            yield
        finally:
            client.leave()


def most_used(limit: Limit) -> int:
    """Return the highest use of a limit by one client."""
    return max((client.most_used(limit) for client in _clients), default=0)

"""The clients that use the sessions of this process: a connection of the daemon, an MCP session, or the process on stdio."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from weakref import WeakSet

from ptyctl.accounts import login_name
from ptyctl.core.lease import Owner
from ptyctl.core.limits import Limit, UseCounter
from ptyctl.core.principal import Kind, Principal, Role, agent_of

#: Number of searches in threads of one client at a time: four clients are needed to hold all threads.
CLIENT_SEARCHES = 2


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
        self.search_turns = asyncio.Semaphore(CLIENT_SEARCHES)
        self.left = False
        self._counters: dict[Limit, UseCounter] = {}
        _clients.add(self)

    def counter(self, limit: Limit) -> UseCounter:
        """Return this client's counter for a limit."""
        return self._counters.setdefault(limit, UseCounter(limit))

    def leave(self) -> None:
        """Record that the client has disconnected."""
        self.left = True


_clients: WeakSet[Client] = WeakSet()
_current: ContextVar[Client | None] = ContextVar("client", default=None)


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
    """As `serving`, with a new client that leaves at the end of the context."""
    client = Client(principal, elicits=elicits)
    with serving(client):
        try:
            yield
        finally:
            client.leave()


def most_used(limit: Limit) -> int:
    """Return how much the client that uses most of a limit uses of it."""
    return max((client.counter(limit).in_use for client in _clients), default=0)

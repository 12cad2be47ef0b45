"""The named limits of concurrent use by clients, and counters that enforce them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.api.session import LimitUse


class Limit(NamedTuple):
    """A limit on a number of objects in use. `name` is also the name of its setting, for example PTYCTL_MAX_SESSIONS.

    Attributes:
        what: the counted objects and their scope, for the error message.
        hint: the next step of a caller that exceeds the limit.
    """

    name: str
    maximum: int
    what: str
    hint: str

    def check(self, in_use: int) -> None:
        """Check that one more may be in use.

        Raises:
            PtyctlError: LIMIT_EXCEEDED.
        """
        if in_use >= self.maximum:
            raise PtyctlError(
                ErrorCode.LIMIT_EXCEEDED,
                f"{in_use} {self.what}, and the limit is {self.maximum} ({self.name})",
                {"limit": self.name, self.name: self.maximum},
                hint=self.hint,
            )

    def use(self, in_use: int) -> LimitUse:
        """Return the use of this limit for a status reply."""
        return LimitUse(name=self.name, in_use=in_use, limit=self.maximum)


_END_CALLS = "wait until calls in progress have returned, or cancel them"
_END_WATCHES = "end watches that are not needed"
_ANSWER = "wait until some are answered"
_LOG_OUT = "log out where it is not needed"
_REMEMBERED = "repeat a call soon after its answer was lost"
_DISCONNECT = "disconnect clients that are not needed, or share one connection"

#: Every limit, with its default.
LIMITS = {
    limit.name: limit
    for limit in (
        Limit("max_sessions", 400, "sessions are open", NextStep.CLOSE_SESSIONS),
        Limit("max_connections", 1000, "clients are connected", _DISCONNECT),
        Limit("max_http_connections", 1024, "HTTP connections are open", _DISCONNECT),
        Limit("max_mcp_sessions", 1000, "MCP sessions over HTTP are open", "end sessions that are not needed with DELETE"),
        Limit("max_web_logins", 1000, "logins in the web console are valid", _LOG_OUT),
        Limit("max_web_tickets", 100, "tickets for the web console are valid", "use a ticket within a minute"),
        Limit("max_approval_watches", 100, "watches of approval requests are open", _END_WATCHES),
        Limit("max_remembered_calls", 4096, "calls are remembered", _REMEMBERED),
        Limit("max_forwarded_calls", 1024, "calls of other nodes are remembered", _REMEMBERED),
        Limit("max_client_connections", 250, "connections of this process are open", _DISCONNECT),
        Limit("max_client_sessions", 400, "sessions that this client opened are open", NextStep.CLOSE_SESSIONS),
        Limit("max_client_calls", 1000, "calls of this client are in progress", _END_CALLS),
        Limit("max_client_watches", 500, "watches of this client are open", _END_WATCHES),
        Limit("max_client_searches", 2, "searches of this client run in threads", "wait until earlier searches have returned"),
        Limit("max_client_sockets", 100, "WebSockets of this client are open", "close pages that are not needed"),
        Limit(
            "max_socket_subscriptions", 500, "subscriptions of this WebSocket are open", "end subscriptions that are not needed"
        ),
        Limit("max_client_downloads", 4, "downloads of this client are in progress", "wait until they end, or cancel them"),
        Limit("max_principal_logins", 50, "logins of this principal are valid", _LOG_OUT),
        Limit("max_principal_checks", 2, "device checks of this principal are in progress", "wait until they end"),
        Limit(
            "max_principal_verdicts",
            64,
            "long texts of this principal wait for the policy's verdict",
            "wait until earlier calls with long texts have returned, then repeat the call",
        ),
        Limit("max_principal_approvals", 50, "requests of this principal wait for an answer", _ANSWER),
        Limit("max_session_approvals", 20, "requests of this session wait for an answer", _ANSWER),
        Limit("max_session_calls", 2000, "calls are in progress in this session", _END_CALLS),
        Limit("max_session_watches", 1000, "watches of this session are open", _END_WATCHES),
        Limit("max_session_observers", 1000, "tasks read this session", "use one task_id"),
        Limit(
            "max_session_searches", 1, "searches in this session run in threads", "wait until earlier searches have returned"
        ),
        Limit("max_session_queue", 1000, "tasks wait for the lock of this session", "ask again later, or use another session"),
    )
}


class UseCounter:
    """Counts the objects in use to which a limit applies."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self.in_use = 0

    def increase(self) -> None:
        """Add one, even above the limit."""
        self.in_use += 1

    def decrease(self) -> None:
        """Subtract one."""
        self.in_use -= 1

    def use(self) -> LimitUse:
        """Return the limit with its current use for a status reply."""
        return self.limit.use(self.in_use)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Context manager that counts one object in use.

        Raises:
            PtyctlError: LIMIT_EXCEEDED.
        """
        count_all((self,))
        try:
            yield
        finally:
            self.decrease()


def count_all(counters: Sequence[UseCounter]) -> None:
    """Add one to each counter.

    Raises:
        PtyctlError: LIMIT_EXCEEDED; nothing is counted.
    """
    for counter in counters:
        counter.limit.check(counter.in_use)
    for counter in counters:
        counter.increase()

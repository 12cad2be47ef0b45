"""Reconnects the consoles whose connection was lost, in this process or in an earlier one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.cancellation import cancel_and_wait
from ptyctl.session.session import LineLost, Session
from transports.errors import ChannelClosed, ChannelError, ReceiverFailed

from .recovery import SessionIndex
from .registry import SessionRegistry

#: The first delay between attempts; each further delay is twice as long, up to the maximum (seconds).
FIRST_DELAY_S = 1.0
MAX_DELAY_S = 60.0
#: A connection that lasted this long resets the delays (seconds). A shorter one continues the series of attempts.
STABLE_S = 60.0
#: Random variation of the delays. The consoles of one server are lost together, and must not all reconnect together.
_JITTER = 0.25


class ConsoleReconnector:
    """Reconnects remote consoles in the same session, with growing delays.

    `connect` opens a session's channel and logs in. A series of attempts ends after `limit_s`; 0 disables reconnection.
    """

    def __init__(self, registry: SessionRegistry, connect: Callable[[Session], Awaitable[None]], limit_s: float) -> None:
        self._registry = registry
        self._connect = connect
        self._limit_s = limit_s
        self._series: WeakKeyDictionary[Session, _Series] = WeakKeyDictionary()
        self._tasks: dict[Session, asyncio.Task[None]] = {}
        self._restoring: asyncio.Task[None] | None = None

    def watch(self, session: Session) -> None:
        """Reconnect the session when its connection is lost, if it is a remote console."""
        if self._limit_s and session.spec.console and session.spec.protocol != "local":
            session.subscribe(LineLost, lambda event: self._start(session, event.reason))

    def restore_consoles(self, index: SessionIndex) -> None:
        """Start a task that reconnects the inventory consoles which an earlier server has lost within the limit."""
        if self._limit_s:
            self._restoring = asyncio.create_task(self._restore_consoles(index), name="restore consoles")

    async def aclose(self) -> None:
        """Cancel all attempts."""
        await cancel_and_wait(*self._tasks.values(), self._restoring)

    async def _restore_consoles(self, index: SessionIndex) -> None:
        for session_id in await index.inventory_consoles(self._limit_s):
            try:
                session = await self._registry.find_live(session_id)
            except PtyctlError:
                continue  # another server holds it, or it cannot be read; the next open reports why
            if session.state == "lost" and session.stream.ended is not None and session.given_up is None:
                self._start(session, session.stream.ended)

    def _start(self, session: Session, reason: ChannelError) -> None:
        if isinstance(reason, ChannelClosed):
            return  # closed by this side
        if isinstance(reason, ReceiverFailed):  # the device would show the same bytes again
            session.events.note("line_lost", reason=reason.message)
            session.stop_reconnecting(reason.message, for_good=True)
            return
        if session.given_up is not None:  # lost in an attempt of a caller, before its login was complete
            return
        session.begin_reconnecting(reason.message)
        if session in self._tasks:
            return  # an attempt of the running series has failed
        now = asyncio.get_running_loop().time()
        series = self._series.get(session)
        if series is None or series.connected_at is None or now - series.connected_at >= STABLE_S:
            self._series[session] = _Series(now, FIRST_DELAY_S)
        session.notices.post(f"the connection was lost: {reason.message}; reconnecting")
        session.events.note("line_lost", reason=reason.message)
        task = asyncio.create_task(self._run(session, self._series[session]), name=f"reconnect {session.session_id}")
        self._tasks[session] = task
        task.add_done_callback(lambda done: self._tasks.pop(session))

    async def _run(self, session: Session, series: _Series) -> None:
        """Attempt to connect until that succeeds, fails permanently, or is not needed."""
        loop = asyncio.get_running_loop()
        while session.reconnect is not None:
            if loop.time() - series.started_at >= self._limit_s:
                session.stop_reconnecting(
                    f"no attempt within {self._limit_s:g} s succeeded; the last error: {session.reconnect.why}"
                )
                return
            await self._wait(session, series)
            async with self._registry.open_lock(session.spec.device_id or ""):
                if session.reconnect is not None:  # neither opened nor closed in the meantime
                    await self._attempt(session, series)
        async with self._registry.open_lock(session.spec.device_id or ""):
            if session.reconnect is None and session.state == "reconnecting":
                session.stop_reconnecting("the line was given up")

    async def _attempt(self, session: Session, series: _Series) -> None:
        session.schedule_reconnect(None)
        try:
            await self._connect(session)
        except PtyctlError as error:
            if session.state == "closed" or (session.reconnect is None and session.internal_error is not None):
                return
            if error.retryable or error.code is ErrorCode.REMOTE_CLOSED:  # lost again during the login
                session.begin_reconnecting(error.message)
            else:
                session.stop_reconnecting(error.message, for_good=_is_permanent(error))
        else:
            series.connected_at = asyncio.get_running_loop().time()

    async def _wait(self, session: Session, series: _Series) -> None:
        """Wait for the next attempt, or until none is needed."""
        due = asyncio.get_running_loop().time() + series.delay_s * random.uniform(1 - _JITTER, 1 + _JITTER)
        series.delay_s = min(2 * series.delay_s, MAX_DELAY_S)
        if session.reconnect is not None:
            session.schedule_reconnect(due)
        while session.reconnect is not None and asyncio.get_running_loop().time() < due:
            await session.signal.wait(due)


@dataclass(slots=True)
class _Series:
    """Attempts without a stable connection in between; times on the loop's clock."""

    started_at: float
    delay_s: float
    connected_at: float | None = None


def _is_permanent(error: PtyctlError) -> bool:
    """Return whether a connection attempt must not be repeated: it would fail again, or could lock an account.

    A session whose console another process owns may have it back later, and a line that was lost during the login too.
    """
    return not error.retryable and error.code not in (ErrorCode.REMOTE_CLOSED, ErrorCode.SESSION_MOVED)

"""Connects consoles anew whose line was lost, with growing pauses, in the same session (design, section 2)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.session.reconnect_status import ReconnectStatus
from ptyctl.session.session import LineLost, Session
from transports.errors import ChannelClosed, ChannelError

from .left import LeftSessions
from .registry import Registry

#: The first pause, which doubles until it is as long as the last.
FIRST_S = 1.0
MOST_S = 60.0
#: A line that held so long was well: the pauses begin anew. One that is taken away at once is not asked for ever faster.
STEADY_S = 60.0
#: Consoles of one server are lost at one moment, and must not all come back at one.
_SPREAD = 0.25


@dataclass(slots=True)
class _Series:
    """Tries without a steady line between them: when it began, the next pause, and when the line was last there."""

    began: float
    pause_s: float
    connected_at: float | None = None


class Reconnecting:
    """`connect` opens a session's line anew, login included. After `for_s` without success it gives up; 0 never begins."""

    def __init__(self, registry: Registry, connect: Callable[[Session], Awaitable[None]], for_s: float) -> None:
        self._registry = registry
        self._connect = connect
        self._for_s = for_s
        self._series: WeakKeyDictionary[Session, _Series] = WeakKeyDictionary()
        self._tasks: dict[Session, asyncio.Task[None]] = {}
        self._taking_up: asyncio.Task[None] | None = None

    def follow(self, session: Session) -> None:
        """From now on its line is connected anew when it is lost, if it is a console's far away."""
        if self._for_s and session.spec.console and session.spec.protocol != "local":
            session.subscribe(LineLost, lambda event: self._lost(session, event.reason))

    def take_up(self, left: LeftSessions) -> None:
        """Goes on with the inventory's consoles that an earlier server has left not long ago, without anybody waiting."""
        if self._for_s:
            self._taking_up = asyncio.create_task(self._take_up(left), name="consoles of an earlier server")

    async def aclose(self) -> None:
        """No further try."""
        tasks = [*self._tasks.values(), *([self._taking_up] if self._taking_up is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take_up(self, left: LeftSessions) -> None:
        for session_id in await left.consoles_of_inventory(self._for_s):
            try:
                session = await self._registry.find_live(session_id)
            except PtyctlError:
                continue  # another server has it, or it cannot be read: who opens the device is told
            if session.state == "lost" and session.stream.ended is not None:
                self._lost(session, session.stream.ended)

    def _lost(self, session: Session, reason: ChannelError) -> None:
        if isinstance(reason, ChannelClosed):
            return  # from this side
        session.begin_reconnecting(reason.message)
        if session in self._tasks:
            return  # that very try has come to nothing
        now = asyncio.get_running_loop().time()
        series = self._series.get(session)
        if series is None or series.connected_at is None or now - series.connected_at >= STEADY_S:
            self._series[session] = _Series(now, FIRST_S)
        session.notices.post(f"the line was lost: {reason.message}; it is being connected again")
        session.events.note("line_lost", reason=reason.message)
        task = asyncio.create_task(self._try(session, self._series[session]), name=f"reconnect {session.session_id}")
        self._tasks[session] = task
        task.add_done_callback(lambda done: self._tasks.pop(session))

    async def _try(self, session: Session, series: _Series) -> None:
        """Until the line is there, nobody wants it any more, or there is no hope."""
        loop = asyncio.get_running_loop()
        while session.reconnect is not None:
            if loop.time() - series.began >= self._for_s:
                session.stop_reconnecting(f"no try of {self._for_s:g} s has succeeded; the last: {session.reconnect.why}")
                return
            await self._pause(session, series)
            async with self._registry.opening[session.spec.device_id or ""]:
                if session.reconnect is not None:  # nobody has opened it meanwhile, or closed it
                    await self._try_once(session, session.reconnect, series)

    async def _try_once(self, session: Session, retry: ReconnectStatus, series: _Series) -> None:
        session.schedule_reconnect(None)
        try:
            await self._connect(session)
        except PtyctlError as error:
            if session.state == "closed":
                return
            if error.retryable or error.code is ErrorCode.REMOTE_CLOSED:  # it went away in the middle of the login
                session.begin_reconnecting(error.message)
            else:
                session.stop_reconnecting(error.message)
        else:
            series.connected_at = asyncio.get_running_loop().time()

    async def _pause(self, session: Session, series: _Series) -> None:
        """Until the next try, or until none is needed any more."""
        due = asyncio.get_running_loop().time() + series.pause_s * random.uniform(1 - _SPREAD, 1 + _SPREAD)
        series.pause_s = min(2 * series.pause_s, MOST_S)
        if session.reconnect is not None:
            session.schedule_reconnect(due)
        while session.reconnect is not None and asyncio.get_running_loop().time() < due:
            await session.signal.wait(due)

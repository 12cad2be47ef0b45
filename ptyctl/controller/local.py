"""The controller whose sessions live in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import Self

from ptyctl.api.config import ConfigReply, ConfigRequest
from ptyctl.api.controller import Progress
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.api.io import IoReply, IoRequest
from ptyctl.api.operator import GcReply, GcRequest, LogReply, LogRequest, NotifyReply, NotifyRequest, WatchItem, WatchRequest
from ptyctl.api.pty import PtyReplyBase, PtyRequest
from ptyctl.api.session import SessionReply, SessionRequest
from ptyctl.inventory import Inventory
from ptyctl.platforms import Platforms
from ptyctl.session.calls import termination
from ptyctl.session.calls.console_log import console_log
from ptyctl.session.calls.exec import execute
from ptyctl.session.calls.parsing import execute_parsed
from ptyctl.session.calls.read import read
from ptyctl.session.calls.screen_read import read_on_screen
from ptyctl.session.calls.watch import watch
from ptyctl.session.calls.write import write
from ptyctl.session.session import Session

from . import replies
from .capabilities import capabilities
from .configuring import configure
from .conversations import SERVER_ENDED, Conversations
from .descriptor_store import DescriptorStore
from .destinations import Destinations
from .left import LeftSessions
from .locks import Locks
from .making import Maker
from .opener import Opener
from .opening import OpensChannels
from .outliving import Outliving
from .pty import PtySurface
from .registry import Registry
from .retention import collect
from .settings import Settings, load_settings


class LocalController:
    """Opens, finds, lists and closes sessions; one console session for each device_id. See api.controller.Controller."""

    def __init__(
        self,
        settings: Settings | None = None,
        open_channel: OpensChannels | None = None,
        fd_store: DescriptorStore | None = None,
        *,
        lasting: bool = False,
    ) -> None:
        """With a `keeper` local programs outlive this process, should it be killed. A `lasting` server connects the inventory's
        consoles anew that an earlier one has left; what ends soon must not take them."""
        self.settings = settings or load_settings()
        self._platforms = Platforms(self.settings.platforms_dir)
        self._registry = Registry(self.settings.max_sessions, self._recall)
        self._outliving = outliving = Outliving(fd_store) if fd_store is not None else None
        destinations = Destinations(Inventory(self.settings.devices_file), self._platforms)
        self._maker = Maker(self.settings, self._registry, self._platforms, destinations, open_channel, outliving)
        self._lasting = lasting
        self._left = left = LeftSessions(self.settings.state_dir / "sessions")
        self._pty = PtySurface(Conversations(self._registry, self._maker.make, self._maker.connect_as_before, left))
        locks = Locks(self._registry)
        self._actions = {
            "open": Opener(self._registry, self._maker, left, destinations).open,
            "close": self._close,
            "list": self._list,
            "lock": locks.lock,
            "unlock": locks.unlock,
            "heartbeat": locks.heartbeat,
            "status": self._status,
        }

    async def __aenter__(self) -> Self:
        """Goes on with what an earlier server has left: sessions whose programs have outlived it, and consoles."""
        await self._maker.take_back()
        if self._lasting:
            self._maker.reconnecting.take_up(self._left)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes all sessions that it holds; their transcripts stay."""
        await self._maker.reconnecting.aclose()
        await self._registry.settle()
        ours = [session for session in self._registry.known() if session.held or session.state == "closed"]
        await asyncio.gather(*(session.close(why=SERVER_ENDED) for session in ours))
        if self._outliving is not None:
            self._outliving.end()

    def flush(self) -> None:
        """Writes down what waits to be, as before an end that closes nothing."""
        for session in self._registry.live():
            session.flush()

    def has_sessions(self) -> bool:
        """Whether any session is held that is not closed; one that is only history can be read by any server."""
        return any(session.held for session in self._registry.live())

    async def session(self, request: SessionRequest) -> SessionReply:
        return await self._actions[request.action](request)

    async def io(self, request: IoRequest, progress: Progress | None = None) -> IoReply:
        reading = request.action == "read"
        find = self._registry.find if reading else self._registry.find_live
        session = await find(request.session_id)
        with session.usage.in_use(request.task_id, reading=reading):
            if not reading:
                return await write(session, request)
            if request.mode == "screen":
                reply = await read_on_screen(session, request, progress)
            else:
                reply = await read(session.stream, request, progress)
            reply.notices = session.notices.take(request.task_id)
            return reply

    async def exec(self, request: ExecRequest, progress: Progress | None = None) -> ExecReply:
        find = self._registry.find_live if request.block_id is None else self._registry.find
        session = await find(request.session_id)
        with session.usage.in_use(request.task_id):
            return await (execute_parsed if request.parse else execute)(session, request, progress)

    async def config(self, request: ConfigRequest) -> ConfigReply:
        session = await self._registry.find_live(request.session_id)
        with session.usage.in_use(request.task_id):
            return await configure(session, request)

    async def watch(self, request: WatchRequest) -> AsyncGenerator[WatchItem, None]:
        session = await self._registry.find_live(request.session_id)
        with session.usage.in_use(request.task_id, reading=True):
            async with aclosing(watch(session, request.from_offset)) as watched:
                async for item in watched:
                    yield item

    async def pty(self, request: PtyRequest, progress: Progress | None = None) -> PtyReplyBase:
        return await self._pty.answer(request, progress)

    async def notify(self, request: NotifyRequest) -> NotifyReply:
        session = await self._registry.find_live(request.session_id)
        session.post_message(request.message, request.sender)
        return NotifyReply(session_id=session.session_id, observers=session.observers())

    async def gc(self, request: GcRequest) -> GcReply:
        live = frozenset(session.session_id for session in self._registry.live() if session.held)
        return await collect(self.settings, request, live, self._registry.forget)

    async def log(self, request: LogRequest) -> LogReply:
        session = await self._registry.find(request.session_id)
        with session.usage.in_use(request.task_id, reading=True):
            return await console_log(session, request.from_offset, request.limit)

    async def _recall(self, session_id: str, *, hold: bool) -> Session | None:
        return await self._maker.recall(session_id, hold=hold)

    async def _close(self, request: SessionRequest) -> SessionReply:
        session = await self._registry.find_held(request.session_id)
        await termination.close(session, bool(request.force), request.task_id)
        return replies.about(session, request)

    async def _list(self, request: SessionRequest) -> SessionReply:
        entries = [session.entry() for session in self._registry.live()]
        return SessionReply(action="list", sessions=entries, capabilities=capabilities(self._platforms.names()))

    async def _status(self, request: SessionRequest) -> SessionReply:
        session = await self._registry.find_live(request.session_id)
        reply = replies.with_lock(session, request, session.lease())
        reply.state, reply.mode, reply.observers = session.state, session.runs.mode, session.observers()
        reply.queue = session.leases.queue.waiting(asyncio.get_running_loop().time())
        if session.reconnect is not None:
            reply.message = session.reconnect.describe(asyncio.get_running_loop().time())
        return reply

"""The controller whose sessions live in this process."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from types import TracebackType
from typing import Self
from weakref import WeakKeyDictionary

from ptyctl.api.config import ConfigReply, ConfigRequest
from ptyctl.api.controller import Progress
from ptyctl.api.errors import ErrorCode, PtyctlError, invalid, unsupported
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.api.gc import GcReply, GcRequest
from ptyctl.api.io import MAX_WAIT_MS, IoReply, IoRequest
from ptyctl.api.pty import PtyRequest
from ptyctl.api.pty_replies import BlocksReply, PtyReply
from ptyctl.api.screen import ScreenAnswer
from ptyctl.api.session import DEFAULT_LOCK_TTL_MS, SessionReply, SessionRequest
from ptyctl.api.watch import Watched, WatchRequest
from ptyctl.core.lease import Lease
from ptyctl.platforms import Platforms
from ptyctl.session import locking
from ptyctl.session.errors import from_channel
from ptyctl.session.execution import execute
from ptyctl.session.meta import epoch_ms
from ptyctl.session.reading import read
from ptyctl.session.screen_waiting import read_on_screen
from ptyctl.session.session import Session
from ptyctl.session.spec import Spec
from ptyctl.session.watching import watch
from ptyctl.session.writing import write
from transports.channel import Channel
from transports.errors import ChannelError

from .capabilities import capabilities
from .conversations import CONVERSATION, SERVER_ENDED, Conversations
from .left import LeftSessions
from .opening import channel_opener, marked_start, spec_of
from .outliving import Keeper, Outliving
from .pty import PtySurface
from .recovered import recovered
from .registry import Registry
from .retention import collect
from .settings import Settings, load_settings


class LocalController:
    """Opens, finds, lists and closes sessions; one console session for each device_id. See api.controller.Controller."""

    def __init__(
        self,
        settings: Settings | None = None,
        open_channel: Callable[[SessionRequest], Channel] | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        """With a `keeper` local programs outlive this process, should it be killed."""
        self.settings = settings or load_settings()
        self._platforms = Platforms(self.settings.platforms_dir)
        self._registry = Registry(self.settings.max_sessions, self._recall)
        self._open_channel = open_channel or channel_opener()
        self._opened_with: WeakKeyDictionary[Session, SessionRequest] = WeakKeyDictionary()
        self._outliving = Outliving(keeper) if keeper is not None else None
        self._left = LeftSessions(self.settings.state_dir / "sessions")
        self._pty = PtySurface(Conversations(self._registry, self._make, self._channel_again, self._left))
        self._actions = {
            "open": self._open,
            "close": self._close,
            "list": self._list,
            "lock": self._lock,
            "unlock": self._unlock,
            "heartbeat": self._heartbeat,
            "status": self._status,
        }

    async def __aenter__(self) -> Self:
        """Goes on with the sessions whose programs have outlived an earlier server."""
        if self._outliving is not None:
            sessions = self.settings.sessions_dir()
            for session in await self._outliving.take_back(sessions, self.settings.limits):
                self._added(session)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes all sessions that it holds; their transcripts stay."""
        await self._registry.settle()
        ours = [session for session in self._registry.known() if session.held or session.state == "closed"]
        await asyncio.gather(*(session.close(why=SERVER_ENDED) for session in ours))

    def flush(self) -> None:
        """Writes down what waits to be, as before an end that closes nothing."""
        for session in self._registry.live():
            session.flush()

    def has_sessions(self) -> bool:
        """Whether any session is not closed."""
        return bool(self._registry.live())

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
            return await execute(session, request, progress)

    async def config(self, request: ConfigRequest) -> ConfigReply:
        session = await self._registry.find_live(request.session_id)
        with session.usage.in_use(request.task_id):
            if request.action == "mode":
                raise unsupported("modes belong to a platform, and this session has none that names any", field="mode")
            if request.action == "resize":
                assert request.cols is not None
                assert request.rows is not None
                lease = session.lease()
                session.leases.check(request.task_id, required=False, now=asyncio.get_running_loop().time()) if lease else None
                session.resize(request.cols, request.rows)
            elif request.expect is not None:
                session.expectations(request.expect)  # refuses patterns that cannot be
                session.expect = session.expect.model_copy(update=request.expect.model_dump(exclude_none=True))
            return ConfigReply(
                action=request.action,
                expect=session.expect,
                cols=session.cols if session.spec.pty.enabled else None,
                rows=session.rows if session.spec.pty.enabled else None,
                platform=session.spec.platform,
                notices=session.notices.take(request.task_id),
            )

    async def watch(self, request: WatchRequest) -> AsyncGenerator[Watched, None]:
        session = await self._registry.find_live(request.session_id)
        with session.usage.in_use(request.task_id, reading=True):
            async with aclosing(watch(session, request.from_offset)) as watched:
                async for item in watched:
                    yield item

    async def pty(self, request: PtyRequest, progress: Progress | None = None) -> PtyReply | BlocksReply | ScreenAnswer:
        return await self._pty.answer(request, progress)

    async def gc(self, request: GcRequest) -> GcReply:
        live = frozenset(session.session_id for session in self._registry.live() if session.held)
        return await collect(self.settings, request, live, self._registry.forget)

    async def _open(self, request: SessionRequest) -> SessionReply:
        spec = spec_of(request, None if request.platform is None else self._platforms.get(request.platform))
        if spec.device_id is None:
            return await self._open_new(request, spec)
        async with self._registry.opening[spec.device_id]:
            present = await self._console(spec.device_id)
            if present is None:
                return await self._open_new(request, spec)
            return await self._open_present(request, spec, present)

    async def _console(self, device_id: str) -> Session | None:
        """The session of a device: one that is here, or the last one, should its server have been killed."""
        present = self._registry.console(device_id)
        session_id = present.session_id if present is not None else await self._left.of_device(device_id)
        if session_id is None:
            return None
        try:
            return await self._registry.find_live(session_id)
        except PtyctlError as error:
            if error.code is ErrorCode.LIMIT_EXCEEDED:
                raise
            return None  # another server has it, or it cannot be read: this one makes its own

    async def _open_new(self, request: SessionRequest, spec: Spec) -> SessionReply:
        session = await self._make(request, spec)
        lease = await locking.lock(session, _task(request), _ttl_s(request)) if request.acquire_lock else None
        return self._told_open(session, lease, next_cursor=0).model_copy(update={"lock_acquired": lease is not None})

    async def _make(self, request: SessionRequest, spec: Spec) -> Session:
        """A session that is open, and can be found."""
        self._registry.reserve()
        try:
            folder = self.settings.sessions_dir()
            session_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
            try:
                session = Session(session_id, spec, folder / session_id, self.settings.limits)
            except OSError as error:
                raise PtyctlError(
                    ErrorCode.IO_ERROR,
                    f"cannot keep a transcript in {folder}: {error.strerror}; make room there, or close sessions",
                ) from None
            try:
                await session.connect(self._channel(request, session))
            except BaseException:  # also a cancelled open leaves nothing behind
                await session.close(force=True, why="it could not be opened")
                shutil.rmtree(folder / session_id, ignore_errors=True)
                raise
            self._added(session)
        finally:
            self._registry.release()
        self._opened_with[session] = request
        session.usage.watch()
        return session

    async def _open_present(self, request: SessionRequest, spec: Spec, session: Session) -> SessionReply:
        old = session.spec
        if (old.protocol, old.host, old.port) != (spec.protocol, spec.host, spec.port):
            raise invalid(
                f"console {spec.device_id} is open already as {old.protocol} {old.host}:{old.port}; "
                "open it with the same, or close it first",
                existing_session_id=session.session_id,
            )
        if session.state in ("eof", "lost"):
            await session.connect(self._channel(request, session))
            self._opened_with[session] = request
            session.usage.watch()
            session.notices.post(f"reconnected: incarnation {session.incarnation}; what was running before is gone")
        reply = self._told_open(session, session.lease(), next_cursor=session.stream.end)
        reply.existing_session_id = session.session_id
        reply.lock_acquired = False
        reply.notices = session.notices.take(request.task_id)
        return reply

    def _added(self, session: Session) -> None:
        self._registry.add(session)
        if self._outliving is not None:
            self._outliving.follow(session)

    async def _recall(self, session_id: str, *, hold: bool) -> Session | None:
        if not (self.settings.state_dir / "sessions").is_dir():
            return None
        session = await recovered(self.settings.sessions_dir(), session_id, self.settings.limits, hold=hold)
        if session is not None and self._outliving is not None:
            self._outliving.follow(session)
        return session

    def _channel(self, request: SessionRequest, session: Session) -> Channel:
        try:
            return self._open_channel(marked_start(request, session.hooks_nonce) if session.spec.hooked else request)
        except ChannelError as error:
            raise from_channel(error) from None

    def _channel_again(self, session: Session) -> Channel:
        """Another channel for a session, as it was opened; one that an earlier process opened is known by what it is."""
        request = self._opened_with.get(session, CONVERSATION if session.spec.conversation_id is not None else None)
        if request is None:
            raise unsupported(f"session {session.session_id} was opened by an earlier server; open it again instead")
        return self._channel(request, session)

    def _told_open(self, session: Session, lease: Lease | None, next_cursor: int) -> SessionReply:
        channel = session.channel
        assert channel is not None
        reply = self._reply("open", session, lease)
        return reply.model_copy(
            update={
                "protocol": session.spec.protocol,
                "state": session.state,
                "pty_enabled": channel.pty_enabled,
                "next_cursor": str(next_cursor),
                "security_warning": channel.security_warning,
                "server_banner": channel.server_banner,
                "platform": session.spec.platform,
            }
        )

    async def _close(self, request: SessionRequest) -> SessionReply:
        session = await self._registry.find_held(request.session_id)
        if session.state != "closed":
            lease = session.lease()
            if lease is not None and lease.holder != request.task_id and not request.force:
                session.leases.check(request.task_id, required=False, now=asyncio.get_running_loop().time())
        await session.close(force=bool(request.force))
        return SessionReply(action="close", session_id=session.session_id)

    async def _list(self, request: SessionRequest) -> SessionReply:
        entries = [session.entry() for session in self._registry.live()]
        return SessionReply(action="list", sessions=entries, capabilities=capabilities(self._platforms.names()))

    async def _lock(self, request: SessionRequest) -> SessionReply:
        session = await self._registry.find_live(request.session_id)
        with session.usage.in_use(request.task_id):
            if request.force:
                lease = locking.take_over(session, _task(request), _ttl_s(request), request.reason)
            else:
                wait_s = min(request.wait_ms or 0, MAX_WAIT_MS) / 1000
                lease = await locking.lock(session, _task(request), _ttl_s(request), wait_s)
            return self._reply("lock", session, lease)

    async def _heartbeat(self, request: SessionRequest) -> SessionReply:
        session = await self._registry.find_live(request.session_id)
        with session.usage.in_use(request.task_id):
            return self._reply("heartbeat", session, locking.heartbeat(session, _task(request), _ttl_s(request)))

    async def _unlock(self, request: SessionRequest) -> SessionReply:
        session = await self._registry.find_live(request.session_id)
        with session.usage.in_use(request.task_id):
            locking.unlock(session, _task(request))
            return self._reply("unlock", session, session.lease())

    async def _status(self, request: SessionRequest) -> SessionReply:
        session = await self._registry.find_live(request.session_id)
        reply = self._reply("status", session, session.lease())
        reply.state, reply.mode, reply.observers = session.state, session.runs.mode, session.observers()
        reply.queue = session.leases.queue.waiting(asyncio.get_running_loop().time())
        reply.notices = session.notices.take(request.task_id)
        return reply

    def _reply(self, action: str, session: Session, lease: Lease | None) -> SessionReply:
        return SessionReply(
            action=action,
            session_id=session.session_id,
            lock_holder=lease.holder if lease else None,
            lock_expires_at=epoch_ms(lease.expires_at) if lease else None,
            fence=lease.fence if lease else None,
        )


def _task(request: SessionRequest) -> str:
    assert request.task_id is not None  # the request was held against its table
    return request.task_id


def _ttl_s(request: SessionRequest) -> float:
    return (request.lock_ttl_ms or DEFAULT_LOCK_TTL_MS) / 1000

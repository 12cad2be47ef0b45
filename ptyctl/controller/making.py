"""Makes sessions, and the channels that they come to have."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

from ptyctl.api.errors import ErrorCode, PtyctlError, unsupported
from ptyctl.api.session import SessionRequest
from ptyctl.session.errors import from_channel
from ptyctl.session.session import Session
from ptyctl.session.spec import Spec
from transports.channel import Channel
from transports.errors import ChannelError

from .conversations import CONVERSATION
from .opening import channel_opener, marked_start
from .outliving import Outliving
from .recovered import recovered
from .registry import Registry
from .settings import Settings


class Maker:
    """Sessions that it has made can be found in the registry."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        open_channel: Callable[[SessionRequest], Channel] | None,
        outliving: Outliving | None,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._open_channel = open_channel or channel_opener()
        self._outliving = outliving
        self._opened_with: WeakKeyDictionary[Session, SessionRequest] = WeakKeyDictionary()

    async def make(self, request: SessionRequest, spec: Spec) -> Session:
        """A session that is open.

        Raises:
            PtyctlError: LIMIT_EXCEEDED, IO_ERROR, POLICY_DENIED; what kept the channel from opening.
        """
        self._registry.reserve()
        try:
            folder = self._settings.sessions_dir()
            session_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
            try:
                session = Session(session_id, spec, folder / session_id, self._settings.limits)
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
            self.added(session)
        finally:
            self._registry.release()
        self._opened_with[session] = request
        session.usage.watch()
        return session

    async def connect_again(self, session: Session, request: SessionRequest) -> None:
        """A new incarnation of a session whose channel has ended.

        Raises:
            PtyctlError: what kept the channel from opening.
        """
        await session.connect(self._channel(request, session))
        self._opened_with[session] = request
        session.usage.watch()
        session.notices.post(f"reconnected: incarnation {session.incarnation}; what was running before is gone")

    def channel_again(self, session: Session) -> Channel:
        """Another channel for a session, as it was opened; one that an earlier process opened is known by what it is."""
        request = self._opened_with.get(session, CONVERSATION if session.spec.conversation_id is not None else None)
        if request is None:
            raise unsupported(f"session {session.session_id} was opened by an earlier server; open it again instead")
        return self._channel(request, session)

    def added(self, session: Session) -> None:
        """It is open, and found by all from now on."""
        self._registry.add(session)
        if self._outliving is not None:
            self._outliving.follow(session)

    async def take_back(self) -> None:
        """Goes on with the sessions whose programs have outlived an earlier server."""
        if self._outliving is not None:
            for session in await self._outliving.take_back(self._settings.sessions_dir(), self._settings.limits):
                self.added(session)
                session.usage.watch()

    async def recall(self, session_id: str, *, hold: bool) -> Session | None:
        """A session that an earlier server has left on disk; see `recovered`."""
        if not (self._settings.state_dir / "sessions").is_dir():
            return None
        session = await recovered(self._settings.sessions_dir(), session_id, self._settings.limits, hold=hold)
        if session is not None and self._outliving is not None:
            self._outliving.follow(session)
        return session

    def _channel(self, request: SessionRequest, session: Session) -> Channel:
        try:
            return self._open_channel(marked_start(request, session.hooks_nonce) if session.spec.hooked else request)
        except ChannelError as error:
            raise from_channel(error) from None

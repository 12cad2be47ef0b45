"""Makes sessions, and the channels that they come to have."""

from __future__ import annotations

import secrets
import shutil
import time
from dataclasses import replace
from weakref import WeakKeyDictionary

from ptyctl.api.errors import ErrorCode, PtyctlError, unsupported
from ptyctl.platforms import Platforms
from ptyctl.session.calls.arriving import arrive, remember
from ptyctl.session.io.channel_errors import from_channel
from ptyctl.session.session import Session
from ptyctl.session.spec import Spec
from transports.channel import Channel
from transports.errors import ChannelError

from .conversations import CONVERSATION
from .destinations import Destination, Destinations
from .opening import OpensChannels, channel_opener, marked_start, spec_of
from .outliving import Outliving
from .reconnecting import Reconnecting
from .recovered import recovered
from .registry import Registry
from .settings import Settings


class Maker:
    """Sessions that it has made can be found in the registry."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        families: Platforms,
        destinations: Destinations,
        open_channel: OpensChannels | None,
        outliving: Outliving | None,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._families = families
        self._destinations = destinations
        self._open_channel = open_channel or channel_opener()
        self._outliving = outliving
        self._opened_with: WeakKeyDictionary[Session, Destination] = WeakKeyDictionary()
        self.reconnecting = Reconnecting(registry, self._connect_by_itself, settings.reconnect_for_s)

    async def make(self, destination: Destination, spec: Spec) -> Session:
        """A session that is open.

        Raises:
            PtyctlError: LIMIT_EXCEEDED, IO_ERROR, POLICY_DENIED; what kept the channel from opening, or the login from being
                done.
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
                await self._connect(session, destination)
            except BaseException:  # also a cancelled open leaves nothing behind
                await session.close(force=True, why="it could not be opened")
                shutil.rmtree(folder / session_id, ignore_errors=True)
                raise
            self.added(session)
        finally:
            self._registry.release()
        return session

    async def connect_again(self, session: Session, destination: Destination) -> None:
        """A new incarnation of a session whose channel has ended.

        Raises:
            PtyctlError: what kept the channel from opening, or the login from being done.
        """
        await self._connect(session, destination)
        session.notices.post(f"reconnected: incarnation {session.incarnation}; what was running before is gone")
        session.events.note("session_reconnected", incarnation=session.incarnation)

    async def _connect_by_itself(self, session: Session) -> None:
        await self.connect_again(session, await self.destination_again(session))

    async def destination_again(self, session: Session) -> Destination:
        """Where a session leads, as it was opened: a device is looked up anew. One that an earlier process opened is known by
        what it is.

        Raises:
            PtyctlError: UNSUPPORTED where it is not known; what `Destinations.of` raises.
        """
        if session.spec.device is not None:
            return await self._destinations.again(session.spec.device)
        known = CONVERSATION if session.spec.conversation_id is not None else None
        destination = self._opened_with.get(session, known)
        if destination is None:
            raise unsupported(f"session {session.session_id} was opened by an earlier server; open it again instead")
        return destination

    async def connect_as_before(self, session: Session) -> None:
        """Another channel for a session, and the login on it.

        Raises:
            PtyctlError: as `connect_again` and `destination_again`.
        """
        await self._connect(session, await self.destination_again(session))

    def added(self, session: Session) -> None:
        """It is open, and found by all from now on."""
        self._registry.add(session)
        self._follow(session)

    def _follow(self, session: Session) -> None:
        remember(session, self._families)
        self.reconnecting.follow(session)
        if self._outliving is not None:
            self._outliving.follow(session)

    async def take_back(self) -> None:
        """Goes on with the sessions whose programs have outlived an earlier server."""
        if self._outliving is not None:
            for session in await self._outliving.take_back(self._settings.sessions_dir, self._settings.limits):
                self.added(session)
                session.usage.watch()

    async def recall(self, session_id: str, *, hold: bool) -> Session | None:
        """A session that an earlier server has left on disk; see `recovered`."""
        if not (self._settings.state_dir / "sessions").is_dir():
            return None
        session = await recovered(self._settings.sessions_dir(), session_id, self._settings.limits, hold=hold)
        if session is not None:
            self._follow(session)
        return session

    async def _connect(self, session: Session, destination: Destination) -> None:
        """A channel and the login on it, or neither."""
        self._opened_with[session] = destination
        session.set_accounts(destination.accounts)
        session.set_platform(destination.platform or session.platform)
        session.set_pace(session.gate.pace or destination.pace)
        if destination.device is not None:  # the inventory may have another address than at the last connection
            spec = spec_of(destination)
            session.set_address(spec.host, spec.port, spec.username)
        await session.connect(self._channel(destination, session))
        try:
            await arrive(session, self._families)
        except BaseException:
            if session.channel is not None:
                await session.channel.close(force=True)
            raise
        session.usage.watch()

    def _channel(self, destination: Destination, session: Session) -> Channel:
        if session.spec.integrated:
            destination = replace(destination, request=marked_start(destination.request, session.shell_nonce))
        try:
            return self._open_channel(destination)
        except ChannelError as error:
            raise from_channel(error) from None

"""Creates sessions and connects them: for the first time, again, and automatically after a console has lost its connection."""

from __future__ import annotations

import asyncio
import random
import secrets
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol
from weakref import WeakKeyDictionary

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError, unsupported
from ptyctl.api.session import SessionRequest
from ptyctl.platforms import Platforms
from ptyctl.session.activity import Recorder, caller
from ptyctl.session.approvals import Approvals
from ptyctl.session.calls.session_preparation import prepare, restore_platform
from ptyctl.session.clients import current_principal
from ptyctl.session.io.errors import from_channel
from ptyctl.session.judgement import PolicyDecisionPoint
from ptyctl.session.session import LineLost, Session
from ptyctl.session.spec import Spec
from transports.errors import ChannelClosed, ChannelError, ReceiverFailed

from .destinations import (
    CONVERSATION,
    ChannelFactory,
    Destination,
    Destinations,
    channel_factory,
    session_spec,
    with_session_id,
    with_shell_integration,
)
from .policy_checks import check_program
from .recovery import StoredSessions, restore_session
from .registry import SessionRegistry
from .settings import Settings

#: The first delay between attempts to reconnect a console; each further delay is twice as long, up to the maximum.
FIRST_DELAY_S = 1.0
MAX_DELAY_S = 60.0
#: A connection that lasted this long resets the delays. A shorter one continues the series of attempts.
STABLE_S = 60.0
#: Random variation of the delays. The consoles of one server are lost together, and must not all reconnect together.
_JITTER = 0.25


@dataclass(slots=True)
class Opening:
    """An open request in progress.

    Attributes:
        session: the session that is being opened or connected again, once there is one.
        answered: the caller has got a reply that names the session, so its files stay if the attempt fails.
        warning: of the policy, about the program; for the caller alone.
    """

    session: Session | None = None
    answered: bool = False
    warning: str | None = None

    def begin(self, session: Session) -> None:
        """Record the session that is being opened or connected again."""
        self.session = session

    def answer(self) -> None:
        """Record that the caller gets a reply that names the session."""
        self.answered = True


class ConsoleOwnership(Protocol):
    """Decides which process of several may connect a console."""

    async def acquire(self, session: Session, state_dir: Path) -> None:
        """Become the owner of a session's console, before its line is connected.

        Only a process with the same state directory takes over the ownership of an earlier one.

        From then on the session's ownership check fails once another process may be the owner.

        Raises:
            PtyctlError: SESSION_MOVED if another process owns the console; IO_ERROR.
        """
        ...


#: Minimum time between two opens that create or close files, which blocks the event loop for 3 to 8 ms (seconds). A call of
#: another client, which takes several loop iterations, is delayed by one or two of them.
TURN_S = 0.015
#: Receives each session that was opened, adopted or restored, once.
SessionWatcher = Callable[[Session], None]


class SessionFactory:
    """Creates sessions, adds them to the registry, and opens their channels."""

    def __init__(
        self,
        settings: Settings,
        registry: SessionRegistry,
        platforms: Platforms,
        destinations: Destinations,
        create_channel: ChannelFactory | None,
        recorder: Recorder,
        policy: PolicyDecisionPoint,
        approvals: Approvals,
        ownership: ConsoleOwnership | None = None,
    ) -> None:
        self._settings = settings
        self._ownership = ownership
        self._policy, self._approvals = policy, approvals
        self._recorder = recorder
        self._registry = registry
        self._platforms = platforms
        self._destinations = destinations
        self._create_channel = create_channel or channel_factory()
        self._destination_of: WeakKeyDictionary[Session, Destination] = WeakKeyDictionary()
        self._watchers: list[SessionWatcher] = []
        self._turn, self._removal = asyncio.Lock(), asyncio.Lock()
        self._next_turn_at = 0.0

    def watch(self, watcher: SessionWatcher) -> None:
        """Call `watcher` for every further session, after the watchers that were added before."""
        self._watchers.append(watcher)

    async def check_program(self, request: SessionRequest, destination: Destination) -> str | None:
        """Judge the program of a caller's request; see `policy_checks.check_program`."""
        return await check_program(self._policy, request, destination)

    async def create(self, destination: Destination, spec: Spec, opening: Opening | None = None) -> Session:
        """Create a session and open it. `opening` gets the session before it is open.

        Raises:
            PtyctlError: LIMIT_EXCEEDED, IO_ERROR, POLICY_DENIED, and the errors of the connection and the login.
        """
        self._registry.reserve()
        try:
            await self._wait_turn()
            folder = self._settings.sessions_dir()
            spec = replace(spec, opened_by=current_principal().name)
            session_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
            try:
                session = Session(session_id, spec, folder / session_id, self._settings.limits)
            except OSError as error:
                shutil.rmtree(folder / session_id, ignore_errors=True)
                raise PtyctlError(
                    ErrorCode.IO_ERROR,
                    f"the files of a new session cannot be created in {folder}: {error.strerror}",
                    hint="make room there, or close sessions",
                ) from None
            self._supervise(session)
            request = destination.request
            session.activity.record("open", **caller(request.task_id), **_address(spec), command=request.command)
            opening = opening or Opening()
            opening.begin(session)
            try:
                await self._connect(session, destination)
            except BaseException as error:  # a cancelled open, too, leaves no files
                await self._wait_turn()
                await session.close(force=True, why=f"it could not be opened: {error}")
                if not opening.answered:
                    await self._remove_files(folder / session_id)
                raise
            self._registry.add_opened(session)
            self._notify_watchers(session)
        finally:
            self._registry.release()
        return session

    async def add(self, session: Session) -> None:
        """Add an open session to the registry."""
        self._registry.add(session)
        await restore_platform(session, self._platforms)
        self._notify_watchers(session)

    async def restore(self, session_id: str, hold: bool) -> Session | None:
        """Restore a session from disk; see `restore_session`. The registry adds it."""
        if not (self._settings.state_dir / "sessions").is_dir():
            return None
        session = await restore_session(self._settings.sessions_dir(), session_id, self._settings.limits, hold=hold)
        if session is not None:
            await restore_platform(session, self._platforms)
            self._notify_watchers(session)
        return session

    async def reconnect(self, session: Session, destination: Destination | None = None) -> None:
        """Start a new incarnation of a session whose channel has ended, and announce it.

        Args:
            destination: where to; without it, where the session was connected before.

        Raises:
            PtyctlError: as `restart`.
        """
        by = caller(destination.request.task_id) if destination is not None else {}
        await self._connect(session, destination or await self._find_destination(session))
        session.activity.record("reconnect", **by, incarnation=session.incarnation, **_address(session.spec))
        session.notices.post(f"reconnected: incarnation {session.incarnation}; programs of the earlier connection are gone")
        session.events.note("session_reconnected", incarnation=session.incarnation)

    async def restart(self, session: Session) -> None:
        """Start a new incarnation of a session, connected to the same destination as before.

        Raises:
            PtyctlError: UNSUPPORTED if the destination is not known; the errors of the inventory, the connection and the login.
        """
        await self._connect(session, await self._find_destination(session))

    async def _find_destination(self, session: Session) -> Destination:
        """Return the destination of a session; an inventory device is looked up again."""
        if session.spec.device is not None:
            return await self._destinations.resolve_device(session.spec.device)
        default = CONVERSATION if session.spec.conversation_id is not None else None
        destination = self._destination_of.get(session, default)
        if destination is None:
            raise unsupported(
                f"session {session.session_id} was opened by an earlier server, and its login is not stored",
                hint=NextStep.OPEN_SESSION,
            )
        return destination

    async def _connect(self, session: Session, destination: Destination) -> None:
        """Open a channel and log in on it. On failure the channel is closed again."""
        if self._ownership is not None and session.spec.device_id is not None:
            await self._ownership.acquire(session, self._settings.state_dir)
        self._destination_of[session] = destination
        platform, pace = destination.platform or session.platform, session.gate.pace or destination.pace
        session.set_login(destination.credentials, platform, pace)
        if destination.device is not None:  # the inventory may have another address than at the last connection
            spec = session_spec(destination)
            session.set_address(spec.host, spec.port, spec.username)
        if session.spec.integrated:
            destination = replace(destination, request=with_shell_integration(destination.request, session.write_nonce_file()))
        if session.spec.protocol == "local":
            destination = replace(destination, request=with_session_id(destination.request, session.session_id))
        try:
            channel = self._create_channel(destination)
        except ChannelError as error:
            raise from_channel(error) from None
        await session.connect(channel)
        try:
            session.check_ownership()  # connecting can take longer than a claim lives
            await prepare(session, self._platforms)
        except BaseException:
            if session.channel is not None:
                await session.channel.close(force=True)
            raise
        session.login_succeeded()
        session.usage.watch()

    async def _wait_turn(self) -> None:
        """Wait until no other open has created or closed files for `TURN_S`."""
        now = asyncio.get_running_loop().time
        async with self._turn:
            await asyncio.sleep(max(self._next_turn_at - now(), 0.0))
            self._next_turn_at = now() + TURN_S

    async def _remove_files(self, folder: Path) -> None:
        """Remove the files of a session that did not open, in a thread: on a busy disk that takes 10 ms. One at a time."""
        async with self._removal:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def _supervise(self, session: Session) -> None:
        """Connect a session to the audit log, the policy and the approval requests."""
        session.activity.set_recorder(self._recorder)
        session.authorization.set_policy(self._policy, self._approvals)

    def _notify_watchers(self, session: Session) -> None:
        self._supervise(session)
        for watcher in self._watchers:
            watcher(session)


def _address(spec: Spec) -> dict[str, object]:
    return {"protocol": spec.protocol, "host": spec.host, "port": spec.port, "username": spec.username}


def _is_permanent(error: PtyctlError) -> bool:
    """Return whether a connection attempt must not be repeated: it would fail again, or could lock an account.

    A session whose console another process owns may have it back later, and a line that was lost during the login too.
    """
    return not error.retryable and error.code not in (ErrorCode.REMOTE_CLOSED, ErrorCode.SESSION_MOVED)


@dataclass(slots=True)
class _Series:
    """Attempts without a stable connection in between; times on the loop's clock."""

    started_at: float
    delay_s: float
    connected_at: float | None = None


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

    def restore_consoles(self, stored: StoredSessions) -> None:
        """Start a task that reconnects the inventory consoles which an earlier server has lost within the limit."""
        if self._limit_s:
            self._restoring = asyncio.create_task(self._restore_consoles(stored), name="restore consoles")

    async def aclose(self) -> None:
        """Cancel all attempts."""
        tasks = [*self._tasks.values(), *([self._restoring] if self._restoring is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _restore_consoles(self, stored: StoredSessions) -> None:
        for session_id in await stored.inventory_consoles(self._limit_s):
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

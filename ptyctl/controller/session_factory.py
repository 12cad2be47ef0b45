"""Creates sessions and connects them, for the first time and again."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import time
from collections.abc import Callable
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
from ptyctl.session.session import Session
from ptyctl.session.spec import Spec
from transports.errors import ChannelError

from .destinations import (
    CONVERSATION,
    ChannelFactory,
    Destination,
    Destinations,
    channel_factory,
    session_spec,
    with_session_id,
    with_shell_integration,
    without_pagers,
)
from .policy_checks import check_program, denies_keys
from .recovery import restore_session
from .registry import SessionRegistry
from .settings import Settings

#: Minimum time between two opens that create or close files, which blocks the event loop for 3 to 8 ms (seconds). A call of
#: another client, which takes several loop iterations, is delayed by one or two of them.
TURN_S = 0.015
#: Receives each session that was opened, adopted or restored, once.
SessionWatcher = Callable[[Session], None]


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


#: File in the state directory of a node of a fleet, with its random id: it marks the directory as the node's.
FLEET_STATE = "fleet-state-id"


def check_no_node_state(state_dir: Path) -> None:
    """Check that a state directory does not belong to a node of a fleet, for a server that is none.

    Another node may own the consoles of these sessions by now. The file stays when the node ends; whoever takes the directory
    out of the fleet removes it.

    Raises:
        PtyctlError: BUSY if the directory belongs to a node.
    """
    if os.path.lexists(state_dir / FLEET_STATE):
        raise PtyctlError(
            ErrorCode.BUSY,
            f"the state directory {state_dir} belongs to a node of a fleet, which alone may use its consoles",
            {"state_dir": str(state_dir)},
            hint=f"start the node: ptyctl serve --fleet FILE; if it has left the fleet, remove {state_dir / FLEET_STATE}",
        )


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
        if session.spec.device_id is not None:
            if self._ownership is None:
                check_no_node_state(self._settings.state_dir)
            else:
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
            if denies_keys(self._policy, destination.request):
                destination = replace(destination, request=without_pagers(destination.request))
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

"""The controller of the sessions of this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Self

from ptyctl.api.approvals import ApprovalsReply, ApprovalsRequest
from ptyctl.api.config import ConfigReply, ConfigRequest
from ptyctl.api.controller import Progress
from ptyctl.api.devices import DevicesReply, DevicesRequest
from ptyctl.api.errors import PtyctlError
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.api.history import RecordingReply, RecordingRequest, SearchReply, SearchRequest
from ptyctl.api.io import IoReply, IoRequest
from ptyctl.api.model import Addressed
from ptyctl.api.operator import (
    AuditReply,
    AuditRequest,
    GcReply,
    GcRequest,
    LogReply,
    LogRequest,
    NotifyReply,
    NotifyRequest,
    WatchItem,
    WatchRequest,
)
from ptyctl.api.policy import PolicyReply, PolicyRequest
from ptyctl.api.pty import PtyReplyBase, PtyRequest
from ptyctl.api.session import GivenUp, SessionEntry, SessionReply, SessionRequest
from ptyctl.audit.audit_files import AuditFiles, AuditTail, query_audit
from ptyctl.audit.audit_log import AuditLog
from ptyctl.inventory import Inventory
from ptyctl.platforms import Platforms
from ptyctl.session import verdict_thread
from ptyctl.session.approvals import Approvals, HeldText
from ptyctl.session.calls.exec import execute
from ptyctl.session.calls.output_parser import execute_parsed
from ptyctl.session.calls.read import read
from ptyctl.session.calls.recording_read import read_console_log, read_recording_events
from ptyctl.session.calls.screen_read import read_in_screen_mode
from ptyctl.session.calls.watch import watch
from ptyctl.session.calls.write import write
from ptyctl.session.clients import current_principal, most_used, set_search_limit
from ptyctl.session.io.errors import reports_os_errors
from ptyctl.session.session import Session
from ptyctl.session.spec import Spec

from .approvals import ApprovalCalls
from .call_memory import DurableCallMemory, was_refused
from .console_reconnector import ConsoleReconnector
from .conversations import Conversations
from .destinations import ChannelFactory, Destinations, DeviceVisibility, hides_route
from .devices import DevicePlacement, Devices
from .policies import PolicyStore
from .policy_checks import PolicyChecks
from .recovery import DescriptorStore, SessionHandOff, SessionIndex, StateLock
from .registry import SessionRegistry
from .retention import remove_old_sessions
from .search import BlockSearches
from .session_actions import SessionActions, configure
from .session_factory import ConsoleOwnership, SessionFactory, check_no_node_state
from .settings import Settings, load_settings
from .tokens import TokenFile

#: Limits that a client's counters have.
_OF_CLIENTS = (
    "max_client_calls", "max_client_watches", "max_client_searches", "max_client_sockets", "max_client_downloads",
    "max_socket_subscriptions", "max_principal_logins",
)  # fmt: skip
#: How long the start waits for sessions that are resumed (seconds). The others follow; calls to them wait.
_ADOPTION_WAIT_S = 2.0
#: The reason with which sessions are closed when their server stops.
_SERVER_ENDED = "the server ended"


class LocalController:
    """Serves every request of `ptyctl.api.controller.Controller` on sessions in this process."""

    def __init__(
        self,
        settings: Settings | None = None,
        create_channel: ChannelFactory | None = None,
        fd_store: DescriptorStore | None = None,
        *,
        persistent: bool = False,
        ownership: ConsoleOwnership | None = None,
    ) -> None:
        """Compose the controller. It takes over sessions of earlier processes when it is entered (`async with`).

        Args:
            settings: by default those of the environment.
            create_channel: by default channels of the transports.
            fd_store: keeps local programs running if this process is killed.
            persistent: be the server of the state directory: own its sessions, and reconnect the inventory consoles that an
                earlier server has lost. Not for a process that ends soon.
            ownership: decides which of several servers may connect a console; by default, there is one server.
        """
        self.settings = settings or load_settings()
        platforms = Platforms(self.settings.platforms_dir)
        inventory = Inventory(self.settings.devices_file)
        destinations = Destinations(inventory, platforms)
        limits = self.settings.limits.use
        self._persistent = persistent
        self._ownership = ownership
        self._state_lock = StateLock(self.settings.state_dir / "server.lock")
        self._session_index = SessionIndex(self.settings.state_dir / "sessions")
        self._registry = SessionRegistry(limits, lambda session_id, hold: self._factory.restore(session_id, hold))
        self._audit_files = AuditFiles(self.settings.state_dir / "audit")
        self.audit_log = AuditLog(self._audit_files, self.settings.audit.on_failure)
        self.policies = PolicyStore(self.settings, platforms, self.audit_log.record)
        verdict_thread.set_limit(limits["max_principal_verdicts"])
        set_search_limit(limits["max_client_searches"])
        self._policy_checks = PolicyChecks(self.policies, inventory, platforms)
        self._policy_watch: asyncio.Task[None] | None = None
        rules = self.settings.approvals
        self.approval_requests = Approvals(
            rules.timeout_s,
            allow_self=rules.allow_self,
            elicitation=rules.elicitation,
            notifies=bool(rules.notify_command),
            limits=limits,
            token_of=TokenFile(self.settings.state_dir).identity_of,
        )
        self._approval_calls = ApprovalCalls(
            self.approval_requests, rules.notify_command, self.audit_log, limits["max_approval_watches"]
        )
        self._factory = SessionFactory(
            self.settings,
            self._registry,
            platforms,
            destinations,
            create_channel,
            self.audit_log,
            self.policies,
            self.approval_requests,
            ownership,
        )
        self._reconnector = ConsoleReconnector(self._registry, self._factory.reconnect, self.settings.reconnect_for_s)
        self._factory.watch(self._reconnector.watch)
        self._hand_off = SessionHandOff(fd_store) if fd_store is not None else None
        if self._hand_off is not None:
            self._factory.watch(self._hand_off.watch)
        self._inventory = inventory
        self._devices = Devices(
            self.settings, inventory, self.audit_log, lambda: self._approval_calls.problem, self._registry.storage_alarms
        )
        self._searches = BlockSearches(self.settings.state_dir / "sessions", self._registry)
        self._actions = SessionActions(self._registry, self._factory, self._session_index, destinations, platforms)
        self._calls = DurableCallMemory(limits["max_remembered_calls"])
        self._conversations = Conversations(self._registry, self._factory, self._session_index)

    async def __aenter__(self) -> Self:
        """Resume an earlier server's sessions whose programs still run, and reconnect its consoles.

        Raises:
            PtyctlError: BUSY if this controller is persistent and another server owns the state directory, or a node of a fleet
                that is not this one.
        """
        if self._persistent and self._has_state_dir():
            if self._ownership is None:
                check_no_node_state(self.settings.state_dir)
            await self._state_lock.acquire()
        self._policy_watch = asyncio.create_task(self.policies.watch(), name="policy files")
        if self._persistent and self._has_state_dir():
            await self._approval_calls.store_in(self.settings.state_dir)
            await self._calls.store_in(self.settings.state_dir / "calls.jsonl")
        if self._hand_off is not None:
            adoptions = self._hand_off.adopt_sessions(self.settings.sessions_dir, self.settings.limits, self._add_adopted)
            await self._registry.load_all(adoptions, _ADOPTION_WAIT_S)
        if self._persistent:
            self._reconnector.restore_consoles(self._session_index)
        return self

    async def _add_adopted(self, session: Session) -> None:
        await self._factory.add(session)
        session.usage.watch()

    def _has_state_dir(self) -> bool:
        try:
            self.settings.sessions_dir()
        except PtyctlError:
            return False  # reported when a session is opened
        return True

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all sessions of this process. Their transcripts are kept."""
        if self._policy_watch is not None:
            self._policy_watch.cancel()
        await self._reconnector.aclose()
        await self._registry.cancel_attempts()
        await self._registry.finish_loads()
        ours = [session for session in self._registry.known() if session.held or session.state == "closed"]
        await asyncio.gather(*(session.close(why=_SERVER_ENDED) for session in ours))
        if self._hand_off is not None:
            self._hand_off.drop_all_secrets()
        await self._approval_calls.aclose()
        await self._calls.aclose()
        await asyncio.to_thread(self.audit_log.close)
        self._state_lock.release()

    def flush(self) -> None:
        """Write all buffered data, before the process ends without closing its sessions."""
        for session in self._registry.live():
            session.flush()
        self.audit_log.close()

    def has_sessions(self) -> bool:
        """Return whether this process holds a session that is not closed."""
        return any(session.held for session in self._registry.live())

    def entries(self) -> list[SessionEntry]:
        """Return the rows of the live sessions in a list."""
        return self._registry.entries()

    def transcripts(self) -> set[str]:
        """Return the ids of the sessions whose transcripts are on disk. Reads a folder."""
        try:
            return {path.name for path in (self.settings.state_dir / "sessions").iterdir()}
        except FileNotFoundError:
            return set()

    async def placements(self) -> dict[str, DevicePlacement]:
        """Return the placement of each device of the inventory. Raises PtyctlError as `Inventory.devices`."""
        return await self._devices.placements()

    async def given_up(self, device_id: str) -> GivenUp | None:
        """Return why a console's last session here is not connected automatically, or None. Raises PtyctlError IO_ERROR."""
        return await self._actions.given_up(device_id)

    def audit_tail(self) -> AuditTail:
        """Return a reader of new audit rows."""
        return self._audit_files.tail()

    def holds(self, session_id: str) -> bool:
        """Return whether a session is in memory."""
        return self._registry.get(session_id) is not None

    def limits_in_use(self) -> dict[str, int]:
        """Return the use of each limit by name; for limits of a client or session, the highest use of one of them."""
        limits = self.settings.limits.use
        in_use = self._registry.in_use()
        in_use |= {name: most_used(limits[name]) for name in _OF_CLIENTS}
        in_use |= self._devices.limits_in_use() | self.approval_requests.limits_in_use() | verdict_thread.limits_in_use()
        in_use |= self._approval_calls.limits_in_use() | self._calls.limits_in_use()
        for use in (use for session in self._registry.live() for use in session.limits_in_use()):
            in_use[use.name] = max(in_use.get(use.name, 0), use.in_use)
        return in_use

    @reports_os_errors
    async def spec_of(
        self, request: Addressed | SessionRequest | WatchRequest | LogRequest | RecordingRequest | NotifyRequest | PolicyRequest
    ) -> Spec:
        """Return the parameters of the session that a request addresses, in any state.

        Raises:
            PtyctlError: NOT_FOUND; as `SessionRegistry.find`.
        """
        session_id = request.session_id
        if isinstance(request, Addressed | SessionRequest):
            session_id = await self._conversations.session_id(request)
        return (await self._registry.find(session_id)).spec

    @reports_os_errors
    async def session(self, request: SessionRequest) -> SessionReply:
        if request.conversation_id is not None:
            request = request.model_copy(update={"session_id": await self._conversations.session_id(request)})
        if request.action != "open":
            return await self._actions.handle(request)
        return await self._calls.perform("open", lambda: self._actions.handle(request), refused=lambda error: True)

    @reports_os_errors
    async def io(self, request: IoRequest, progress: Progress | None = None) -> IoReply:
        reading = request.action == "read"
        find = self._registry.find if reading else self._registry.find_live
        session = await find(await self._conversations.session_id(request, create=not reading))
        with session.usage.in_use(request.task_id, reading=reading):
            if not reading:
                reply = await write(session, request, progress)
            elif request.mode == "screen":
                reply = await read_in_screen_mode(session, request, progress)
            else:
                reply = await read(session.stream, request, progress)
            reply.notices = [*(reply.notices or ()), *(session.take_notices(request.task_id) or ())] or None
            return reply

    @reports_os_errors
    async def exec(self, request: ExecRequest, progress: Progress | None = None) -> ExecReply:
        return await self._calls.perform("exec", lambda: self._exec(request, progress), refused=was_refused)

    async def _exec(self, request: ExecRequest, progress: Progress | None) -> ExecReply:
        find = self._registry.find_live if request.block_id is None else self._registry.find
        session = await find(await self._conversations.session_id(request, create=request.block_id is None))
        with session.usage.in_use(request.task_id):
            return await (execute_parsed if request.parse else execute)(session, request, progress)

    @reports_os_errors
    async def config(self, request: ConfigRequest) -> ConfigReply:
        session = await self._registry.find_live(await self._conversations.session_id(request))
        with session.usage.in_use(request.task_id):
            return await configure(session, request)

    async def watch(self, request: WatchRequest) -> AsyncGenerator[WatchItem, None]:
        session = await self._registry.find_live(request.session_id)
        with session.usage.in_use(request.task_id, reading=True, watching=True):
            items = watch(session, request.from_offset, request.max_behind, request.scrollback, request.tick_ms)
            async with aclosing(items) as watched:
                async for item in watched:
                    yield item

    async def pty(self, request: PtyRequest, progress: Progress | None = None) -> PtyReplyBase:
        return await self._conversations.handle(request, progress)

    @reports_os_errors
    async def notify(self, request: NotifyRequest) -> NotifyReply:
        session = await self._registry.find_live(request.session_id)
        session.post_message(request.message, request.sender)
        return NotifyReply(session_id=session.session_id, observers=session.observers())

    @reports_os_errors
    async def gc(self, request: GcRequest) -> GcReply:
        live = frozenset(session.session_id for session in self._registry.live() if session.held)
        reply = await remove_old_sessions(self.settings, request, live, self._registry.forget)
        if reply.removed and not request.dry_run:
            removed = [entry.session_id for entry in reply.removed]
            self.audit_log.record("gc", principal=current_principal().name, sessions=removed)
        return reply

    async def audit(self, request: AuditRequest) -> AuditReply:
        await asyncio.to_thread(self.audit_log.wait_written)
        return await query_audit(self._audit_files, request)

    async def approvals(
        self, request: ApprovalsRequest, *, sees: Callable[[HeldText], bool] = lambda held: True
    ) -> ApprovalsReply:
        return await self._approval_calls.answer(request, sees)

    def device_names(self, held: HeldText) -> tuple[str | None, ...]:
        """Return the names of the device of an approval request: those of its session, if that is in memory."""
        session = self._registry.get(held.session_id)
        return (held.device,) if session is None else (session.spec.device, session.spec.device_id)

    @reports_os_errors
    async def policy(self, request: PolicyRequest) -> PolicyReply:
        session = None if request.session_id is None else await self._registry.find(request.session_id)
        return await self._policy_checks.answer(request, current_principal(), session)

    @reports_os_errors
    async def log(self, request: LogRequest) -> LogReply:
        session = await self._registry.find(request.session_id)
        with session.usage.in_use(request.task_id, reading=True):
            return await read_console_log(session, request.from_offset, request.limit)

    @reports_os_errors
    async def recording(self, request: RecordingRequest) -> RecordingReply:
        session = await self._registry.find(request.session_id)
        with session.usage.in_use(request.task_id, reading=True):
            return await read_recording_events(session, request.from_offset, request.max_bytes)

    @reports_os_errors
    async def search(
        self, request: SearchRequest, *, sees: Callable[[str | None, str | None], bool] = lambda device, device_id: True
    ) -> SearchReply:
        return await self._searches.search(request, sees)

    @reports_os_errors
    async def devices(self, request: DevicesRequest, *, sees: DeviceVisibility = lambda *names: True) -> DevicesReply:
        return await self._devices.answer(request, sees)

    async def hides_route(self, device: str, sees: DeviceVisibility) -> bool:
        """Return whether a device is reached through a host that is hidden from the caller. Raises as `Inventory.device`."""
        return await hides_route(self._inventory, device, sees)

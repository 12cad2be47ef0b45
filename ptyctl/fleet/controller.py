"""A Controller for the sessions of all nodes. It forwards each call to the node that has the session."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, nullcontext, suppress
from typing import Any, Protocol, TypeVar

from ptyctl.api.approvals import ApprovalsReply, ApprovalsRequest
from ptyctl.api.config import ConfigReply, ConfigRequest
from ptyctl.api.controller import Controller, Progress
from ptyctl.api.devices import DevicesReply, DevicesRequest
from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.api.field_faults import UNKNOWN_FIELD
from ptyctl.api.history import RecordingReply, RecordingRequest, SearchReply, SearchRequest
from ptyctl.api.io import IoReply, IoRequest
from ptyctl.api.model import Reply
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
from ptyctl.api.session import SessionReply, SessionRequest
from ptyctl.audit.audit_files import matches
from ptyctl.cancellation import cancel_and_wait
from ptyctl.controller.call_memory import current_call, repeatable
from ptyctl.controller.devices import DevicePlacement
from ptyctl.daemon.errors import DaemonConnectionLost
from ptyctl.session.clients import current_principal

from .approvals import FleetApprovals
from .audit_stream import AuditReader, add_rows, add_verifications
from .claim_directory import ClaimDirectory
from .console_claims import moved
from .directory import find_candidates
from .link import NodeLinks
from .sites import MAX_NAMED_NODES, FleetNodes, FleetSessions, qualified, see_nodes

R = TypeVar("R", bound=Reply)

#: Errors of an open whose far end did not answer as a console.
_NO_LINE = (ErrorCode.CONNECT_FAILED, ErrorCode.CONNECT_TIMEOUT, ErrorCode.REMOTE_CLOSED)
_REPEAT = "repeat the call"
_HELD = (
    "the far end may still hold the connection of a node that is gone: if it takes one only, repeat the call later, or end"
    " that connection on the console server"
)

#: How long a call is tried again after its answer was lost, or to a node without a link (seconds).
_REPEAT_S = 5.0
_REPEAT_DELAY_S = 0.2
#: Number of other nodes' sessions that a list handles before other calls run, in about 5 ms.
_LIST_BATCH = 200


class OwnController(Controller, Protocol):
    """The controller of this node's sessions, which checks the requests of its clients."""

    @property
    def local_sessions(self) -> bool:
        """Return whether clients may use this machine as the server's user."""
        ...


class LocalSessions(Protocol):
    """The interface of this node's controller that the fleet uses in addition to calls."""

    async def placements(self) -> Mapping[str, DevicePlacement]:
        """Return the placement of each device of the inventory. Raises PtyctlError."""
        ...

    def holds(self, session_id: str) -> bool:
        """Return whether a session is in memory."""
        ...


class FleetController:
    """Implements `ptyctl.api.controller.Controller` for the sessions of a fleet.

    This node's sessions are served by `own`. A call on another node's session is forwarded with its principal, and sent again
    with the same request id if its answer is lost: the owner performs it once.
    """

    def __init__(
        self,
        own: OwnController,
        local: LocalSessions,
        links: NodeLinks,
        nodes: FleetNodes,
        sessions: FleetSessions,
        claimed: ClaimDirectory,
        publish: Callable[[], Awaitable[None]],
        audit: AuditReader | None = None,
    ) -> None:
        """Create the controller. `publish` makes this node's sessions known to the others; `audit` reads the rows of all."""
        self._audit = audit
        self._claimed = claimed
        self._publish = publish
        self._publishing: set[asyncio.Task[None]] = set()
        self._own = own
        self._local = local
        self._links = links
        self._nodes = nodes
        self._sessions = sessions
        self._approvals = FleetApprovals(own, nodes, self._ask, self._ask_once)

    @property
    def local_sessions(self) -> bool:
        """Return whether clients may use this machine as the server's user."""
        return self._own.local_sessions

    async def session(self, request: SessionRequest) -> SessionReply:
        if request.action == "list":
            return await self._list(request)
        if request.action == "open":
            return await self._open(request)
        return await self._call(request.session_id, lambda node: node.session(request))

    async def _list(self, request: SessionRequest) -> SessionReply:
        """List the sessions of all nodes. Sessions of an unreachable node have the time since it was last seen.

        The notices name what is degraded.
        """
        reply = await self._own.session(request)
        sees = current_principal().sees
        listed = list(reply.sessions or ())
        silent: dict[str, int | None] = {}
        for number, row in enumerate(self._sessions.others(), start=1):
            if number % _LIST_BATCH == 0:  # a fleet can have 100,000 sessions
                await asyncio.sleep(0)
            if row.state != "closed" and sees(row.device, row.device_id):
                if row.node not in silent:
                    silent_s = self._nodes.unreachable_for(row.node)
                    silent[row.node] = None if silent_s is None else round(silent_s)
                entry = row.entry()
                entry.node, entry.unreachable_s = row.node, silent[row.node]
                listed.append(entry)
        reply.sessions = listed
        degraded = self._nodes.degraded([node for node, silent_s in silent.items() if silent_s is not None])
        reply.notices = [*(reply.notices or ()), *degraded] or None
        return reply

    async def _open(self, request: SessionRequest) -> SessionReply:
        """Open on the node that the request names, else on the first of `_nodes_for` that is reachable."""
        named, request = request.node, request.model_copy(update={"node": None})
        nodes = [named] if named is not None else await self._nodes_for(request)
        for node in nodes:
            try:
                return await (self._open_here(request) if node == self._nodes.node else self.open_on(node, request))
            except PtyctlError as error:
                if error.details.get("delivery") != "not_sent" or node == nodes[-1]:
                    is_answer = error.details.get("delivery") != "not_sent" and _HELD not in (error.hint or "")
                    if is_answer and error.code in _NO_LINE and await self._may_be_held(request):
                        error.hint = f"{error.hint or _REPEAT}; {_HELD}"
                    raise
        raise AssertionError("there is always a node")

    async def _may_be_held(self, request: SessionRequest) -> bool:
        """Return whether the far end of a console may still have the connection of an unreachable owner."""
        device_id = request.device_id
        if request.device is not None:
            try:
                device = (await self._local.placements()).get(request.device)
            except PtyctlError:
                return False
            device_id = None if device is None else device.device_id
        return device_id is not None and self._claimed.may_be_held(device_id)

    async def _nodes_for(self, request: SessionRequest) -> list[str]:
        """Return the nodes that may serve an open, in order; at least one.

        A device is opened by the owner of its console, else by the least loaded node that may reach it. Other addresses are
        opened here. What the inventory or the principal's devices refuse is refused by this node's own controller.

        Raises:
            PtyctlError: CONNECT_FAILED if no node that is up may reach the device.
        """
        here = [self._nodes.node]
        if request.device is None or not current_principal().sees(request.device):
            return here
        try:
            device = (await self._local.placements()).get(request.device)
        except PtyctlError:
            return here
        if device is None:
            return here
        owner = self._claimed.owner(device.device_id) if device.device_id is not None else None
        if owner is not None:
            return [owner.node]
        if not self._nodes.is_up(self._nodes.node):  # cut off from the servers: the others are not known
            return here
        nodes = find_candidates(self._nodes.up(), device.node_labels, prefer=self._nodes.node)
        if not nodes:
            raise _no_node(request.device, device, self._nodes.other_sites(device.node_labels))
        return nodes

    async def _open_here(self, request: SessionRequest) -> SessionReply:
        """Open a session on this node, or on the node that has taken over its console meanwhile."""
        try:
            reply = await self._own.session(request)
        except PtyctlError as error:
            node = error.details.get("node") if error.code is ErrorCode.SESSION_MOVED else None
            if node is None:
                raise
        else:
            task = asyncio.create_task(self._publish_soon())  # NATS may not answer for seconds
            self._publishing.add(task)
            task.add_done_callback(self._publishing.discard)
            return reply
        return await self.open_on(str(node), request)

    async def _publish_soon(self) -> None:
        with suppress(PtyctlError):  # published later
            await self._publish()

    async def open_on(self, node: str, request: SessionRequest) -> SessionReply:
        """Open a session on another node. Raises PtyctlError as `_forward`, and the errors of the open."""
        try:
            reply = await self._forward(node, lambda remote: remote.session(request))
        except PtyctlError as error:
            site, owner = node.rpartition("/")[0], error.details.get("node")
            if not site or error.code is not ErrorCode.SESSION_MOVED or owner is None:
                raise
            node = qualified(site, str(owner))  # another node of that site owns the console
            reply = await self._forward(node, lambda remote: remote.session(request))
        if reply.session_id is not None:
            self._sessions.learn(reply.session_id, node)
        return reply

    async def io(self, request: IoRequest, progress: Progress | None = None) -> IoReply:
        return await self._call(request.session_id, lambda node: node.io(request, progress))

    async def exec(self, request: ExecRequest, progress: Progress | None = None) -> ExecReply:
        return await self._call(request.session_id, lambda node: node.exec(request, progress))

    async def config(self, request: ConfigRequest) -> ConfigReply:
        return await self._call(request.session_id, lambda node: node.config(request))

    async def pty(self, request: PtyRequest, progress: Progress | None = None) -> PtyReplyBase:
        return await self._call(request.session_id, lambda node: node.pty(request, progress))

    async def watch(self, request: WatchRequest) -> AsyncGenerator[WatchItem, None]:
        node = self._node_of(request.session_id)
        if node is None:
            async with aclosing(self._own.watch(request)) as items:
                async for item in items:
                    yield item
            return
        controller = await self._links.controller(node)
        try:
            async with aclosing(controller.watch(request)) as items:
                async for item in items:
                    yield item
            return
        except PtyctlError as error:
            if unknown_fields(error) != ["tick_ms"] or request.tick_ms is None:
                raise _of_version(node, error) from None
        without = WatchRequest.model_validate(request.model_dump(exclude_unset=True, exclude={"tick_ms"}))
        async with aclosing(with_ticks(controller.watch(without), request.tick_ms / 1000)) as items:
            async for item in items:
                yield item

    async def notify(self, request: NotifyRequest) -> NotifyReply:
        return await self._call(request.session_id, lambda node: node.notify(request))

    async def log(self, request: LogRequest) -> LogReply:
        return await self._call(request.session_id, lambda node: node.log(request))

    async def recording(self, request: RecordingRequest) -> RecordingReply:
        return await self._call(request.session_id, lambda node: node.recording(request))

    async def policy(self, request: PolicyRequest) -> PolicyReply:
        return await self._call(request.session_id, lambda node: node.policy(request))

    # Operations on this node only

    async def search(self, request: SearchRequest) -> SearchReply:
        return await self._own.search(request)

    async def devices(self, request: DevicesRequest) -> DevicesReply:
        return await self._own.devices(request)

    async def gc(self, request: GcRequest) -> GcReply:
        return await self._own.gc(request)

    async def audit(self, request: AuditRequest) -> AuditReply:
        reply = await self._own.audit(request)  # refuses who may not read it
        if self._audit is None:
            return reply
        others: list[dict[str, Any]] = []
        try:
            if request.action == "verify":
                return add_verifications(reply, await self._audit.verify())
            # one more than the limit: the reply states whether rows are missing
            others = await self._audit.newest(self._nodes.node, lambda row: matches(row, request), request.limit + 1)
        except PtyctlError as error:
            if error.code is not ErrorCode.IO_ERROR:
                raise
            reply = reply.model_copy(update={"notices": [self._missing_rows(error)]})
        return add_rows(reply, [{**row, "node": self._nodes.node} for row in reply.rows], others, request.limit)

    def _missing_rows(self, error: PtyctlError) -> str:
        """Return a notice that a reply has only the rows of this node, with the reason and the next step."""
        names = self._nodes.others_of_site()
        named = names[:MAX_NAMED_NODES] + ([f"{len(names) - MAX_NAMED_NODES} more"] if len(names) > MAX_NAMED_NODES else [])
        others = f"the other nodes of the site ({', '.join(named)})" if named else "other nodes of the site, if it has any,"
        return (
            f"only the rows of node {self._nodes.node} are included; those of {others} are missing: {error.message};"
            " ask a node that is not cut off, or check the servers with ptyctl fleet doctor"
        )

    async def approvals(self, request: ApprovalsRequest) -> ApprovalsReply:
        return await self._approvals.answer(request)

    async def _ask(self, node: str, request: ApprovalsRequest) -> ApprovalsReply:
        return await self._forward(node, lambda remote: remote.approvals(request))

    async def _ask_once(self, node: str, request: ApprovalsRequest) -> ApprovalsReply:
        try:
            return await (await self._links.controller(node)).approvals(request)
        except DaemonConnectionLost:
            raise _unreachable(node, "the link was lost during the call") from None

    async def aclose(self) -> None:
        """Close the links to other nodes, and this node's controller."""
        await cancel_and_wait(*self._publishing)
        await self._links.aclose()
        await self._own.aclose()

    # Forwarding

    def _node_of(self, session_id: str | None) -> str | None:
        """Return the other node that has a session; None for this node, and for a session that no node has."""
        if session_id is None or self._local.holds(session_id):
            return None
        return self._sessions.node_of(session_id)

    async def _call(self, session_id: str | None, call: Callable[[Controller], Awaitable[R]]) -> R:
        node = self._node_of(session_id)
        return await (call(self._own) if node is None else self._forward(node, call, session_id))

    def _check_moved(self, session_id: str | None) -> None:
        """Raise PtyctlError SESSION_MOVED if another node owns the console of an unreachable node's session."""
        row = next((row for row in self._sessions.others() if row.session_id == session_id), None)
        owner = self._claimed.owner(row.device_id) if row is not None and row.device_id is not None else None
        if owner is not None and session_id is not None and owner.session_id != session_id:
            raise moved(owner, session_id)

    async def _forward(self, node: str, call: Callable[[Controller], Awaitable[R]], session_id: str | None = None) -> R:
        """Call another node. Raises also IO_ERROR with `delivery` unknown, and CONNECT_FAILED if it is not reachable."""
        if (silent_s := self._nodes.unreachable_for(node)) is not None:
            self._check_moved(session_id)
            raise _unreachable(node, f"it has been silent for {silent_s:.0f} s")
        deadline = asyncio.get_running_loop().time() + _REPEAT_S
        sent_to: str | None = None
        was_lost = False
        outer = current_call()
        with repeatable(secrets.token_hex(16)) if outer is None or not outer.durable else nullcontext():
            while True:
                try:
                    controller = await self._links.controller(node)
                    process = self._links.process_of(node)
                    if sent_to not in (None, process):  # it does not remember the call of the process before
                        raise _unknown_delivery(node, "it was started again during the call")
                    sent_to = process
                    return await call(controller)
                except DaemonConnectionLost:
                    why = "the link was lost during the call"
                    if not was_lost:  # the call may have run for long
                        was_lost, deadline = True, asyncio.get_running_loop().time() + _REPEAT_S
                except PtyctlError as error:
                    if error.code is not ErrorCode.CONNECT_FAILED or self._links.has(node):
                        raise _of_version(node, error) from None  # the answer of the other node
                    why = error.message
                is_down = self._nodes.unreachable_for(node) is not None
                if is_down or asyncio.get_running_loop().time() >= deadline:
                    raise _unknown_delivery(node, why) if sent_to is not None else _unreachable(node, why)
                await asyncio.sleep(_REPEAT_DELAY_S)


def unknown_fields(error: PtyctlError) -> list[str]:
    """Return the fields of a request that a server does not know, if that is all that it refuses."""
    faults = error.details.get("fields")
    if error.code is not ErrorCode.INVALID_ARGUMENT or not isinstance(faults, list):
        return []
    names = [str(fault.get("field")) for fault in faults if str(fault.get("problem")).startswith(UNKNOWN_FIELD)]
    return names if len(names) == len(faults) else []


def _of_version(node: str, error: PtyctlError) -> PtyctlError:
    """Return the error of another node. This node knows all fields of the request: one that it does not know is newer."""
    if not (names := unknown_fields(error)):
        return error
    return PtyctlError(
        ErrorCode.UNSUPPORTED,
        f"node {node} runs an older version, which does not know {', '.join(names)}; nothing was done",
        {"node": node, "fields": names},
        hint="update ptyctl on that node",
    )


async def with_ticks(items: AsyncGenerator[WatchItem, None], tick_s: float) -> AsyncGenerator[WatchItem, None]:
    """Yield the items of a watch of a node that sends no ticks; repeat the last state of the terminal in a silence.

    The link of the node is watched as well: if it is lost, the watch ends.
    """
    last: WatchItem | None = None
    async with aclosing(items):
        pending = asyncio.ensure_future(anext(items, None))
        try:
            while True:
                if not (await asyncio.wait({pending}, timeout=tick_s))[0]:
                    if last is not None:
                        yield last
                    continue
                if (item := pending.result()) is None:
                    return
                if item.kind in ("begin", "terminal"):
                    last = item.model_copy(update={"kind": "terminal", "raw_offset": None, "data_b64": None})
                yield item
                pending = asyncio.ensure_future(anext(items, None))
        finally:
            await cancel_and_wait(pending)


def _no_node(name: str, device: DevicePlacement, sites: Sequence[str]) -> PtyctlError:
    """Return the error; `sites` are the other sites that the device names."""
    needed = f" with the labels {', '.join(device.node_labels)}" if device.node_labels else ""
    return PtyctlError(
        ErrorCode.CONNECT_FAILED,
        f"no node{needed} is up that takes device {name}",
        {"device": name, "node_labels": list(device.node_labels), "delivery": "not_sent"},
        hint=f"see the nodes, their labels and which are drained: {see_nodes(qualified(site, '') for site in sites)}",
    )


def _unreachable(node: str, why: str) -> PtyctlError:
    return PtyctlError(
        ErrorCode.CONNECT_FAILED,
        f"node {node} is not reachable: {why}; nothing was sent to it",
        {"node": node, "delivery": "not_sent"},
        hint=f"open a console again, which connects it on another node; see which nodes are up: {see_nodes([node])}",
    )


def _unknown_delivery(node: str, why: str) -> PtyctlError:
    return PtyctlError(
        ErrorCode.IO_ERROR,
        f"node {node} did not answer: {why}; whether it has performed the call is unknown",
        {"node": node, "delivery": "unknown"},
        hint=NextStep.READ_STATE,
    )

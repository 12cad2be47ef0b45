"""Approval requests of the whole fleet: listed and answered on any node, and used once by the node of the session."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from ptyctl.api.approvals import ApprovalEntry, ApprovalsReply, ApprovalsRequest
from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.cancellation import cancel_and_wait

from .sites import FleetNodes, see_nodes

_LOG = logging.getLogger(__name__)

#: Calls another node.
Ask = Callable[[str, ApprovalsRequest], Awaitable[ApprovalsReply]]

#: How long the other nodes may take to answer a list, or the start of a watch (seconds).
_ANSWER_S = 3.0
#: Number of watches with stored cursors.
_MAX_CURSORS = 256


class FleetApprovals:
    """Serves approval calls for all nodes. Each node checks the caller's principal for its own requests.

    A request stays on the node of its session: an answer is forwarded there, and the approval is used there, once.
    """

    def __init__(self, own: Controller, nodes: FleetNodes, ask: Ask, ask_once: Ask) -> None:
        """Create the service.

        Args:
            ask: calls another node, again if the link is lost; the node performs the call once.
            ask_once: calls another node, for a call that can be made again.
        """
        self._own = own
        self._nodes = nodes
        self._ask = ask
        self._ask_once = ask_once
        #: The nodes' cursors of a watch, by the cursor that its caller has.
        self._cursors: OrderedDict[str, dict[str, str | None]] = OrderedDict()

    async def answer(self, request: ApprovalsRequest) -> ApprovalsReply:
        """Perform a request. Raises PtyctlError as the controllers, and CONNECT_FAILED if a node does not answer."""
        if request.action == "list":
            return await self._list(request)
        if request.action == "watch":
            return await self._watch(request)
        try:
            return await self._own.approvals(request)
        except PtyctlError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                raise
            node = await self._node_of(request, error)
        return await self._ask(node, request)

    def _others(self) -> list[str]:
        return [row.node for row in self._nodes.up() if row.node != self._nodes.node]

    async def _node_of(self, request: ApprovalsRequest, not_found: PtyctlError) -> str:
        """Return the node that has a request. Raises `not_found` if all known nodes have answered."""
        query = ApprovalsRequest(action="get", approval_id=request.approval_id)
        silent = self._nodes.silent()
        for node, reply in (await self._ask_all(query)).items():
            if isinstance(reply, ApprovalsReply):
                return node
            if reply.code is not ErrorCode.NOT_FOUND:
                silent.append(node)
        if not silent:
            raise not_found
        raise PtyctlError(
            ErrorCode.CONNECT_FAILED,
            f"approval {request.approval_id} may be one of a node that did not answer: {', '.join(silent)}",
            {"approval_id": request.approval_id, "nodes": silent, "delivery": "not_sent"},
            hint=f"repeat the call; see which nodes are up: {see_nodes(silent)}",
        )

    async def _list(self, request: ApprovalsRequest) -> ApprovalsReply:
        replies = [await self._own.approvals(request)]
        answers = (await self._ask_all(request)).values()
        replies += [reply for reply in answers if isinstance(reply, ApprovalsReply)]
        return _merged(replies, request.limit)

    async def _watch(self, request: ApprovalsRequest) -> ApprovalsReply:
        """Return the changes on all nodes; wait for a change. A change that is not returned is in the next reply."""
        cursors = dict(self._cursors.get(request.since or "", {}))
        deadline = asyncio.get_running_loop().time() + request.timeout_ms / 1000
        watches = {
            asyncio.create_task(self._watch_node(node, request, cursors.get(node))): node
            for node in (self._nodes.node, *self._others())
        }
        replies: list[ApprovalsReply] = []
        try:
            pending = set(watches)
            while pending and not any(reply.approvals for reply in replies):
                rest_s = max(deadline - asyncio.get_running_loop().time(), 0.0) + _ANSWER_S
                done, pending = await asyncio.wait(pending, timeout=rest_s, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    break
                for task in done:
                    reply = task.result()
                    if reply is not None:
                        cursors[watches[task]] = reply.cursor
                        replies.append(reply)
        finally:
            await cancel_and_wait(*watches)
        reply = _merged(replies, sum(len(reply.approvals or ()) for reply in replies))
        return reply.model_copy(update={"cursor": self._remember(cursors)})

    async def _watch_node(self, node: str, request: ApprovalsRequest, since: str | None) -> ApprovalsReply | None:
        """Watch one node. Returns None for another node that does not answer; the errors of this one are the caller's."""
        watch = request.model_copy(update={"since": since})
        if node == self._nodes.node:
            return await self._own.approvals(watch)
        try:
            return await self._ask_once(node, watch)
        except PtyctlError as error:
            _LOG.info("the approvals of a node are not watched", extra={"node": node, "why": error.message})
            return None

    def _remember(self, cursors: dict[str, str | None]) -> str:
        cursor = f"fleet-{secrets.token_hex(8)}"
        self._cursors[cursor] = cursors
        if len(self._cursors) > _MAX_CURSORS:
            self._cursors.popitem(last=False)
        return cursor

    async def _ask_all(self, request: ApprovalsRequest) -> dict[str, ApprovalsReply | PtyctlError]:
        nodes = self._others()
        replies = await asyncio.gather(*(self._ask_in_time(node, request) for node in nodes))
        return dict(zip(nodes, replies, strict=True))

    async def _ask_in_time(self, node: str, request: ApprovalsRequest) -> ApprovalsReply | PtyctlError:
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await self._ask_once(node, request)
        except PtyctlError as error:
            return error
        except TimeoutError:
            return PtyctlError(ErrorCode.CONNECT_FAILED, f"node {node} did not answer within {_ANSWER_S:g} s")


def _merged(replies: list[ApprovalsReply], limit: int) -> ApprovalsReply:
    """Return the newest requests of all replies, oldest first, each once."""
    entries: dict[str, ApprovalEntry] = {entry.approval_id: entry for reply in replies for entry in reply.approvals or ()}
    ordered = sorted(entries.values(), key=lambda entry: (entry.created_at, entry.approval_id))
    return ApprovalsReply(
        approvals=ordered[len(ordered) - limit :] if len(ordered) > limit else ordered,
        answerable=any(reply.answerable for reply in replies),
        truncated=True if len(ordered) > limit or any(reply.truncated for reply in replies) else None,
        problem=next((reply.problem for reply in replies if reply.problem is not None), None),
    )

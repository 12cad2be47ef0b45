"""Two nodes of a fleet in the test process: one serves a controller, the other one is its client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from unittest.mock import patch

from fixtures.servers.nats import NatsCluster
from ptyctl.api import Controller
from ptyctl.api.approvals import ApprovalsReply, ApprovalsRequest
from ptyctl.api.session import SessionReply, SessionRequest
from ptyctl.controller.devices import DevicePlacement
from ptyctl.controller.local import LocalController
from ptyctl.fleet.controller import FleetController
from ptyctl.fleet.node import FleetNode
from ptyctl.fleet.sites import FleetNodes, FleetSessions
from tests.fleet.nodes import until


class _NoSessions:
    """A node without local sessions."""

    async def placements(self) -> dict[str, DevicePlacement]:
        return {}

    def holds(self, session_id: str) -> bool:
        return False


class _ClientNode(FleetController):
    """Opens sessions on the other node, and lists only that node's. What needs no session is the other node's too.

    The other node is `own` for these calls. Calls on a session are forwarded, because the open has named its node.
    """

    async def _nodes_for(self, request: SessionRequest) -> list[str]:
        return ["owner"]

    async def session(self, request: SessionRequest) -> SessionReply:
        if request.action == "list":
            return await self._own.session(request)
        return await super().session(request)

    async def approvals(self, request: ApprovalsRequest) -> ApprovalsReply:
        return await self._own.approvals(request)


@asynccontextmanager
async def forwarded(local: LocalController, cluster: NatsCluster, site: str) -> AsyncIterator[Controller]:
    """A FleetController on another node than the sessions of `local`; leaving it leaves `local` as it is.

    Each controller of a test has its own site: in one site, either node named `owner` may answer the request for a link.
    """
    async with AsyncExitStack() as stack:
        nodes = []
        for name in ("owner", "client"):
            connection = await cluster.connect()
            stack.push_async_callback(connection.close)
            nodes.append(await stack.enter_async_context(FleetNode(connection, site, name)))
        owner, client = nodes
        with patch.object(owner.ownership, "use_state"):  # it would mark the state directory, and `local` is no node
            await owner.serve(local, local)
        await until(lambda: client.nodes.is_up("owner"))
        own = await client.links.controller("owner")
        yield _ClientNode(
            own,
            _NoSessions(),
            client.links,
            FleetNodes(client.nodes),
            FleetSessions(client.sessions),
            client.claimed,
            owner.publish,
        )

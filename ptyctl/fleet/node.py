"""One node of a fleet: announces itself and its sessions, claims consoles, and serves the calls of the other nodes.

All waits of its start for the servers have one time limit (`StartBudget`).
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, TypeVar

from nats.aio.client import Client

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.cancellation import cancel_and_wait
from ptyctl.clock import boot_time
from ptyctl.controller.call_memory import CallMemory
from ptyctl.controller.local import LocalController
from ptyctl.core import json_lines
from ptyctl.daemon.rpc import RpcConnection
from ptyctl.session.clients import user
from ptyctl.session.session import Session
from ptyctl.version import __version__

from .audit_stream import CHECK_S as AUDIT_CHECK_S
from .audit_stream import AuditReader, AuditSender
from .buckets import CLAIMS, LEASES, NODES, POLICY, RETRY_S, SESSIONS, Bucket, check_format, open_bucket
from .claim_directory import ClaimDirectory
from .console_claims import ConsoleClaims
from .control import ControlListener, RequestVerifier, control_subject
from .controller import FleetController, OwnController
from .credentials import ADMIN, Credentials, connect
from .directory import NodeDirectory, NodeRow, SessionDirectory
from .drain import Drain
from .fleet_policy import FleetPolicy
from .link import LinkListener, NodeLinks, rpc_subject
from .node_lease import LeaseDirectory, LeaseTimes, NodeLease
from .session_claims import SessionClaims
from .sites import CHECK_S as HUB_CHECK_S
from .sites import FleetNodes, FleetSessions, OtherSites
from .standby import CHECK_S, Standby

_LOG = logging.getLogger(__name__)

#: Interval at which a node looks for changes of its sessions to publish (seconds).
_PUBLISH_S = 1.0
#: Interval at which a node looks for removed transcripts (seconds).
_TRANSCRIPTS_S = 5.0
#: Interval at which a node checks that its servers still report changes (seconds).
_CHECK_S = 1.0
#: How long all waits of a start may take together (seconds): a cluster drops requests until it has a leader.
START_S = 60.0
#: Waits of at least this time are named in the error (seconds).
_NAMED_WAIT_S = 1.0
_SEE_SERVERS = "check the servers with ptyctl fleet doctor, and see their logs"
_T = TypeVar("_T")


class FleetNode:
    """The fleet membership of a daemon. Enter it (`async with`), create the controller with `ownership`, then call `serve`."""

    def __init__(
        self,
        client: Client,
        site: str,
        node: str,
        *,
        replicas: int = 1,
        times: LeaseTimes | None = None,
        labels: tuple[str, ...] = (),
        hub: bool = False,
        ca: Path | None = None,
        budget: StartBudget | None = None,
    ) -> None:
        """Create the node.

        Args:
            client: a connection to the site's NATS servers.
            node: the name of this node, of lower-case letters, digits and hyphens.
            replicas: copies of the buckets, if this node creates them: the number of servers, at most 3.
            hub: whether the site is one of several.
            ca: file with the certificate of the fleet's authority; without it, no policy of the fleet and no request of the
                administrator is accepted.
            budget: how long the start may wait for the servers.
        """
        self._client = client
        self._site = site
        self._node = node
        self._replicas = replicas
        self._times = times or LeaseTimes()
        self._budget = budget or StartBudget()
        self._labels = labels
        self._started_at = time.time()
        self._tasks: list[asyncio.Task[None]] = []
        self._local: LocalController | None = None
        self._memory: CallMemory | None = None
        self._has_ended = False
        self._listener: LinkListener | None = None
        self._control: ControlListener | None = None
        self._scan_at = float("-inf")
        self.drain: Drain | None = None
        self._standby: Standby | None = None
        self.links = NodeLinks(client, site, node)
        self._ca = ca
        self.policy: FleetPolicy | None = None
        self.others = OtherSites(client, site) if hub else None

    async def __aenter__(self) -> Self:
        """Open the buckets. Raises PtyctlError IO_ERROR, UNSUPPORTED."""
        await self._budget.wait("the buckets of the site", lambda: check_format(self._client.jetstream()), hint=_SEE_SERVERS)
        leases = LeaseDirectory(await self._bucket(LEASES, self._times.ttl_s), self._times)
        self.claimed = ClaimDirectory(await self._bucket(CLAIMS), leases)
        self.nodes = NodeDirectory(await self._bucket(NODES, self._times.ttl_s), self._node)
        self.sessions = SessionDirectory(await self._bucket(SESSIONS), self._node)
        self.claims = ConsoleClaims(NodeLease(leases.bucket, self._node, self._times), self.claimed)
        self.ownership = SessionClaims(self.claims, self.claimed, self._times)
        for follow in (leases.follow, self.claimed.follow, self.nodes.follow, self.sessions.follow):
            self._start(self._follow(follow))
        try:
            await self._budget.wait(
                f"the claims of site {self._site}",
                self.claimed.wait_until_complete,
                hint=f"{_SEE_SERVERS}; use the files of one ptyctl fleet init for servers and nodes",
            )
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        if self._listener is not None:
            with suppress(PtyctlError):  # it expires
                await self.nodes.withdraw()
            await self._listener.aclose()
        if self._control is not None:
            await self._control.aclose()
        if self._standby is not None:
            await self._standby.aclose()
        await self.links.aclose()
        if self.others is not None:
            await self.others.aclose()
        await self.ownership.aclose()
        await self.claims.aclose()
        await cancel_and_wait(*self._tasks)

    def limits_in_use(self) -> dict[str, int]:
        """Return the use of the fleet limits, by name."""
        return {} if self._memory is None else self._memory.limits_in_use()

    async def serve(self, own: OwnController, local: LocalController) -> FleetController:
        """Join the fleet; return the controller for this node's clients.

        Args:
            own: checks and serves requests on this node's sessions.
            local: the controller behind it.
        """
        self._local = local
        self._memory = memory = CallMemory(local.settings.limits.use["max_forwarded_calls"])
        self.policy = policy = FleetPolicy(
            local.settings.state_dir, self._ca, ADMIN, local.policies.use, local.audit_log.record
        )
        await asyncio.to_thread(policy.restore)
        await self.ownership.use_state(local.settings.state_dir)
        policies = await self._bucket(POLICY)
        self._start(self._follow(lambda: policy.follow(policies)))
        await self._wait_for_policy(policy)

        async def serve_link(node: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await RpcConnection(own, reader, writer, user(), memory=memory).run()

        subject = rpc_subject(self._site, self._node)
        self._listener = LinkListener(self._client, subject, serve_link, json_lines.MAX_LINE_BYTES)
        await self._listener.start()
        nodes, sessions = FleetNodes(self.nodes, self.others), FleetSessions(self.sessions, self.others)
        fleet = FleetController(
            own, local, self.links, nodes, sessions, self.claimed, self.publish, AuditReader(self._client, self._site)
        )
        sender = AuditSender(self._client, self._site, self._node, local.audit_tail().next, self._replicas)
        if self.others is not None:
            self.ownership.admit_only(self._belongs_here)
            self._start(self._repeat_now(self.others.check, HUB_CHECK_S))
        self.drain = Drain(self._node, self.claims, self.ownership, self.nodes, local.placements, fleet.open_on)
        self._standby = Standby(self._node, self.claimed, self.nodes, local.placements, local.given_up, own.session)
        actions = {"drain": self._drain, "undrain": self._undrain}
        verifier = RequestVerifier(self._ca, self._site, self._node)
        self._control = ControlListener(self._client, control_subject(self._site, self._node), verifier, actions)
        await self._control.start()
        with suppress(PtyctlError):  # while the servers elect a leader; it is announced again soon
            await self._announce()
        self._start(self._repeat(self._announce, self._times.renew_s))
        self._start(self._repeat(self.publish, _PUBLISH_S))
        self._start(self._repeat(sender.send, AUDIT_CHECK_S))
        self._start(self._repeat(self._standby.check, CHECK_S))
        return fleet

    async def _wait_for_policy(self, policy: FleetPolicy) -> None:
        """Wait for the fleet's policy, so that no call is judged by an older one. Without an answer, use the stored policy.

        Raises:
            PtyctlError: IO_ERROR if the servers do not report it, and none is stored.
        """
        try:
            await self._budget.wait(f"the policy of site {self._site}", policy.complete.wait, hint=_SEE_SERVERS)
        except PtyctlError:
            if not policy.number:
                raise
            _LOG.warning("NATS does not report the fleet's policy: the stored one is used", extra={"number": policy.number})

    async def _drain(self) -> dict[str, Any]:
        """Accept no new consoles, and hand over the consoles of this node."""
        assert self.drain is not None
        self.drain.refuse()
        await self._announce()
        moved = await self.drain.hand_over_all()
        await self._announce()
        return {"node": self._node, "consoles": [asdict(console) for console in moved]}

    async def _belongs_here(self, session: Session) -> None:
        """Check that a console of the inventory names this site: two sites could own it otherwise.

        Raises:
            PtyctlError: UNSUPPORTED; that of the inventory.
        """
        assert self._local is not None
        device = session.spec.device
        placement = (await self._local.placements()).get(device) if device is not None else None
        if placement is not None and self._site not in placement.node_labels:
            raise PtyctlError(
                ErrorCode.UNSUPPORTED,
                f"console {placement.device_id} does not name site {self._site}, so that two sites could own it",
                {"device_id": placement.device_id, "site": self._site},
                hint="add the name of its site to node_labels in the inventory",
            )

    async def _undrain(self) -> dict[str, Any]:
        assert self.drain is not None
        self.drain.undo()
        await self._announce()
        return {"node": self._node}

    async def publish(self) -> None:
        """Publish the changed rows of this node's sessions; remove those of removed transcripts within `_TRANSCRIPTS_S`."""
        assert self._local is not None
        entries, transcripts = self._local.entries(), None
        if self.sessions.ended(entries) or boot_time() >= self._scan_at:
            transcripts = await asyncio.to_thread(self._local.transcripts)
            self._scan_at = boot_time() + _TRANSCRIPTS_S
        await self.sessions.publish(entries, transcripts)

    async def _announce(self) -> None:
        assert self._local is not None
        draining = self.drain is not None and self.drain.is_draining
        sessions = len(self._local.entries())
        row = NodeRow(
            node=self._node,
            version=__version__,
            address=socket.gethostname(),
            started_at=self._started_at,
            sessions=sessions,
            labels=self._labels,
            draining=draining,
            site=self._site,
            hub_cut_since=self.others.cut_since if self.others is not None else None,
            policy=self.policy.number if self.policy is not None else 0,
            policy_problem=self.policy.problem if self.policy is not None else None,
        )
        await self.nodes.announce(row)

    async def _bucket(self, name: str, ttl_s: float | None = None) -> Bucket:
        """Open a bucket; try again while the servers do not answer. Raises PtyctlError IO_ERROR, UNSUPPORTED."""
        return await self._budget.wait(
            f"the bucket {name}",
            lambda: open_bucket(self._client.jetstream(), name, replicas=self._replicas, ttl_s=ttl_s),
            hint=_SEE_SERVERS,
        )

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _follow(self, follow: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Follow a bucket; begin again after each loss of the servers, which forget who follows."""
        while True:
            following, reconnects = asyncio.create_task(follow()), self._client.stats["reconnects"]
            try:
                while not following.done() and self._client.stats["reconnects"] == reconnects:
                    await asyncio.wait({following}, timeout=_CHECK_S)
            finally:
                (error,) = await cancel_and_wait(following)
            if isinstance(error, Exception):
                _LOG.warning("a bucket is not followed", extra={"why": str(error) or type(error).__name__})
                await asyncio.sleep(_CHECK_S)

    async def _repeat_now(self, action: Callable[[], Coroutine[Any, Any, None]], every_s: float) -> None:
        await action()
        await self._repeat(action, every_s)

    async def _repeat(self, action: Callable[[], Coroutine[Any, Any, None]], every_s: float) -> None:
        """Perform an action periodically. Failures while NATS does not answer are logged only, so that sessions continue."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await action()
            except PtyctlError as error:
                _LOG.warning("a periodic action of the fleet failed", extra={"why": error.message})
            except Exception:  # the node would vanish for the others without a report  # noqa: BLE001
                _LOG.exception("the fleet was not informed")


class Membership:
    """A daemon's membership in a fleet: implements `ptyctl.daemon.main.Fleet` with the file of a node."""

    def __init__(self, credentials: Credentials, times: LeaseTimes | None = None) -> None:
        self._credentials = credentials
        self._times = times
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> FleetNode:
        """Connect, and open the buckets. Raises PtyctlError."""
        of, budget = self._credentials, StartBudget()
        async with AsyncExitStack() as stack:
            client = await budget.wait(
                f"the NATS servers {', '.join(of.servers)}",
                lambda: connect(of, wait_s=math.inf),  # the budget ends it
                hint="start them with the configuration that ptyctl fleet init wrote",
            )
            stack.push_async_callback(client.close)
            node = FleetNode(
                client,
                of.site,
                of.node,
                replicas=of.replicas,
                times=self._times,
                labels=of.labels,
                hub=of.hub,
                ca=of.ca,
                budget=budget,
            )
            await stack.enter_async_context(node)
            self._stack = stack.pop_all()
        return node

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()


class StartBudget:
    """The remaining time for the servers during a start. The time of the node's recovery does not count."""

    def __init__(self, total_s: float = START_S) -> None:
        self.rest_s = self._total_s = total_s
        self._waits: list[str] = []

    async def wait(self, what: str, attempt: Callable[[], Awaitable[_T]], *, hint: str) -> _T:
        """Return the result of an attempt, which is repeated after IO_ERROR while the budget lasts.

        Args:
            what: what the node waits for, for the error.

        Raises:
            PtyctlError: IO_ERROR if the budget is used up; the other errors of the attempt.
        """
        loop, why = asyncio.get_running_loop(), "no answer"
        began = loop.time()
        try:
            async with asyncio.timeout(self.rest_s):
                while True:
                    try:
                        return await attempt()
                    except PtyctlError as error:
                        if error.code is not ErrorCode.IO_ERROR:
                            raise
                        why = error.message
                        _LOG.warning("the node waits for its servers", extra={"for": what, "why": why})
                    await asyncio.sleep(RETRY_S)
        except TimeoutError:
            earlier = f"; before it, {', '.join(self._waits)}" if self._waits else ""
            raise PtyctlError(
                ErrorCode.IO_ERROR,
                f"the node does not start: waiting for its servers took {self._total_s:.0f} s,"
                f" at last for {what}: {why}{earlier}",
                hint=hint,
            ) from None
        finally:
            took_s = loop.time() - began
            self.rest_s = max(0.0, self.rest_s - took_s)
            if took_s >= _NAMED_WAIT_S:
                self._waits.append(f"{what} took {took_s:.0f} s")

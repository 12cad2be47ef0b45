"""The planned drain of a node: it accepts no new consoles, and hands its consoles over to other nodes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.session import SessionReply, SessionRequest
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.session.clients import serving_connection, user
from ptyctl.session.session import Session

from .buckets import ConflictError
from .console_claims import ConsoleClaims, HeldClaim
from .directory import NodeDirectory, find_candidates
from .session_claims import SessionClaims
from .standby import Placements

_LOG = logging.getLogger(__name__)

#: How long a running command may take to end before the line of its console is closed (seconds).
_COMMAND_S = 0.5
_NOT_A_DEVICE = "the console was not opened as a device of the inventory: open it again"

#: Opens a device on another node.
OpenOn = Callable[[str, SessionRequest], Awaitable[SessionReply]]


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of a drain for one console.

    Attributes:
        node, session_id: the new owner and its session; None if the console has no owner now.
        took_ms: how long nobody could type on the console.
        why: why no other node has it.
    """

    device_id: str
    node: str | None
    session_id: str | None
    took_ms: int
    why: str | None = None


class Drain:
    """Drains this node, and takes that back. A node that was started again is not drained."""

    def __init__(
        self,
        node: str,
        claims: ConsoleClaims,
        ownership: SessionClaims,
        nodes: NodeDirectory,
        placements: Placements,
        open_on: OpenOn,
    ) -> None:
        self._node = node
        self._claims = claims
        self._ownership = ownership
        self._nodes = nodes
        self._placements = placements
        self._open_on = open_on
        self._running = asyncio.Lock()
        self.is_draining = False

    def refuse(self) -> None:
        """Stop accepting new consoles: each further open raises CONNECT_FAILED."""
        self.is_draining = True
        self._ownership.refuse(
            PtyctlError(
                ErrorCode.CONNECT_FAILED,
                f"node {self._node} is drained, and takes no new console",
                {"node": self._node, "delivery": "not_sent"},
                hint="open it on another node",
            )
        )

    def undo(self) -> None:
        """Take new consoles again."""
        self.is_draining = False
        self._ownership.refuse(None)

    async def hand_over_all(self) -> list[Moved]:
        """Hand over the consoles that this node owns; return the result for each."""
        async with self._running:
            return list(await asyncio.gather(*(self._hand_over(*console) for console in self._ownership.held())))

    async def _hand_over(self, session: Session, held: HeldClaim) -> Moved:
        with suppress(TimeoutError):
            async with asyncio.timeout(_COMMAND_S):
                while session.runs.current is not None:
                    await session.signal.wait(asyncio.get_running_loop().time() + _COMMAND_S)
        started = time.monotonic()
        lock = await self._ownership.close_line(
            session, held, f"node {self._node} is drained; its console moves to another node"
        )
        why = _NOT_A_DEVICE if session.spec.device is None else "no other node that is up may reach it"
        try:
            for node in await self._targets(session):
                try:
                    await self._claims.hand_over(held, node, lock)
                    reply = await self._open(node, session)
                except PtyctlError as error:
                    why = f"node {node}: {error.message}"
                    _LOG.warning("a console was not handed over", extra={"device_id": held.device_id, "why": why})
                    continue
                assert reply.session_id is not None
                self._claims.lost_to(held, replace(held.claim, node=node, session_id=reply.session_id))
                return Moved(held.device_id, node, reply.session_id, round((time.monotonic() - started) * 1000))
        except ConflictError:
            why = "another node has taken it meanwhile"
        await self._claims.release(held)
        return Moved(held.device_id, None, None, round((time.monotonic() - started) * 1000), why)

    async def _targets(self, session: Session) -> list[str]:
        """Return the nodes that can take over the console of a session; none without a device, because its login is unknown."""
        device = session.spec.device
        if device is None:
            return []
        try:
            placement = (await self._placements()).get(device)
        except PtyctlError as error:  # the inventory has become faulty
            _LOG.warning("a console cannot be handed over", extra={"device": device, "why": error.message})
            return []
        if placement is None:
            return []
        return find_candidates([row for row in self._nodes.up() if row.node != self._node], placement.node_labels)

    async def _open(self, node: str, session: Session) -> SessionReply:
        """Open the device on its new owner, on behalf of the principal that opened it here."""
        name = session.spec.opened_by
        opener = user() if name in (None, user().name) else Principal(str(name), Kind.AGENT, Role.OPERATOR)
        with serving_connection(opener):
            return await self._open_on(node, SessionRequest(action="open", device=session.spec.device))

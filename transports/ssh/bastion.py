"""The connections of many sessions: each has one to its target, and all that go through a jump host share the one to it."""

from __future__ import annotations

import asyncio

import asyncssh

from transports.errors import ChannelClosed

from .attempt import Attempt, Trail
from .connect import connect
from .endpoint import Endpoint
from .tunnel import Tunnel

Route = tuple[Endpoint, ...]


class Connection:
    """A connection that is logged in, and its hold on the jump host that it goes through."""

    def __init__(self, ssh: asyncssh.SSHClientConnection, attempt: Attempt, bastion: Bastion | None) -> None:
        self.ssh = ssh
        self.attempt = attempt
        self._bastion = bastion
        self._closed = False

    def close(self) -> None:
        """Begins to close it, and leaves the jump host."""
        if self._closed:
            return
        self._closed = True
        self.ssh.close()
        if self._bastion is not None:
            self._bastion.leave()

    async def wait_closed(self) -> None:
        """Waits until its socket, and those of jump hosts that nobody else uses, are closed."""
        await self.ssh.wait_closed()
        if self._bastion is not None:
            await self._bastion.settled()


class SshConnections:
    """The jump hosts that are connected now. One object serves all sessions that may share them, in one event loop."""

    def __init__(self) -> None:
        self._bastions: dict[Route, Bastion] = {}

    async def connect(self, route: Route, keepalive_s: float, trail: Trail) -> Connection:
        """A connection to the last endpoint of the route, through those before it.

        Raises:
            InvalidOption, ConnectTimeout, ConnectFailed, AuthFailed, HostKeyMismatch: of the target, or of a jump host.
        """
        bastion = await self._join(route[:-1], keepalive_s, trail) if len(route) > 1 else None
        tunnel = bastion.tunnel if bastion is not None else None
        try:
            ssh, attempt = await connect(route[-1], trail, keepalive_s=keepalive_s, tunnel=tunnel)
        except BaseException:
            if bastion is not None:
                bastion.leave()
                await bastion.settled()
            raise
        return Connection(ssh, attempt, bastion)

    async def _join(self, route: Route, keepalive_s: float, trail: Trail) -> Bastion:
        bastion = self._bastions.get(route)
        if bastion is None:
            bastion = self._bastions[route] = Bastion(self, route, keepalive_s)
        await bastion.join(trail)
        return bastion

    def forget(self, bastion: Bastion) -> None:
        """The next session that wants this jump host makes a new connection. Those that use the old one keep it."""
        if self._bastions.get(bastion.route) is bastion:
            del self._bastions[bastion.route]

    async def aclose(self) -> None:
        """Closes every jump host's connection, whoever uses it."""
        bastions = list(self._bastions.values())
        for bastion in bastions:
            bastion.close()
        for bastion in bastions:
            await bastion.settled()


class Bastion:
    """One jump host's connection: opened once for all who wait for it, closed when the last one has left.

    When it breaks, so do the connections through it: all leave, and the next one who comes finds none and makes a new one.
    """

    def __init__(self, pool: SshConnections, route: Route, keepalive_s: float) -> None:
        self.route = route
        self._pool = pool
        self._users = 0
        self._closing = False
        self._trail = Trail()
        self._connection: Connection | None = None
        self._tunnel: Tunnel | None = None
        self._opening = asyncio.ensure_future(self._open(keepalive_s))
        # Whoever waits gets the failure; when all have gone, it is no news to anybody.
        self._opening.add_done_callback(lambda opening: opening.cancelled() or opening.exception())

    @property
    def tunnel(self) -> Tunnel:
        """What to connect through, once `join` has returned."""
        assert self._tunnel is not None
        return self._tunnel

    async def _open(self, keepalive_s: float) -> None:
        self._connection = await self._pool.connect(self.route, keepalive_s, self._trail)
        self._tunnel = Tunnel(self._connection.ssh, self.route[-1].label)

    async def join(self, trail: Trail) -> None:
        """Waits until the connection is there. Whoever has joined must leave; a join that raises has left.

        Raises:
            As SshConnections.connect, or ChannelClosed when the pool is closed meanwhile.
        """
        self._users += 1
        trail.follow(self._trail)
        try:
            await asyncio.shield(self._opening)
        except BaseException as error:
            self.leave()
            await self.settled()
            if isinstance(error, asyncio.CancelledError) and not _is_cancelled():
                raise ChannelClosed("the SSH connections were closed while this one was being opened") from None
            raise

    def leave(self) -> None:
        """Gives up one use."""
        self._users -= 1
        if self._users == 0:
            self.close()

    def close(self) -> None:
        """Begins to close the connection, or stops opening it."""
        self._closing = True
        self._pool.forget(self)
        self._opening.cancel()
        if self._connection is not None:
            self._connection.close()

    async def settled(self) -> None:
        """Waits until nothing is left of it, if it is being closed."""
        if not self._closing:
            return
        await asyncio.wait([self._opening])
        if self._connection is not None:
            await self._connection.wait_closed()
        if self._tunnel is not None:
            await self._tunnel.settled()


def _is_cancelled() -> bool:
    """Whether the running task itself was cancelled, rather than what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

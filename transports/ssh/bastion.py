"""Jump hosts (bastions): the connections to them, shared by all sessions that use the same route."""

from __future__ import annotations

import asyncio
from asyncio.trsock import TransportSocket

import asyncssh

from transports.errors import ChannelClosed

from .attempt import Attempt, Trail
from .connection import Tunnel, connect
from .endpoint import SshEndpoint

Route = tuple[SshEndpoint, ...]


class SshConnection:
    """A logged-in connection, and its use of a jump host."""

    def __init__(self, ssh: asyncssh.SSHClientConnection, attempt: Attempt, bastion: BastionConnection | None) -> None:
        self.ssh = ssh
        self.attempt = attempt
        self._bastion = bastion
        self._closed = False

    @property
    def endpoint(self) -> SshEndpoint:
        """Where it leads to."""
        return self.attempt.endpoint

    @property
    def tcp(self) -> TransportSocket | None:
        """The socket to the server; None for a connection through a jump host or a ProxyCommand."""
        if self._bastion is not None or self.attempt.proxy is not None:
            return None
        tcp: TransportSocket | None = self.ssh.get_extra_info("socket")
        return tcp

    def pause_reading(self) -> None:
        """Stop reading from the server. Data that was already read is still processed."""
        if (transport := self.ssh._transport) is not None:
            transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue reading from the server."""
        if (transport := self.ssh._transport) is not None:
            transport.resume_reading()

    def close(self) -> None:
        """Start closing the connection, and release the jump host."""
        if self._closed:
            return
        self._closed = True
        self.ssh.close()
        if self._bastion is not None:
            self._bastion.release()

    async def wait_closed(self) -> None:
        """Wait until its socket, and the sockets of jump hosts without other users, are closed."""
        await self.ssh.wait_closed()
        if self._bastion is not None:
            await self._bastion.wait_closed()


class SshConnectionPool:
    """The current connections to jump hosts, for all sessions that may share them; belongs to one event loop."""

    def __init__(self) -> None:
        self._bastions: dict[Route, BastionConnection] = {}

    async def connect(self, route: Route, keepalive_s: float, trail: Trail) -> SshConnection:
        """Connect to the last endpoint of the route through the previous endpoints.

        Raises:
            InvalidOption, ConnectTimeout, ConnectFailed, AuthFailed, HostKeyMismatch: of the target or of a jump host.
        """
        bastion = await self._acquire(route[:-1], keepalive_s, trail) if len(route) > 1 else None
        try:
            ssh, attempt = await connect(route[-1], trail, keepalive_s=keepalive_s, tunnel=bastion.tunnel if bastion else None)
        except BaseException:
            if bastion is not None:
                bastion.release()
                await bastion.wait_closed()
            raise
        return SshConnection(ssh, attempt, bastion)

    async def _acquire(self, route: Route, keepalive_s: float, trail: Trail) -> BastionConnection:
        bastion = self._bastions.get(route)
        if bastion is None:
            bastion = self._bastions[route] = BastionConnection(self, route, keepalive_s)
        await bastion.acquire(trail)
        return bastion

    def remove(self, bastion: BastionConnection) -> None:
        """Remove a connection from the pool; its current users keep it, and the next session opens a new one."""
        if self._bastions.get(bastion.route) is bastion:
            del self._bastions[bastion.route]

    async def aclose(self) -> None:
        """Close all connections to jump hosts, including those in use."""
        bastions = list(self._bastions.values())
        for bastion in bastions:
            bastion.close()
        for bastion in bastions:
            await bastion.wait_closed()


class BastionConnection:
    """The reference-counted connection to one jump host: opened by the first user, closed after the last one.

    When it breaks, so do the connections through it: all users release it, and the next session opens a new one.
    """

    def __init__(self, pool: SshConnectionPool, route: Route, keepalive_s: float) -> None:
        self.route = route
        self._pool = pool
        self._users = 0
        self._closing = False
        self._trail = Trail()
        self._connection: SshConnection | None = None
        self._tunnel: Tunnel | None = None
        self._opening = asyncio.ensure_future(self._open(keepalive_s))
        # Retrieves the exception: without a waiter asyncio would log it as never retrieved.
        self._opening.add_done_callback(lambda opening: opening.cancelled() or opening.exception())

    @property
    def tunnel(self) -> Tunnel:
        """The tunnel through the jump host, available after `acquire`."""
        assert self._tunnel is not None
        return self._tunnel

    async def _open(self, keepalive_s: float) -> None:
        self._connection = await self._pool.connect(self.route, keepalive_s, self._trail)
        self._tunnel = Tunnel(self._connection.ssh, self.route[-1].label)

    async def acquire(self, trail: Trail) -> None:
        """Add a user, and wait until the connection is open. A call that raises has released it again.

        Raises:
            As SshConnectionPool.connect, or ChannelClosed if the pool is closed during the wait.
        """
        self._users += 1
        trail.follow(self._trail)
        try:
            await asyncio.shield(self._opening)
        except BaseException as error:
            self.release()
            await self.wait_closed()
            if isinstance(error, asyncio.CancelledError) and not _is_cancelled():
                raise ChannelClosed("the SSH connections were closed while this one was being opened") from None
            raise

    def release(self) -> None:
        """Remove a user; close the connection after the last one."""
        self._users -= 1
        if self._users == 0:
            self.close()

    def close(self) -> None:
        """Start closing the connection, or cancel its opening."""
        self._closing = True
        self._pool.remove(self)
        self._opening.cancel()
        if self._connection is not None:
            self._connection.close()

    async def wait_closed(self) -> None:
        """Wait until all resources are released. Return at once if the jump host is not being closed."""
        if not self._closing:
            return
        await asyncio.wait([self._opening])
        if self._connection is not None:
            await self._connection.wait_closed()
        if self._tunnel is not None:
            await self._tunnel.wait_closed()


def _is_cancelled() -> bool:
    """Return whether the current task was cancelled, rather than the future that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

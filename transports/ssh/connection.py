"""One SSH connection to one endpoint, direct or through a tunnel in another connection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncssh

from .algorithms import transport_algorithms
from .attempt import Attempt, SshClient, Trail
from .endpoint import SshEndpoint
from .errors import translate
from .host_keys import HostKeyCheck
from .host_settings import asyncssh_arguments
from .login_keys import login_keys
from .proxy_command import ProxyCommand
from .socket_input import TUNNEL_PACKET_BYTES

#: Number of unanswered keepalives after which the connection is considered dead, as in ssh(1).
_KEEPALIVE_MISSES = 3

#: Fixed arguments. Compression would let a few bytes exhaust the memory. GSSAPI, X.509 and host-based login are not offered.
#: Agent and X11 are not forwarded into a terminal that several users share. Agent keys and certificates are in `client_keys`.
#: The caller sets the timeout.
_FIXED_ARGUMENTS: dict[str, Any] = {
    "agent_path": None,
    "agent_forwarding": False,
    "client_certs": [],
    "compression_algs": None,
    "connect_timeout": None,
    "gss_host": None,
    "host_based_auth": False,
    "login_timeout": 0,
    "utf8_decode_errors": "replace",
    "x11_forwarding": False,
    "x509_trusted_certs": None,
    "x509_trusted_cert_paths": [],
}


class Tunnel:
    """Opens connections through a jump host, as direct-tcpip channels (RFC 4254 7.2).

    A channel request cannot be withdrawn (RFC 4254). If the open is cancelled, the request continues in the background and the
    resulting channel is closed; asyncssh would leave it open until the connection to the jump host ends.
    """

    def __init__(self, connection: asyncssh.SSHClientConnection, label: str) -> None:
        self._connection = connection
        self.label = label
        self._abandoned: set[asyncio.Task[Any]] = set()

    async def create_connection(self, session_factory: Any, host: str, port: int) -> Any:
        """Open a channel and its session; called by asyncssh."""
        opening = asyncio.ensure_future(
            self._connection.create_connection(session_factory, host, port, max_pktsize=TUNNEL_PACKET_BYTES)
        )
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._abandoned.add(opening)
            opening.add_done_callback(self._close_late)
            raise

    def _close_late(self, opening: asyncio.Task[Any]) -> None:
        self._abandoned.discard(opening)
        if not opening.cancelled() and opening.exception() is None:
            channel, _ = opening.result()
            channel.abort()

    async def wait_closed(self) -> None:
        """Wait for the abandoned requests. Call it after the connection was closed, which ends them."""
        if self._abandoned:
            await asyncio.wait(self._abandoned)


async def connect(
    endpoint: SshEndpoint, trail: Trail, *, keepalive_s: float, tunnel: Tunnel | None = None
) -> tuple[asyncssh.SSHClientConnection, Attempt]:
    """Connect and log in, without a timeout; return the connection and its attempt.

    Raises:
        InvalidOption, ConnectTimeout, ConnectFailed, AuthFailed, HostKeyMismatch.
    """
    host_keys = await asyncio.to_thread(HostKeyCheck, endpoint)
    async with login_keys(endpoint) as keys:
        while True:
            proxy = _proxy(endpoint) if tunnel is None else None
            attempt = Attempt(endpoint, host_keys, via=tunnel.label if tunnel else None, keys=len(keys), proxy=proxy)
            trail.follow(attempt)
            try:
                return await _connect(attempt, keys, keepalive_s, tunnel), attempt
            except Exception as error:  # asyncssh lets exceptions caused by a hostile server through
                if not isinstance(error, asyncssh.HostKeyNotVerifiable):
                    raise translate(error, attempt) from error
                if host_keys.must_examine():
                    await asyncio.to_thread(host_keys.examine)
                elif not host_keys.may_request_another():
                    raise translate(error, attempt) from error


def _proxy(endpoint: SshEndpoint) -> ProxyCommand | None:
    if endpoint.proxy_command is None or endpoint.programs is None:
        return None
    return ProxyCommand(endpoint.proxy_command, endpoint.programs)


async def _connect(
    attempt: Attempt, keys: Sequence[asyncssh.SSHKeyPair], keepalive_s: float, tunnel: Tunnel | None
) -> asyncssh.SSHClientConnection:
    endpoint = attempt.endpoint
    settings = endpoint.settings
    return await asyncssh.connect(
        endpoint.host,
        endpoint.port,
        tunnel=tunnel or attempt.proxy,  # asyncssh only calls its create_connection
        config=None,
        client_factory=lambda: SshClient(attempt),
        username=endpoint.username,
        client_keys=list(keys) or None,
        known_hosts=attempt.host_keys.trusted(),
        server_host_key_algs=attempt.host_keys.algorithms(),
        keepalive_interval=keepalive_s,
        keepalive_count_max=_KEEPALIVE_MISSES,
        host_key_alias=settings.known_hosts_name,
        **_login_methods(endpoint),
        **asyncssh_arguments(dict(settings.network)),
        **transport_algorithms(endpoint.legacy_algorithms, dict(settings.algorithms)),
        **_FIXED_ARGUMENTS,
    )


def _login_methods(endpoint: SshEndpoint) -> dict[str, Any]:
    """Enable all methods if credentials were given, whatever the configuration prefers.

    All of them, because a server lists its methods only to a client that accepts any.
    """
    auth = endpoint.auth
    if auth.method == "auto" and auth.password is None and auth.one_time_code is None and not auth.names_a_key:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in endpoint.settings.login}
    methods = ["publickey", "keyboard-interactive", "password"]
    return {"preferred_auth": methods, "public_key_auth": True, "kbdint_auth": True, "password_auth": True}

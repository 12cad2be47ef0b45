"""One SSH connection to one endpoint, straight or through another connection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncssh

from .algorithms import transport_algorithms
from .attempt import Attempt, Trail
from .client import Client
from .endpoint import Endpoint
from .errors import translate
from .hostkeys import HostKeyCheck
from .keys import login_keys
from .options import Auth
from .tunnel import Tunnel

#: Unanswered keepalives after which the far end is taken for dead, as in ssh(1).
_KEEPALIVE_MISSES = 3


async def connect(
    endpoint: Endpoint,
    trail: Trail,
    *,
    keepalive_s: float,
    tunnel: Tunnel | None = None,
) -> tuple[asyncssh.SSHClientConnection, Attempt]:
    """A connection that is logged in, and what it told on the way. It has no time limit of its own.

    Raises:
        InvalidOption, ConnectTimeout, ConnectFailed, AuthFailed, HostKeyMismatch.
    """
    host_keys = await asyncio.to_thread(HostKeyCheck, endpoint)
    async with login_keys(endpoint) as keys:
        while True:
            attempt = Attempt(endpoint, host_keys, via=tunnel.label if tunnel else None, keys=len(keys))
            trail.follow(attempt)
            try:
                return await _connect(attempt, keys, keepalive_s, tunnel), attempt
            except Exception as error:  # asyncssh hands on whatever a hostile far end made it raise
                if not _may_show_another_key(error, attempt):
                    raise translate(error, attempt) from error


def _may_show_another_key(error: Exception, attempt: Attempt) -> bool:
    return isinstance(error, asyncssh.HostKeyNotVerifiable) and attempt.host_keys.may_show_another()


async def _connect(
    attempt: Attempt,
    keys: Sequence[asyncssh.SSHKeyPair],
    keepalive_s: float,
    tunnel: Tunnel | None,
) -> asyncssh.SSHClientConnection:
    endpoint = attempt.endpoint
    return await asyncssh.connect(
        endpoint.name,
        endpoint.port,
        tunnel=tunnel,  # asyncssh needs nothing of it but create_connection
        config=list(endpoint.config) or None,
        client_factory=lambda: Client(attempt),
        username=endpoint.username,
        client_keys=list(keys) or None,
        known_hosts=attempt.host_keys.trusted(),
        server_host_key_algs=attempt.host_keys.algorithms(),
        keepalive_interval=keepalive_s,
        keepalive_count_max=_KEEPALIVE_MISSES,
        **_methods(endpoint.auth),
        **transport_algorithms(endpoint.legacy_algorithms, endpoint.configured),
        **_FIXED,
    )


def _methods(auth: Auth) -> dict[str, Any]:
    """Credentials that were given are used whatever the configuration prefers; and a server tells its methods only to one
    who is ready for any."""
    if auth.method == "auto" and auth.password is None and not auth.names_a_key:
        return {}
    return {
        "preferred_auth": ["publickey", "keyboard-interactive", "password"],
        "public_key_auth": True,
        "kbdint_auth": True,
        "password_auth": True,
    }


#: Compression would let a few bytes on the wire fill our memory; GSSAPI, X.509 and host-based logins are not ours to offer;
#: agents and displays are not forwarded into a terminal that several share. Agent and certificates are among the keys that
#: are given. The caller limits the time.
_FIXED: dict[str, Any] = {
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

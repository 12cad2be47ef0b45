"""Whether a device is reached through a host that the caller may not see: then no error of the connection is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.session import SshOptions
from ptyctl.inventory import Inventory, Route
from transports import ssh
from transports.errors import ChannelError
from transports.ssh.endpoint import resolve

#: Whether the caller may see a device or host with one of these names; without a name, whether it may see all of them.
Sees = Callable[..., bool]

#: Errors before a connection attempt, and errors of an open session. Their messages name no host of the route.
_NOT_OF_THE_ROUTE = frozenset({ErrorCode.BUSY, ErrorCode.FORBIDDEN, ErrorCode.LIMIT_EXCEEDED, ErrorCode.LOCKED})


async def hides_route(inventory: Inventory, device: str, sees: Sees) -> bool:
    """Return whether the inventory or the OpenSSH configuration leads through a host that the caller may not see.

    A configuration that cannot be read, and a ProxyCommand, hide the route.

    Raises:
        PtyctlError: as `Inventory.device`.
    """
    if sees():
        return False
    route = await inventory.route(device)
    if not all(sees(host, None) for host in route.hosts):
        return True
    return route.is_ssh and await asyncio.to_thread(_hides_ssh_route, route, sees)


def without_route(error: PtyctlError) -> PtyctlError:
    """Return an error of an open whose message names no host."""
    if error.code in _NOT_OF_THE_ROUTE:
        return error
    return PtyctlError(error.code, "the open failed on the way to the device", hint=HINT)


HINT = "ask the administrator of this server, or a user who may see all hosts on the way to the device"


def _hides_ssh_route(route: Route, sees: Sees) -> bool:
    options = route.fields.ssh_options or SshOptions()
    hops = tuple(ssh.SshJumpHost(hop.host, hop.port, hop.username) for hop in route.hops)
    host, port = route.address["host"], route.address["port"]
    assert isinstance(host, str)
    try:
        endpoints = resolve(
            ssh.SshConnectOptions(
                host,
                port if isinstance(port, int) else None,
                route.fields.username,
                use_openssh_config=options.use_openssh_config,
                config_path=options.config_path,
                jump=hops or (None if options.jump is None else ssh.parse_jump_hosts(options.jump)),
            )
        )
    except ChannelError:
        return True
    of_configuration = endpoints[: len(endpoints) - 1 - len(hops)]
    return bool(endpoints[0].proxy_command) or not all(sees(endpoint.name, None) for endpoint in of_configuration)

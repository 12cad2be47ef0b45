"""From a device of the inventory to a target: which fields go to which transport, and who is asked for which login."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from pydantic import SecretStr

from ptyctl.api.session import Auth, SessionRequest

from .model import ConsoleServer, Credentials, Device, Document, LoginOptions, Reach
from .references import Reference
from .secrets import fetch
from .target import Hop, Login, Target


class Resolution:
    """One resolving of one device. A secret that is named twice is fetched once: perhaps somebody has to touch a token."""

    def __init__(self, document: Document, folder: Path) -> None:
        self._document, self._folder = document, folder
        self._fetched: dict[Reference, SecretStr] = {}

    async def target(self, name: str, device: Device) -> Target:
        """Raises PtyctlError: what `secrets.fetch` raises."""
        place = f"devices.{name}"
        if device.console is None:
            outer, reach = place, cast(Reach, device)
            where = {"protocol": device.protocol, "host": device.host, "port": device.port}
            layers = {place: reach}
        else:
            server = self._document.console_servers[device.console.server]
            outer, reach = f"console_servers.{device.console.server}", _on_line(server, device.console.port)
            where = _line(server, device.console.port)
            layers = {outer: reach, place: device}
        is_ssh = where["protocol"] == "ssh"
        if is_ssh:
            # SSH itself is the outermost login.
            del layers[outer]
        request = where | _session(name, device) | (await self._ssh(outer, reach) if is_ssh else _telnet(reach))
        request["timeouts"] = device.timeouts or reach.timeouts
        return Target(
            name=name,
            request=SessionRequest.of({"action": "open"} | {key: value for key, value in request.items() if value is not None}),
            hops=tuple([await self._hop(hop) for hop in reach.jump or ()]) if is_ssh else (),
            logins=tuple([await self._login(layer, credentials) for layer, credentials in layers.items()]),
            enable_secret=await self._secret(device.enable_secret, f"{place}.enable_secret"),
            options=device.login or LoginOptions(),
        )

    async def _login(self, place: str, credentials: Credentials) -> Login:
        return Login(credentials.username, await self._secret(credentials.password, f"{place}.password"))

    async def _ssh(self, place: str, reach: Reach) -> dict[str, Any]:
        auth = await self._auth(place, reach)
        return {"username": reach.username, "auth": auth, "ssh_options": reach.ssh_options}

    async def _auth(self, place: str, credentials: Credentials) -> Auth | None:
        given = {
            "method": credentials.auth_method,
            "password": await self._secret(credentials.password, f"{place}.password"),
            "private_key_path": credentials.private_key_path,
            "passphrase": await self._secret(credentials.passphrase, f"{place}.passphrase"),
        }
        known = {key: value for key, value in given.items() if value is not None}
        return Auth(**known) if known else None

    async def _hop(self, name: str) -> Hop:
        host = self._document.jump_hosts[name]
        auth = await self._auth(f"jump_hosts.{name}", host)
        return Hop(host.host, host.port, host.username, auth, host.legacy_algorithms)

    async def _secret(self, reference: Reference | None, field: str) -> SecretStr | None:
        if reference is None:
            return None
        if reference not in self._fetched:
            self._fetched[reference] = await fetch(reference, field, self._folder)
        return self._fetched[reference]


def _session(name: str, device: Device) -> dict[str, Any]:
    """What the session will be, however it is reached."""
    is_console = device.session_type == "console" or device.console is not None
    return {
        "platform": device.platform,
        "session_type": "console" if is_console else device.session_type,
        "device_id": device.device_id or name if is_console else None,
        "pty": device.pty,
    }


def _line(server: ConsoleServer, port: int) -> dict[str, Any]:
    """Where a line of a console server is."""
    tcp_port = server.port if server.base_port is None else server.base_port + port
    return {"protocol": server.protocol, "host": server.host, "port": tcp_port}


def _on_line(server: ConsoleServer, port: int) -> Reach:
    """The server, with the username that chooses the line."""
    username = server.username
    return server.model_copy(update={"username": None if username is None else username.replace("{port}", str(port))})


def _telnet(reach: Reach) -> dict[str, Any]:
    return {"telnet_options": reach.telnet_options}

"""From a device of the inventory to a target: which fields go to which transport, and who is asked for which login."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from ptyctl.api.session import Auth, SessionRequest

from .model import ConsoleServer, Credentials, Device, Document, LoginOptions, Reach
from .references import Reference
from .secrets import fetch
from .target import Hop, Login, Target


@dataclass(frozen=True, slots=True)
class _Way:
    """How a device is reached.

    Args:
        place: of whatever is connected to, in the words of the inventory; `reach`: its options and login.
        where: protocol, host and port.
        behind: the logins behind that one.
    """

    place: str
    reach: Reach
    where: dict[str, str | int | None]
    behind: tuple[tuple[str, Credentials], ...] = ()

    @property
    def is_ssh(self) -> bool:
        return self.where["protocol"] == "ssh"

    @property
    def typed(self) -> tuple[tuple[str, Credentials], ...]:
        """The logins that the terminal asks for. SSH has the first one without it."""
        return self.behind if self.is_ssh else ((self.place, self.reach), *self.behind)


class Resolution:
    """One resolving of one device. A secret that is named twice is fetched once: perhaps somebody has to touch a token."""

    def __init__(self, document: Document, folder: Path) -> None:
        self._document, self._folder = document, folder
        self._fetched: dict[Reference, SecretStr] = {}

    async def target(self, name: str, device: Device) -> Target:
        """Raises PtyctlError: what `secrets.fetch` raises."""
        place, way = f"devices.{name}", self._way(name, device)
        request = way.where | _session(name, device) | await self._options(way)
        request["timeouts"] = device.timeouts or way.reach.timeouts
        return Target(
            name=name,
            request=SessionRequest.of({"action": "open"} | {key: value for key, value in request.items() if value is not None}),
            hops=tuple([await self._hop(hop) for hop in way.reach.jump or () if way.is_ssh]),
            logins=tuple([await self._login(layer, credentials) for layer, credentials in way.typed]),
            enable_secret=await self._secret(device.enable_secret, f"{place}.enable_secret"),
            options=device.login or LoginOptions(),
            pace=device.pace,
        )

    def _way(self, name: str, device: Device) -> _Way:
        place = f"devices.{name}"
        if device.console is None:
            return _Way(place, device, {"protocol": device.protocol, "host": device.host, "port": device.port})
        server, line = self._document.console_servers[device.console.server], device.console.port
        where: dict[str, str | int | None] = {
            "protocol": server.protocol,
            "host": server.host,
            "port": server.port if server.base_port is None else server.base_port + line,
        }
        return _Way(f"console_servers.{device.console.server}", _on_line(server, line), where, ((place, device),))

    async def _options(self, way: _Way) -> dict[str, Any]:
        if not way.is_ssh:
            return {"telnet_options": way.reach.telnet_options}
        auth = await self._auth(way.place, way.reach)
        return {"username": way.reach.username, "auth": auth, "ssh_options": way.reach.ssh_options}

    async def _login(self, place: str, credentials: Credentials) -> Login:
        return Login(credentials.username, await self._secret(credentials.password, f"{place}.password"))

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


def _on_line(server: ConsoleServer, port: int) -> Reach:
    """The server, with the username that chooses the line."""
    username = server.username
    return server.model_copy(update={"username": None if username is None else username.replace("{port}", str(port))})

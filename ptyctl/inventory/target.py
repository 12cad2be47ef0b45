"""An inventory device with its secrets, converted to the options of its transport and the credentials of its logins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from ptyctl.api.errors import invalid
from ptyctl.api.session import Auth, Pace, SessionRequest
from ptyctl.session.device.login import LoginAccount
from ptyctl.session.device.platform_detection import AUTO

from .model import ConnectionFields, CredentialEntry, Document, InventoryDevice, JumpHost, LoginOptions
from .secrets import SecretReference, fetch_secret

#: Fields that only the inventory sets. If a caller could change them, the device's credentials would go to an address of the
#: caller's choice.
_INVENTORY_FIELDS = frozenset(
    {"protocol", "host", "port", "username", "auth", "ssh_options", "telnet_options", "session_type", "device_id"}
)


@dataclass(frozen=True, slots=True)
class TargetHop:
    """An SSH jump host. If `auth` is None it uses the target's agent and keys, never its password."""

    host: str
    port: int | None
    username: str | None
    auth: Auth | None
    legacy_algorithms: bool


@dataclass(frozen=True, slots=True)
class Target:
    """One device, ready to be opened.

    Attributes:
        name: the device's name in the inventory.
        request: an open request without `device`: the address, and for SSH the login.
        hops: jump hosts, the first one first; SSH only. Empty means those of the OpenSSH configuration or ssh_options.
        logins: the logins that the terminal asks for, in order: the console server's, then the device's.
        enable_secret: for entering the privileged mode.
        options: options of the login.
        pace: limit on the typing speed; None means the platform's.
    """

    name: str
    request: SessionRequest
    hops: tuple[TargetHop, ...]
    logins: tuple[LoginAccount, ...]
    enable_secret: SecretStr | None
    options: LoginOptions
    pace: Pace | None = None

    def request_for(self, caller: SessionRequest) -> SessionRequest:
        """Return the open request of a caller who named this device: the inventory's fields and the caller's other fields.

        Raises:
            PtyctlError: INVALID_ARGUMENT, naming the fields that only the inventory sets, or for another platform than its.
        """
        given = {name: getattr(caller, name) for name in caller.model_fields_set}
        clashing = sorted(name for name in _INVENTORY_FIELDS.intersection(given) if given[name] is not None)
        if clashing:
            raise invalid(
                f"the inventory sets the address and the login of device {self.name}",
                hint=f"leave out {', '.join(clashing)}",
                fields=clashing,
            )
        self._check_platform(caller.platform)
        own = {name: getattr(self.request, name) for name in self.request.model_fields_set}
        wanted = {name: value for name, value in given.items() if name != "device" and value is not None}
        return SessionRequest.of(own | wanted)

    def _check_platform(self, platform: str | None) -> None:
        """Check a caller's platform. The policy's rules depend on it. Raises PtyctlError INVALID_ARGUMENT."""
        own = self.request.platform
        if platform is not None and own not in (None, AUTO, platform):
            raise invalid(
                f"the inventory sets the platform of device {self.name}: {own}",
                hint="leave out platform, or change it in the inventory",
                fields=["platform"],
            )


@dataclass(frozen=True, slots=True)
class Route:
    """How a device is reached.

    Attributes:
        place: the table of the host to connect to (the device or its console server), as `devices.switch-001`.
        fields: that table's options and login.
        address: protocol, host and port.
        further_logins: the logins that follow the host's own, with their tables.
        hosts: the names of the console server and the jump hosts on the way.
        hops: the jump hosts, the first one first; SSH only.
    """

    place: str
    fields: ConnectionFields
    address: dict[str, str | int | None]
    further_logins: tuple[tuple[str, CredentialEntry], ...] = ()
    hosts: tuple[str, ...] = ()
    hops: tuple[JumpHost, ...] = ()

    @property
    def is_ssh(self) -> bool:
        return self.address["protocol"] == "ssh"

    @property
    def typed_logins(self) -> tuple[tuple[str, CredentialEntry], ...]:
        """The logins that the terminal asks for. With SSH the host's own login is not typed."""
        return self.further_logins if self.is_ssh else ((self.place, self.fields), *self.further_logins)


class TargetResolver:
    """Resolves one device. A secret that is referenced twice is fetched once: it may require the touch of a token."""

    def __init__(self, document: Document, folder: Path) -> None:
        self._document, self._folder = document, folder
        self._fetched: dict[SecretReference, SecretStr] = {}

    async def resolve(self, name: str, device: InventoryDevice) -> Target:
        """Return the target of a device, with its secrets. Raises the errors of `fetch_secret`."""
        place, route = f"devices.{name}", self.route(name, device)
        request = route.address | _session_fields(name, device) | await self._transport_fields(route)
        request["timeouts"] = device.timeouts or route.fields.timeouts
        return Target(
            name=name,
            request=SessionRequest.of({"action": "open"} | {key: value for key, value in request.items() if value is not None}),
            hops=tuple([await self._hop(hop) for hop in route.fields.jump or () if route.is_ssh]),
            logins=tuple([await self._login(table, entry) for table, entry in route.typed_logins]),
            enable_secret=await self._secret(device.enable_secret, f"{place}.enable_secret"),
            options=device.login or LoginOptions(),
            pace=device.pace,
        )

    def route(self, name: str, device: InventoryDevice) -> Route:
        """Return how a device is reached. Fetches no secret."""
        place = f"devices.{name}"
        if device.console is None:
            own = {"protocol": device.protocol, "host": device.host, "port": device.port}
            return Route(place, device, own, hosts=device.jump or (), hops=self._hops(device))
        server, line = self._document.console_servers[device.console.server], device.console.port
        address: dict[str, str | int | None] = {
            "protocol": server.protocol,
            "host": server.host,
            "port": server.port if server.base_port is None else server.base_port + line,
        }
        username = server.username.replace("{port}", str(line)) if server.username else None
        fields = server.model_copy(update={"username": username})
        hosts = (device.console.server, *(server.jump or ()))
        return Route(f"console_servers.{device.console.server}", fields, address, ((place, device),), hosts, self._hops(server))

    def _hops(self, fields: ConnectionFields) -> tuple[JumpHost, ...]:
        return tuple(self._document.jump_hosts[name] for name in fields.jump or ())

    async def _transport_fields(self, route: Route) -> dict[str, Any]:
        if not route.is_ssh:
            return {"telnet_options": route.fields.telnet_options}
        auth = await self._auth(route.place, route.fields)
        return {"username": route.fields.username, "auth": auth, "ssh_options": route.fields.ssh_options}

    async def _login(self, place: str, entry: CredentialEntry) -> LoginAccount:
        return LoginAccount(entry.username, await self._secret(entry.password, f"{place}.password"))

    async def _auth(self, place: str, entry: CredentialEntry) -> Auth | None:
        fields = {
            "method": entry.auth_method,
            "password": await self._secret(entry.password, f"{place}.password"),
            "private_key_path": entry.private_key_path,
            "passphrase": await self._secret(entry.passphrase, f"{place}.passphrase"),
            "one_time_code": await self._secret(entry.one_time_code, f"{place}.one_time_code"),
        }
        given = {key: value for key, value in fields.items() if value is not None}
        return Auth(**given) if given else None

    async def _hop(self, name: str) -> TargetHop:
        host = self._document.jump_hosts[name]
        auth = await self._auth(f"jump_hosts.{name}", host)
        return TargetHop(host.host, host.port, host.username, auth, host.legacy_algorithms)

    async def _secret(self, reference: SecretReference | None, field: str) -> SecretStr | None:
        if reference is None:
            return None
        if reference not in self._fetched:
            self._fetched[reference] = await fetch_secret(reference, field, self._folder)
        return self._fetched[reference]


def console_id(name: str, device: InventoryDevice) -> str | None:
    """Return the `device_id` of a console; None for another device."""
    is_console = device.session_type == "console" or device.console is not None
    return device.device_id or name if is_console else None


def _session_fields(name: str, device: InventoryDevice) -> dict[str, Any]:
    """Return the fields that do not depend on how the device is reached."""
    device_id = console_id(name, device)
    return {
        "platform": device.platform,
        "session_type": "console" if device_id is not None else device.session_type,
        "device_id": device_id,
        "pty": device.pty,
    }

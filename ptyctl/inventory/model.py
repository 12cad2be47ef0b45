"""The tables of devices.toml, and the rules between them. Every table is strict: an unknown field is an error.

The rules: names that must exist, addresses that must be complete, names that must be unique.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ptyctl.api.model import HostName, Value
from ptyctl.api.session import AuthMethod, Pace, PtyOptions, SessionType, SshOptions, TelnetOptions, Timeouts
from ptyctl.platforms import QuestionAnswer
from transports.channel import MAX_PORT

from .faults import Fault
from .secrets import SecretReference

Port = Annotated[int, Field(ge=1, le=65535)]
Host = Annotated[HostName, Field(min_length=1, max_length=255, pattern=r"^\S+$")]
#: The name of a device, group, jump host or console server. It is typed on command lines and shown in tables.
Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s\x00-\x1f\x7f]+$")]


def _require_unique(names: tuple[str, ...]) -> tuple[str, ...]:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"names {', '.join(repeated)} more than once")
    return names


Names = Annotated[tuple[Name, ...], AfterValidator(_require_unique)]


class LoginOptions(Value):
    """Login settings that override the platform's.

    Attributes:
        automatic: False leaves the login to the user.
        prepare: after the login, enter the mode where commands run, turn paging off and widen the terminal, as the platform
            defines. False leaves the terminal and the mode as they are.
        answers: to questions before the first prompt, as in a platform file. They take precedence over the platform's.
        timeout_ms: for the whole login, including the wake-up and both logins of a console server.
    """

    automatic: bool = True
    prepare: bool = True
    answers: tuple[QuestionAnswer, ...] = ()
    timeout_ms: int = Field(60_000, ge=1)


class CredentialEntry(Value):
    """The credentials of a table: a username, and references to secrets."""

    username: str | None = Field(None, min_length=1)
    password: SecretReference | None = None
    auth_method: AuthMethod | None = None
    private_key_path: str | None = Field(None, min_length=1)
    passphrase: SecretReference | None = None
    one_time_code: SecretReference | None = None


class ConnectionFields(CredentialEntry):
    """Connection options and login of a host."""

    ssh_options: SshOptions | None = None
    telnet_options: TelnetOptions | None = None
    timeouts: Timeouts | None = None
    jump: Names | None = Field(None, description="names of jump hosts, the first one first")


class Defaults(ConnectionFields):
    """Values for every device that does not set them."""

    protocol: Literal["ssh", "telnet"] | None = None
    port: Port | None = None
    platform: str | None = Field(None, min_length=1)
    session_type: SessionType | None = None
    enable_secret: SecretReference | None = None
    pty: PtyOptions | None = None
    pace: Pace | None = None
    login: LoginOptions | None = None
    node_labels: Names | None = Field(None, description="labels that a node of a fleet needs to reach the device")
    standby: bool | None = Field(None, description="another node connects the console when its owner is gone")


class Group(Defaults):
    """Values for the devices of a group. `groups` are its parent groups, whose values it overrides."""

    groups: Names | None = None


class ConsolePort(Value):
    """A line of a console server, in the server's numbering."""

    server: Name
    port: int = Field(ge=0, le=65535)


class InventoryDevice(Group):
    """One device: at a host, or at a line of a console server."""

    host: Host | None = None
    console: ConsolePort | None = None
    device_id: str | None = Field(None, min_length=1)


class ConsoleServer(ConnectionFields):
    """A console server.

    Attributes:
        port: the TCP port for all lines. The username then selects the line, for example `netops:{port}`.
        base_port: line N is at TCP port base_port + N.
    """

    host: Host
    protocol: Literal["ssh", "telnet"]
    port: Port | None = None
    base_port: int | None = Field(None, ge=0, le=65535)


class JumpHost(CredentialEntry):
    """An SSH jump host. `legacy_algorithms` is as in ssh_options, for this host alone."""

    host: Host
    port: Port | None = None
    legacy_algorithms: bool = False


class Document(Value):
    """The whole file, before merging."""

    defaults: Defaults = Defaults()
    groups: dict[Name, Group] = Field(default_factory=dict)
    devices: dict[Name, InventoryDevice] = Field(default_factory=dict)
    console_servers: dict[Name, ConsoleServer] = Field(default_factory=dict)
    jump_hosts: dict[Name, JumpHost] = Field(default_factory=dict)


def cross_table_faults(document: Document, devices: Mapping[str, InventoryDevice]) -> Iterator[Fault]:
    """Yield the faults of the console servers, and of the devices after merging."""
    for name, server in document.console_servers.items():
        yield from _server_faults(f"console_servers.{name}", server, document)
    users: dict[object, str] = {}
    for name, device in devices.items():
        place = f"devices.{name}"
        yield from _address_faults(place, device, document)
        yield from _session_faults(place, device)
        yield from _duplicate_faults(name, device, users)


def _server_faults(place: str, server: ConsoleServer, document: Document) -> Iterator[Fault]:
    if server.base_port is not None and server.port is not None:
        yield Fault(place, "has both port and base_port")
    if server.base_port is None and "{port}" not in (server.username or ""):
        yield Fault(place, "does not select the line: it has neither base_port nor a username with {port} in it")
    yield from _jump_faults(place, server.protocol, server.jump, document)


def _address_faults(place: str, device: InventoryDevice, document: Document) -> Iterator[Fault]:
    if device.console is not None:
        yield from _console_faults(place, device, document)
        return
    if device.host is None:
        yield Fault(place, "has neither host nor console")
    if device.protocol is None:
        yield Fault(f"{place}.protocol", "is missing, also in its groups and the defaults")
    yield from _jump_faults(place, device.protocol, device.jump, document)


def _console_faults(place: str, device: InventoryDevice, document: Document) -> Iterator[Fault]:
    assert device.console is not None, "called for console devices only"
    if device.host is not None:
        yield Fault(place, "has both host and console")
    if device.session_type == "normal":
        yield Fault(f"{place}.session_type", 'is "normal", but a console server\'s line is always a "console"')
    server = document.console_servers.get(device.console.server)
    if server is None:
        yield Fault(f"{place}.console.server", f"there is no [console_servers.{device.console.server}]")
    elif server.base_port is not None and not 1 <= server.base_port + device.console.port <= MAX_PORT:
        yield Fault(f"{place}.console.port", f"exceeds {MAX_PORT} when added to base_port {server.base_port} of the server")


def _jump_faults(place: str, protocol: str | None, jump: tuple[str, ...] | None, document: Document) -> Iterator[Fault]:
    for name in jump or ():
        if name not in document.jump_hosts:
            yield Fault(f"{place}.jump", f"there is no [jump_hosts.{name}]")
    if jump and protocol == "telnet":
        yield Fault(f"{place}.jump", "needs SSH, but the protocol is telnet (jump = [] connects directly)")


def _session_faults(place: str, device: InventoryDevice) -> Iterator[Fault]:
    if device.ssh_options is not None and device.ssh_options.jump is not None and device.jump:
        yield Fault(f"{place}.jump", "and ssh_options.jump both set the jump hosts")
    if device.device_id is not None and device.session_type != "console" and device.console is None:
        yield Fault(f"{place}.device_id", 'is for devices with session_type = "console" only')


def _duplicate_faults(name: str, device: InventoryDevice, users: dict[object, str]) -> Iterator[Fault]:
    """Yield a fault if another device uses the console name, or the line of a console server. `users`: the devices so far."""
    if device.session_type == "console" or device.console is not None:
        device_id = device.device_id or name
        if (other := users.setdefault(device_id, name)) != name:
            yield Fault(f"devices.{name}.device_id", f"{device_id} is also the console name of {other}")
    if device.console is not None:
        server, port = device.console.server, device.console.port
        if (other := users.setdefault((server, port), name)) != name:
            yield Fault(f"devices.{name}.console", f"port {port} of {server} is also the line of {other}")

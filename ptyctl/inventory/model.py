"""The tables of devices.toml. Every table is strict: an unknown field is an error."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ptyctl.api.model import HostName, Value
from ptyctl.api.session import AuthMethod, Pace, PtyOptions, SessionType, SshOptions, TelnetOptions, Timeouts
from ptyctl.platforms import QuestionAnswer

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

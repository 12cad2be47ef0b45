"""What devices.toml may hold. Every table is strict: a field that is not known is an error and not a wish unheard."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ptyctl.api.model import Value
from ptyctl.api.session import Pace, PtyOptions, SessionType, SshOptions, TelnetOptions, Timeouts
from ptyctl.platforms import Answer

from .references import Reference

Port = Annotated[int, Field(ge=1, le=65535)]
Host = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^\S+$")]
#: Of a device, group, jump host or console server: typed on command lines and shown in tables.
Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s\x00-\x1f\x7f]+$")]
AuthMethod = Literal["auto", "password", "private_key", "agent"]


def _without_repeats(names: tuple[str, ...]) -> tuple[str, ...]:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"names {', '.join(repeated)} more than once")
    return names


Names = Annotated[tuple[Name, ...], AfterValidator(_without_repeats)]


class LoginOptions(Value):
    """How the login on a terminal goes, where that is not the platform's own way.

    Args:
        automatic: False leaves the login to whoever opens the session.
        prepare: False leaves the terminal and the mode as they are after the login; otherwise it goes to where commands run,
            turns paging off and makes the terminal wide, as the platform's file says.
        answers: to questions that come before the first prompt, as a platform's file has them; these stand first.
        timeout_ms: for all of the login, wake-up and both layers of a console server included.
    """

    automatic: bool = True
    prepare: bool = True
    answers: tuple[Answer, ...] = ()
    timeout_ms: int = Field(60_000, ge=1)


class Credentials(Value):
    """Who logs in, and with what. Secrets by reference only."""

    username: str | None = Field(None, min_length=1)
    password: Reference | None = None
    auth_method: AuthMethod | None = None
    private_key_path: str | None = Field(None, min_length=1)
    passphrase: Reference | None = None


class Reach(Credentials):
    """How something is reached and logged in to."""

    ssh_options: SshOptions | None = None
    telnet_options: TelnetOptions | None = None
    timeouts: Timeouts | None = None
    jump: Names | None = Field(None, description="names of jump hosts, the first one first")


class Defaults(Reach):
    """What holds for every device that does not say otherwise."""

    protocol: Literal["ssh", "telnet"] | None = None
    port: Port | None = None
    platform: str | None = Field(None, min_length=1)
    session_type: SessionType | None = None
    enable_secret: Reference | None = None
    pty: PtyOptions | None = None
    pace: Pace | None = None
    login: LoginOptions | None = None


class Group(Defaults):
    """What holds for its devices. `groups` are those it is part of itself, whose values it goes before."""

    groups: Names | None = None


class ConsolePort(Value):
    """A line of a console server, as the server counts."""

    server: Name
    port: int = Field(ge=0, le=65535)


class Device(Group):
    """One device: at a host, or behind a port of a console server."""

    host: Host | None = None
    console: ConsolePort | None = None
    device_id: str | None = Field(None, min_length=1)


class ConsoleServer(Reach):
    """A console server.

    Args:
        port: of TCP, the same for every line; the username then says which line, as `netops:{port}`.
        base_port: line N is at TCP port base_port + N.
    """

    host: Host
    protocol: Literal["ssh", "telnet"]
    port: Port | None = None
    base_port: int | None = Field(None, ge=0, le=65535)


class JumpHost(Credentials):
    """An SSH host on the way. `legacy_algorithms` as in ssh_options, for this host alone."""

    host: Host
    port: Port | None = None
    legacy_algorithms: bool = False


class Document(Value):
    """The whole file, as it stands."""

    defaults: Defaults = Defaults()
    groups: dict[Name, Group] = Field(default_factory=dict)
    devices: dict[Name, Device] = Field(default_factory=dict)
    console_servers: dict[Name, ConsoleServer] = Field(default_factory=dict)
    jump_hosts: dict[Name, JumpHost] = Field(default_factory=dict)

"""Resolves an open request to its destination: address, credentials, session spec and channel.

Also decides whether the route to a device is hidden. Knows which request field belongs to which transport.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import SecretStr

from ptyctl.api.errors import ErrorCode, PtyctlError, unsupported
from ptyctl.api.session import Auth, Expect, Pace, PtyOptions, SessionRequest, SshOptions, TelnetOptions, Timeouts
from ptyctl.core.shells import answering_program, shell_change
from ptyctl.environment import SESSION_VARIABLE
from ptyctl.inventory import Inventory, Route, Target, TargetHop
from ptyctl.platforms import UNKNOWN_DEVICE, Platform, Platforms
from ptyctl.platforms.loader import COMMON
from ptyctl.session.calls.session_preparation import merged_expect
from ptyctl.session.device.login import LOGIN_LIMIT_S, NO_CREDENTIALS, LoginAccount, LoginCredentials
from ptyctl.session.device.platform_detection import AUTO, load_platform
from ptyctl.session.runs.shells import with_marks, without_history
from ptyctl.session.spec import Spec
from transports import ssh, telnet
from transports.channel import Channel, Pty
from transports.errors import ChannelError
from transports.local import LocalChannel, LocalOptions, user_shell
from transports.local_pipes import LocalPipeChannel
from transports.ssh.endpoint import resolve as resolve_endpoints

#: Telnet line endings of platforms that do not end a line with CR, for which the transport's "auto" follows RFC 854.
_LINE_ENDINGS: dict[str, telnet.LineEnding] = {"\n": "lf", "\r\n": "crlf"}
_DEFAULT_TELNET_PORT = 23
_DEFAULT_PORTS = {"ssh": 22, "telnet": _DEFAULT_TELNET_PORT, "local": None}
#: Errors before a connection attempt, and errors of an open session. Their messages name no host of the route.
_ERRORS_WITHOUT_ROUTE = frozenset({ErrorCode.BUSY, ErrorCode.FORBIDDEN, ErrorCode.LIMIT_EXCEEDED, ErrorCode.LOCKED})
HIDDEN_ROUTE_HINT = "ask the administrator of this server, or a user who may see all hosts on the way to the device"

#: Whether the caller may see a device or host with one of these names; without a name, whether it may see all of them.
DeviceVisibility = Callable[..., bool]
#: Creates the channel to a destination, not yet open. Tests use scripted channels.
ChannelFactory = Callable[["Destination"], Channel]


@dataclass(frozen=True, slots=True)
class Destination:
    """A complete open request. Holds secrets, so it stays in memory; a device's is resolved again for each reconnect.

    Attributes:
        request: address, login and options. Its `device` is not set.
        platform: the platform that the request names, unless it is to be detected.
        credentials: the logins to type at the terminal's prompts.
        hops: jump hosts from the inventory; empty means those of the request or the OpenSSH configuration.
        device: the name in the inventory that was resolved to this destination.
        pace: limit on the typing speed; None means no limit.
    """

    request: SessionRequest
    platform: Platform | None = None
    credentials: LoginCredentials = NO_CREDENTIALS
    hops: tuple[TargetHop, ...] = ()
    device: str | None = None
    pace: Pace | None = None


#: Variables with which programs show their output at once; those after PAGER have precedence over it, or over a configuration.
_WITHOUT_PAGERS = dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"), "cat")
#: The terminal of a conversation: the user's own shell, as a terminal emulator starts it.
CONVERSATION = Destination(SessionRequest(action="open", protocol="local"))


class Destinations:
    """Resolves device names with the inventory, and platform names with the platform files."""

    def __init__(self, inventory: Inventory, platforms: Platforms) -> None:
        self._inventory = inventory
        self._platforms = platforms

    async def resolve(self, request: SessionRequest) -> Destination:
        """Resolve an open request.

        Raises:
            PtyctlError: UNSUPPORTED for an unknown platform; for a device, also the errors of `Inventory.resolve` and
            `Target.request_for`.
        """
        if request.device is None:
            platform = await self._platform(request)
            pace = platform.pace if platform else None
            return Destination(request, platform, _request_accounts(request, platform), pace=pace)
        target = await self._inventory.resolve(request.device)
        resolved = target.request_for(request)
        platform = await self._platform(resolved)
        accounts = _target_accounts(target, _request_accounts(resolved, platform))
        pace = target.pace or (platform.pace if platform else None)
        return Destination(resolved, platform, accounts, target.hops, target.name, pace)

    async def resolve_device(self, name: str) -> Destination:
        """Resolve a device by name, for a session that stores only the name.

        Raises:
            PtyctlError: as `resolve`.
        """
        return await self.resolve(SessionRequest(action="open", device=name))

    async def _platform(self, request: SessionRequest) -> Platform | None:
        return None if request.platform in (None, AUTO) else await load_platform(self._platforms, request.platform)


def _request_accounts(request: SessionRequest, platform: Platform | None) -> LoginCredentials:
    """Return the logins that a request allows the session to type.

    Telnet and local sessions type a login only if the request has credentials. SSH has logged in already, so its credentials
    are typed only on a platform that may ask again, which a POSIX shell does not. An unknown command line may need no login.
    """
    auth = request.auth or Auth()
    types_login = request.username is not None or auth.password is not None
    if request.protocol == "ssh":
        types_login = request.platform is not None and not (platform is not None and platform.posix_shell)
    layers = (LoginAccount(request.username, auth.password),) if types_login else ()
    only_if_asked = request.protocol == "ssh" and request.platform == COMMON
    return LoginCredentials(layers, auth.enable_secret, only_if_asked=only_if_asked)


def _target_accounts(target: Target, of_request: LoginCredentials) -> LoginCredentials:
    """Return the logins of a device, outermost first.

    If the device has none, the request's are used: a device that SSH logs in to may ask again for the same credentials.
    """
    options = target.options
    return replace(
        of_request,
        layers=(target.logins or of_request.layers) if options.automatic else (),
        only_if_asked=of_request.only_if_asked and not target.logins,
        enable_secret=target.enable_secret,
        answers=options.answers,
        prepare=options.prepare,
        timeout_s=min(options.timeout_ms / 1000, LOGIN_LIMIT_S),
    )


def channel_factory() -> ChannelFactory:
    """Return a factory whose SSH channels share their connections to jump hosts."""
    connections = ssh.SshConnectionPool()

    def create_channel(destination: Destination) -> Channel:
        request = destination.request
        timeouts = request.timeouts or Timeouts()
        options = request.pty or PtyOptions()
        pty = Pty(options.cols, options.rows, options.term)
        if request.protocol == "ssh":
            return ssh.SshChannel(ssh_options(destination, pty if options.enabled else None), connections)
        if request.protocol == "telnet":
            return telnet.TelnetChannel(_telnet_options(destination, timeouts), pty if options.enabled else None)
        local = LocalOptions(_argv(request.command), request.cwd, request.env)
        return LocalChannel(local, pty) if options.enabled else LocalPipeChannel(local)

    return create_channel


def session_spec(destination: Destination) -> Spec:
    """Return the spec of a session to `destination`.

    Raises:
        PtyctlError: UNSUPPORTED or INVALID_ARGUMENT for options that exclude each other, before anything is opened.
    """
    request, platform = destination.request, destination.platform
    assert request.protocol is not None
    expect = request.expect or Expect()
    expect = expect if platform is None else merged_expect(expect, platform)
    profile = UNKNOWN_DEVICE if platform is None else platform.profile
    profile.with_overrides(expect.prompt_regex, expect.pager_regexes, expect.error_regexes)
    pty = request.pty or PtyOptions()
    if request.protocol == "local" and not pty.enabled and (request.terminal is None or request.terminal.mode != "headless"):
        raise unsupported("a local session always has a terminal", field="pty.enabled", hint="leave out pty.enabled")
    is_console = request.session_type == "console"
    may_be_posix = platform is None or platform.posix_shell
    return Spec(
        protocol=request.protocol,
        host=request.host,
        port=request.port or (_DEFAULT_PORTS[request.protocol] if request.protocol != "ssh" else None),
        username=request.username,
        session_type=request.session_type or "normal",
        device_id=request.device_id,
        device=destination.device,
        platform=request.platform,
        program=_program(request, pty, may_be_posix=may_be_posix),
        runs_program=platform is None and not is_console and pty.enabled and _runs_program(request),
        probe_shell=request.protocol != "local" and may_be_posix and (not is_console or platform is not None),
        integrated=_has_shell_integration(request),
        install_integration=_installs_integration(request),
        shell=request.shell,
        terminal=request.terminal,
        idle_timeout_s=(request.timeouts or Timeouts()).idle_timeout_ms / 1000,
        pty=pty,
        expect=expect,
    )


def _runs_program(request: SessionRequest) -> bool:
    """Return whether a request runs a program over SSH that is not a shell and starts none."""
    if request.protocol != "ssh" or request.shell is not None or not request.command:
        return False
    command = request.command if isinstance(request.command, str) else shlex.join(request.command)
    return shell_change(command) == "no"


def with_shell_integration(request: SessionRequest, nonce_file: Path) -> SessionRequest:
    """Return a copy of a local shell's request that starts the shell with marks; see `with_marks`."""
    start = with_marks(_argv(request.command) or (user_shell(),), str(nonce_file), request.env or {})
    assert start is not None, "the spec says that this shell has an integration"
    return request.model_copy(update={"command": start.argv, "env": {**(request.env or {}), **start.env}})


def with_session_id(request: SessionRequest, session_id: str) -> SessionRequest:
    """Return a copy of a local request with the id of the session in the environment of its program.

    A shell that records every line, and so the marker's, gets no history file.
    """
    env = {**(request.env or {}), SESSION_VARIABLE: session_id}
    return request.model_copy(update={"env": {**env, **without_history(_argv(request.command) or (user_shell(),))}})


def without_pagers(request: SessionRequest) -> SessionRequest:
    """Return a copy of a local request whose programs show their output without a pager. Variables of the request count."""
    return request.model_copy(update={"env": {**_WITHOUT_PAGERS, **(request.env or {})}})


def ssh_options(destination: Destination, pty: Pty | None) -> ssh.SshConnectOptions:
    """Return the options of an SSH channel. Raises InvalidOption for options that exclude each other."""
    request = destination.request
    auth, options, timeouts = request.auth or Auth(), request.ssh_options or SshOptions(), request.timeouts or Timeouts()
    hops = tuple(_jump_host(hop) for hop in destination.hops)
    return ssh.SshConnectOptions(
        host=request.host or "",
        port=request.port,
        username=request.username,
        auth=_ssh_auth(auth),
        pty=pty,
        command=request.command,
        env=request.env or {},
        connect_timeout_s=timeouts.connect_timeout_ms / 1000,
        host_keys=ssh.HostKeyOptions(options.host_key_policy, options.known_hosts_path, options.host_key_fingerprint),
        use_openssh_config=options.use_openssh_config,
        config_path=options.config_path,
        jump=hops or (None if options.jump is None else ssh.parse_jump_hosts(options.jump)),
        legacy_algorithms=options.legacy_algorithms,
        keepalive_s=options.keepalive_s,
    )


def _jump_host(hop: TargetHop) -> ssh.SshJumpHost:
    auth = None if hop.auth is None else _ssh_auth(hop.auth)
    return ssh.SshJumpHost(hop.host, hop.port, hop.username, auth, hop.legacy_algorithms)


def _ssh_auth(auth: Auth) -> ssh.SshAuth:
    """Return the login for the transport, with the secrets in plain text. Raises InvalidOption."""
    return ssh.SshAuth(
        method=auth.method,
        password=_plain(auth.password),
        private_key_pem=_plain(auth.private_key_pem),
        private_key_path=auth.private_key_path,
        passphrase=_plain(auth.passphrase),
        one_time_code=_plain(auth.one_time_code),
    )


def _plain(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _telnet_options(destination: Destination, timeouts: Timeouts) -> telnet.TelnetConnectOptions:
    request, platform = destination.request, destination.platform
    options = request.telnet_options or TelnetOptions()
    end_of_line = "\r" if platform is None else platform.end_of_line
    return telnet.TelnetConnectOptions(
        host=request.host or "",
        port=request.port or _DEFAULT_TELNET_PORT,
        line_ending=_LINE_ENDINGS.get(end_of_line, "auto") if options.line_ending == "auto" else options.line_ending,
        binary=options.binary,
        keepalive=options.keepalive,
        keepalive_s=options.keepalive_s or telnet.KEEPALIVE_S,
        connect_timeout_s=timeouts.connect_timeout_ms / 1000,
    )


def _program(request: SessionRequest, pty: PtyOptions, *, may_be_posix: bool) -> str | None:
    """Return the program that reads the commands: a local program, or `sh` for SSH without a PTY; None if unknown."""
    if request.protocol == "local":
        argv = _argv(request.command)
        name = answering_program(argv) if argv else user_shell()
        return shutil.which(name) or name
    is_shell = request.protocol == "ssh" and not pty.enabled and request.command is None and may_be_posix
    return "sh" if is_shell else None


def _installs_integration(request: SessionRequest) -> bool:
    """Return whether to set up a remote shell for marks: on request, and by default over SSH."""
    if request.protocol == "ssh" and request.session_type != "console":
        return request.shell_integration != "off"
    return request.protocol != "local" and request.shell_integration == "auto"


def _has_shell_integration(request: SessionRequest) -> bool:
    if request.protocol != "local" or request.shell_integration == "off":
        return False
    return with_marks(_argv(request.command) or (user_shell(),), "", {}) is not None


def _argv(command: str | tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the argument list of a command: a string is a command line for /bin/sh."""
    if isinstance(command, str):
        return ("/bin/sh", "-c", command)
    return command


async def hides_route(inventory: Inventory, device: str, sees: DeviceVisibility) -> bool:
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
    if error.code in _ERRORS_WITHOUT_ROUTE:
        return error
    return PtyctlError(error.code, "the open failed on the way to the device", hint=HIDDEN_ROUTE_HINT)


def _hides_ssh_route(route: Route, sees: DeviceVisibility) -> bool:
    options = route.fields.ssh_options or SshOptions()
    hops = tuple(ssh.SshJumpHost(hop.host, hop.port, hop.username) for hop in route.hops)
    host, port = route.address["host"], route.address["port"]
    assert isinstance(host, str)
    try:
        endpoints = resolve_endpoints(
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

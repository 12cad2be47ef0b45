"""The route to an SSH server, with the OpenSSH configuration (ssh_config(5)) applied to the target and each jump host."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from transports.caller import absolute_path

from .connect_options import HostKeyOptions, SshAuth, SshConnectOptions, SshJumpHost, parse_jump_hosts
from .host_settings import HostSettings, settings_for
from .programs import ProgramContext


@dataclass(frozen=True, slots=True)
class SshEndpoint:
    """An SSH server and the credentials for it. Sessions with equal jump-host endpoints may share the connections.

    Args:
        name: the host as given.
        settings: the OpenSSH configuration for the host.
        known_hosts: the files to read; `record_to`: the file that `accept_new` writes to, if any.
        known_hosts_command: prints further lines.
        programs: how the programs of the configuration run, if it has any.
        time_limit_s: how long one of them may take.
        proxy_jump: the jump hosts of the configuration.
    """

    name: str
    settings: HostSettings
    auth: SshAuth
    host_keys: HostKeyOptions
    legacy_algorithms: bool
    is_jump_host: bool
    known_hosts: tuple[str, ...] = ()
    record_to: str | None = None
    known_hosts_command: tuple[str, ...] = ()
    programs: ProgramContext | None = None
    time_limit_s: float = field(default=15.0, compare=False)
    proxy_jump: str | None = field(default=None, compare=False)

    @property
    def host(self) -> str:
        return self.settings.host

    @property
    def port(self) -> int:
        return self.settings.port

    @property
    def username(self) -> str:
        return self.settings.username

    @property
    def proxy_command(self) -> str | None:
        """The command line to connect through, unless there is a jump host."""
        return self.settings.proxy_command

    def is_same_host(self, other: SshEndpoint) -> bool:
        """Return whether this jump host is another host of the route, by name.

        The address alone does not tell: behind a jump host or a ProxyCommand, it may be another machine.
        """
        names = (other.name.lower(), other.host.lower())
        return self.name.lower() in names and (self.host, self.port) == (other.host, other.port)

    @property
    def label(self) -> str:
        """The name in messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'jump host' if self.is_jump_host else 'SSH host'} {host}:{self.port}"


def resolve(options: SshConnectOptions) -> tuple[SshEndpoint, ...]:
    """Return the route: the jump hosts, first one first, and the target last. Reads files and runs programs, in a thread.

    Raises:
        InvalidOption: a configuration file cannot be read, or contains an invalid setting.
        ConnectTimeout: a program of the configuration does not end within the time to connect.
    """
    return _Resolver(options).route()


class _Resolver:
    """Resolves the hosts of one route, within its time to connect."""

    def __init__(self, options: SshConnectOptions) -> None:
        self._options = options
        self._context = ProgramContext.of_caller()
        self._deadline = time.monotonic() + options.connect_timeout_s

    def route(self) -> tuple[SshEndpoint, ...]:
        options = self._options
        wanted = SshJumpHost(options.host, options.port, options.username, options.auth, options.legacy_algorithms)
        target = self._endpoint(wanted, is_jump_host=False)
        if options.jump is None:
            return (*self._configured_jumps(target, (target,)), target)
        hops = tuple(self._endpoint(hop, is_jump_host=True) for hop in options.jump)
        return (*self._with_jumps(hops, (target,)), target)

    def _with_jumps(self, hops: tuple[SshEndpoint, ...], following: tuple[SshEndpoint, ...]) -> tuple[SshEndpoint, ...]:
        """Prepend the jump hosts that the configuration requires for the first hop."""
        return (*self._configured_jumps(hops[0], (*hops, *following)), *hops) if hops else ()

    def _configured_jumps(self, endpoint: SshEndpoint, following: tuple[SshEndpoint, ...]) -> tuple[SshEndpoint, ...]:
        """Return the endpoints of ProxyJump, without hosts already on the route: a ProxyJump under `Host *` includes itself."""
        hops = parse_jump_hosts(endpoint.proxy_jump) if endpoint.proxy_jump else ()
        found = (self._endpoint(hop, is_jump_host=True) for hop in hops)
        return self._with_jumps(tuple(hop for hop in found if not any(map(hop.is_same_host, following))), following)

    def _endpoint(self, hop: SshJumpHost, *, is_jump_host: bool) -> SshEndpoint:
        options = self._options
        settings = settings_for(hop, options, self._context, self._deadline)
        named = options.host_keys.known_hosts_path
        user_files = settings.known_hosts if named is None else (absolute_path(named),)
        global_files = settings.global_known_hosts if named is None else ()
        command = settings.known_hosts_command if named is None else ()
        return SshEndpoint(
            name=hop.host,
            settings=replace(settings, proxy_jump=None),
            auth=hop.auth or options.auth.without_password(),
            host_keys=replace(options.host_keys, fingerprint=None) if is_jump_host else options.host_keys,
            legacy_algorithms=hop.legacy_algorithms,
            is_jump_host=is_jump_host,
            known_hosts=(*user_files, *global_files),
            record_to=next(iter(user_files), None),
            known_hosts_command=command,
            programs=self._context if command or settings.proxy_command else None,
            time_limit_s=options.connect_timeout_s,
            proxy_jump=settings.proxy_jump,
        )

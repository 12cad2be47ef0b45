"""The route to an SSH server, with the OpenSSH configuration (ssh_config(5)) applied to the target and each jump host."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

import asyncssh

from transports.caller import absolute_path, environment
from transports.errors import InvalidOption

from .connect_options import HostKeyOptions, SshAuth, SshConnectOptions, SshJumpHost, parse_jump_hosts

#: Settings that are left to asyncssh, unmodified, if the configuration file contains them.
_OVERRIDING = ("KexAlgorithms", "Ciphers", "MACs", "HostKeyAlgorithms")
#: The default identity files of ssh(1), without those for hardware tokens.
_DEFAULT_KEYS = ("~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")
_USER_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


@dataclass(frozen=True, slots=True)
class SshEndpoint:
    """An SSH server and the credentials for it. Sessions with equal jump-host endpoints may share the connections.

    Args:
        name: the host as given; asyncssh looks it up in the files `config` again.
        known_hosts: the files to read; `record_to`: the file that `accept_new` writes to, if any.
        configured: the settings of `_OVERRIDING` that the configuration contains.
        identity_files: the keys to try if `auth` names none; missing and encrypted ones are skipped.
        agent_path: the socket of the agent, if one may be used.
        proxy_command: the program to connect through, unless there is a jump host.
        remote_command: what runs instead of the login shell.
    """

    name: str
    host: str
    port: int
    username: str
    auth: SshAuth
    host_keys: HostKeyOptions
    legacy_algorithms: bool
    is_jump_host: bool
    known_hosts: tuple[str, ...] = ()
    record_to: str | None = None
    host_key_alias: str | None = None
    config: tuple[str, ...] = ()
    configured: frozenset[str] = frozenset()
    identity_files: tuple[str, ...] = ()
    certificate_files: tuple[str, ...] = ()
    identities_only: bool = False
    agent_path: str | None = None
    proxy_command: tuple[str, ...] = ()
    remote_command: str | None = None
    proxy_jump: str | None = field(default=None, compare=False)

    @property
    def label(self) -> str:
        """The name in messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'jump host' if self.is_jump_host else 'SSH host'} {host}:{self.port}"


def resolve(options: SshConnectOptions) -> tuple[SshEndpoint, ...]:
    """Return the route: the jump hosts, first one first, and the target last. Reads files.

    Raises:
        InvalidOption: a configuration file cannot be read, or contains an invalid setting.
    """
    wanted = SshJumpHost(options.host, options.port, options.username, options.auth, options.legacy_algorithms)
    target = _endpoint(wanted, options, is_jump_host=False)
    if options.jump is None:
        return (*_configured_jumps(target, options, (target,)), target)
    hops = tuple(_endpoint(hop, options, is_jump_host=True) for hop in options.jump)
    return (*_with_jumps(hops, options, (target,)), target)


def _with_jumps(
    hops: tuple[SshEndpoint, ...], options: SshConnectOptions, following: tuple[SshEndpoint, ...]
) -> tuple[SshEndpoint, ...]:
    """Prepend the jump hosts that the configuration requires for the first hop."""
    return (*_configured_jumps(hops[0], options, (*hops, *following)), *hops) if hops else ()


def _configured_jumps(
    endpoint: SshEndpoint, options: SshConnectOptions, following: tuple[SshEndpoint, ...]
) -> tuple[SshEndpoint, ...]:
    """Return the endpoints of ProxyJump, without hosts already on the route: a ProxyJump under `Host *` includes itself."""
    hops = parse_jump_hosts(endpoint.proxy_jump) if endpoint.proxy_jump else ()
    found = (_endpoint(hop, options, is_jump_host=True) for hop in hops)
    on_route = {(hop.host, hop.port) for hop in following}
    return _with_jumps(tuple(hop for hop in found if (hop.host, hop.port) not in on_route), options, following)


def _endpoint(hop: SshJumpHost, options: SshConnectOptions, *, is_jump_host: bool) -> SshEndpoint:
    config = _config_files(options)
    parsed = _parse_config(hop, config)
    setting = parsed.config.get
    user_files, global_files = _known_hosts(options, setting)
    endpoint = SshEndpoint(
        name=hop.host,
        host=parsed.host,
        port=parsed.port,
        username=parsed.username,
        auth=hop.auth or options.auth.without_password(),
        host_keys=replace(options.host_keys, fingerprint=None) if is_jump_host else options.host_keys,
        legacy_algorithms=hop.legacy_algorithms,
        is_jump_host=is_jump_host,
        known_hosts=(*user_files, *global_files),
        record_to=next(iter(user_files), None),
        host_key_alias=parsed.host_key_alias,
        config=config,
        configured=frozenset(name for name in _OVERRIDING if setting(name) is not None),
        agent_path=_agent_path(setting),
        proxy_command=() if list(parsed.proxy_command or ()) == ["none"] else tuple(parsed.proxy_command or ()),
        remote_command=None if parsed.command == "none" else parsed.command,
        proxy_jump=parsed.tunnel,
    )
    if not options.use_openssh_config:
        return endpoint
    return replace(
        endpoint,
        identity_files=tuple(absolute_path(path) for path in setting("IdentityFile", _DEFAULT_KEYS)),
        certificate_files=tuple(absolute_path(path) for path in setting("CertificateFile", ())),
        identities_only=bool(setting("IdentitiesOnly")),
    )


def _config_files(options: SshConnectOptions) -> tuple[str, ...]:
    if not options.use_openssh_config:
        return ()
    if options.config_path is not None:
        return (absolute_path(options.config_path),)
    default = absolute_path("~/.ssh/config")
    return (default,) if os.access(default, os.R_OK) else ()


def _parse_config(hop: SshJumpHost, config: tuple[str, ...]) -> Any:
    """Return asyncssh's options for the host, parsed from the configuration files without loading keys."""
    try:
        return asyncssh.SSHClientConnectionOptions(
            config=list(config) or None,
            host=hop.host,
            port=() if hop.port is None else hop.port,
            username=() if hop.username is None else hop.username,
            client_keys=None,
            known_hosts=None,
            x509_trusted_certs=None,
            x509_trusted_cert_paths=[],
        )
    except OSError as error:
        raise InvalidOption(f"cannot read the SSH configuration {error.filename}: {error.strerror}") from error
    except (ValueError, asyncssh.Error) as error:
        files = ", ".join(config) or "the options"
        raise InvalidOption(f"the settings for {hop.host} in {files} cannot be used: {error}") from error


def _known_hosts(options: SshConnectOptions, setting: Any) -> tuple[list[str], list[str]]:
    """Return the user's and the global files. `UserKnownHostsFile none` means no file; it does not disable the check."""
    if options.host_keys.known_hosts_path is not None:
        return [absolute_path(options.host_keys.known_hosts_path)], []
    if not options.use_openssh_config:
        return [], []
    user = setting("UserKnownHostsFile", _USER_KNOWN_HOSTS)
    machine = setting("GlobalKnownHostsFile", _GLOBAL_KNOWN_HOSTS)
    return [absolute_path(path) for path in user], [absolute_path(path) for path in machine]


def _agent_path(setting: Any) -> str | None:
    """Return the agent's socket: IdentityAgent, which may be `none`, else $SSH_AUTH_SOCK."""
    path = setting("IdentityAgent", "SSH_AUTH_SOCK")
    if path == "SSH_AUTH_SOCK":
        path = environment().get("SSH_AUTH_SOCK")
    return absolute_path(path) if path else None

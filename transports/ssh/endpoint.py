"""Where to connect, once the OpenSSH configuration (ssh_config(5)) has been asked: each hop by its own entry."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

import asyncssh

from transports.caller import absolute, environment
from transports.errors import InvalidOption

from .jump import parse_jump
from .options import Auth, Hop, HostKeys, SshOptions

#: The settings whose mere presence decides something here, beside what asyncssh itself reads from the file.
_OVERRIDING = ("KexAlgorithms", "Ciphers", "MACs", "HostKeyAlgorithms")
#: What ssh(1) tries by default, without the keys that need a touch.
_DEFAULT_KEYS = ("~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")
_USER_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One SSH server and how to get into it. Two that are equal may share a connection.

    Args:
        name: as the user wrote it; asyncssh looks it up in the configuration files `config` once more.
        known_hosts: the files to read; `record_to`: the one that `accept_new` writes to, if there is one.
        identity_files: keys to try that were not named in `auth`; what is missing or encrypted is passed over.
        agent_path: the agent's socket, if one may be asked.
    """

    name: str
    host: str
    port: int
    username: str
    auth: Auth
    host_keys: HostKeys
    legacy_algorithms: bool
    is_hop: bool
    known_hosts: tuple[str, ...] = ()
    record_to: str | None = None
    host_key_alias: str | None = None
    config: tuple[str, ...] = ()
    configured: frozenset[str] = frozenset()
    identity_files: tuple[str, ...] = ()
    certificate_files: tuple[str, ...] = ()
    identities_only: bool = False
    agent_path: str | None = None
    proxy_jump: str | None = field(default=None, compare=False)

    @property
    def label(self) -> str:
        """For messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'jump host' if self.is_hop else 'SSH host'} {host}:{self.port}"


def resolve(options: SshOptions) -> tuple[Endpoint, ...]:
    """The way to the target: its jump hosts, first one first, and the target last. Reads files.

    Raises:
        InvalidOption: a configuration file cannot be read, or says what cannot be.
    """
    wanted = Hop(options.host, options.port, options.username, options.auth, options.legacy_algorithms)
    target = _endpoint(wanted, options, is_hop=False)
    if options.jump is None:
        return (*_configured_jumps(target, options, (target,)), target)
    hops = tuple(_endpoint(hop, options, is_hop=True) for hop in options.jump)
    return (*_with_jumps(hops, options, (target,)), target)


def _with_jumps(hops: tuple[Endpoint, ...], options: SshOptions, way: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """The hops, and before the first one those that its own entry asks for."""
    return (*_configured_jumps(hops[0], options, (*hops, *way)), *hops) if hops else ()


def _configured_jumps(endpoint: Endpoint, options: SshOptions, way: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """What ProxyJump says. A host that is on the way already is left out: a ProxyJump under `Host *` names itself too."""
    hops = parse_jump(endpoint.proxy_jump) if endpoint.proxy_jump else ()
    found = (_endpoint(hop, options, is_hop=True) for hop in hops)
    passed = {(hop.host, hop.port) for hop in way}
    return _with_jumps(tuple(hop for hop in found if (hop.host, hop.port) not in passed), options, way)


def _endpoint(hop: Hop, options: SshOptions, *, is_hop: bool) -> Endpoint:
    config = _config_files(options)
    asked = _ask_asyncssh(hop, config)
    setting = asked.config.get
    users_files, machines_files = _known_hosts(options, setting)
    endpoint = Endpoint(
        name=hop.host,
        host=asked.host,
        port=asked.port,
        username=asked.username,
        auth=hop.auth or options.auth.without_password(),
        host_keys=replace(options.host_keys, fingerprint=None) if is_hop else options.host_keys,
        legacy_algorithms=hop.legacy_algorithms,
        is_hop=is_hop,
        known_hosts=(*users_files, *machines_files),
        record_to=next(iter(users_files), None),
        host_key_alias=asked.host_key_alias,
        config=config,
        configured=frozenset(name for name in _OVERRIDING if setting(name) is not None),
        agent_path=_agent_path(setting),
        proxy_jump=asked.tunnel,
    )
    return _with_identities(endpoint, setting) if options.use_openssh_config else endpoint


def _config_files(options: SshOptions) -> tuple[str, ...]:
    if not options.use_openssh_config:
        return ()
    if options.config_path is not None:
        return (absolute(options.config_path),)
    default = absolute("~/.ssh/config")
    return (default,) if os.access(default, os.R_OK) else ()


def _ask_asyncssh(hop: Hop, config: tuple[str, ...]) -> Any:
    """What the configuration says of the host, in asyncssh's reading; no key is loaded."""
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


def _known_hosts(options: SshOptions, setting: Any) -> tuple[list[str], list[str]]:
    """The user's files and the machine's. `UserKnownHostsFile none` means that there are none, not that any key will do."""
    if options.host_keys.known_hosts_path is not None:
        return [absolute(options.host_keys.known_hosts_path)], []
    if not options.use_openssh_config:
        return [], []
    user = setting("UserKnownHostsFile", _USER_KNOWN_HOSTS)
    machine = setting("GlobalKnownHostsFile", _GLOBAL_KNOWN_HOSTS)
    return [absolute(path) for path in user], [absolute(path) for path in machine]


def _agent_path(setting: Any) -> str | None:
    """IdentityAgent, where `none` is no agent, or else the environment's."""
    path = setting("IdentityAgent", "SSH_AUTH_SOCK")
    if path == "SSH_AUTH_SOCK":
        path = environment().get("SSH_AUTH_SOCK")
    return absolute(path) if path else None


def _with_identities(endpoint: Endpoint, setting: Any) -> Endpoint:
    return replace(
        endpoint,
        identity_files=tuple(absolute(path) for path in setting("IdentityFile", _DEFAULT_KEYS)),
        certificate_files=tuple(absolute(path) for path in setting("CertificateFile", ())),
        identities_only=bool(setting("IdentitiesOnly")),
    )

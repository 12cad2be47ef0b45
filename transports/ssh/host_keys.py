"""The host key check: the policies, a pinned fingerprint, the errors for an unexpected key, and the known_hosts files.

asyncssh has no accept-new policy, and its check would accept a known key despite a different pinned fingerprint. It is
therefore given no host keys and calls `HostKeyCheck.check` instead (`SSHClient.validate_host_public_key`). asyncssh itself
checks only certificates, against the certificate authorities.

asyncssh also parses the files (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from transports.errors import ConnectFailed, HostKeyMismatch, InvalidOption

from .algorithms import host_key_algorithms
from .endpoint import SshEndpoint

DEFAULT_PORT = 22
_NO_KEYS: tuple[asyncssh.SSHKey, ...] = ()


class HostKeyCheck:
    """Checks the host key of one endpoint, for all attempts of one open."""

    def __init__(self, endpoint: SshEndpoint) -> None:
        """Read the endpoint's known_hosts files; must not be called in an event loop."""
        self._endpoint = endpoint
        self._policy = endpoint.host_keys.policy
        self._pinned = endpoint.host_keys.fingerprint
        # An alias replaces host and port, as in ssh(1).
        self._name = endpoint.host_key_alias or host_name(endpoint.host, endpoint.port)
        files = KnownHosts(endpoint.known_hosts)
        self._known = files.find(self._name)
        self._known_without_port = files.find(endpoint.host_key_alias or host_name(endpoint.host, DEFAULT_PORT))
        self._accepted: asyncssh.SSHKey | None = None
        self._offered: list[asyncssh.SSHKey] = []
        #: The reason for rejecting the last key.
        self.failure: HostKeyMismatch | None = None

    @property
    def _accepts_new(self) -> bool:
        return self._pinned is None and self._policy == "accept_new"

    @property
    def _uses_authorities(self) -> bool:
        return self._pinned is None and self._policy != "disabled" and bool(self._known.authorities)

    def trusted(self) -> tuple[Sequence[asyncssh.SSHKey], Sequence[asyncssh.SSHKey], Sequence[asyncssh.SSHKey]]:
        """Return asyncssh's `known_hosts`: no host keys, the certificate authorities, and the revoked keys."""
        return (_NO_KEYS, self._known.authorities, self._known.revoked) if self._uses_authorities else (_NO_KEYS,) * 3

    def algorithms(self) -> list[str] | tuple[()]:
        """Return asyncssh's `server_host_key_algs`; empty uses the user's configuration."""
        endpoint = self._endpoint
        if "HostKeyAlgorithms" in endpoint.configured and not endpoint.legacy_algorithms:
            return ()
        known = (key.get_algorithm() for key in self._known.keys)
        without = (key.get_algorithm() for key in self._offered)
        return host_key_algorithms(endpoint.legacy_algorithms, known, self._uses_authorities, without)

    def check(self, key: asyncssh.SSHKey) -> bool:
        """Return whether to accept the key; sets `failure` if not. Called at each key exchange (RFC 4253 9)."""
        if self._accepted is not None:
            return key == self._accepted
        self.failure = self._pinned_failure(key) if self._pinned is not None else self._policy_failure(key)
        if self.failure is None:
            self._accepted = key
        return self.failure is None

    def may_request_another(self) -> bool:
        """Return whether to reconnect for a host key of another type.

        A server with several keys sends one per connection, and a pinned fingerprint does not include the key type.
        """
        return self.failure is not None and self._pinned is not None and bool(self.algorithms())

    def record(self) -> None:
        """Record a key accepted by `accept_new`. Call it once the server has proved that it owns the key.

        Raises:
            HostKeyMismatch: another key for this host was recorded in the meantime.
            ConnectFailed: the file cannot be written.
        """
        key, record_to = self._accepted, self._endpoint.record_to
        if key is None or record_to is None or not self._accepts_new or self._is_known(key):
            return
        path = Path(record_to)
        # Another session may have recorded a key since the files were read.
        entries = plain_entries(path, self._name)
        if format_key(key) in entries:
            return
        if entries:
            raise self._mismatch("changed", key)
        try:
            append_entry(path, self._name, key)
        except OSError as error:
            raise ConnectFailed(
                f"cannot record the host key of {self._endpoint.label} in {path}: {error.strerror}",
                hint="make the file writable, or set known_hosts_path to another file",
                known_hosts_path=str(path),
            ) from error

    def _pinned_failure(self, key: asyncssh.SSHKey) -> HostKeyMismatch | None:
        assert self._pinned is not None
        self._offered.append(key)
        return None if key.get_fingerprint() == self._pinned.rstrip("=") else self._mismatch("fingerprint", key)

    def _policy_failure(self, key: asyncssh.SSHKey) -> HostKeyMismatch | None:
        if self._policy == "disabled":
            return None
        if key in self._known.revoked:
            return self._mismatch("changed", key)
        if self._is_known(key):
            return None
        if self._known.keys:
            return self._mismatch("changed", key)
        if self._policy == "strict" or self._endpoint.record_to is None:
            return self._mismatch("unknown", key)
        return None

    def _is_known(self, key: asyncssh.SSHKey) -> bool:
        """Return whether the key is known. As in ssh(1), the port 22 key also matches a port without an entry."""
        return key in (self._known.keys or self._known_without_port.keys)

    def _mismatch(self, reason: str, key: asyncssh.SSHKey) -> HostKeyMismatch:
        endpoint, known = self._endpoint, self._known
        fingerprint = key.get_fingerprint()
        why, hint = self._explain(reason, key)
        return HostKeyMismatch(
            f"{endpoint.label} has the {key.get_algorithm()} host key {fingerprint}, {why}",
            hint=hint,
            reason=reason,
            host=endpoint.host,
            port=endpoint.port,
            fingerprint=fingerprint,
            key_type=key.get_algorithm(),
            expected=[self._pinned] if self._pinned is not None else [one.get_fingerprint() for one in known.keys],
            known_hosts_path=known.path,
        )

    def _explain(self, reason: str, key: asyncssh.SSHKey) -> tuple[str, str]:
        """Return why the key is rejected, and the hint."""
        path = self._known.path
        if reason == "fingerprint":
            others = "".join(
                f", nor is its {other.get_algorithm()} key {other.get_fingerprint()}" for other in self._offered[:-1]
            )
            return (
                f"which is not the pinned {self._pinned}{others}: the connection is intercepted, or the device was replaced",
                "compare the fingerprint on the device itself, and set host_key_fingerprint to the correct one",
            )
        if key in self._known.revoked:
            return f"which {path} marks as revoked", "do not connect until the host has a new key"
        if reason == "changed":
            return (
                f"but {path} has another key for {self._name}: the connection is intercepted, or the device was replaced",
                f'if the change is expected, remove the old key with: ssh-keygen -R "{self._name}" -f "{path}"',
            )
        return (
            f"which is not in {path}" if path else "and no known_hosts file is configured",
            f"compare the fingerprint on the device itself, then set host_key_fingerprint to {key.get_fingerprint()}, "
            'or host_key_policy to "accept_new" to trust and record the key',
        )


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """The entries for one name.

    Args:
        keys: the host keys; `authorities`: the trusted certificate authorities; `revoked`: the keys to reject.
        path: the first file with an entry; the first file if there is no entry.
    """

    keys: Sequence[asyncssh.SSHKey] = ()
    authorities: Sequence[asyncssh.SSHKey] = ()
    revoked: Sequence[asyncssh.SSHKey] = ()
    path: str | None = None


def host_name(host: str, port: int) -> str:
    """Return the name of a server in the files: `[host]:port`, or `host` for port 22."""
    host = host.lower()
    return host if port == DEFAULT_PORT else f"[{host}]:{port}"


class KnownHosts:
    """The entries of several files. Missing files and invalid lines are skipped, as in ssh(1).

    Do not use it in an event loop: it reads files, and asyncssh calls the resolver to find out whether a name is an address.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        """Read the files.

        Raises:
            InvalidOption: a file exists but cannot be read.
        """
        self._files = [(path, _load(Path(path))) for path in paths]

    def find(self, name: str) -> KnownKeys:
        """Return the entries for a name of `host_name`. Addresses are not looked up, like ssh(1) with CheckHostIP off."""
        found = [(path, *entries.match(name, "", None)[:3]) for path, entries in self._files]
        with_entry = (path for path, keys, _, revoked in found if keys or revoked)
        return KnownKeys(
            keys=[key for _, keys, _, _ in found for key in keys],
            authorities=[key for _, _, authorities, _ in found for key in authorities],
            revoked=[key for _, _, _, revoked in found for key in revoked],
            path=next(with_entry, found[0][0] if found else None),
        )


def _load(path: Path) -> asyncssh.SSHKnownHosts:
    entries = asyncssh.import_known_hosts("")
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return entries
    except OSError as error:
        # Unlike ssh(1), which ignores the file: it may contain a key or a revocation of this host.
        raise InvalidOption(
            f"cannot read the known_hosts file {path}: {error.strerror}", hint="make the file readable"
        ) from error
    for line in text.splitlines():
        try:
            entries.load(line)
        except ValueError:
            continue
    return entries


def plain_entries(path: Path, name: str) -> list[str]:
    """Return the keys (`type base64`) under exactly this unhashed name. Fast enough for an event loop."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
    fields = (line.split() for line in lines)
    return [" ".join(field[1:3]) for field in fields if len(field) > 2 and name in field[0].split(",")]


def format_key(key: asyncssh.SSHKey) -> str:
    """Return the key in the format of the files: `type base64`."""
    return " ".join(key.export_public_key("openssh").decode("ascii").split()[:2])


def append_entry(path: Path, name: str, key: asyncssh.SSHKey) -> None:
    """Append an entry with an unhashed name. Creates a missing file with mode 0600, and its directory with 0700.

    Raises:
        OSError
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    line = f"{name} {format_key(key)}\n".encode()
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "rb+", buffering=0) as file:
        # A single write with O_APPEND is not interleaved with those of other processes.
        file.write(line if _ends_with_newline(file.fileno()) else b"\n" + line)


def _ends_with_newline(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"

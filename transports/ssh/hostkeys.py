"""Which host key is taken: the policies, a pinned fingerprint, and what is told of a key that is not the expected one.

asyncssh has no accept-new, and its own check would pass a known key by a pinned fingerprint; so it is given no host key at
all and asks here (`SSHClient.validate_host_public_key`). Certificates are checked by asyncssh against the authorities.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import asyncssh

from transports.errors import ConnectFailed, HostKeyMismatch

from . import known_hosts
from .algorithms import host_key_algorithms
from .endpoint import Endpoint
from .known_hosts import DEFAULT_PORT, KnownHosts, host_name

_NO_KEYS: tuple[asyncssh.SSHKey, ...] = ()


class HostKeyCheck:
    """Checks the host key of one endpoint, for the attempts of one open."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Reads the endpoint's known_hosts files: not for use in an event loop."""
        self._endpoint = endpoint
        self._policy = endpoint.host_keys.policy
        self._pinned = endpoint.host_keys.fingerprint
        # An alias stands for the host and its port, as in ssh(1).
        self._name = endpoint.host_key_alias or host_name(endpoint.host, endpoint.port)
        files = KnownHosts(endpoint.known_hosts)
        self._known = files.find(self._name)
        self._known_without_port = files.find(endpoint.host_key_alias or host_name(endpoint.host, DEFAULT_PORT))
        self._taken: asyncssh.SSHKey | None = None
        self._shown: list[asyncssh.SSHKey] = []
        #: Why the last key was refused.
        self.failure: HostKeyMismatch | None = None

    @property
    def _accepts_new(self) -> bool:
        return self._pinned is None and self._policy == "accept_new"

    @property
    def _uses_authorities(self) -> bool:
        return self._pinned is None and self._policy != "disabled" and bool(self._known.authorities)

    def trusted(self) -> tuple[Sequence[asyncssh.SSHKey], Sequence[asyncssh.SSHKey], Sequence[asyncssh.SSHKey]]:
        """asyncssh's `known_hosts`: no key, the authorities, and what they may not vouch for."""
        return (_NO_KEYS, self._known.authorities, self._known.revoked) if self._uses_authorities else (_NO_KEYS,) * 3

    def algorithms(self) -> list[str] | tuple[()]:
        """asyncssh's `server_host_key_algs`; empty leaves them to the user's configuration."""
        endpoint = self._endpoint
        if "HostKeyAlgorithms" in endpoint.configured and not endpoint.legacy_algorithms:
            return ()
        known = (key.get_algorithm() for key in self._known.keys)
        without = (key.get_algorithm() for key in self._shown)
        return host_key_algorithms(endpoint.legacy_algorithms, known, self._uses_authorities, without)

    def check(self, key: asyncssh.SSHKey) -> bool:
        """Whether to go on with this key; if not, `failure` says why. Called again at each new key exchange (RFC 4253 9)."""
        if self._taken is not None:
            return key == self._taken
        self.failure = self._pinned_failure(key) if self._pinned is not None else self._policy_failure(key)
        if self.failure is None:
            self._taken = key
        return self.failure is None

    def may_show_another(self) -> bool:
        """Whether to connect again for a key of another type: a server with several shows one at a time, and a fingerprint
        does not tell the type of its key."""
        return self.failure is not None and self._pinned is not None and bool(self.algorithms())

    def record(self) -> None:
        """Writes a key that `accept_new` took. To be called when the server has proved that the key is its own.

        Raises:
            HostKeyMismatch: meanwhile the file has another key for this host.
            ConnectFailed: the file cannot be written.
        """
        key, record_to = self._taken, self._endpoint.record_to
        if key is None or record_to is None or not self._accepts_new or self._is_known(key):
            return
        path = Path(record_to)
        # Another session may have recorded one since the files were read.
        entries = known_hosts.entries_in_clear(path, self._name)
        if known_hosts.entry(key) in entries:
            return
        if entries:
            raise self._mismatch("changed", key)
        try:
            known_hosts.append(path, self._name, key)
        except OSError as error:
            raise ConnectFailed(
                f"cannot record the host key of {self._endpoint.label} in {path}: {error.strerror}; "
                "make the file writable, or name another one as known_hosts_path",
                known_hosts_path=str(path),
            ) from error

    def _pinned_failure(self, key: asyncssh.SSHKey) -> HostKeyMismatch | None:
        assert self._pinned is not None
        self._shown.append(key)
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
        """As in ssh(1), the key of the host at port 22 is good for a port that has none; another key there says nothing."""
        return key in (self._known.keys or self._known_without_port.keys)

    def _mismatch(self, reason: str, key: asyncssh.SSHKey) -> HostKeyMismatch:
        endpoint, known = self._endpoint, self._known
        shown = key.get_fingerprint()
        return HostKeyMismatch(
            f"{endpoint.label} shows the {key.get_algorithm()} host key {shown}, {self._explain(reason, key)}",
            reason=reason,
            host=endpoint.host,
            port=endpoint.port,
            fingerprint=shown,
            key_type=key.get_algorithm(),
            expected=[self._pinned] if self._pinned is not None else [one.get_fingerprint() for one in known.keys],
            known_hosts_path=known.path,
        )

    def _explain(self, reason: str, key: asyncssh.SSHKey) -> str:
        path = self._known.path
        if reason == "fingerprint":
            others = "".join(
                f", nor is its {other.get_algorithm()} key {other.get_fingerprint()}" for other in self._shown[:-1]
            )
            return (
                f"which is not the pinned {self._pinned}{others}; somebody may be in between, or the device was replaced: "
                "compare it on the device itself, and open with its right host_key_fingerprint"
            )
        if key in self._known.revoked:
            return f"which {path} marks as revoked; do not connect before the host has a new key"
        if reason == "changed":
            return (
                f"but {path} has another key for {self._name}; somebody may be in between, or the device was replaced: if the "
                f'change is known to be right, remove the old key with: ssh-keygen -R "{self._name}" -f "{path}"'
            )
        where = f"which is not in {path}" if path else "and no known_hosts file is named"
        return (
            f"{where}; check the fingerprint on the device itself, then open with host_key_fingerprint "
            f'{key.get_fingerprint()}, or with host_key_policy "accept_new" to trust and record it'
        )

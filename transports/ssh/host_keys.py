"""The host key check: the policies, a pinned fingerprint, revocations, and the errors for an unexpected key.

asyncssh has no accept-new policy, its check would accept a known key despite a different pinned fingerprint, and it knows no
RevokedHostKeys. It is therefore given no host keys and calls `HostKeyCheck.present` and `HostKeyCheck.check` (`SshClient`).
asyncssh itself checks only certificates, against the certificate authorities.

A revocation has effect under every policy. One that cannot be read refuses the connection.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import asyncssh

from transports.caller import readable_file
from transports.errors import ConnectFailed, HostKeyMismatch, InvalidOption

from .algorithms import host_key_algorithms
from .endpoint import SshEndpoint
from .known_hosts import (
    KRL_MAGIC,
    KnownHostLine,
    KnownKeys,
    authority_signature,
    blob_type,
    find_keys,
    fingerprint,
    parse_lines,
    parse_revoked_keys,
    parts_of,
    read_file,
)
from .programs import ProgramContext, ProgramFailed, run_program

DEFAULT_PORT = 22
#: The number of keys that a program examines in one open: one of each type.
_MAX_EXAMINED = 6
_NO_KEYS: tuple[asyncssh.SSHKey, ...] = ()
#: The tokens of KnownHostsCommand that stand for the key.
_KEY_TOKENS = re.compile(r"(?<!%)(?:%%)*%[fIKt]")
_TOKEN = re.compile(r"%(.)")


class RevokedHostKeys:
    """The keys of the RevokedHostKeys files: lists of public keys, and key revocation lists (KRL), which ssh-keygen reads."""

    def __init__(self, paths: Sequence[str], limit_s: float) -> None:
        """Read the files. `limit_s`: how long ssh-keygen may take.

        Raises:
            InvalidOption: a file cannot be read.
        """
        self._limit_s = limit_s
        self._revoked: frozenset[bytes] = frozenset()
        self._lists: list[str] = []
        for path in paths:
            try:
                content = readable_file(path).read_bytes()
                if content.startswith(KRL_MAGIC):
                    self._lists.append(path)
                else:
                    self._revoked |= parse_revoked_keys(content)
            except (OSError, ValueError) as error:
                raise _unreadable(path, getattr(error, "strerror", None) or str(error)) from error

    @property
    def needs_program(self) -> bool:
        return bool(self._lists)

    def lists(self, parts: Sequence[bytes]) -> bool:
        """Return whether a key, or the subject or the authority of a certificate, is in a list of public keys."""
        return not self._revoked.isdisjoint(parts)

    def examine(self, blob: bytes) -> bool:
        """Return whether a KRL revokes a key or certificate. Blocks. Raises InvalidOption if ssh-keygen cannot read it."""
        return any(self._queries(path, blob) for path in self._lists)

    def _queries(self, path: str, blob: bytes) -> bool:
        context = ProgramContext.of_caller()
        program = shutil.which("ssh-keygen", path=context.variables.get("PATH", os.defpath))
        if program is None:
            raise _unreadable(path, "it is a key revocation list, which needs ssh-keygen")
        key = os.memfd_create("host_key")
        try:
            os.write(key, (blob_type(blob) or b"") + b" " + base64.b64encode(blob) + b"\n")
            command = [program, "-Q", "-f", path, "/dev/stdin"]
            status, printed, problem = run_program(command, context, time.monotonic() + self._limit_s, standard_input=key)
        except ProgramFailed as error:
            raise _unreadable(path, str(error)) from error
        finally:
            os.close(key)
        if status == 0 and printed.rstrip().endswith(b"ok"):
            return False
        if status == 1 and printed.rstrip().endswith(b"REVOKED"):
            return True
        raise _unreadable(path, problem.decode(errors="replace").strip() or f"ssh-keygen ended with status {status}")


def _unreadable(path: str, why: str) -> InvalidOption:
    return InvalidOption(
        f"cannot read the RevokedHostKeys file {path}: {why}",
        hint="correct the file, or RevokedHostKeys in the SSH configuration",
    )


class HostKeyCheck:
    """Checks the host key of one endpoint, for all attempts of one open."""

    def __init__(self, endpoint: SshEndpoint) -> None:
        """Read the endpoint's known_hosts files and revoked keys; must not be called in an event loop.

        Raises:
            InvalidOption: a file, or a line that revokes a key of the host, cannot be read.
        """
        self._endpoint = endpoint
        self._policy = endpoint.host_keys.policy
        self._pinned = endpoint.host_keys.fingerprint
        # An alias replaces host and port, as in ssh(1).
        alias = endpoint.settings.known_hosts_name
        self._name = alias or host_name(endpoint.host, endpoint.port)
        self._plain_name = alias or host_name(endpoint.host, DEFAULT_PORT)
        self._lines = [line for path in endpoint.known_hosts for line in parse_lines(read_file(path), path)]
        self._revoked = RevokedHostKeys(endpoint.settings.revoked_host_keys, endpoint.time_limit_s)
        self._known = self._known_without_port = KnownKeys()
        self._find(self._command_lines("ORDER", None))
        #: Of each key that was examined: whether a KRL revokes it, and the entries with the lines printed for it.
        self._examined: dict[bytes, tuple[bool, KnownKeys, KnownKeys]] = {}
        self._to_examine: bytes | None = None
        self._accepted: asyncssh.SSHKey | None = None
        self._offered: list[asyncssh.SSHKey] = []
        #: The reason for rejecting the last key.
        self.failure: HostKeyMismatch | None = None

    def _find(self, printed: list[KnownHostLine]) -> None:
        """Look the host up in the files, and in the lines that KnownHostsCommand printed."""
        lines, first = [*self._lines, *printed], next(iter(self._endpoint.known_hosts), None)
        self._known = find_keys(lines, self._name, first)
        self._known_without_port = find_keys(lines, self._plain_name, first)
        unreadable = self._known.unreadable or self._known_without_port.unreadable
        if unreadable is not None:
            raise InvalidOption(
                f"{unreadable}, revokes a key of {self._name}, but cannot be read", hint="correct the line, or remove it"
            )

    @property
    def _accepts_new(self) -> bool:
        return self._pinned is None and self._policy == "accept_new"

    @property
    def _uses_authorities(self) -> bool:
        return self._pinned is None and self._policy != "disabled" and bool(self._authorities)

    @property
    def _authorities(self) -> frozenset[bytes]:
        """The certificate authorities for the host, with its port and, as in ssh(1), without it."""
        return self._known.authorities | self._known_without_port.authorities

    def trusted(self) -> tuple[Sequence[asyncssh.SSHKey], Sequence[asyncssh.SSHKey], Sequence[asyncssh.SSHKey]]:
        """Return asyncssh's `known_hosts`: no host keys, the certificate authorities, and no revoked keys."""
        authorities = [key for key in map(_import, sorted(self._authorities)) if key is not None]
        return (_NO_KEYS, authorities if self._uses_authorities else _NO_KEYS, _NO_KEYS)

    def algorithms(self) -> list[str] | tuple[()]:
        """Return asyncssh's `server_host_key_algs`."""
        endpoint = self._endpoint
        configured = None if endpoint.legacy_algorithms else dict(endpoint.settings.algorithms).get("HostKeyAlgorithms")
        without = [key.get_algorithm() for key in self._offered]
        return host_key_algorithms(
            endpoint.legacy_algorithms, self._known.types, self._uses_authorities, without, configured=configured
        )

    def present(self, blob: bytes) -> None:
        """Check a key or certificate for revocation, before anything else. Called at each key exchange (RFC 4253 9).

        Raises:
            HostKeyNotVerifiable: it is revoked (`failure` is set), or must be examined first (`must_examine`).
        """
        try:
            parts = parts_of(blob)
        except ValueError:
            parts = (blob,)
        revoked = False
        if blob in self._examined:
            revoked, self._known, self._known_without_port = self._examined[blob]
        why = f"which {self._revoked_names} revokes" if revoked else self._revocation(parts)
        if why is None and self._needs_program and blob not in self._examined:
            self._to_examine, self.failure = blob, None
            raise asyncssh.HostKeyNotVerifiable("the host key must be examined by a program")
        if why is not None:
            key = parts[:2][-1]
            hint = "do not connect until the host has a new key"
            self.failure = self._mismatch("changed", fingerprint(key), _type_name(key), why, hint)
            raise asyncssh.HostKeyNotVerifiable("the host key is revoked")

    def may_trust_authority(self, blob: bytes) -> bool:
        """Return whether CASignatureAlgorithms accepts the signature in a certificate. ssh(1) has no ssh-rsa by default."""
        signature = authority_signature(blob)
        configured = dict(self._endpoint.settings.algorithms).get("CASignatureAlgorithms")
        if self._endpoint.legacy_algorithms:
            return True
        return signature not in ("", "ssh-rsa", "ssh-dss") if configured is None else signature in configured

    def _revocation(self, parts: Sequence[bytes]) -> str | None:
        """Return what revokes a key; None if nothing that was read does."""
        if self._revoked.lists(parts):
            return f"which {self._revoked_names} revokes"
        # As in ssh(1), the entries for the host without its port count for a key that has none with it.
        entries = [self._known] if self._known.has(parts[0]) else [self._known, self._known_without_port]
        for known in entries:
            if not known.revoked.isdisjoint(parts):
                return f"which {known.path} marks as revoked"
        return None

    @property
    def _revoked_names(self) -> str:
        return ", ".join(self._endpoint.settings.revoked_host_keys)

    @property
    def _needs_program(self) -> bool:
        return self._revoked.needs_program or any(map(_KEY_TOKENS.search, self._endpoint.known_hosts_command))

    def must_examine(self) -> bool:
        """Return whether a program must examine the key that the server sent, and then another connection is needed.

        A server has a few keys: one that presents more of them is not examined for ever.
        """
        return self._to_examine is not None and len(self._examined) < _MAX_EXAMINED

    def examine(self) -> None:
        """Run the programs for the key of `must_examine`. Blocks. Raises InvalidOption, ConnectFailed."""
        blob, self._to_examine = self._to_examine, None
        if blob is None:
            return
        if any(map(_KEY_TOKENS.search, self._endpoint.known_hosts_command)):
            self._find(self._command_lines("HOSTNAME", blob))
        self._examined[blob] = (self._revoked.examine(blob), self._known, self._known_without_port)

    def _command_lines(self, reason: str, blob: bytes | None) -> list[KnownHostLine]:
        """Return the lines that KnownHostsCommand prints."""
        command, context = self._endpoint.known_hosts_command, self._endpoint.programs
        if not command or context is None:
            return []
        key = ("NONE",) * 3 if blob is None else (fingerprint(blob), base64.b64encode(blob).decode(), _type_name(blob))
        values = {"%": "%", "H": self._name, "I": reason, "f": key[0], "K": key[1], "t": key[2]}
        argv = [_TOKEN.sub(lambda match: values.get(match[1], match[0]), word) for word in command]
        try:
            status, printed, problem = run_program(argv, context, time.monotonic() + self._endpoint.time_limit_s)
        except ProgramFailed as error:
            status, printed, problem = 1, b"", str(error).encode()
        if status != 0:
            raise ConnectFailed(
                f"the KnownHostsCommand for {self._endpoint.label} failed: {problem.decode(errors='replace').strip()[-400:]}",
                hint="correct KnownHostsCommand in the SSH configuration",
            )
        return parse_lines(printed, "the output of KnownHostsCommand")

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
        failure = self.failure
        return failure is not None and failure.details["reason"] == "fingerprint" and bool(self.algorithms())

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
            raise self._key_mismatch("changed", key)
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
        return None if key.get_fingerprint() == self._pinned.rstrip("=") else self._key_mismatch("fingerprint", key)

    def _policy_failure(self, key: asyncssh.SSHKey) -> HostKeyMismatch | None:
        if self._policy == "disabled" or self._is_known(key):
            return None
        if self._known.keys:
            return self._key_mismatch("changed", key)
        if self._policy == "strict" or self._endpoint.record_to is None:
            return self._key_mismatch("unknown", key)
        return None

    def _is_known(self, key: asyncssh.SSHKey) -> bool:
        """Return whether the key is known. As in ssh(1), the port 22 key also matches a port without an entry."""
        return (self._known if self._known.keys else self._known_without_port).has(key.public_data)

    def _key_mismatch(self, reason: str, key: asyncssh.SSHKey) -> HostKeyMismatch:
        return self._mismatch(reason, key.get_fingerprint(), key.get_algorithm(), *self._explain(reason, key))

    def _mismatch(self, reason: str, presented: str, key_type: str, why: str, hint: str) -> HostKeyMismatch:
        endpoint, known = self._endpoint, self._known
        return HostKeyMismatch(
            f"{endpoint.label} has the {key_type} host key {presented}, {why}",
            hint=hint,
            reason=reason,
            host=endpoint.host,
            port=endpoint.port,
            fingerprint=presented,
            key_type=key_type,
            expected=[self._pinned] if self._pinned is not None else known.fingerprints,
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


def _import(blob: bytes) -> asyncssh.SSHKey | None:
    """Return the key; None if asyncssh does not know its type."""
    try:
        return asyncssh.import_public_key((blob_type(blob) or b"") + b" " + base64.b64encode(blob))
    except ValueError:
        return None


def _type_name(blob: bytes) -> str:
    return (blob_type(blob) or b"").decode("ascii", "replace")


def host_name(host: str, port: int) -> str:
    """Return the name of a server in the files: `[host]:port`, or `host` for port 22."""
    host = host.lower()
    return host if port == DEFAULT_PORT else f"[{host}]:{port}"


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

"""known_hosts files (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT): look up a host, append an entry. Parsed with asyncssh."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from transports.errors import InvalidOption

DEFAULT_PORT = 22


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

"""known_hosts files: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT. Files are read with asyncssh's parser, line by line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from transports.errors import InvalidOption

DEFAULT_PORT = 22


@dataclass(frozen=True, slots=True)
class Known:
    """What the files say of one name.

    Args:
        keys: its host keys; `authorities`: who may certify them; `revoked`: the keys that are not to be taken any more.
        path: the file that says so, or else the first one.
    """

    keys: Sequence[asyncssh.SSHKey] = ()
    authorities: Sequence[asyncssh.SSHKey] = ()
    revoked: Sequence[asyncssh.SSHKey] = ()
    path: str | None = None


def host_name(host: str, port: int) -> str:
    """The name under which a server stands in the files: `[host]:port` unless the port is 22."""
    host = host.lower()
    return host if port == DEFAULT_PORT else f"[{host}]:{port}"


class KnownHosts:
    """The entries of some files. A file that is not there has none; a line that cannot be read is passed over, as in ssh(1).

    Not for use in an event loop: it reads files, and asyncssh's matching asks the resolver whether a name is an address.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        """Reads the files.

        Raises:
            InvalidOption: a file is there, but cannot be read.
        """
        self._files = [(path, _load(Path(path))) for path in paths]

    def find(self, name: str) -> Known:
        """The entries for a name as `host_name` makes it. Addresses are no names here: CheckHostIP is off in ssh(1) too."""
        found = [(path, *entries.match(name, "", None)[:3]) for path, entries in self._files]
        saying = (path for path, keys, _, revoked in found if keys or revoked)
        return Known(
            keys=[key for _, keys, _, _ in found for key in keys],
            authorities=[key for _, _, authorities, _ in found for key in authorities],
            revoked=[key for _, _, _, revoked in found for key in revoked],
            path=next(saying, found[0][0] if found else None),
        )


def _load(path: Path) -> asyncssh.SSHKnownHosts:
    entries = asyncssh.import_known_hosts("")
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return entries
    except OSError as error:
        # Whether a key is known cannot be told then; ssh(1) goes on as if there were none.
        raise InvalidOption(f"cannot read the known_hosts file {path}: {error.strerror}; make it readable") from error
    for line in text.splitlines():
        try:
            entries.load(line)
        except ValueError:
            continue
    return entries


def entries_in_clear(path: Path, name: str) -> list[str]:
    """The keys (`type base64`) that stand under exactly this name. Cheap enough for an event loop."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
    fields = (line.split() for line in lines)
    return [" ".join(field[1:3]) for field in fields if len(field) > 2 and name in field[0].split(",")]


def entry(key: asyncssh.SSHKey) -> str:
    """The key as it stands in a file: `type base64`."""
    return " ".join(key.export_public_key("openssh").decode("ascii").split()[:2])


def append(path: Path, name: str, key: asyncssh.SSHKey) -> None:
    """Adds an entry with a clear name. A new file is the user's own (0600), a new folder too (0700).

    Raises:
        OSError
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    line = f"{name} {entry(key)}\n".encode()
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "rb+", buffering=0) as file:
        # One write with O_APPEND: another process that appends at the same time does not tear the line.
        file.write(line if _ends_with_newline(file.fileno()) else b"\n" + line)


def _ends_with_newline(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"

"""Ways in which a file of a state directory can be damaged."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path


def _replaced(path: Path) -> None:
    """Remove what is there."""
    if path.is_symlink() or path.is_file() or path.exists():
        path.unlink()


def _written(content: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(content)
        path.chmod(0o600)

    return write


def _truncate(path: Path) -> None:
    size = path.stat().st_size if path.exists() else 0
    _written(path.read_bytes()[: size // 2] if size else b"")(path)


def _nuls(path: Path) -> None:
    _written(bytes(path.stat().st_size if path.exists() else 100))(path)


def _huge(path: Path) -> None:
    """A sparse file: it takes no room, and reads as NULs."""
    with path.open("ab") as file:
        file.truncate(2 << 30)


def _fifo(path: Path) -> None:
    _replaced(path)
    os.mkfifo(path, 0o600)


def _socket(path: Path) -> None:
    _replaced(path)
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            server.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
    path.chmod(0o600)


def _symlink(path: Path) -> None:
    _replaced(path)
    path.symlink_to("/etc/hostname")


def _directory(path: Path) -> None:
    _replaced(path)
    path.mkdir(mode=0o700)


#: Each way by its name.
DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": _written(b""),
    "truncated": _truncate,
    "garbage": _written(b"\xff\xfe garbage \x1b]8\x07\r\n" * 300),
    "binary": _written(bytes(range(256)) * 40),
    "nuls": _nuls,
    "deep": _written(b"[" * 200_000 + b"\n"),
    "deep objects": _written(b'{"raw":' * 100_000 + b"\n"),
    "huge": _huge,
    "null": _written(b"null\n"),
    "list": _written(b'[1, "two", {}]\n'),
    "other fields": _written(b'{"kind": 7, "raw": "x", "ts": [], "type": {}, "key": 1, "at": {}, "spec": 3, "line": "x"}\n'),
    "large numbers": _written(b'{"kind": "data", "raw": 9e99, "spool": 18446744073709551615, "ts": 1, "created_at": 1e999}\n'),
    "fifo": _fifo,
    "socket": _socket,
    "symlink": _symlink,
    "unreadable": lambda path: path.chmod(0) if path.exists() else None,
    "missing": _replaced,
    "directory": _directory,
}

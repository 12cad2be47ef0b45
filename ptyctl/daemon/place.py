"""Where the daemon of this user is found: the files in $PTYCTL_RUNTIME_DIR."""

from __future__ import annotations

import os
from pathlib import Path

#: sockaddr_un.sun_path holds 108 bytes with the NUL (Linux unix(7)); others hold four less.
_LONGEST_SOCKET_PATH = 103


class NoPlace(Exception):
    """The folder cannot be used; the message says why, and what mends it."""


class Place:
    """The daemon's folder, made where it is missing: 0700, and the user's own.

    Raises:
        NoPlace: it is another user's, others can enter it, it cannot be made, or its path is too long for a socket.
    """

    def __init__(self, folder: Path | None = None) -> None:
        try:
            self.folder = folder or _named() or _default()
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self.folder.stat()
        except OSError as error:
            where = error.filename or "the directory that we are in"
            raise NoPlace(f"cannot use {where}: {error.strerror}; set PTYCTL_RUNTIME_DIR to a folder of yours") from None
        if status.st_uid != os.geteuid():
            raise NoPlace(f"{self.folder} belongs to another user; set PTYCTL_RUNTIME_DIR to a folder of yours")
        if status.st_mode & 0o077:
            raise NoPlace(
                f"{self.folder} is open to others, and whoever enters it may type on your terminals; "
                f"run: chmod 700 {self.folder}"
            )
        if len(os.fsencode(self.socket)) > _LONGEST_SOCKET_PATH:
            raise NoPlace(f"{self.socket} is too long for a socket; set PTYCTL_RUNTIME_DIR to a shorter one")

    @property
    def socket(self) -> Path:
        return self.folder / "daemon.sock"

    @property
    def goes_on(self) -> bool:
        """Whether a daemon is up, or was killed, so that the next one goes on: one that ends in order removes its socket."""
        return self.socket.exists()

    @property
    def keeper_socket(self) -> Path:
        return self.folder / "keeper.sock"

    @property
    def lock(self) -> Path:
        """Held by the daemon as long as it lives."""
        return self.folder / "daemon.lock"

    @property
    def start_lock(self) -> Path:
        """Held by whoever starts a daemon."""
        return self.folder / "start.lock"

    @property
    def log(self) -> Path:
        return self.folder / "daemon.log"


def _named() -> Path | None:
    named = os.environ.get("PTYCTL_RUNTIME_DIR")
    return Path(named).absolute() if named else None


def _default() -> Path:
    """Raises NoPlace where the folder that it is in is another user's, who could put another one in its place at any time."""
    import warnings

    from platformdirs import user_runtime_dir

    with warnings.catch_warnings(action="ignore"):  # without XDG_RUNTIME_DIR it takes a folder in /tmp, which is checked here
        folder = Path(user_runtime_dir("ptyctl"))
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.parent.stat().st_uid not in (0, os.geteuid()) or folder.is_symlink():
        raise NoPlace(f"{folder} is not safe from other users; set PTYCTL_RUNTIME_DIR to a folder of yours")
    return folder

"""The runtime directory of this user's daemon, $PTYCTL_RUNTIME_DIR or a directory in /tmp, or that of a system daemon.

The log file in it is the daemon's standard error, opened by the client that starts the daemon.
"""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from pathlib import Path

from .errors import DaemonError

#: Names the user that a system daemon runs as. With it, clients use that daemon and start none.
SYSTEM_USER = "PTYCTL_SYSTEM_USER"
_SYSTEM_DIR = Path("/run/ptyctl")
#: sockaddr_un.sun_path holds 108 bytes including the NUL on Linux (unix(7)), 104 on other systems.
_MAX_SOCKET_PATH_BYTES = 103
_OWN_DIRECTORY = "set PTYCTL_RUNTIME_DIR to a directory that you own, such as ~/.ptyctl-run"
#: A larger log is renamed to daemon.log.1, before the next daemon starts or a running one writes.
MAX_LOG_BYTES = 1 << 20


class RuntimeDir:
    """The daemon's directory and the files in it.

    That of one user's daemon has mode 0700, and each process of the user creates it if it does not exist. That of a system
    daemon belongs to the system user, and clients do not create it.

    Attributes:
        path: the directory.
        owner: uid of the directory; clients trust only a daemon of this user in it.
        is_system: it is that of a system daemon.
        socket: the control socket. A daemon that exits normally removes it.
        fd_store_socket: the socket of the descriptor store.
        lock: locked by the daemon while it lives; holds its process id.
        start_lock: locked by the client that starts a daemon.
        log, previous_log: the standard error of the daemon; the second one has its earlier lines.

    Raises:
        DaemonError: the directory belongs to another user, is accessible to others, cannot be created, or its path is too
            long for a socket.
    """

    def __init__(self, path: Path | None = None, *, serves_system: bool = False) -> None:
        """Find the directory. `serves_system`: this process is the system daemon."""
        user = None if serves_system else os.environ.get(SYSTEM_USER)
        self.is_system = serves_system or bool(user)
        self.owner = _uid_of(user) if user else os.geteuid()
        try:
            self.path = path or _path_from_environment() or (_SYSTEM_DIR if self.is_system else _default_path())
            if not user:
                self.path.mkdir(mode=0o750 if serves_system else 0o700, parents=True, exist_ok=True)
            status = self.path.stat()
        except OSError as error:
            raise DaemonError(
                f"cannot use {error.filename or 'the current directory'}: {error.strerror}",
                "the system daemon is not up, or PTYCTL_RUNTIME_DIR names another directory" if user else _OWN_DIRECTORY,
            ) from None
        self.socket = self.path / "daemon.sock"
        self.fd_store_socket = self.path / "keeper.sock"
        self.lock = self.path / "daemon.lock"
        self.start_lock = self.path / "start.lock"
        self.log = self.path / "daemon.log"
        self.previous_log = self.path / "daemon.log.1"
        if status.st_uid != self.owner:
            hint = f"{SYSTEM_USER} must name the user of the system daemon" if user else _OWN_DIRECTORY
            raise DaemonError(f"{self.path} belongs to user {status.st_uid}", hint)
        if status.st_mode & (0o022 if self.is_system else 0o077):
            raise DaemonError(
                f"{self.path} is accessible to other users, who could type on your terminals",
                f"run: chmod {'750' if self.is_system else '700'} {self.path}",
            )
        if len(os.fsencode(self.socket)) > _MAX_SOCKET_PATH_BYTES:
            raise DaemonError(f"{self.socket} is too long for a socket", "set PTYCTL_RUNTIME_DIR to a shorter path")

    @property
    def has_socket(self) -> bool:
        """Whether a daemon is up or was killed. In both cases there may be sessions to return to."""
        return self.socket.exists()


def open_log(runtime_dir: RuntimeDir) -> int:
    """Open the log for appending: the last lines of a crashed daemon are needed after the next one has started."""
    with suppress(FileNotFoundError):
        if runtime_dir.log.stat().st_size > MAX_LOG_BYTES:
            runtime_dir.log.replace(runtime_dir.previous_log)
    return os.open(runtime_dir.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def rotate_log(runtime_dir: RuntimeDir) -> None:
    """Continue in a new file if standard error is the log and has become too large."""
    with suppress(OSError):  # without room or descriptors for a new file, the daemon continues in the old one
        status = os.fstat(2)
        if status.st_size > MAX_LOG_BYTES and os.path.samestat(status, runtime_dir.log.stat()):
            log = open_log(runtime_dir)
            os.dup2(log, 2)
            os.close(log)


def _uid_of(user: str) -> int:
    """Return the uid of a user, given by name or number. Raises DaemonError."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        if user.isdecimal():
            return int(user)
    raise DaemonError(f"{SYSTEM_USER} names {user}, which is no user of this machine")


def _path_from_environment() -> Path | None:
    path = os.environ.get("PTYCTL_RUNTIME_DIR")
    return Path(path).absolute() if path else None


def _default_path() -> Path:
    """Return a directory in /tmp. systemd deletes $XDG_RUNTIME_DIR at logout, and the daemon outlives its user's login.

    Raises:
        DaemonError: it is a symbolic link, which another user may have created.
    """
    path = Path(f"/tmp/ptyctl-{os.geteuid()}")
    if path.is_symlink():
        raise DaemonError(f"{path} is a symbolic link, which another user may have made", f"remove it, or {_OWN_DIRECTORY}")
    return path

"""The daemon's client of the descriptor store (`fd_store_server`)."""

from __future__ import annotations

import array
import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from transports.process import is_stopped

from .connection import peer_credentials
from .errors import DaemonError
from .fd_store_server import PACKET_BYTES
from .runtime_dir import RuntimeDir

#: How long a store that is stopped by a signal is waited for, and one that the machine is too busy to run (seconds).
ANSWER_TIMEOUT_S, BUSY_TIMEOUT_S = 2.0, 20.0
#: Delay between the store's exit and the callback, so that a store that keeps exiting causes no busy loop.
_RESTART_DELAY_S = 0.2
_SERVER = Path(__file__).with_name("fd_store_server.py")


class FdStore:
    """Holds descriptors by name, also after this process has ended.

    The store's process starts with the first descriptor. An empty store exits when the daemon disconnects.
    """

    def __init__(self, runtime_dir: RuntimeDir) -> None:
        self._runtime_dir = runtime_dir
        self._pid = 0
        self._on_exit: Callable[[], None] | None = None
        self._link = self._connect()

    @property
    def is_running(self) -> bool:
        """Whether the store's process is up. Descriptors stored before it exited are lost."""
        return self._link is not None

    def watch(self, on_exit: Callable[[], None]) -> None:
        """Call `on_exit` from the event loop shortly after the store's process has exited."""
        self._on_exit = on_exit
        self._watch_link()

    def store(self, name: str, descriptor: int) -> None:
        """Store a duplicate of a descriptor, which replaces a descriptor with the same name.

        Raises:
            OSError: the store cannot be started. The descriptor still works, but ends with this process.
        """
        if self._link is None:
            self._start()
        assert self._link is not None
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        self._link.sendmsg([b"keep " + name.encode()], rights)

    def remove(self, name: str) -> None:
        """Close the store's duplicate of the descriptor `name`, if there is one."""
        if self._link is not None:
            with suppress(OSError):  # the store has exited and holds nothing
                self._link.send(b"drop " + name.encode())

    def restore_socket(self) -> None:
        """Make the store listen again after its socket file was deleted."""
        if self._link is not None and not self._runtime_dir.fd_store_socket.exists():
            with suppress(OSError):  # the store has exited and holds nothing
                self._link.send(b"bind")

    def retrieve_all(self) -> dict[str, int]:
        """Return duplicates of all descriptors that earlier daemons stored, with close-on-exec set.

        Raises:
            DaemonError: the store does not answer. Replacing it would lose what it holds.
        """
        found: dict[str, int] = {}
        if self._link is None:
            return found
        try:
            self._link.send(b"list")
            while True:
                name, ancillary = _receive(self._link)
                if name in (b"", b"-"):
                    return found
                if ancillary:  # absent if this process is at RLIMIT_NOFILE
                    found[name.decode()] = array.array("i", ancillary[0][2][:4])[0]
        except TimeoutError:
            pid = peer_credentials(self._link).pid
            raise DaemonError(
                f"the descriptor store of local programs (process {pid}) does not answer",
                f"wake it up: kill -CONT {pid}; or end it and those programs: kill -9 {pid}",
            ) from None
        except OSError:  # an empty store is just exiting
            return found

    def close(self) -> None:
        """Disconnect. A store that holds descriptors continues to run."""
        if self._link is not None:
            if self._on_exit is not None:
                asyncio.get_running_loop().remove_reader(self._link)
            self._link.close()
            self._link = None

    def _watch_link(self) -> None:
        """Watch the link to the store. It sends only replies, so a readable link means that the store has exited."""
        if self._on_exit is not None and self._link is not None:
            asyncio.get_running_loop().add_reader(self._link, self._exited)

    def _exited(self) -> None:
        self.close()
        assert self._on_exit is not None
        asyncio.get_running_loop().call_later(_RESTART_DELAY_S, self._on_exit)

    def _connect(self) -> socket.socket | None:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.settimeout(ANSWER_TIMEOUT_S)
        try:
            link.connect(str(self._runtime_dir.fd_store_socket))
        except (FileNotFoundError, ConnectionRefusedError):
            link.close()
            return None
        if (uid := peer_credentials(link).uid) != os.geteuid():
            link.close()
            raise DaemonError(f"{self._runtime_dir.fd_store_socket} belongs to user {uid}", "remove it")
        return link

    def _start(self) -> None:
        if self._pid:
            os.waitpid(self._pid, 0)  # does not block: the link closed, which happens only when the process exits
        self._runtime_dir.fd_store_socket.unlink(missing_ok=True)
        environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SERVER), str(self._runtime_dir.fd_store_socket)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd="/", env=environment, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        with process.stdout:
            ready = process.stdout.read()
        self._pid, process.returncode = process.pid, 0  # prevents the ResourceWarning: the store outlives this process
        self._link = self._connect() if ready else None
        if self._link is None:
            raise OSError(f"the descriptor store did not start in {self._runtime_dir.path}")
        self._watch_link()


def _receive(link: socket.socket) -> tuple[bytes, list[tuple[int, int, Any]]]:
    """Return a packet of the store, and its control messages. Raises TimeoutError."""
    pid, deadline = peer_credentials(link).pid, time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            return link.recvmsg(PACKET_BYTES, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)[:2]
        except TimeoutError:
            if is_stopped(pid) or time.monotonic() >= deadline:
                raise

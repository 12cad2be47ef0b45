"""Connects a client to the daemon: starts the daemon if necessary and exchanges the handshake.

The handshake is one JSON object per line in each direction. The chosen protocol follows it.

    -> {"speaks": "mcp", "version": "0.1.0", "toolsets": "core", "cwd": "/home/me", "env": {...}, "umask": 18}
    -> {"speaks": "rpc", "version": "0.1.0", "cwd": "/home/me", "env": {...}, "umask": 18}
    <- {"ok": true, "version": "0.1.0", "pid": 4711}   or   {"ok": false, "message": "..."}

A system daemon gets no environment. A daemon that is at a limit, or does not serve the user, adds `version` and `error` to its
rejection.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ptyctl.accounts import group_name
from ptyctl.api.errors import decode_payload
from ptyctl.core import json_lines
from ptyctl.version import __version__

from .errors import ConnectionRejectedError, DaemonError
from .runtime_dir import RuntimeDir, open_log

if TYPE_CHECKING:
    from subprocess import Popen

#: How long the daemon may take to answer. A daemon that was just started restores sessions first.
ANSWER_TIMEOUT_S = 30.0
#: How long a new daemon may take to listen. It waits until its predecessor has closed its sessions.
START_TIMEOUT_S = 30.0
#: Interval at which to look for a system daemon that is being restarted (seconds).
_RESTART_POLL_S = 0.1
#: Number of further connection attempts if the daemon exits during the handshake.
_HANDSHAKE_ATTEMPTS = 3
#: Prefix of the line that reports why the daemon exits.
ERROR_PREFIX = "ptyctl daemon: "
#: The bearer token of `ptyctl serve` and of `ptyctl mcp`. No daemon and no session inherits it.
TOKEN_VARIABLE = "PTYCTL_TOKEN"
#: Settings that hold paths. The daemon runs in another working directory than the client that starts it.
_PATH_VARIABLES = ("PTYCTL_CONFIG", "PTYCTL_STATE_DIR", "PTYCTL_DEVICES_FILE", "PTYCTL_PLATFORMS_DIR")


class PeerCredentials(NamedTuple):
    """The process at the other end of a Unix socket, recorded when it connected, or began to listen."""

    pid: int
    uid: int
    gid: int


def peer_credentials(link: socket.socket) -> PeerCredentials:
    """Return the peer's credentials (SO_PEERCRED, Linux unix(7))."""
    data = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return PeerCredentials(*struct.unpack("3i", data))


def open_connection(runtime_dir: RuntimeDir, hello: bytes, *, start: bool = True) -> socket.socket:
    """Connect, send `hello`, and return the socket once the daemon has accepted it. Retries while an old daemon exits.

    Raises:
        DaemonError, OSError; ConnectionRefusedError if no daemon is up and `start` is False.
    """
    for _ in range(_HANDSHAKE_ATTEMPTS):
        link = connect(runtime_dir, start=start)
        answer = exchange_hello(link, hello)
        if answer is not None:
            if not answer["ok"]:
                link.close()
                raise rejection(answer)
            return link
        link.close()
    raise DaemonError("the daemon exits as soon as a client connects", f"see {runtime_dir.log}")


def open_rpc(runtime_dir: RuntimeDir, *, start: bool = True) -> socket.socket:
    """Connect for the daemon's RPC. Raises as `open_connection`."""
    return open_connection(runtime_dir, hello_line("rpc", to_system=runtime_dir.is_system), start=start)


def rejection(answer: dict[str, Any]) -> DaemonError:
    """Return the error that a daemon's answer reports."""
    error = answer.get("error")
    return DaemonError(answer["message"]) if error is None else ConnectionRejectedError(decode_payload(error))


def hello_line(protocol: str, *, to_system: bool = False, **fields: Any) -> bytes:
    """Return the first line that this process sends: protocol (`mcp` or `rpc`), version and the caller's environment.

    A system daemon, which runs as another user, does not get the environment.
    """
    if to_system:
        return json_lines.encode({"speaks": protocol, "version": __version__, "cwd": "/", "env": {}, **fields})
    try:
        cwd = str(Path.cwd())
    except OSError:  # the working directory was removed
        cwd = "/"
    caller = {"cwd": cwd, "env": _environment(), "umask": _umask()}
    return json_lines.encode({"speaks": protocol, "version": __version__, **caller, **fields})


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}


def _umask() -> int | None:
    """Read the umask from proc(5): os.umask would change it temporarily, for all threads."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    found = re.search(r"^Umask:\s*([0-7]+)$", status, re.MULTILINE)
    return int(found[1], 8) if found else None


def exchange_hello(link: socket.socket, hello: bytes) -> dict[str, Any] | None:
    """Send `hello` and return the daemon's answer; None if the daemon closed the connection.

    The daemon sends nothing after its answer until it is asked, so the answer is the last line received.

    Raises:
        DaemonError: the daemon does not answer in time, or the peer is not a ptyctl daemon.
    """
    received = b""
    link.settimeout(ANSWER_TIMEOUT_S)
    try:
        with suppress(ConnectionError):  # a daemon that rejects the connection may answer without reading
            link.sendall(hello)
        while not received.endswith(b"\n"):
            piece = link.recv(65536)
            if not piece:
                return None
            received += piece
    except ConnectionError:
        return None
    except TimeoutError:
        pid = peer_credentials(link).pid
        link.close()
        raise DaemonError(
            f"the daemon (process {pid}) has not answered for {ANSWER_TIMEOUT_S:.0f} s",
            f"end it: kill -9 {pid} (local shells survive)",
        ) from None
    link.settimeout(None)
    try:
        answer: dict[str, Any] = json_lines.decode(received)
    except ValueError:
        link.close()
        raise DaemonError(
            "the process that listens on the control socket is no ptyctl daemon", "end it, or set PTYCTL_RUNTIME_DIR"
        ) from None
    return answer


def version_mismatch(client_version: str, *, own_daemon: bool) -> str:
    """Return the daemon's answer to a client of another version. The message has the hint, which an old client may not show."""
    restart = "run: ptyctl daemon restart (local shells survive; SSH and Telnet sessions are closed)"
    return (
        f"the daemon is ptyctl {__version__} and this is ptyctl {client_version}; "
        f"{restart if own_daemon else 'install the same version'}"
    )


def connect(runtime_dir: RuntimeDir, *, start: bool = True) -> socket.socket:
    """Return a connected socket, before the handshake. Of several processes that call this at once, one starts the daemon.

    Raises:
        DaemonError; ConnectionRefusedError if no daemon is up and `start` is False.
    """
    link = _try_connect(runtime_dir)
    if link is not None:
        return link
    if not start:
        raise ConnectionRefusedError(f"no daemon is up in {runtime_dir.path}")
    if runtime_dir.is_system:
        return _await_system_daemon(runtime_dir)
    with _locked(runtime_dir.start_lock):
        link = _try_connect(runtime_dir)  # another process may have started it meanwhile
        if link is None:
            error = _start(runtime_dir)
            # Connect even after an error: this daemon may have exited because another one runs, whose starter was killed.
            link = _try_connect(runtime_dir)
            if link is None and error is not None:
                raise error
    if link is None:
        raise DaemonError("the daemon is up but does not listen", f"see {runtime_dir.log}")
    return link


def _try_connect(runtime_dir: RuntimeDir) -> socket.socket | None:
    """Return a connection to the daemon, or None if none listens.

    Raises:
        DaemonError: it does not serve this user, or is not that of the directory's owner.
    """
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.connect(str(runtime_dir.socket))
        uid = peer_credentials(link).uid
        if uid != runtime_dir.owner:
            raise DaemonError(f"the process that listens at {runtime_dir.socket} belongs to user {uid}", "do not use it")
    except (FileNotFoundError, ConnectionRefusedError):
        link.close()
        return None
    except PermissionError:
        link.close()
        hint = f"its users are the members of the group {group_name(runtime_dir.path.stat().st_gid)}"
        raise DaemonError(f"no permission to use {runtime_dir.socket}", hint) from None
    except BaseException:
        link.close()
        raise
    return link


def _await_system_daemon(runtime_dir: RuntimeDir) -> socket.socket:
    """Connect to a system daemon, which its service manager may be restarting: a regular shutdown removes the socket file.

    Raises:
        DaemonError: it is not up.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while runtime_dir.has_socket and time.monotonic() < deadline:
        time.sleep(_RESTART_POLL_S)
        if (link := _try_connect(runtime_dir)) is not None:
            return link
    raise DaemonError(
        f"the system daemon is not up in {runtime_dir.path}", "it is started by its administrator: systemctl start ptyctl"
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _start(runtime_dir: RuntimeDir) -> DaemonError | None:
    """Start the daemon and wait until it listens, which it signals by closing its standard output.

    Return the error if it did not start.
    """
    log = open_log(runtime_dir)
    log_start = os.fstat(log).st_size
    environment = {**_environment(), **_absolute_paths(), "PTYCTL_RUNTIME_DIR": str(runtime_dir.path)}
    try:
        daemon = _spawn(log, environment)
    finally:
        os.close(log)
    assert daemon.stdout is not None
    with daemon.stdout:
        in_time, _, _ = select.select([daemon.stdout], [], [], START_TIMEOUT_S)
        ready = in_time and daemon.stdout.read()
    if not ready:
        daemon.kill()
        daemon.wait()
        logged = runtime_dir.log.read_bytes()[log_start:].decode("utf-8", "replace").strip().splitlines()
        reason = logged[-1].removeprefix(ERROR_PREFIX) if logged else "it logged nothing"
        return DaemonError(f"the daemon did not start: {reason}", f"see {runtime_dir.log}")
    daemon.returncode = 0  # prevents the ResourceWarning of Popen.__del__: the daemon outlives this process
    return None


def _spawn(log: int, environment: dict[str, str]) -> Popen[bytes]:
    from subprocess import DEVNULL, PIPE, Popen

    return Popen(
        [sys.executable, "-m", "ptyctl.daemon"],
        stdin=DEVNULL, stdout=PIPE, stderr=log, cwd="/", env=environment, start_new_session=True,
    )  # fmt: skip


def _absolute_paths() -> dict[str, str]:
    paths = {name: path for name in _PATH_VARIABLES if (path := os.environ.get(name)) and not path.startswith("~")}
    return {name: str(Path(path).absolute()) for name, path in paths.items()}

"""Operations on a running daemon for the command line: find, start, stop, hand over, and single requests."""

from __future__ import annotations

import fcntl
import os
import select
import signal
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, NamedTuple, Self

from ptyctl.api.errors import ErrorCode, PtyctlError, decode_payload
from ptyctl.core import json_lines

from .connection import connect, exchange_hello, hello_line, open_rpc, peer_credentials, rejection
from .errors import DaemonConnectionLost, DaemonError, RequestError, no_daemon
from .runtime_dir import RuntimeDir

#: How long a daemon may take to exit. Programs in its sessions get a grace period after their hang-up.
STOP_TIMEOUT_S = 60.0
#: Makes a daemon exit and leave its sessions to the next one. SIGHUP makes it load the policy again.
HAND_OVER = signal.SIGUSR2
#: The request that opens the web console, and where it listens by default.
WEB = "web"
WEB_LISTEN = "127.0.0.1:8022"


class DaemonStatus(NamedTuple):
    """A daemon that answers.

    Attributes:
        rejection: why it serves no further connection, or None. With a rejection, the other fields after `version` are unknown.
        loop_stalls: number of times that its event loop was blocked for longer than 100 ms.
        longest_stall_ms: the longest time that it was.
        limits: for each named limit `name`, `in_use` and `limit`; of a client or session, the one that uses most.
    """

    pid: int
    version: str
    rejection: str | None = None
    loop_stalls: int = 0
    longest_stall_ms: int = 0
    limits: Sequence[dict[str, Any]] = ()


def find_daemon(runtime_dir: RuntimeDir) -> DaemonStatus | None:
    """Return the running daemon, of whatever version, or None. Raises DaemonError."""
    try:
        link = connect(runtime_dir, start=False)
    except ConnectionRefusedError:
        return None
    with closing(link):
        answer = exchange_hello(link, hello_line("rpc", to_system=runtime_dir.is_system, any_version=True, limits=True))
        peer = peer_credentials(link)  # the process that listens; a rejection does not contain its id
    if answer is None:
        return None
    if answer["ok"]:
        stalls = answer.get("loop_stalls", 0), answer.get("longest_stall_ms", 0)
        return DaemonStatus(answer["pid"], answer["version"], None, *stalls, answer.get("limits", ()))
    if "error" not in answer or peer.uid != os.geteuid():
        raise rejection(answer)
    return DaemonStatus(peer.pid, answer.get("version", "unknown"), answer["message"])


def start(runtime_dir: RuntimeDir) -> DaemonStatus:
    """Start the daemon if none is up, and return its status. Raises DaemonError."""
    connect(runtime_dir).close()
    status = find_daemon(runtime_dir)
    assert status is not None
    return status


def stop(runtime_dir: RuntimeDir) -> DaemonStatus | None:
    """Stop the daemon and close all its sessions; their history stays on disk. Returns the daemon that was stopped."""
    return _signal_and_wait(runtime_dir, signal.SIGTERM)


def hand_over(runtime_dir: RuntimeDir) -> DaemonStatus | None:
    """Stop the daemon, but keep local shells alive for the next one. Returns the daemon that was stopped."""
    return _signal_and_wait(runtime_dir, HAND_OVER)


def _signal_and_wait(runtime_dir: RuntimeDir, number: signal.Signals) -> DaemonStatus | None:
    """Send a signal to the daemon and wait until it exits. Returns its status, or None if no daemon is up.

    Raises:
        DaemonError: it is the system daemon.
        RequestError: the daemon does not exit.
    """
    if runtime_dir.is_system:
        raise DaemonError("the system daemon is stopped and restarted by its administrator", "systemctl restart ptyctl")
    status = find_daemon(runtime_dir)
    if status is None:
        return None
    try:
        process = os.pidfd_open(status.pid)
    except ProcessLookupError:
        return status
    try:
        signal.pidfd_send_signal(process, number)
        exited, _, _ = select.select([process], [], [], STOP_TIMEOUT_S)
    finally:
        os.close(process)
    if not exited:
        raise RequestError(
            f"the daemon (process {status.pid}) has not exited for {STOP_TIMEOUT_S:.0f} s", f"see {runtime_dir.log}"
        )
    return status


def is_stopping(runtime_dir: RuntimeDir) -> bool:
    """Return whether a daemon that no longer answers still holds its lock: it closes its sessions before it exits."""
    try:
        lock = os.open(runtime_dir.lock, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):  # the latter: of a system daemon, which its service manager restarts
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def request(runtime_dir: RuntimeDir, method: str, params: dict[str, Any], *, start: bool = False) -> dict[str, Any] | None:
    """Make one request over a new connection, without an event loop or models, and return the reply's fields.

    Returns None if no daemon is up and `start` is False, or if the daemon exits before it replies.

    Raises:
        DaemonError; RequestError if the daemon answers with an error.
    """
    try:
        link = open_rpc(runtime_dir, start=start)
    except ConnectionRefusedError:
        return None
    with closing(link), link.makefile("rwb") as stream:
        stream.write(json_lines.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        stream.flush()
        line = stream.readline()
    if not line:
        return None
    answer = json_lines.decode(line)
    if "error" in answer:
        error = answer["error"]
        raise RequestError(error["message"], (error.get("data") or {}).get("hint"))
    reply: dict[str, Any] = answer["result"]["reply"]
    return reply


class BlockingClient:
    """Calls of the daemon over one connection, without an event loop or models: requests and replies are JSON objects."""

    def __init__(self, runtime_dir: RuntimeDir) -> None:
        """Connect to the daemon, and start it if it is not up.

        Raises:
            PtyctlError: CONNECT_FAILED.
        """
        try:
            self._link = open_rpc(runtime_dir)
        except (DaemonError, OSError) as error:
            raise no_daemon(error) from None
        self._replies = self._link.makefile("rb")
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._replies.close()
        self._link.close()

    def call(
        self, method: str, params: dict[str, Any], on_progress: Callable[[int, float], None] | None = None
    ) -> dict[str, Any]:
        """Make a request and return the fields of its reply.

        Raises:
            PtyctlError: as the controller; IO_ERROR if the connection is lost.
        """
        call_id = self.send(method, params, progress=on_progress is not None)
        while True:
            message = self._receive()
            if message.get("method") == "progress" and on_progress is not None:
                on_progress(message["params"]["bytes"], message["params"]["seconds"])
            elif message.get("id") == call_id:
                break
        if "error" in message:
            raise _decode_error(message["error"])
        reply: dict[str, Any] = message["result"]["reply"]
        return reply

    def send(self, method: str, params: dict[str, Any], *, progress: bool = False) -> int:
        """Send a request without waiting for its reply, and return its id. A handler of SIGINT may do so at any time."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
        try:
            self._last_id += 1
            message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
            self._link.sendall(json_lines.encode({**message, **({"progress": True} if progress else {})}))
            return self._last_id
        except ConnectionError:
            raise DaemonConnectionLost from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _receive(self) -> dict[str, Any]:
        try:
            line = self._replies.readline()
        except ConnectionError:
            line = b""
        if not line:
            raise DaemonConnectionLost
        return json_lines.decode_object(line)


def _decode_error(error: dict[str, Any]) -> PtyctlError:
    data = error.get("data")
    if not isinstance(data, dict):
        return PtyctlError(ErrorCode.INTERNAL, f"the daemon rejected the request: {error['message']}")
    return decode_payload(data)

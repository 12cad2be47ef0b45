"""The daemon's server: accepts connections on the control socket and serves MCP or RPC on each."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.audit.audit_log import LimitedRows
from ptyctl.cancellation import cancel_and_wait
from ptyctl.core import json_lines
from ptyctl.core.limits import LIMITS, Limit
from ptyctl.core.principal import Principal, agent_of
from ptyctl.mcp.toolsets import DEFAULT, choose
from ptyctl.session.clients import user
from ptyctl.session.io.errors import from_os_error
from ptyctl.version import __version__
from transports.caller import Caller, on_behalf_of
from transports.process import share_of_descriptors

from .connection import PeerCredentials, peer_credentials, version_mismatch
from .errors import DaemonError, encode_rejection
from .listen_socket import ListenSocket
from .loop_watchdog import LoopWatchdog
from .rpc import OpenWeb, RpcConnection, refuse_web

_LOG = logging.getLogger(__name__)

#: How long a client may take to send its handshake.
HELLO_TIMEOUT_S = 10.0
_IDLE_POLL_S = 5.0
#: Interval at which the daemon checks that its socket file exists (seconds).
_REACHABLE_POLL_S = 1.0


#: Returns the principal of the process at the other end. Raises PtyctlError if the daemon does not serve it.
Admit = Callable[[PeerCredentials], Awaitable[Principal]]


async def admit_own_user(peer: PeerCredentials) -> Principal:
    """Return the principal of the daemon's user. Raises PtyctlError FORBIDDEN for another user."""
    if peer.uid != os.geteuid():
        raise PtyctlError(ErrorCode.FORBIDDEN, "this daemon serves its own user only", {"uid": peer.uid})
    return user()


class DaemonServer:
    """Serves connections until `stop` is called, or until it was idle for `idle_s` seconds (0: no limit).

    The daemon is idle while it has no connections and `is_used` returns False.
    """

    def __init__(
        self,
        controller: Controller,
        idle_s: float,
        is_used: Callable[[], bool],
        watchdog: LoopWatchdog,
        on_restored: Callable[[], None] = lambda: None,
        *,
        open_web: OpenWeb = refuse_web,
        limits: Mapping[str, Limit] = LIMITS,
        limits_in_use: Callable[[], dict[str, int]] = dict,
        record: Callable[..., None] = lambda event, **fields: None,
        admit: Admit = admit_own_user,
    ) -> None:
        """Create the server.

        Args:
            on_restored: called when the runtime directory was created again after it was deleted.
            open_web: opens the web console.
            limits: the named limits, of which those of connections are enforced here.
            limits_in_use: returns what is in use of the others.
            record: adds a row to the audit log.
            admit: decides whom to serve, as which principal.
        """
        self._controller = controller
        self._idle_s = idle_s
        self._is_used = is_used
        self._watchdog = watchdog
        self._on_restored = on_restored
        self._open_web = open_web
        self._stopped = asyncio.Event()
        self._uses_mcp = False
        self._connections: set[asyncio.Task[None]] = set()
        self._limits = dict(limits)
        for limit in (limits["max_connections"], limits["max_http_connections"]):
            self._limits[limit.name] = limit._replace(maximum=share_of_descriptors(limit.maximum))
        self._limit, self._process_limit = self._limits["max_connections"], limits["max_client_connections"]
        self._limits_in_use = limits_in_use
        self._record = record
        self._admit = admit
        self._refusals = LimitedRows(record, "refused", via="socket")
        #: Number of connections by the process at the other end.
        self._processes: Counter[int] = Counter()
        self._last_used = asyncio.get_running_loop().time()

    def stop(self) -> None:
        """Make `serve` return."""
        self._stopped.set()

    async def serve(self, listen_socket: ListenSocket) -> None:
        """Serve, then close the connections and remove the socket file. Sessions stay open."""
        serving = asyncio.create_task(self._accept_connections(listen_socket))
        try:
            await self._until_stopped_or_idle()
        finally:
            listen_socket.unlink()
            await cancel_and_wait(serving, *self._connections)
            self._refusals.flush()
            if self._uses_mcp:
                from ptyctl.mcp.terminal_tool import close_runtimes

                await close_runtimes(self._controller)

    async def _accept_connections(self, listen_socket: ListenSocket) -> None:
        """Accept connections until cancelled. If the socket's file was deleted, for example at a logout, create it again."""
        while True:
            listener = listen_socket.listener
            server = await asyncio.start_unix_server(self._accept, sock=listener, limit=json_lines.MAX_LINE_BYTES)
            try:
                while listen_socket.listener is listener:
                    await asyncio.sleep(_REACHABLE_POLL_S)
                    if not listen_socket.is_reachable():
                        self._restore(listen_socket)
            finally:
                server.close()  # not wait_closed: since Python 3.12.1 it waits for the connections too

    def _restore(self, listen_socket: ListenSocket) -> None:
        try:
            if listen_socket.restore():
                _LOG.warning("the runtime directory was deleted; its socket was created again")
                self._on_restored()
        except (OSError, DaemonError) as error:
            _LOG.warning("the runtime directory was deleted and cannot be created", extra={"why": str(error)})

    async def _until_stopped_or_idle(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopped.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_POLL_S if self._idle_s else None):
                    await self._stopped.wait()
            if self._connections or self._is_used():
                self._last_used = loop.time()
            elif self._idle_s and loop.time() >= self._last_used + self._idle_s:
                return

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection in a task of this server, because asyncio logs the cancellation of tasks that it creates."""
        task = asyncio.create_task(self._serve_connection(reader, writer), name="connection")
        self._connections.add(task)
        task.add_done_callback(partial(self._disconnected, writer))

    def _disconnected(self, writer: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._last_used = asyncio.get_running_loop().time()
        writer.close()
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a connection failed", exc_info=error)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = peer_credentials(writer.get_extra_info("socket"))
        try:
            self._limit.check(len(self._connections) - 1)
            self._process_limit.check(self._processes[peer.pid])
        except PtyctlError as error:
            writer.write(encode_rejection(error))
            return
        self._processes[peer.pid] += 1
        try:
            await self._serve_client(reader, writer, peer)
        finally:
            self._processes[peer.pid] -= 1
            self._processes += Counter()  # removes those without a connection

    def _status(self) -> dict[str, Any]:
        in_use = self._limits_in_use()
        in_use[self._limit.name] = len(self._connections)
        in_use[self._process_limit.name] = max(self._processes.values(), default=0)
        return {"limits": [limit.use(in_use.get(name, 0)).payload() for name, limit in self._limits.items()]}

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: PeerCredentials) -> None:
        is_own_user = peer.uid == os.geteuid()
        try:
            principal = await self._admitted(peer)
            hello = await _read_hello(reader, is_own_user)
            if hello["speaks"] == "mcp":
                principal = agent_of(principal)
                serve_mcp = await asyncio.to_thread(self._prepare_mcp, hello, principal)
            else:
                serve_mcp = None
        except _RejectedError as error:
            writer.write(json_lines.encode({"ok": False, "message": str(error)}))
            return
        except PtyctlError as error:
            writer.write(encode_rejection(error))
            return
        except OSError as error:
            writer.write(encode_rejection(from_os_error(error)))
            return
        stalls = {"loop_stalls": self._watchdog.stalls, "longest_stall_ms": round(self._watchdog.longest_s * 1000)}
        status = self._status() if hello.get("limits") else {}
        writer.write(json_lines.encode({"ok": True, "version": __version__, "pid": os.getpid(), **stalls, **status}))
        # Programs of this daemon run as its user: another user does not choose their environment.
        caller = Caller(hello["cwd"], hello["env"], hello.get("umask")) if is_own_user else None
        with on_behalf_of(caller), self._recorded(principal=principal.name, via=hello["speaks"], pid=peer.pid, uid=peer.uid):
            if serve_mcp is None:
                await RpcConnection(self._controller, reader, writer, principal, self._open_web).run()
            else:
                await serve_mcp(reader, writer)

    async def _admitted(self, peer: PeerCredentials) -> Principal:
        try:
            return await self._admit(peer)
        except PtyctlError as error:
            self._refusals.record(pid=peer.pid, uid=peer.uid, why=error.message)
            raise

    @contextmanager
    def _recorded(self, **fields: object) -> Iterator[None]:
        """Record a connection's start and end."""
        self._record("connect", **fields)
        try:
            yield
        finally:
            self._record("disconnect", **fields)

    def _prepare_mcp(
        self, hello: dict[str, Any], principal: Principal
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        """Return a function that serves an MCP client. Called in a thread.

        The first call imports the MCP SDK, which takes longer than the rest of the daemon's start, and defines the tools.
        """
        from ptyctl.mcp.message_stream import serve_streams
        from ptyctl.mcp.server import build_server

        self._uses_mcp = True
        tools = choose(hello.get("toolsets", DEFAULT))
        return partial(serve_streams, build_server(self._controller, tools, full_text=hello.get("full_text")), principal)


class _RejectedError(Exception):
    """The handshake is rejected; the message is sent to the client."""


async def _read_hello(reader: asyncio.StreamReader, is_own_user: bool) -> dict[str, Any]:
    """Return the client's handshake. Raises _RejectedError."""
    try:
        async with asyncio.timeout(HELLO_TIMEOUT_S):
            line = await reader.readline()
        hello = json_lines.decode_request(line)
    except (TimeoutError, ValueError, OSError):
        hello = None
    if not isinstance(hello, dict) or hello.get("speaks") not in ("mcp", "rpc"):
        raise _RejectedError('the first line must be {"speaks": "mcp" or "rpc", "version", "cwd", "env"}')
    if hello.get("version") != __version__ and not hello.get("any_version"):
        raise _RejectedError(version_mismatch(str(hello.get("version")), own_daemon=is_own_user))
    if not _describes_caller(hello):
        raise _RejectedError(
            "the first line needs cwd (an absolute path), env (an object of strings) and umask (a number or null)"
        )
    if hello["speaks"] == "mcp":
        try:
            choose(str(hello.get("toolsets", DEFAULT)))
        except ValueError as error:
            raise _RejectedError(str(error)) from None
    return hello


def _describes_caller(hello: dict[str, Any]) -> bool:
    cwd, env = hello.get("cwd"), hello.get("env")
    is_env = isinstance(env, dict) and all(
        isinstance(value, str) and _is_valid_variable(name, value) for name, value in env.items()
    )
    umask = hello.get("umask")
    is_umask = umask is None or (type(umask) is int and 0 <= umask <= 0o777)
    return is_env and isinstance(cwd, str) and cwd.startswith("/") and is_umask


def _is_valid_variable(name: str, value: str) -> bool:
    """Return whether execve(2) accepts the variable."""
    return bool(name) and "=" not in name and "\0" not in name + value

"""`ptyctl bridge`: serves this user's daemon to containers over TCP, after a handshake that proves a token of both sides.

The clients are one principal, an agent with the role operator that is named by the token. What they claim to be is replaced.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import NamedTuple

from ptyctl.api.errors import PtyctlError
from ptyctl.api.messages import INVALID_REQUEST, METHOD_NOT_FOUND
from ptyctl.api.methods import APPROVALS, AUDIT, GC, METHODS, NOTIFY, POLICY
from ptyctl.audit.audit_log import LimitedRows
from ptyctl.cancellation import cancel_and_wait
from ptyctl.client_lines import LongLineError, read_line
from ptyctl.core import json_lines
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.http.access import parse_ip
from ptyctl.http.listener import Listener
from ptyctl.terminal.handshake import MAX_MESSAGE_BYTES, HandshakeError, Ready, ServerHandshake, token_name

from .connection import open_rpc
from .errors import DaemonError
from .runtime_dir import RuntimeDir

_LOG = logging.getLogger(__name__)

#: The permitted calls of clients: calls on sessions, without answers to approval requests and administration.
ALLOWED_METHODS = frozenset(METHODS) - {APPROVALS, AUDIT, GC, NOTIFY, POLICY}
#: How long a client may take for the handshake (seconds).
PROOF_TIMEOUT_S = 5.0
MAX_CONNECTIONS = 64
#: Connections before their proof.
MAX_UNPROVEN = 16
#: Failed proofs of an address within a minute. For the rest of it, the address has fewer connections before their proof. It is
#: not refused: containers share an address, and another one may know the token.
MAX_FAILURES = 10
FAILURE_PERIOD_S = 60.0
MAX_UNPROVEN_AFTER_FAILURES = 4
#: Timeout of the connection to the daemon (seconds): below the default timeout of a client.
DAEMON_TIMEOUT_S = 2.5
#: How long a refused client may take to close its side (seconds).
_REFUSAL_S = 1.0
#: Pause after a connection that could not be accepted (seconds).
_ACCEPT_RETRY_S = 1.0
#: Number of addresses whose failures are remembered.
_MAX_ADDRESSES = 1024
_PIECE_BYTES = 64 * 1024


class ListenError(Exception):
    """The address cannot be used. `str()` gives the reason and the next step."""


class Streams(NamedTuple):
    """A connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


def open_listener(text: str, *, all_addresses: bool = False) -> socket.socket:
    """Return a socket that listens at HOST:PORT.

    Args:
        all_addresses: whether the address may be that of all interfaces.

    Raises:
        ListenError
    """
    host, _, port = text.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]")
    address = parse_ip(host)
    if address is None or not port.isdecimal() or int(port) > 65535:
        raise ListenError(f"--listen {text} is not an IP address and a port; for example 127.0.0.1:45459")
    if address.is_unspecified and not all_addresses:
        raise ListenError(
            f"--listen {text} is every address of this machine; name the one that containers use, or add --all-addresses"
        )
    try:
        return Listener.at(str(address), int(port), MAX_UNPROVEN, _encode_refusal)
    except OSError as error:
        why = "the port is in use" if error.errno == errno.EADDRINUSE else os.strerror(error.errno or 0)
        raise ListenError(f"--listen {text}: {why}; choose another address or port") from None


def bridge_principal(token: str) -> Principal:
    """Return the principal of the clients that know a token. No login and no named token has a name with a slash."""
    return Principal(f"bridge/{token_name(token)}", Kind.AGENT, Role.OPERATOR)


async def connect_daemon(runtime_dir: RuntimeDir) -> Streams:
    """Connect to this user's daemon, which is started if necessary. Raises HandshakeError."""
    opening = asyncio.ensure_future(asyncio.to_thread(open_rpc, runtime_dir))
    try:
        link = await asyncio.shield(opening)
        return Streams(*await asyncio.open_unix_connection(sock=link, limit=json_lines.MAX_REPLY_LINE_BYTES))
    except (DaemonError, OSError) as error:
        _LOG.warning("the daemon cannot be reached", extra={"why": str(error)})
        raise HandshakeError("unavailable", "the host's daemon cannot be reached") from None
    except asyncio.CancelledError:
        opening.add_done_callback(_close_link)  # the thread cannot be cancelled
        raise


def _close_link(opening: asyncio.Future[socket.socket]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class BridgeServer:
    """Relays the calls of clients that have proved the token to the daemon."""

    def __init__(
        self,
        token: str,
        connect: Callable[[], Awaitable[Streams]],
        record: Callable[..., None],
        *,
        proof_timeout_s: float = PROOF_TIMEOUT_S,
        daemon_timeout_s: float = DAEMON_TIMEOUT_S,
    ) -> None:
        """Create the connection.

        Args:
            connect: connects to the daemon; raises HandshakeError.
            record: adds a row to the audit log.
        """
        self._token = token
        self._principal = asdict(bridge_principal(token))
        self._connect = connect
        self._record = record
        self._proof_timeout_s = proof_timeout_s
        self._daemon_timeout_s = daemon_timeout_s
        self._refusals = LimitedRows(record, "refused", via="bridge")
        self._connections: set[asyncio.Task[None]] = set()
        #: Connections before their proof, by address.
        self._unproven: Counter[str] = Counter()
        #: Connections that are being refused.
        self._refused = 0
        self._failures: dict[str, deque[float]] = {}

    async def serve(self, listener: socket.socket) -> None:
        """Serve until cancelled; then close the connections and the socket. Sessions stay open."""
        listener.setblocking(False)
        try:
            while True:
                await self._accept(listener)
        finally:
            listener.close()
            await cancel_and_wait(*self._connections)
            self._refusals.flush()

    async def _accept(self, listener: socket.socket) -> None:
        try:
            link, peer = await asyncio.get_running_loop().sock_accept(listener)
        except OSError as error:  # reset before it was accepted, or no descriptor is left
            _LOG.warning("a connection of the bridge cannot be accepted", extra={"why": error.strerror})
            await asyncio.sleep(_ACCEPT_RETRY_S)
            return
        task = asyncio.create_task(self._serve_connection(link, str(peer[0])), name="bridge connection")
        self._connections.add(task)
        task.add_done_callback(self._disconnected)

    def _disconnected(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a connection of the bridge failed", exc_info=error)

    async def _serve_connection(self, link: socket.socket, address: str) -> None:
        with link:
            try:
                link.setblocking(False)
                link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                daemon, ready, answer = await self._admit(link, address)
            except HandshakeError as error:
                self._refusals.record(address=address, why=error.message)
                await self._refuse(link, error)
                return
            except OSError:
                return
            try:
                own = socket.socket(fileno=link.detach())
                client = Streams(*await asyncio.open_connection(sock=own, limit=json_lines.MAX_LINE_BYTES))
                client.writer.write(answer)
                await self._serve_client(client, daemon, ready, address)
            finally:
                daemon.writer.close()

    async def _serve_client(self, client: Streams, daemon: Streams, ready: Ready, address: str) -> None:
        """Serve a client that has proved the token."""
        fields = {"principal": self._principal["name"], "via": "bridge", "address": address}
        fields |= {"trace_id": ready.trace_id, "runtime_session_id": ready.runtime_session_id}
        self._record("connect", **fields)
        try:
            await self._relay(client, daemon)
        finally:
            client.writer.close()
            self._record("disconnect", **fields)

    async def _refuse(self, link: socket.socket, error: HandshakeError) -> None:
        """Send a refusal. Read until the client closes, for a moment: unread data would reset the connection."""
        if self._refused >= MAX_UNPROVEN:
            return
        self._refused += 1
        try:
            async with asyncio.timeout(_REFUSAL_S):
                await asyncio.get_running_loop().sock_sendall(link, error.encode())
                link.shutdown(socket.SHUT_WR)
                while await asyncio.get_running_loop().sock_recv(link, MAX_MESSAGE_BYTES):
                    pass
        except (OSError, TimeoutError):
            return
        finally:
            self._refused -= 1

    async def _admit(self, link: socket.socket, address: str) -> tuple[Streams, Ready, bytes]:
        """Exchange the handshake up to its last message, and connect to the daemon; return that message too.

        Raises:
            HandshakeError, OSError
        """
        with self._count_unproven(address):
            try:
                async with asyncio.timeout(self._proof_timeout_s):
                    answer, ready = await _prove(link, ServerHandshake(self._token))
            except TimeoutError:
                self._add_failure(address)
                raise HandshakeError("protocol", "the handshake was not finished in time") from None
            except HandshakeError as error:
                if error.reason == "proof":
                    self._add_failure(address)
                raise
        try:
            async with asyncio.timeout(self._daemon_timeout_s):
                daemon = await self._connect()
        except TimeoutError:
            raise HandshakeError("unavailable", "the host's daemon has not answered in time") from None
        return daemon, ready, answer

    @contextmanager
    def _count_unproven(self, address: str) -> Iterator[None]:
        """Count a connection until its proof. Raises HandshakeError if there are too many."""
        self._unproven[address] += 1
        try:
            if self._unproven.total() > MAX_UNPROVEN or len(self._connections) - self._refused > MAX_CONNECTIONS:
                raise HandshakeError("limit", "the bridge has too many connections")
            failed = self._recent_failures(address) >= MAX_FAILURES
            if failed and self._unproven[address] > MAX_UNPROVEN_AFTER_FAILURES:
                raise HandshakeError("limit", "too many failed handshakes of this address; wait a minute")
            yield
        finally:
            self._unproven[address] -= 1
            if not self._unproven[address]:
                del self._unproven[address]

    async def _relay(self, client: Streams, daemon: Streams) -> None:
        """Relay until one side closes its connection."""
        tasks = [
            asyncio.create_task(self._relay_calls(client, daemon.writer)),
            asyncio.create_task(_relay_replies(daemon.reader, client.writer)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for result in await cancel_and_wait(*tasks):
                if isinstance(result, Exception) and not isinstance(result, OSError):
                    raise result

    async def _relay_calls(self, client: Streams, daemon: asyncio.StreamWriter) -> None:
        """Relay calls of the controller's methods, each made for the bridge's principal. A long line ends the connection."""
        while True:
            try:
                line = await read_line(client.reader)
            except LongLineError as error:
                client.writer.write(_rejection(error.call_id, INVALID_REQUEST, str(error)))
                return
            if not line:
                return
            try:
                message = json_lines.decode_request(line)
            except ValueError:
                message = None
            method = message.get("method") if isinstance(message, dict) else None
            if not isinstance(message, dict) or not isinstance(method, str):
                client.writer.write(_rejection(json_lines.find_id(line), INVALID_REQUEST, "the line is not a request"))
            elif method in ALLOWED_METHODS:
                daemon.write(json_lines.encode({**message, "principal": self._principal}))
            elif method == "cancel":
                daemon.write(json_lines.encode(message))
            else:
                client.writer.write(_rejection(json_lines.find_id(line), METHOD_NOT_FOUND, "the bridge has no such method"))
            await daemon.drain()
            await client.writer.drain()

    def _recent_failures(self, address: str) -> int:
        failures = self._failures.get(address, ())
        now = asyncio.get_running_loop().time()
        return sum(now < failed + FAILURE_PERIOD_S for failed in failures)

    def _add_failure(self, address: str) -> None:
        failures = self._failures.pop(address, None) or deque(maxlen=MAX_FAILURES)
        failures.append(asyncio.get_running_loop().time())
        self._failures[address] = failures  # the last one in the order of the dictionary
        while len(self._failures) > _MAX_ADDRESSES:
            del self._failures[next(iter(self._failures))]


async def _prove(link: socket.socket, handshake: ServerHandshake) -> tuple[bytes, Ready]:
    """Exchange the handshake up to the last message; return that, and its result.

    Reads at most MAX_MESSAGE_BYTES per message: a client without proof gets no buffer of the relay's size.

    Raises:
        HandshakeError
        OSError: the connection is lost, or closed before the first byte, for example by a check of the port.
    """
    loop = asyncio.get_running_loop()
    is_first = True
    while True:
        line = await _receive_message(link)
        if not line and is_first:
            raise ConnectionAbortedError(errno.ECONNABORTED, "the client has sent nothing")
        is_first = False
        answer = handshake.receive(line)
        if handshake.ready is not None:
            return answer, handshake.ready
        await loop.sock_sendall(link, answer)


async def _receive_message(link: socket.socket) -> bytes:
    """Return the next message; empty at the end of the stream. Raises HandshakeError, OSError."""
    line = b""
    while not line.endswith(b"\n"):
        piece = await asyncio.get_running_loop().sock_recv(link, MAX_MESSAGE_BYTES - len(line))
        if not piece and not line:
            return b""
        if not piece:
            raise HandshakeError("protocol", "the client closed the connection during the handshake")
        line += piece
        if b"\n" in line[:-1]:
            raise HandshakeError("protocol", "the client sends more than one message of the handshake")
        if len(line) == MAX_MESSAGE_BYTES and not line.endswith(b"\n"):
            raise HandshakeError("protocol", f"a line of the handshake has more than {MAX_MESSAGE_BYTES} bytes")
    return line


async def _relay_replies(daemon: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
    while piece := await daemon.read(_PIECE_BYTES):
        client.write(piece)
        await client.drain()


def _rejection(call_id: int | str | None, code: int, message: str) -> bytes:
    return json_lines.encode({"jsonrpc": "2.0", "id": call_id, "error": {"code": code, "message": message}})


def _encode_refusal(error: PtyctlError) -> bytes:
    return HandshakeError("limit", error.message).encode()


async def run_bridge(listener: socket.socket, token: str, runtime_dir: RuntimeDir, record: Callable[..., None]) -> None:
    """Serve until cancelled. The daemon is started first, because clients do not wait long enough for its start."""
    with suppress(asyncio.CancelledError):
        with suppress(HandshakeError):  # logged; the next client tries again
            (await connect_daemon(runtime_dir)).writer.close()
        await BridgeServer(token, partial(connect_daemon, runtime_dir), record).serve(listener)

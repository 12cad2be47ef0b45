"""An adapter for a runtime at the other end of a byte stream, with the handshake and then the daemon's RPC."""

from __future__ import annotations

import asyncio
import itertools
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError

from ptyctl.api.errors import PtyctlError
from ptyctl.api.exec import ExecRequest
from ptyctl.api.messages import decode_error, decode_reply, encode_request
from ptyctl.api.model import Reply, Request
from ptyctl.api.pty import PtyEndSession
from ptyctl.api.session import SessionRequest
from ptyctl.cancellation import cancel_and_wait
from ptyctl.controller.call_memory import encode_call, mark_repeated
from ptyctl.core import json_lines
from ptyctl.session.calls.termination import KILL_AFTER_S, KILLED_GRACE_S
from ptyctl.session.clients import current_client
from ptyctl.terminal.errors import TerminalError, TerminalErrorCode
from ptyctl.terminal.handshake import MAX_MESSAGE_BYTES, REMEMBERS_CALLS, ClientHandshake, HandshakeError, Ready
from ptyctl.trace import current_trace_id

from .base import ConnectInput, ConnectResult, HealthCheckResult, RecoverResult, RuntimeAdapter, SentRequest

#: Method of the calls that check the runtime and list its sessions.
_LIST = "ptyctl_session"


class RuntimeStreams(NamedTuple):
    """A connection to a runtime before its handshake. `source` names the candidate."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    source: str


@dataclass(slots=True)
class _Link:
    """A connection after its handshake."""

    streams: RuntimeStreams
    result: ConnectResult
    calls: dict[int, asyncio.Future[Reply]] = field(default_factory=dict)
    #: Calls with the answer of an earlier call.
    repeated: set[int] = field(default_factory=set)
    task: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        return self.task is not None and not self.task.done()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message. Raises TerminalError INVALID_PAYLOAD if it is too long."""
        line = json_lines.encode(message)
        if len(line) > json_lines.MAX_LINE_BYTES:
            text = f"the request is longer than {json_lines.MAX_LINE_BYTES} bytes"
            raise TerminalError(TerminalErrorCode.INVALID_PAYLOAD, text, {"delivery": "not_sent"})
        self.streams.writer.write(line)

    async def receive(self) -> bytes:
        """Return the next line; empty at the end. Raises OSError; ValueError if the line is too long."""
        return await self.streams.reader.readline()

    def close(self) -> None:
        """Begin to close the connection, after all sent data."""
        self.streams.writer.close()

    async def wait_closed(self) -> None:
        """Wait until the connection is closed. Raises OSError if it was lost."""
        await self.streams.writer.wait_closed()


class RpcAdapter(RuntimeAdapter):
    """Base of the adapters with a connection. Calls run concurrently. A call that was sent is never sent again."""

    def __init__(self, request_timeout_ms: int) -> None:
        """Create the adapter. `request_timeout_ms`: timeout of a call, in addition to the wait that the call requests."""
        self._request_timeout_ms = request_timeout_ms
        self._numbers = itertools.count(1)
        self._link: _Link | None = None
        self._opening = False
        #: Requests of the contract that use it; each makes several calls.
        self._users = 0

    @property
    def is_connected(self) -> bool:
        """Whether a connection is up."""
        return self._link is not None and self._link.is_up

    @property
    def is_busy(self) -> bool:
        """Whether the adapter is connecting, is used by a request, or has a call that waits for its reply."""
        return self._opening or self._users > 0 or (self._link is not None and bool(self._link.calls))

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Count a request of the contract that uses it."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    @property
    def remembers_calls(self) -> bool:
        """Return whether the runtime of the last connection does."""
        return self._link is not None and REMEMBERS_CALLS in self._link.result.capabilities

    @property
    def runtime_session_id(self) -> str | None:
        """The id of the runtime session of the last connection."""
        return None if self._link is None else self._link.result.runtime_session_id

    @abstractmethod
    async def _open(self, what: ConnectInput) -> tuple[RuntimeStreams, Ready]:
        """Connect to the first candidate that is usable, and exchange the handshake. Raises TerminalError."""

    async def _closed(self) -> None:
        """Called when a connection has ended."""

    async def connect(self, what: ConnectInput) -> ConnectResult:
        self._opening = True
        try:
            await self.close()
            streams, ready = await self._open(what)
        finally:
            self._opening = False
        result = ConnectResult(streams.source, ready.version, ready.runtime_session_id, ready.capabilities)
        self._link = link = _Link(streams, result)
        link.task = asyncio.create_task(self._read(link), name="runtime replies")
        return result

    async def health_check(self) -> HealthCheckResult:
        begin = time.monotonic()
        try:
            await self.await_response(await self.send_request(_LIST, SessionRequest(action="list")))
        except TerminalError as error:
            return HealthCheckResult(False, {"code": str(error.code), "message": error.message})
        except PtyctlError as error:
            return HealthCheckResult(False, {"error_code": str(error.code), "message": error.message})
        return HealthCheckResult(True, {"latency_ms": round((time.monotonic() - begin) * 1000)})

    async def send_request(self, method: str, request: Request) -> SentRequest:
        link = self._link
        if link is None or not link.is_up:
            raise self._disconnected("the connection to the runtime is lost", "not_sent")
        number = next(self._numbers)
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method, "params": encode_request(request)}
        message |= encode_call()
        if (client := current_client()) is not None:
            message["principal"] = asdict(client.principal)
        if (trace_id := current_trace_id()) is not None:
            message["trace_id"] = trace_id
        link.send(message)
        link.calls[number] = asyncio.get_running_loop().create_future()
        return SentRequest(number, _wait_ms(request))

    async def await_response(self, sent: SentRequest) -> Reply:
        link = self._link
        future = None if link is None else link.calls.get(sent.number)
        if link is None or future is None:
            raise self._disconnected("the connection to the runtime was lost during the call", "sent")
        limit_ms = self._request_timeout_ms + sent.wait_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await future
        except TimeoutError:
            self._cancel(link, sent)
            details = {"timeout_ms": limit_ms, "delivery": "sent", **self._ids()}
            raise TerminalError(TerminalErrorCode.TIMEOUT, "the runtime has not answered in time", details) from None
        except asyncio.CancelledError:
            self._cancel(link, sent)
            raise
        finally:
            link.calls.pop(sent.number, None)
            if sent.number in link.repeated:
                link.repeated.discard(sent.number)
                mark_repeated()

    async def close(self) -> None:
        link = self._link
        if link is None or link.task is None:
            return
        link.close()
        await cancel_and_wait(link.task)
        with suppress(OSError):
            await link.wait_closed()
        await self._closed()

    async def recover(self, what: ConnectInput) -> RecoverResult:
        connection = await self.connect(what)
        reply: Any = await self.await_response(await self.send_request(_LIST, SessionRequest(action="list", details=True)))
        entries = [entry for entry in reply.sessions or () if entry.terminal is not None and entry.state != "closed"]
        found = (entry for entry in entries if entry.terminal.runtime_session_id == what.runtime_session_id)
        return RecoverResult(connection, tuple(found))

    def _cancel(self, link: _Link, sent: SentRequest) -> None:
        if link.is_up:
            link.send({"jsonrpc": "2.0", "method": "cancel", "params": {"id": sent.number}})

    async def _read(self, link: _Link) -> None:
        """Receive replies until the connection ends, which fails the calls that wait."""
        try:
            while line := await link.receive():
                _receive(link, json_lines.decode(line))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # lost, or the peer violates the protocol
            pass
        finally:
            link.close()
            for future in link.calls.values():
                if not future.done():
                    future.set_exception(self._disconnected("the connection to the runtime was lost during the call", "sent"))
                    future.exception()  # a call whose caller was cancelled is not reported

    def _disconnected(self, message: str, delivery: str) -> TerminalError:
        return TerminalError(TerminalErrorCode.DISCONNECTED, message, {"delivery": delivery, **self._ids()})

    def _ids(self) -> dict[str, str]:
        session_id = self.runtime_session_id
        return {"adapter": self.adapter_type, **({"runtime_session_id": session_id} if session_id else {})}


def _wait_ms(request: Request) -> int:
    """Return for how long a request itself may wait."""
    if isinstance(request, ExecRequest):
        return request.timeout_ms or 0
    return round((KILL_AFTER_S + KILLED_GRACE_S) * 1000) if isinstance(request, PtyEndSession) and request.force else 0


def _receive(link: _Link, message: dict[str, Any]) -> None:
    future = link.calls.get(message.get("id") or 0)
    if future is None or future.done():  # progress, or a call that was cancelled
        return
    if message.get("repeated") is True:
        link.repeated.add(message["id"])
    if "error" in message:
        future.set_exception(decode_error(message["error"]))
        return
    try:
        future.set_result(decode_reply(message["result"]))
    except (KeyError, ValidationError):  # of another version
        details = {"delivery": "sent"}
        future.set_exception(TerminalError(TerminalErrorCode.DISCONNECTED, "the runtime's reply cannot be read", details))


async def exchange(streams: RuntimeStreams, handshake: ClientHandshake) -> Ready:
    """Exchange the handshake. The caller sets a timeout.

    Does not use `readline`, whose limit is the size of a reply: a peer without a proof must not fill more memory than one
    handshake message needs.

    Raises:
        HandshakeError, OSError.
    """
    streams.writer.write(handshake.hello())
    received = b""
    while True:
        while b"\n" not in received:
            if len(received) > MAX_MESSAGE_BYTES:
                raise HandshakeError("protocol", "the peer sends a line that is too long")
            piece = await streams.reader.read(MAX_MESSAGE_BYTES)
            if not piece:
                raise HandshakeError("protocol", "the peer closed the connection during the handshake")
            received += piece
        line, _, received = received.partition(b"\n")
        answer = handshake.receive(line + b"\n")
        if not isinstance(answer, Ready):
            streams.writer.write(answer)
        elif received:
            raise HandshakeError("protocol", "the peer sends more than the handshake")
        else:
            return answer

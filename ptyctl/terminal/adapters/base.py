"""The interface of runtime adapters, the adapter of the server's own Controller, and a Controller on top of an adapter."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from ptyctl.api.controller import Controller, Progress
from ptyctl.api.errors import ErrorCode, PtyctlError, unsupported
from ptyctl.api.exec import ExecRequest
from ptyctl.api.methods import METHODS, CallForwarder, R
from ptyctl.api.model import Reply, Request
from ptyctl.api.operator import WatchItem, WatchRequest
from ptyctl.api.session import SessionEntry, SessionReply, SessionRequest
from ptyctl.controller.call_memory import DurableCallMemory, was_refused
from ptyctl.terminal.errors import TerminalError

AdapterType = Literal["local", "bundled", "container_bridge"]


@dataclass(frozen=True, slots=True)
class ConnectInput:
    """Parameters of a connection: the caller's trace id, and the runtime session to resume, if any."""

    trace_id: str
    runtime_session_id: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectResult:
    """A connection that is ready.

    Attributes:
        source: the candidate that was connected: `bundled`, a path, or HOST:PORT.
        protocol_version: the version that both sides speak; 0 without a handshake.
        runtime_session_id: finds the sessions of this connection again after its loss.
    """

    source: str
    protocol_version: int = 0
    runtime_session_id: str = ""
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HealthCheckResult:
    """Whether the runtime answers; if not, `details` has the reason."""

    healthy: bool
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A sent request, whose response can be awaited once. `wait_ms`: the wait that the request asks for."""

    number: int
    wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class RecoverResult:
    """A connection that replaces a lost one, and the open terminals that were opened through the lost one."""

    connection: ConnectResult
    sessions: tuple[SessionEntry, ...]


class RuntimeAdapter(ABC):
    """One way to reach a Controller. Methods raise TerminalError, and the PtyctlError that the Controller reports."""

    adapter_type: AdapterType

    @property
    def remembers_calls(self) -> bool:
        """Whether the runtime performs a durable call only once if it is sent again."""
        return True

    @property
    def runtime_session_id(self) -> str | None:
        """The id that is stored in each session opened through this connection, or None."""
        return None

    @abstractmethod
    async def connect(self, what: ConnectInput) -> ConnectResult:
        """Connect and check that both sides speak a common protocol version. Executes nothing."""

    @abstractmethod
    async def health_check(self) -> HealthCheckResult:
        """Check that the runtime answers. Executes nothing; never raises."""

    @abstractmethod
    async def send_request(self, method: str, request: Request) -> SentRequest:
        """Send a call of a method of `ptyctl.api.methods.METHODS`. It is sent once at most."""

    @abstractmethod
    async def await_response(self, sent: SentRequest) -> Reply:
        """Return the reply. Cancelling the wait cancels the call, but not a command that it has started."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection. Sessions stay open."""

    @abstractmethod
    async def recover(self, what: ConnectInput) -> RecoverResult:
        """Connect again and find the sessions of `what.runtime_session_id`. Sends no request again."""


class BundledAdapter(RuntimeAdapter):
    """Calls the Controller in this process. There is no connection that could be lost."""

    adapter_type = "bundled"

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._last_number = 0
        self._calls: dict[int, asyncio.Task[Reply]] = {}

    async def connect(self, what: ConnectInput) -> ConnectResult:
        return ConnectResult("bundled")

    async def health_check(self) -> HealthCheckResult:
        begin = time.monotonic()
        try:
            await self._controller.session(SessionRequest(action="list"))
        except PtyctlError as error:
            return HealthCheckResult(False, {"error_code": str(error.code), "message": error.message})
        return HealthCheckResult(True, {"latency_ms": round((time.monotonic() - begin) * 1000)})

    async def send_request(self, method: str, request: Request) -> SentRequest:
        self._last_number += 1
        task = asyncio.ensure_future(METHODS[method].call(self._controller, request, None))
        self._calls[self._last_number] = task
        return SentRequest(self._last_number)

    async def await_response(self, sent: SentRequest) -> Reply:
        return await self._calls.pop(sent.number)

    async def close(self) -> None:
        """Do nothing: the Controller belongs to the server."""

    async def recover(self, what: ConnectInput) -> RecoverResult:
        return RecoverResult(await self.connect(what), ())


class AdapterController(CallForwarder):
    """The Controller behind an adapter, for one request of the contract.

    The error of a lost connection has `delivery`: `sent` if the command was sent, and may have run.
    """

    def __init__(self, adapter: RuntimeAdapter, calls: DurableCallMemory) -> None:
        """Create the controller. `calls` remembers durable calls if the runtime does not."""
        self._adapter = adapter
        self._calls = calls
        self._command_sent = False

    async def session(self, request: SessionRequest) -> SessionReply:
        runtime_session_id = self._adapter.runtime_session_id
        if request.terminal is not None and runtime_session_id is not None:
            terminal = request.terminal.model_copy(update={"runtime_session_id": runtime_session_id})
            request = request.model_copy(update={"terminal": terminal})
        return await super().session(request)

    async def watch(self, request: WatchRequest) -> AsyncGenerator[WatchItem, None]:
        raise unsupported("a runtime adapter has no watch")
        yield

    async def aclose(self) -> None:
        """Do nothing: the connection is shared by requests."""

    async def _call(self, method: str, request: Request, kind: type[R], progress: Progress | None = None) -> R:
        is_command = isinstance(request, ExecRequest) and request.cmd is not None
        try:
            if self._adapter.remembers_calls:
                reply = await self._send(method, request, is_command=is_command)
            else:
                send = partial(self._send, method, request, is_command=is_command)
                reply = await self._calls.perform(method, send, refused=was_refused)
        except TerminalError as error:
            if error.details.get("delivery") in (None, "unknown"):
                raise
            raise TerminalError(error.code, error.message, {**error.details, "delivery": self._delivery()}) from None
        except PtyctlError as error:
            if error.code is ErrorCode.IO_ERROR:  # also of a lost connection to the server's daemon
                error.details.setdefault("delivery", self._delivery())
            raise
        assert isinstance(reply, kind)
        return reply

    async def _send(self, method: str, request: Request, *, is_command: bool) -> Reply:
        sent = await self._adapter.send_request(method, request)
        self._command_sent = self._command_sent or is_command
        return await self._adapter.await_response(sent)

    def _delivery(self) -> str:
        return "sent" if self._command_sent else "not_sent"

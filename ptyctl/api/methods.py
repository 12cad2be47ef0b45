"""The calls of the Controller by method name: their table, for all interfaces, and the base of Controllers that send them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from . import blocks, screen  # noqa: F401  (define requests)
from .approvals import ApprovalsQuery, ApprovalsReply, ApprovalsRequest
from .config import ConfigReply, ConfigRequest
from .controller import Controller, Progress
from .devices import DevicesReply, DevicesRequest
from .exec import ExecReply, ExecRequest
from .history import RecordingReply, RecordingRequest, SearchReply, SearchRequest
from .io import IoReply, IoRequest
from .model import Reply, Request
from .operator import (
    AuditReply,
    AuditRequest,
    GcReply,
    GcRequest,
    LogReply,
    LogRequest,
    NotifyReply,
    NotifyRequest,
    WatchItem,
    WatchRequest,
)
from .policy import PolicyReply, PolicyRequest
from .pty import PtyReplyBase, PtyRequest
from .session import SessionReply, SessionRequest

R = TypeVar("R", bound=Reply)

#: Names of the methods that are not tools.
NOTIFY, LOG, GC, AUDIT, POLICY, APPROVALS = "notify", "log", "gc", "audit", "policy", "approvals"
RECORDING, SEARCH, DEVICES = "recording", "search", "devices"
#: Performs a request of the method's type. The progress callback may be None.
Call = Callable[[Controller, Any, Progress | None], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Method:
    """Request type of a method, and the function that calls the Controller with it."""

    request: type[Request]
    call: Call


#: Requests of the pty_*, blocks_* and screen tools by tool name.
PTY_REQUESTS = {request.TOOL: request for request in PtyRequest.__subclasses__()}

METHODS: dict[str, Method] = {
    "ptyctl_session": Method(SessionRequest, lambda controller, request, _: controller.session(request)),
    "ptyctl_session_exec": Method(ExecRequest, lambda controller, request, progress: controller.exec(request, progress)),
    "ptyctl_session_io": Method(IoRequest, lambda controller, request, progress: controller.io(request, progress)),
    "ptyctl_session_config": Method(ConfigRequest, lambda controller, request, _: controller.config(request)),
    NOTIFY: Method(NotifyRequest, lambda controller, request, _: controller.notify(request)),
    LOG: Method(LogRequest, lambda controller, request, _: controller.log(request)),
    RECORDING: Method(RecordingRequest, lambda controller, request, _: controller.recording(request)),
    SEARCH: Method(SearchRequest, lambda controller, request, _: controller.search(request)),
    DEVICES: Method(DevicesRequest, lambda controller, request, _: controller.devices(request)),
    GC: Method(GcRequest, lambda controller, request, _: controller.gc(request)),
    AUDIT: Method(AuditRequest, lambda controller, request, _: controller.audit(request)),
    POLICY: Method(PolicyRequest, lambda controller, request, _: controller.policy(request)),
    APPROVALS: Method(ApprovalsRequest, lambda controller, request, _: controller.approvals(request)),
    "ptyctl_approvals": Method(ApprovalsQuery, lambda controller, query, _: controller.approvals(query.as_request())),
    **{
        tool: Method(request, lambda controller, request, progress: controller.pty(request, progress))
        for tool, request in PTY_REQUESTS.items()
    },
}


class CallForwarder(ABC):
    """Implements `api.controller.Controller`; a subclass forwards the calls."""

    @abstractmethod
    async def _call(self, method: str, request: Request, kind: type[R], progress: Progress | None = None) -> R:
        """Forward a call of a method of `METHODS`; return its reply, which is a `kind`. Raises PtyctlError."""

    @abstractmethod
    def watch(self, request: WatchRequest) -> AsyncGenerator[WatchItem, None]:
        """Follow a session."""

    @abstractmethod
    async def aclose(self) -> None:
        """Release the controller."""

    async def session(self, request: SessionRequest) -> SessionReply:
        return await self._call("ptyctl_session", request, SessionReply)

    async def io(self, request: IoRequest, progress: Progress | None = None) -> IoReply:
        return await self._call("ptyctl_session_io", request, IoReply, progress)

    async def exec(self, request: ExecRequest, progress: Progress | None = None) -> ExecReply:
        return await self._call("ptyctl_session_exec", request, ExecReply, progress)

    async def config(self, request: ConfigRequest) -> ConfigReply:
        return await self._call("ptyctl_session_config", request, ConfigReply)

    async def pty(self, request: PtyRequest, progress: Progress | None = None) -> PtyReplyBase:
        return cast(PtyReplyBase, await self._call(request.TOOL, request, Reply, progress))

    async def notify(self, request: NotifyRequest) -> NotifyReply:
        return await self._call(NOTIFY, request, NotifyReply)

    async def log(self, request: LogRequest) -> LogReply:
        return await self._call(LOG, request, LogReply)

    async def recording(self, request: RecordingRequest) -> RecordingReply:
        return await self._call(RECORDING, request, RecordingReply)

    async def search(self, request: SearchRequest) -> SearchReply:
        return await self._call(SEARCH, request, SearchReply)

    async def devices(self, request: DevicesRequest) -> DevicesReply:
        return await self._call(DEVICES, request, DevicesReply)

    async def gc(self, request: GcRequest) -> GcReply:
        return await self._call(GC, request, GcReply)

    async def audit(self, request: AuditRequest) -> AuditReply:
        return await self._call(AUDIT, request, AuditReply)

    async def policy(self, request: PolicyRequest) -> PolicyReply:
        return await self._call(POLICY, request, PolicyReply)

    async def approvals(self, request: ApprovalsRequest) -> ApprovalsReply:
        return await self._call(APPROVALS, request, ApprovalsReply)

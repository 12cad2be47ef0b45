"""A Controller that forwards each call by the name of its method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import TypeVar, cast

from .approvals import ApprovalsReply, ApprovalsRequest
from .config import ConfigReply, ConfigRequest
from .controller import Progress
from .devices import DevicesReply, DevicesRequest
from .exec import ExecReply, ExecRequest
from .history import RecordingReply, RecordingRequest, SearchReply, SearchRequest
from .io import IoReply, IoRequest
from .methods import APPROVALS, AUDIT, DEVICES, GC, LOG, NOTIFY, POLICY, RECORDING, SEARCH
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


class CallForwarder(ABC):
    """Implements `api.controller.Controller`; a subclass forwards the calls."""

    @abstractmethod
    async def _call(self, method: str, request: Request, kind: type[R], progress: Progress | None = None) -> R:
        """Forward a call of a method of `api.methods.METHODS`; return its reply, which is a `kind`. Raises PtyctlError."""

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

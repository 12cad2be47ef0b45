"""Table of the Controller's calls by method name. Every interface dispatches through it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from . import blocks, screen  # noqa: F401  (define requests)
from .approvals import ApprovalsQuery, ApprovalsRequest
from .config import ConfigRequest
from .controller import Controller, Progress
from .devices import DevicesRequest
from .exec import ExecRequest
from .history import RecordingRequest, SearchRequest
from .io import IoRequest
from .model import Reply, Request
from .operator import AuditRequest, GcRequest, LogRequest, NotifyRequest
from .policy import PolicyRequest
from .pty import PtyRequest
from .session import SessionRequest

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

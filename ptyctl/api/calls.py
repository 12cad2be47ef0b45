"""Every call of the Controller protocol by its tool's name: what describes it, and how it is made. All doors use this table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from .config import ConfigRequest
from .controller import Controller, Progress
from .exec import ExecRequest
from .gc import GcRequest
from .io import IoRequest
from .log import LogRequest
from .model import Reply, Request
from .notify import NotifyRequest
from .pty import PTY_REQUESTS
from .session import SessionRequest

#: Methods beside the tools': what a person does.
NOTIFY, LOG, GC = "notify", "log", "gc"
#: Performs a request of its own type; the progress callback is None where nobody wants to hear.
Call = Callable[[Controller, Any, Progress | None], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Method:
    request: type[Request]
    call: Call


async def _session(controller: Controller, request: SessionRequest, _progress: Progress | None) -> Reply:
    return await controller.session(request)


async def _exec(controller: Controller, request: ExecRequest, progress: Progress | None) -> Reply:
    return await controller.exec(request, progress)


async def _io(controller: Controller, request: IoRequest, progress: Progress | None) -> Reply:
    return await controller.io(request, progress)


async def _config(controller: Controller, request: ConfigRequest, _progress: Progress | None) -> Reply:
    return await controller.config(request)


async def _pty(controller: Controller, request: Any, progress: Progress | None) -> Reply:
    return await controller.pty(request, progress)


async def _notify(controller: Controller, request: NotifyRequest, _progress: Progress | None) -> Reply:
    return await controller.notify(request)


async def _log(controller: Controller, request: LogRequest, _progress: Progress | None) -> Reply:
    return await controller.log(request)


async def _gc(controller: Controller, request: GcRequest, _progress: Progress | None) -> Reply:
    return await controller.gc(request)


METHODS: dict[str, Method] = {
    "ptyctl_session": Method(SessionRequest, _session),
    "ptyctl_session_exec": Method(ExecRequest, _exec),
    "ptyctl_session_io": Method(IoRequest, _io),
    "ptyctl_session_config": Method(ConfigRequest, _config),
    NOTIFY: Method(NotifyRequest, _notify),
    LOG: Method(LogRequest, _log),
    GC: Method(GcRequest, _gc),
    **{name: Method(request, _pty) for name, request in PTY_REQUESTS.items()},
}

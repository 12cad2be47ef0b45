"""Table of the Controller's calls by method name. Every interface dispatches through it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from .blocks import BlocksGet, BlocksRead, BlocksSearch, BlocksSince
from .config import ConfigRequest
from .controller import Controller, Progress
from .exec import ExecRequest
from .io import IoRequest
from .model import Reply, Request
from .operator import GcRequest, LogRequest, NotifyRequest
from .pty import (
    PtyClose,
    PtyCtrlC,
    PtyCtrlD,
    PtyEndSession,
    PtyEnter,
    PtyExecBlock,
    PtyExecInteractive,
    PtyExecInteractiveExpect,
    PtyExpectSend,
    PtyReadSpool,
    PtyRequest,
    PtyReset,
    PtyResize,
    PtySend,
    PtyStatus,
    PtyWaitFor,
    PtyWaitPrompt,
)
from .screen import PtyReadRaw, PtyReadScreen, PtyReadScreenDeltas, PtyReadScrollback, PtyScreenStatus
from .session import SessionRequest

#: Names of the methods that are not tools.
NOTIFY, LOG, GC = "notify", "log", "gc"
#: Performs a request of the method's type. The progress callback may be None.
Call = Callable[[Controller, Any, Progress | None], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Method:
    """Request type of a method, and the function that calls the Controller with it."""

    request: type[Request]
    call: Call


#: Requests of the pty_*, blocks_* and screen tools by tool name.
PTY_REQUESTS: dict[str, type[PtyRequest]] = {
    request.TOOL: request
    for request in (
        PtyExecBlock,
        PtyExecInteractive,
        PtyExecInteractiveExpect,
        PtyWaitFor,
        PtyWaitPrompt,
        PtyExpectSend,
        PtySend,
        PtyCtrlC,
        PtyCtrlD,
        PtyEnter,
        PtyReadSpool,
        PtyStatus,
        PtyEndSession,
        PtyReset,
        PtyResize,
        PtyClose,
        BlocksSince,
        BlocksGet,
        BlocksRead,
        BlocksSearch,
        PtyReadRaw,
        PtyReadScreen,
        PtyReadScreenDeltas,
        PtyScreenStatus,
        PtyReadScrollback,
    )
}


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

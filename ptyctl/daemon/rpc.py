"""The daemon's protocol: JSON-RPC 2.0 over newline-delimited JSON.

The methods are those of `api.methods.METHODS`, `watch`, and `web`, which opens the web console.

    -> {"jsonrpc": "2.0", "id": 1, "method": "ptyctl_session_exec", "params": {"session_id": "s", "cmd": "w"}, "progress": true}
    <- {"jsonrpc": "2.0", "method": "progress", "params": {"id": 1, "bytes": 512, "seconds": 1.0}}
    <- {"jsonrpc": "2.0", "id": 1, "result": {"type": "ExecReply", "reply": {...}}}

Calls run concurrently. The notification `cancel` with an `id` cancels a call, as does the end of the connection. A `watch`
sends notifications `watched` with its `id` and an `item`, as many as the client has granted with `more`. A server that makes
calls for its own clients adds `principal` to them, an object of `name`, `kind`, `role` and `devices`. A call may have a
`trace_id`, which its audit rows and log lines repeat. It may have a `request_id`: a call with the id of an earlier one gets
its answer, and `repeated`. With `durable`, a call is also remembered by the next server.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Any

from ptyctl.api.controller import Controller, Progress
from ptyctl.api.errors import ErrorCode, PtyctlError, unsupported
from ptyctl.api.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    decode_principal,
    encode_error,
    encode_reply,
)
from ptyctl.api.methods import METHODS
from ptyctl.api.model import Reply
from ptyctl.api.operator import WatchRequest
from ptyctl.cancellation import cancel_and_wait
from ptyctl.client_lines import LongLineError, read_line
from ptyctl.controller.call_memory import CANCELLED_BY_CLIENT, CallMemory, RepeatableCall, decode_call
from ptyctl.core import json_lines
from ptyctl.core.principal import Principal
from ptyctl.session.clients import Client, current_principal, serving, serving_connection, user
from ptyctl.trace import is_trace_id, tracing

from .control import WEB
from .web_service import WebOpenReply, WebOpenRequest

_LOG = logging.getLogger(__name__)

WATCH = "watch"
#: Number of items of a watch that may be in flight.
WATCH_WINDOW = 64

OpenWeb = Callable[[WebOpenRequest], Awaitable[WebOpenReply]]
_NO_CHANGE = nullcontext()


async def refuse_web(_request: WebOpenRequest) -> WebOpenReply:
    """Raise UNSUPPORTED, of a server without a console."""
    raise unsupported("this server has no web console")


class RpcConnection:
    """The daemon's side of one connection after its handshake. Invalid input fails at most its own call."""

    def __init__(
        self,
        controller: Controller,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        principal: Principal,
        open_web: OpenWeb = refuse_web,
        memory: CallMemory | None = None,
    ) -> None:
        """Serve a connection. `memory` makes calls repeatable, if they have a request id."""
        self._controller = controller
        self._memory = memory
        self._open_web = open_web
        self._principal = principal
        #: The MCP clients that this one makes calls for, by principal.
        self._represented: dict[Principal, Client] = {}
        self._reader = reader
        self._writer = writer
        self._calls: dict[json_lines.CallId, asyncio.Task[None]] = {}
        self._credits: dict[json_lines.CallId, asyncio.Semaphore] = {}

    async def run(self) -> None:
        """Serve until the client disconnects. Reads no further calls while the client does not read its replies."""
        try:
            with serving_connection(self._principal):  # calls are tasks, which inherit the context
                while await self._receive_next():
                    await self._flush()
                    await asyncio.sleep(0)  # calls that arrive together begin in separate iterations of the event loop
        except OSError:  # connection lost
            return
        finally:
            for client in self._represented.values():
                client.leave()
            await cancel_and_wait(*self._calls.values())

    async def _receive_next(self) -> bool:
        """Receive the next line; return False at the end of the stream."""
        try:
            line = await read_line(self._reader)
        except LongLineError as error:
            self._reject(error.call_id, INVALID_REQUEST, str(error))
            return True
        if line:
            self._receive(line)
        return bool(line)

    def _receive(self, line: bytes) -> None:
        try:
            message = json_lines.decode_request(line)
        except json_lines.LongStructureError as error:
            self._reject(json_lines.find_id(line), INVALID_REQUEST, str(error))
            return
        except ValueError:
            self._reject(json_lines.find_id(line), PARSE_ERROR, "the line is not JSON, or is nested too deeply")
            return
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            call_id = _id(message) if isinstance(message, dict) else None
            self._reject(call_id, INVALID_REQUEST, "the request has no method")
            return
        match message["method"]:
            case "cancel" | "more" as method:
                self._handle_notification(method, message.get("params"))
            case method if method in METHODS or method in (WATCH, WEB):
                self._start_call(message)
            case method:
                self._reject(_id(message), METHOD_NOT_FOUND, f"no method {method}")

    def _handle_notification(self, method: str, params: object) -> None:
        """Notifications are never answered, even if they are invalid (JSON-RPC 2.0, section 4.1)."""
        call_id = _id(params) if isinstance(params, dict) else None
        if call_id is None or not isinstance(params, dict):
            return
        if method == "cancel" and call_id in self._calls:
            self._calls[call_id].cancel(CANCELLED_BY_CLIENT)
        count = params.get("count")
        if method == "more" and call_id in self._credits and isinstance(count, int):
            for _ in range(min(count, WATCH_WINDOW)):
                self._credits[call_id].release()

    def _start_call(self, message: dict[str, Any]) -> None:
        call_id = _id(message)
        if call_id is None or call_id in self._calls:
            self._reject(call_id, INVALID_REQUEST, "a call needs an id: a number or a string that no running call uses")
            return
        run = self._run_watch if message["method"] == WATCH else self._run_call
        trace_id = message["trace_id"] if is_trace_id(message.get("trace_id")) else None
        with tracing(trace_id):  # the task inherits it
            task = asyncio.create_task(run(call_id, message))
        self._calls[call_id] = task
        task.add_done_callback(lambda task: self._call_done(call_id, task, trace_id))

    def _call_done(self, call_id: json_lines.CallId, task: asyncio.Task[None], trace_id: str | None) -> None:
        del self._calls[call_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a call failed", exc_info=error, extra={"trace_id": trace_id} if trace_id else None)
            self._reject(call_id, INTERNAL_ERROR, f"internal error in the daemon: {type(error).__name__}; see its log")

    def _representing(self, message: dict[str, Any]) -> AbstractContextManager[None]:
        """Return the context that sets the client of a call: the one that the call names, or this connection.

        Raises:
            PtyctlError: FORBIDDEN unless the connection is that of the daemon's user; INVALID_ARGUMENT.
        """
        if "principal" not in message:
            return _NO_CHANGE
        if self._principal != user():
            raise PtyctlError(ErrorCode.FORBIDDEN, f"{self._principal.name} may make no calls for other principals")
        principal = decode_principal(message["principal"])
        return serving(self._represented.setdefault(principal, Client(principal, elicits=True)))

    async def _run_call(self, call_id: json_lines.CallId, message: dict[str, Any]) -> None:
        def progress(received: int, seconds: float) -> None:
            self._send({"method": "progress", "params": {"id": call_id, "bytes": received, "seconds": seconds}})

        with decode_call(message) as repeatable:
            try:
                with self._representing(message):
                    reply = await self._perform(message, repeatable, progress if message.get("progress") else None)
            except PtyctlError as error:
                answer = {"error": encode_error(error)}
            else:
                answer = {"result": encode_reply(reply)}
        mark = {"repeated": True} if repeatable is not None and repeatable.repeated else {}
        self._send({"id": call_id, **answer, **mark})
        await self._flush()

    async def _perform(self, message: dict[str, Any], repeatable: RepeatableCall | None, progress: Progress | None) -> Reply:
        """Perform a call, unless it repeats an earlier one. The Controller remembers durable calls."""
        if self._memory is None or repeatable is None or repeatable.durable:
            return await self._call(message, progress)
        call = json_lines.encode([message["method"], message.get("params", {})])
        key = (current_principal().name, repeatable.request_id, hashlib.sha256(call).hexdigest())
        return await self._memory.once(key, lambda: self._call(message, progress))

    async def _call(self, message: dict[str, Any], progress: Progress | None) -> Reply:
        name, params = message["method"], message.get("params", {})
        if name == WEB:
            return await self._open_web(WebOpenRequest.of(params))
        method = METHODS[name]
        return await method.call(self._controller, method.request.of(params), progress)

    async def _run_watch(self, call_id: json_lines.CallId, message: dict[str, Any]) -> None:
        credit = self._credits[call_id] = asyncio.Semaphore(WATCH_WINDOW)
        try:
            request = WatchRequest.of(message.get("params", {}))
            with self._representing(message):
                async with aclosing(self._controller.watch(request)) as items:
                    async for item in items:
                        await credit.acquire()
                        self._send({"method": "watched", "params": {"id": call_id, "item": item.payload()}})
                        await self._flush()
        except PtyctlError as error:
            self._send({"id": call_id, "error": encode_error(error)})
        else:
            self._send({"id": call_id, "result": None})
        finally:
            del self._credits[call_id]

    def _reject(self, call_id: json_lines.CallId | None, code: int, message: str) -> None:
        self._send({"id": call_id, "error": {"code": code, "message": message}})

    def _send(self, message: dict[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(json_lines.encode({"jsonrpc": "2.0", **message}))

    async def _flush(self) -> None:
        try:
            await self._writer.drain()
        except OSError:
            return  # connection lost: the reader ends the connection


def _id(message: dict[str, Any]) -> json_lines.CallId | None:
    """Return a request's id; None if it is absent or invalid (JSON-RPC 2.0, section 4)."""
    value = message.get("id")
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None

"""The daemon's side of an rpc connection: newline-delimited JSON-RPC 2.0 over the Controller protocol.

    -> {"jsonrpc": "2.0", "id": 1, "method": "ptyctl_session_exec", "params": {"session_id": "s", "cmd": "w"}, "progress": true}
    <- {"jsonrpc": "2.0", "method": "progress", "params": {"id": 1, "bytes": 512, "seconds": 1.0}}
    <- {"jsonrpc": "2.0", "id": 1, "result": {"type": "ExecReply", "reply": {...}}}

Calls run beside each other. The notification `cancel` with an `id` ends the waiting of a call, as does the connection's end.
A `watch` sends notifications `watched` with its `id` and an `item`, as many as the client has asked for with `more`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing
from typing import Any

from ptyctl.api.controller import Controller
from ptyctl.api.errors import PtyctlError
from ptyctl.api.methods import METHODS
from ptyctl.api.operator import WatchRequest

from .calls import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, WATCH, WATCH_WINDOW, error_of, result_of

_Id = int | str
_LOG = logging.getLogger(__name__)


class RpcConnection:
    """One client, from behind its hello to its end. What it says is never trusted: it ends its own call at most."""

    def __init__(self, controller: Controller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._controller = controller
        self._reader = reader
        self._writer = writer
        self._calls: dict[_Id, asyncio.Task[None]] = {}
        self._credits: dict[_Id, asyncio.Semaphore] = {}

    async def run(self) -> None:
        """Returns when the client is gone. As long as it does not take its answers, no more calls are taken."""
        try:
            while line := await self._reader.readline():
                self._take(line)
                await self._flush()
        except (OSError, ValueError):  # it broke, or sent a line without an end
            return
        finally:
            calls = list(self._calls.values())
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(None, PARSE_ERROR, "not a JSON object on a line")
            return
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            self._refuse(None, INVALID_REQUEST, "no request: it has no method")
            return
        match message["method"]:
            case "cancel" | "more" as method:
                self._notified(method, message.get("params"))
            case method if method in METHODS or method == WATCH:
                self._begin(message)
            case method:
                self._refuse(_id(message), METHOD_NOT_FOUND, f"no method {method}")

    def _notified(self, method: str, params: object) -> None:
        """A notification has no answer, also where it makes no sense (JSON-RPC 2.0, section 4.1)."""
        number = _id(params) if isinstance(params, dict) else None
        if number is None or not isinstance(params, dict):
            return
        if method == "cancel" and number in self._calls:
            self._calls[number].cancel()
        count = params.get("count")
        if method == "more" and number in self._credits and isinstance(count, int):
            for _ in range(min(count, WATCH_WINDOW)):
                self._credits[number].release()

    def _begin(self, message: dict[str, Any]) -> None:
        number = _id(message)
        if number is None or number in self._calls:
            self._refuse(number, INVALID_REQUEST, "a call has an id, a number or a string that no other call has now")
            return
        answer = self._watch if message["method"] == WATCH else self._answer
        task = asyncio.create_task(answer(number, message))
        self._calls[number] = task
        task.add_done_callback(lambda task: self._ended(number, task))

    def _ended(self, number: _Id, task: asyncio.Task[None]) -> None:
        del self._calls[number]
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a call failed", exc_info=error)
            self._refuse(number, INTERNAL_ERROR, f"the daemon failed at this: {type(error).__name__}; its log tells more")

    async def _answer(self, number: _Id, message: dict[str, Any]) -> None:
        method = METHODS[message["method"]]

        def progress(received: int, seconds: float) -> None:
            self._send({"method": "progress", "params": {"id": number, "bytes": received, "seconds": seconds}})

        try:
            request = method.request.of(message.get("params", {}))
            reply = await method.call(self._controller, request, progress if message.get("progress") else None)
        except PtyctlError as error:
            self._send({"id": number, "error": error_of(error)})
        else:
            self._send({"id": number, "result": result_of(reply)})
        await self._flush()

    async def _watch(self, number: _Id, message: dict[str, Any]) -> None:
        credit = self._credits[number] = asyncio.Semaphore(WATCH_WINDOW)
        try:
            request = WatchRequest.of(message.get("params", {}))
            async with aclosing(self._controller.watch(request)) as watched:
                async for item in watched:
                    await credit.acquire()
                    self._send({"method": "watched", "params": {"id": number, "item": item.payload()}})
                    await self._flush()
        except PtyctlError as error:
            self._send({"id": number, "error": error_of(error)})
        else:
            self._send({"id": number, "result": None})
        finally:
            del self._credits[number]

    def _refuse(self, number: _Id | None, code: int, why: str) -> None:
        self._send({"id": number, "error": {"code": code, "message": why}})

    def _send(self, message: dict[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")

    async def _flush(self) -> None:
        try:
            await self._writer.drain()
        except OSError:
            return  # it is gone: the reading ends too


def _id(message: dict[str, Any]) -> _Id | None:
    """A request's id, or None where it has none that can be one (JSON-RPC 2.0, section 4)."""
    number = message.get("id")
    return number if isinstance(number, int | str) and not isinstance(number, bool) else None

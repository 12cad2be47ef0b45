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
from contextlib import aclosing
from typing import Any

from ptyctl.api.calls import METHODS
from ptyctl.api.controller import Controller
from ptyctl.api.errors import PtyctlError
from ptyctl.api.watch import WatchRequest

from .calls import INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, WATCH, WATCH_WINDOW, error_of, result_of


class RpcConnection:
    """One client, from behind its hello to its end."""

    def __init__(self, controller: Controller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._controller = controller
        self._reader = reader
        self._writer = writer
        self._calls: dict[Any, asyncio.Task[None]] = {}
        self._credits: dict[Any, asyncio.Semaphore] = {}

    async def run(self) -> None:
        """Returns when the client is gone."""
        try:
            while line := await self._reader.readline():
                self._take(line)
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
        except ValueError:
            self._send({"id": None, "error": {"code": PARSE_ERROR, "message": "not a JSON object on a line"}})
            return
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            self._send({"id": None, "error": {"code": INVALID_REQUEST, "message": "no request: it has no method"}})
        elif message["method"] == "cancel":
            call = self._calls.get(message.get("params", {}).get("id"))
            if call is not None:
                call.cancel()
        elif message["method"] == "more":
            self._more(message.get("params", {}))
        elif message["method"] not in METHODS and message["method"] != WATCH:
            self._send(
                {"id": message.get("id"), "error": {"code": METHOD_NOT_FOUND, "message": f"no method {message['method']}"}}
            )
        else:
            self._begin(message)

    def _begin(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        answer = self._watch if message["method"] == WATCH else self._answer
        task = asyncio.create_task(answer(number, message))
        self._calls[number] = task
        task.add_done_callback(lambda _: self._calls.pop(number, None))

    async def _answer(self, number: Any, message: dict[str, Any]) -> None:
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

    async def _watch(self, number: Any, message: dict[str, Any]) -> None:
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

    def _more(self, asked: dict[str, Any]) -> None:
        credit = self._credits.get(asked.get("id"))
        for _ in range(min(int(asked.get("count", 0)), WATCH_WINDOW) if credit else 0):
            assert credit is not None
            credit.release()

    def _send(self, message: dict[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")

    async def _flush(self) -> None:
        try:
            await self._writer.drain()
        except OSError:
            return  # it is gone: the reading ends too

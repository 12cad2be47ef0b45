"""A Controller for the sessions of the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from ptyctl.api.controller import Progress
from ptyctl.api.errors import PtyctlError, invalid
from ptyctl.api.messages import decode_error, decode_known, decode_reply, encode_request
from ptyctl.api.methods import CallForwarder, R
from ptyctl.api.model import Reply, Request
from ptyctl.api.operator import WatchItem, WatchRequest
from ptyctl.cancellation import cancel_and_wait
from ptyctl.controller.call_memory import encode_call, mark_repeated
from ptyctl.core import json_lines
from ptyctl.session.clients import current_client, current_principal
from ptyctl.trace import current_trace_id

from .connection import open_rpc
from .errors import DaemonConnectionLost, DaemonError, no_daemon
from .rpc import WATCH, WATCH_WINDOW
from .runtime_dir import RuntimeDir


async def _open_streams(runtime_dir: RuntimeDir, *, start: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        link = await asyncio.to_thread(open_rpc, runtime_dir, start=start)
        return await asyncio.open_unix_connection(sock=link, limit=json_lines.MAX_REPLY_LINE_BYTES)
    except (DaemonError, OSError) as error:
        raise no_daemon(error) from None


def _call_message(call_id: int, method: str, request: Request, *, names_user: bool) -> dict[str, Any]:
    """Return the message of a call, with its trace id and the id that makes it repeatable.

    It names the principal if this process calls on behalf of a client, or if the server has another user (`names_user`).
    """
    message = {"id": call_id, "method": method, "params": encode_request(request), **encode_call()}
    if (trace_id := current_trace_id()) is not None:
        message["trace_id"] = trace_id
    client = current_client()
    if client is not None or names_user:
        message["principal"] = asdict(current_principal())
    return message


class RemoteController(CallForwarder):
    """Implements `api.controller.Controller` over the daemon's socket. Calls may run concurrently.

    Closing it leaves the sessions open.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        runtime_dir: RuntimeDir | None = None,
        *,
        names_user: bool = False,
    ) -> None:
        """Use a connection. With `runtime_dir`, a call after its loss connects to the next daemon.

        Args:
            names_user: name the principal in every call: the server runs as another user, or on another machine.
        """
        self._names_user = names_user
        self._runtime_dir = runtime_dir
        self._reconnecting = asyncio.Lock()
        self._last_id = 0
        self._use(reader, writer)
        self._calls: dict[int, asyncio.Future[Reply]] = {}
        self._progress: dict[int, Progress] = {}
        #: Calls with the answer of an earlier call.
        self._repeated: set[int] = set()
        self._watches: dict[int, asyncio.Queue[WatchItem | PtyctlError | None]] = {}

    def _use(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._task = asyncio.create_task(self._read(), name="daemon replies")

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open."""
        return not self._task.done()

    @classmethod
    async def connect(cls, runtime_dir: RuntimeDir | None = None, *, start: bool = True, reconnect: bool = False) -> Self:
        """Connect to this user's daemon; start it if it is not up, unless `start` is False.

        Args:
            reconnect: let a call after the end of the daemon connect to the next one, which is started if necessary.

        Raises:
            PtyctlError: CONNECT_FAILED.
        """
        try:
            runtime_dir = runtime_dir or RuntimeDir()
        except DaemonError as error:
            raise no_daemon(error) from None
        return cls(*await _open_streams(runtime_dir, start=start), runtime_dir if reconnect else None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def watch(self, request: WatchRequest) -> AsyncGenerator[WatchItem, None]:
        call_id, items = self._new_id(), asyncio.Queue[WatchItem | PtyctlError | None]()
        self._watches[call_id] = items
        received = 0
        try:
            await self._send(_call_message(call_id, WATCH, request, names_user=self._names_user))
            while (item := await items.get()) is not None:
                if isinstance(item, PtyctlError):
                    raise item
                yield item
                received += 1
                if received % (WATCH_WINDOW // 2) == 0:
                    await self._send({"method": "more", "params": {"id": call_id, "count": WATCH_WINDOW // 2}})
        finally:
            del self._watches[call_id]
            await self._cancel(call_id)

    async def aclose(self) -> None:
        """Close the connection."""
        self._writer.close()
        await cancel_and_wait(self._task)
        with suppress(OSError):  # the connection was already lost
            await self._writer.wait_closed()

    async def _ensure_connected(self) -> None:
        if self._runtime_dir is None or not self._task.done():
            return
        async with self._reconnecting:  # concurrent calls share one connection
            if self._task.done():
                self._writer.close()
                self._use(*await _open_streams(self._runtime_dir, start=True))

    async def _call(self, method: str, request: Request, kind: type[R], progress: Progress | None = None) -> R:
        await self._ensure_connected()
        call_id = self._new_id()
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._calls[call_id] = future
        if progress is not None:
            self._progress[call_id] = progress
        message = _call_message(call_id, method, request, names_user=self._names_user)
        try:
            await self._send(message | ({"progress": True} if progress is not None else {}))
            reply = await future
        except asyncio.CancelledError:
            await self._cancel(call_id)
            raise
        finally:
            self._calls.pop(call_id, None)
            self._progress.pop(call_id, None)
            if call_id in self._repeated:
                self._repeated.discard(call_id)
                mark_repeated()
        assert isinstance(reply, kind)
        return reply

    async def _cancel(self, call_id: int) -> None:
        with suppress(PtyctlError):  # without a connection there is nothing to cancel
            await self._send({"method": "cancel", "params": {"id": call_id}})

    def _new_id(self) -> int:
        if self._task.done():
            raise DaemonConnectionLost
        self._last_id += 1
        return self._last_id

    async def _send(self, message: dict[str, Any]) -> None:
        if self._writer.is_closing():
            raise DaemonConnectionLost
        line = json_lines.encode({"jsonrpc": "2.0", **message})
        try:
            if len(line) > json_lines.MAX_LINE_BYTES:
                raise ValueError(f"the request is longer than {json_lines.MAX_LINE_BYTES} bytes")
            json_lines.check_structure(line)
        except ValueError as error:
            raise invalid(str(error), hint="split it into several requests") from None
        self._writer.write(line)
        try:
            await self._writer.drain()
        except OSError:
            raise DaemonConnectionLost from None

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                self._receive(json_lines.decode(line))
        except OSError:
            pass
        finally:
            for future in self._calls.values():
                if not future.done():
                    future.set_exception(DaemonConnectionLost())
            for items in self._watches.values():
                items.put_nowait(DaemonConnectionLost())

    def _receive(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "progress":
                params = message["params"]
                if (progress := self._progress.get(params["id"])) is not None:
                    progress(params["bytes"], params["seconds"])
            case "watched":
                params = message["params"]
                if (items := self._watches.get(params["id"])) is not None:
                    items.put_nowait(decode_known(WatchItem, params["item"]))
            case _:
                self._receive_result(message)

    def _receive_result(self, message: dict[str, Any]) -> None:
        if (items := self._watches.get(message["id"])) is not None:
            items.put_nowait(decode_error(message["error"]) if "error" in message else None)
            return
        future = self._calls.get(message["id"])
        if future is None or future.done():  # the call was cancelled
            return
        if message.get("repeated") is True:
            self._repeated.add(message["id"])
        if "error" in message:
            future.set_exception(decode_error(message["error"]))
        else:
            future.set_result(decode_reply(message["result"]))

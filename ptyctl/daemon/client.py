"""A Controller whose sessions live in the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from ptyctl.api.approvals import ApprovalsReply, ApprovalsRequest
from ptyctl.api.config import ConfigReply, ConfigRequest
from ptyctl.api.controller import Progress
from ptyctl.api.devices import DevicesReply, DevicesRequest
from ptyctl.api.errors import PtyctlError, invalid
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.api.history import RecordingReply, RecordingRequest, SearchReply, SearchRequest
from ptyctl.api.io import IoReply, IoRequest
from ptyctl.api.methods import APPROVALS, AUDIT, DEVICES, GC, LOG, NOTIFY, POLICY, RECORDING, SEARCH
from ptyctl.api.model import Reply, Request
from ptyctl.api.operator import (
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
from ptyctl.api.policy import PolicyReply, PolicyRequest
from ptyctl.api.pty import PtyReplyBase, PtyRequest
from ptyctl.api.session import SessionReply, SessionRequest
from ptyctl.core import json_lines
from ptyctl.session.clients import current_client

from .connection import hello_line, open_connection
from .errors import DaemonConnectionLost, DaemonError, no_daemon
from .rpc import WATCH, WATCH_WINDOW, decode_error, decode_reply, encode_request
from .runtime_dir import RuntimeDir

#: Longest reply accepted from the daemon.
MAX_REPLY_BYTES = 64 * 1024 * 1024

R = TypeVar("R", bound=Reply)


async def _open_streams(runtime_dir: RuntimeDir, *, start: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    hello = hello_line("rpc", to_system=runtime_dir.is_system)
    try:
        link = await asyncio.to_thread(open_connection, runtime_dir, hello, start=start)
        return await asyncio.open_unix_connection(sock=link, limit=MAX_REPLY_BYTES)
    except (DaemonError, OSError) as error:
        raise no_daemon(error) from None


def _call_message(call_id: int, method: str, request: Request) -> dict[str, Any]:
    """Return the message of a call. It names the principal if this process makes the call for a client of its own."""
    message = {"id": call_id, "method": method, "params": encode_request(request)}
    client = current_client()
    return message if client is None else message | {"principal": asdict(client.principal)}


class RemoteController:
    """Implements `api.controller.Controller` over the daemon's socket. Calls may run concurrently.

    Closing it leaves the sessions open.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, runtime_dir: RuntimeDir | None = None
    ) -> None:
        """Use a connection. With `runtime_dir`, a call after its loss connects to the next daemon."""
        self._runtime_dir = runtime_dir
        self._reconnecting = asyncio.Lock()
        self._last_id = 0
        self._use(reader, writer)
        self._calls: dict[int, asyncio.Future[Reply]] = {}
        self._progress: dict[int, Progress] = {}
        self._watches: dict[int, asyncio.Queue[WatchItem | PtyctlError | None]] = {}

    def _use(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._task = asyncio.create_task(self._read(), name="daemon replies")

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

    async def watch(self, request: WatchRequest) -> AsyncGenerator[WatchItem, None]:
        call_id, items = self._new_id(), asyncio.Queue[WatchItem | PtyctlError | None]()
        self._watches[call_id] = items
        received = 0
        try:
            await self._send(_call_message(call_id, WATCH, request))
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

    async def aclose(self) -> None:
        """Close the connection."""
        self._writer.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
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
        message = _call_message(call_id, method, request)
        try:
            await self._send(message | ({"progress": True} if progress is not None else {}))
            reply = await future
        except asyncio.CancelledError:
            await self._cancel(call_id)
            raise
        finally:
            self._calls.pop(call_id, None)
            self._progress.pop(call_id, None)
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
                    items.put_nowait(WatchItem.model_validate(params["item"]))
            case _:
                self._receive_result(message)

    def _receive_result(self, message: dict[str, Any]) -> None:
        if (items := self._watches.get(message["id"])) is not None:
            items.put_nowait(decode_error(message["error"]) if "error" in message else None)
            return
        future = self._calls.get(message["id"])
        if future is None or future.done():  # the call was cancelled
            return
        if "error" in message:
            future.set_exception(decode_error(message["error"]))
        else:
            future.set_result(decode_reply(message["result"]))

"""The Controller whose sessions live in the daemon: the same protocol, over its socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from ptyctl.api.config import ConfigReply, ConfigRequest
from ptyctl.api.controller import Progress
from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.api.io import IoReply, IoRequest
from ptyctl.api.methods import GC, LOG, NOTIFY
from ptyctl.api.model import Reply, Request
from ptyctl.api.operator import GcReply, GcRequest, LogReply, LogRequest, NotifyReply, NotifyRequest, WatchItem, WatchRequest
from ptyctl.api.pty import PtyReplyBase, PtyRequest
from ptyctl.api.session import SessionReply, SessionRequest

from .calls import WATCH, WATCH_WINDOW, params_of, raised, reply_of
from .hello import HelloRefused, greet, hello
from .place import NoPlace, Place
from .starting import NotStarted

#: The longest line that is taken: what a tool gives, in JSON.
MAX_LINE_BYTES = 64 * 1024 * 1024
#: The longest that the daemon takes, by any protocol (ptyctl.mcp.wire; importing that takes half a second).
MAX_REQUEST_BYTES = 16 * 1024 * 1024

R = TypeVar("R", bound=Reply)


class DaemonGone(PtyctlError):
    """IO_ERROR, as the connection is: the next daemon may go on with the session."""


class RemoteController:
    """See api.controller.Controller. Calls may be made beside each other; leaving it leaves the sessions as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._next_id = 0
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._progress: dict[int, Progress] = {}
        self._watched: dict[int, asyncio.Queue[WatchItem | PtyctlError | None]] = {}
        self._task = asyncio.create_task(self._read(), name="replies of the daemon")

    @classmethod
    async def connect(cls, place: Place | None = None, *, start: bool = True) -> Self:
        """Connects to this user's daemon, and starts it if need be.

        Raises:
            PtyctlError: CONNECT_FAILED, with what to do.
        """
        try:
            link = await asyncio.to_thread(greet, place or Place(), hello("rpc"), start=start)
            reader, writer = await asyncio.open_unix_connection(sock=link, limit=MAX_LINE_BYTES)
        except (NoPlace, NotStarted, HelloRefused, OSError) as error:
            raise PtyctlError(ErrorCode.CONNECT_FAILED, f"no daemon: {error}") from None
        return cls(reader, writer)

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
        number, items = self._number(), asyncio.Queue[WatchItem | PtyctlError | None]()
        self._watched[number] = items
        taken = 0
        try:
            await self._send({"id": number, "method": WATCH, "params": params_of(request)})
            while (item := await items.get()) is not None:
                if isinstance(item, PtyctlError):
                    raise item
                yield item
                taken += 1
                if taken % (WATCH_WINDOW // 2) == 0:
                    await self._send({"method": "more", "params": {"id": number, "count": WATCH_WINDOW // 2}})
        finally:
            del self._watched[number]
            await self._cancel(number)

    async def notify(self, request: NotifyRequest) -> NotifyReply:
        return await self._call(NOTIFY, request, NotifyReply)

    async def log(self, request: LogRequest) -> LogReply:
        return await self._call(LOG, request, LogReply)

    async def gc(self, request: GcRequest) -> GcReply:
        return await self._call(GC, request, GcReply)

    async def aclose(self) -> None:
        """Ends the connection."""
        self._writer.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        with suppress(OSError):  # it was broken already
            await self._writer.wait_closed()

    async def _call(self, method: str, request: Request, kind: type[R], progress: Progress | None = None) -> R:
        number = self._number()
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        if progress is not None:
            self._progress[number] = progress
        asked = {"progress": True} if progress is not None else {}
        try:
            await self._send({"id": number, "method": method, "params": params_of(request), **asked})
            reply = await future
        except asyncio.CancelledError:
            await self._cancel(number)
            raise
        finally:
            self._waiting.pop(number, None)
            self._progress.pop(number, None)
        assert isinstance(reply, kind)
        return reply

    async def _cancel(self, number: int) -> None:
        with suppress(PtyctlError):  # it is gone, and all that it did for us
            await self._send({"method": "cancel", "params": {"id": number}})

    def _number(self) -> int:
        if self._task.done():
            raise _gone()
        self._next_id += 1
        return self._next_id

    async def _send(self, message: dict[str, Any]) -> None:
        if self._writer.is_closing():
            raise _gone()
        line = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
        if len(line) > MAX_REQUEST_BYTES:
            raise invalid(f"the request is longer than {MAX_REQUEST_BYTES} bytes; make it in parts")
        self._writer.write(line)
        try:
            await self._writer.drain()
        except OSError:
            raise _gone() from None

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                self._take(json.loads(line))
        except OSError:
            pass
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(_gone())
            for items in self._watched.values():
                items.put_nowait(_gone())

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("method") == "progress":
            told = message["params"]
            if (progress := self._progress.get(told["id"])) is not None:
                progress(told["bytes"], told["seconds"])
            return
        if message.get("method") == "watched":
            if (items := self._watched.get(message["params"]["id"])) is not None:
                items.put_nowait(WatchItem.model_validate(message["params"]["item"]))
            return
        if (items := self._watched.get(message["id"])) is not None:
            items.put_nowait(raised(message["error"]) if "error" in message else None)
            return
        future = self._waiting.get(message["id"])
        if future is None or future.done():
            return  # nobody waits for it any more
        if "error" in message:
            future.set_exception(raised(message["error"]))
        else:
            future.set_result(reply_of(message["result"]))


def _gone() -> DaemonGone:
    return DaemonGone(
        ErrorCode.IO_ERROR,
        "the daemon is gone, and with it the connection; connect again: local shells live on, and all history is kept",
    )

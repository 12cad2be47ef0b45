"""The server's side of one WebSocket of `/api/stream`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from pydantic_core import to_json
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.cancellation import cancel_and_wait
from ptyctl.core.limits import LIMITS, Limit, UseCounter
from ptyctl.session.clients import current_client

from .feeds import feeds_of_caller
from .messages import Acknowledge, Subscribe, Unsubscribe, Use, id_of, message_of, parse
from .topics import TerminalTopic, send_approvals, send_screens, send_sessions

_LOG = logging.getLogger(__name__)

#: Interval of the messages that show that the connection delivers (seconds).
TICK_S = 1.0
#: Longest message of a client.
MAX_MESSAGE_BYTES = 64 * 1024
#: Close codes (RFC 6455, section 7.4.1).
_UNSUPPORTED_DATA, _TOO_BIG = 1003, 1009


async def serve_stream(websocket: WebSocket, controller: Controller, limit: Limit = LIMITS["max_socket_subscriptions"]) -> None:
    """Serve a connection until it ends. The caller has checked who connects, and set the client's context.

    `limit` is that of its subscriptions.
    """
    await websocket.accept()
    await _StreamConnection(websocket, controller, limit).run()


class _StreamConnection:
    """One client, and its subscriptions."""

    def __init__(self, websocket: WebSocket, controller: Controller, limit: Limit) -> None:
        client = current_client()
        self._limit = limit
        self._subscriptions = UseCounter(limit) if client is None else client.part_counter(limit)
        self._websocket = websocket
        self._controller = controller
        self._feeds = feeds_of_caller(controller)
        self._sending = asyncio.Lock()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._terminals: dict[int, TerminalTopic] = {}
        #: The session whose lock this window uses.
        self._used: str | None = None
        #: The sessions whose lock another window uses since, which the client does not know yet.
        self._displaced: set[str] = set()
        self._displacing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Read messages until the connection ends, then end the subscriptions."""
        self._feeds.add_window(self)
        ticking = asyncio.create_task(self._tick(), name="web tick")
        try:
            while (text := await self._receive()) is not None:
                await self._handle(text)
        finally:
            self._feeds.remove_window(self)
            await cancel_and_wait(*self._tasks.values(), self._displacing, ticking)

    async def _tick(self) -> None:
        """Send the time at an interval: a page that hears nothing for some seconds shows that it may be out of date."""
        while True:
            await self.send(None, "tick", ts=int(time.time() * 1000))
            await asyncio.sleep(TICK_S)

    async def send(self, subscription_id: int | None, op: str, **fields: Any) -> None:
        """Send a message; wait until the client's socket takes it."""
        number = {} if subscription_id is None else {"id": subscription_id}
        await self._send({"type": "websocket.send", "text": to_json({"op": op, **number, **fields}).decode()})

    async def send_frame(self, frame: bytes) -> None:
        """Send a binary frame; wait until the client's socket takes it."""
        await self._send({"type": "websocket.send", "bytes": frame})

    def uses(self, session_id: str) -> bool:
        """Return whether this window uses the lock of a session."""
        return self._used == session_id

    def displace(self, session_id: str) -> None:
        """Leave the lock of a session to another window, and report it to the client."""
        if self._used == session_id:
            self._used = None
        self._displaced.add(session_id)
        if self._displacing is None or self._displacing.done():
            self._displacing = asyncio.create_task(self._report_displaced(), name="web window")

    async def _report_displaced(self) -> None:
        while self._displaced:
            session_id = self._displaced.pop()
            for number, terminal in list(self._terminals.items()):
                if terminal.session_id == session_id:
                    await self.send(number, "displaced")

    async def _send(self, message: dict[str, Any]) -> None:
        async with self._sending:  # a client that does not read has at most one message in memory beyond the socket's buffer
            with suppress(WebSocketDisconnect, RuntimeError):  # the connection has ended, which `run` notices
                await self._websocket.send(message)

    async def _receive(self) -> str | None:
        """Return the next message, or None at the end of the connection."""
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            return None
        text = message.get("text")
        if text is None or len(text.encode("utf-8", "surrogatepass")) > MAX_MESSAGE_BYTES:
            await self._close(_UNSUPPORTED_DATA if text is None else _TOO_BIG)
            return None
        return str(text)

    async def _close(self, code: int) -> None:
        if self._websocket.application_state is WebSocketState.CONNECTED:
            async with self._sending:
                with suppress(WebSocketDisconnect, RuntimeError):
                    await self._websocket.close(code)

    async def _handle(self, text: str) -> None:
        value: object = None
        try:
            value = parse(text)
            message = message_of(value)
            if isinstance(message, Subscribe):
                self._subscribe(message)
            elif isinstance(message, Unsubscribe):
                self._unsubscribe(message.id)
            elif isinstance(message, Use):
                self._use(message.id)
            else:
                self._acknowledge(message)
        except PtyctlError as error:
            await self.send(id_of(value), "error", error=error.payload())

    def _subscribe(self, message: Subscribe) -> None:
        if message.id in self._tasks:
            raise invalid(f"id {message.id} is the number of another subscription", field="id")
        self._limit.check(len(self._tasks))
        send_topic = self._topic(message)
        name = f"web {message.topic.partition(':')[0]}"
        self._tasks[message.id] = asyncio.create_task(self._run(message.id, send_topic), name=name)
        self._subscriptions.increase()

    def _topic(self, message: Subscribe) -> Callable[[], Awaitable[None]]:
        """Return the function that sends the topic of a subscription. Raises PtyctlError INVALID_ARGUMENT."""
        kind, _, session_id = message.topic.partition(":")
        output = _Subscription(self, message.id)
        if message.topic == "sessions":
            return partial(send_sessions, self._feeds.sessions, output)
        if message.topic == "approvals":
            return partial(send_approvals, self._feeds.approvals, output)
        if kind == "terminal" and session_id:
            terminal = TerminalTopic(self._controller, output, message.id, session_id)
            self._terminals[message.id] = terminal
            if any(window.uses(session_id) for window in self._feeds.other_windows(self)):
                self.displace(session_id)  # it was not connected when the other window began to use the lock
            return partial(terminal.run, None if message.start == "snapshot" else message.start)
        if kind == "screen" and session_id:
            return partial(self._send_screens, session_id, output)
        raise invalid(f"there is no topic {message.topic!r}: sessions, approvals, terminal:ID or screen:ID", field="topic")

    async def _send_screens(self, session_id: str, output: _Subscription) -> None:
        with self._feeds.thumbnail() as interval_s:
            await send_screens(self._controller, session_id, output, interval_s)

    def _unsubscribe(self, subscription_id: int) -> None:
        """End a subscription; one that has ended already is not an error."""
        if (task := self._tasks.get(subscription_id)) is not None:
            task.cancel()
            self._forget(subscription_id)

    def _use(self, subscription_id: int) -> None:
        """Make this the window that uses the lock of a terminal."""
        if (terminal := self._terminals.get(subscription_id)) is None:
            return
        self._used = terminal.session_id
        for window in self._feeds.other_windows(self):
            window.displace(terminal.session_id)

    def _acknowledge(self, message: Acknowledge) -> None:
        if (terminal := self._terminals.get(message.id)) is not None:
            terminal.acknowledge(message.offset)

    def _forget(self, subscription_id: int) -> None:
        del self._tasks[subscription_id]
        self._terminals.pop(subscription_id, None)
        self._subscriptions.decrease()

    async def _run(self, subscription_id: int, send_topic: Callable[[], Awaitable[None]]) -> None:
        """Run a subscription, and report its error."""
        try:
            await send_topic()
        except PtyctlError as error:
            await self.send(subscription_id, "error", error=error.payload())
        except Exception:  # noqa: BLE001 - a bug: other subscriptions continue
            _LOG.exception("a subscription of the web console failed")
            await self.send(subscription_id, "error", error=PtyctlError(ErrorCode.INTERNAL, "the server failed").payload())
        finally:
            if self._tasks.get(subscription_id) is asyncio.current_task():
                self._forget(subscription_id)


class _Subscription:
    """The connection as one subscription uses it."""

    def __init__(self, connection: _StreamConnection, subscription_id: int) -> None:
        self._connection = connection
        self._id = subscription_id

    async def send(self, op: str, **fields: Any) -> None:
        await self._connection.send(self._id, op, **fields)

    async def send_frame(self, frame: bytes) -> None:
        await self._connection.send_frame(frame)

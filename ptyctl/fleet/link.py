"""A byte stream between two nodes over NATS, on which they speak the daemon's protocol.

The caller asks the subject of the other node for a link and names an inbox for its bytes; the answer names that of the node.
Each message is then one frame: a kind, an offset and, in a data frame, bytes.

    D <offset> <bytes>   bytes at an offset of the stream; NATS may drop messages, so a gap ends the link
    A <offset>           the reader has taken all bytes up to the offset; at most `WINDOW_BYTES` are in transit
    P                    the sender is alive
    C                    the sender has closed the link

Core NATS delivers in order and at most once. After a lost link it is unknown which bytes the other side received.

`NodeLinks` keeps one link to each other node, opened at its first use and again after it was lost.

`flush_subscriptions` and `answer_requests` are for any subject of a node: those of links, and that of `control`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import struct
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from ptyctl.api.errors import ErrorCode, PtyctlError, decode_payload
from ptyctl.cancellation import cancel_and_wait, keep_cancellation
from ptyctl.core.json_lines import MAX_REPLY_LINE_BYTES
from ptyctl.daemon.client import RemoteController

_LOG = logging.getLogger(__name__)

#: Bytes that may be sent without an acknowledgement.
WINDOW_BYTES = 4 * 1024 * 1024
#: Bytes that are acknowledged at once: a request and its answer need no acknowledgement.
ACK_BYTES = WINDOW_BYTES // 4
#: Bytes of one message, below the server's default limit of 1 MiB.
FRAME_BYTES = 256 * 1024
#: Interval of the keepalives of an open link, and the silence after which it is lost (seconds).
PING_S, SILENCE_S = 5.0, 16.0
#: How long the other node may take to answer the request for a link (seconds).
OPEN_S = 5.0
#: How long a link that is closed may take to send the rest (seconds).
CLOSE_S = 2.0
#: The start of all subjects of `credentials.inbox_prefix`, and of an inbox of a client without a prefix.
_INBOXES = "_INBOX."

_HEADER = struct.Struct("!cQ")
_DATA, _ACK, _PING, _CLOSE = b"D", b"A", b"P", b"C"

#: Serves a link that another node has opened, until it ends.
Serve = Callable[[str, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
#: Handles the data of a request; returns the fields of the answer, or None if it is not answered.
RequestHandler = Callable[[bytes], Awaitable[dict[str, Any] | None]]


class _LinkTransport(asyncio.Transport):
    """The transport of one end: sends frames to the other node's inbox, and feeds received frames to an asyncio stream."""

    def __init__(self, client: Client, protocol: asyncio.StreamReaderProtocol) -> None:
        super().__init__()
        self._client = client
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._subject = ""
        self._subscription: Subscription | None = None
        self._unsent = bytearray()
        self._sent = self._acknowledged = self._received = 0
        #: Number of received bytes that this end has acknowledged.
        self._read = 0
        self._wakeup = asyncio.Event()
        self._is_closing = self._is_reading_paused = self._is_writing_paused = False
        self._heard_at = self._loop.time()
        self._close_by = float("inf")
        self._sender: asyncio.Task[None] | None = None

    async def listen(self) -> str:
        """Subscribe to an inbox for the other node; return it."""
        inbox = self._client.new_inbox()
        self._subscription = await self._client.subscribe(inbox, cb=self._receive)
        await flush_subscriptions(self._client)  # the server must know it before the other node sends
        return inbox

    def begin(self, subject: str) -> None:
        """Begin to send to the other node's inbox."""
        self._subject = subject
        self._heard_at = self._loop.time()
        self._protocol.connection_made(self)
        self._sender = asyncio.create_task(self._send(), name="link")

    # asyncio.Transport

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self._unsent += data
        self._wakeup.set()
        if len(self._unsent) > WINDOW_BYTES and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._close_by = self._loop.time() + CLOSE_S
        self._is_closing = True
        self._wakeup.set()

    def abort(self) -> None:
        self._unsent.clear()
        self.close()

    def pause_reading(self) -> None:
        self._is_reading_paused = True

    def resume_reading(self) -> None:
        self._is_reading_paused = False
        self._wakeup.set()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    # Frames

    async def _receive(self, message: Msg) -> None:
        self._heard_at = self._loop.time()
        if len(message.data) < _HEADER.size:
            return self._lose("the other node sent an invalid frame")
        kind, offset = _HEADER.unpack_from(message.data)
        if kind == _ACK:
            self._acknowledged = max(self._acknowledged, offset)
            self._wakeup.set()
        elif kind == _DATA:
            data = message.data[_HEADER.size :]
            if offset != self._received:
                return self._lose("messages between the nodes were lost")
            self._received += len(data)
            self._protocol.data_received(data)
            if self._owes_acknowledgement():
                self._wakeup.set()
        elif kind == _CLOSE:
            self._lose(None)
        return None

    def _lose(self, why: str | None) -> None:
        """End the link without sending more. The reader gets the end of the stream."""
        if why is not None:
            _LOG.warning("a link between nodes was lost", extra={"why": why})
        self._unsent.clear()
        self._is_closing = True
        self._wakeup.set()

    async def _send(self) -> None:
        """Send bytes within the window, acknowledgements and keepalives until the link ends."""
        pinged_at = self._loop.time()
        try:
            while not self._is_closing or (self._unsent and self._loop.time() < self._close_by):
                self._wakeup.clear()
                if self._owes_acknowledgement():
                    self._read = self._received
                    await self._publish(_ACK, self._read)
                await self._send_window()
                now = self._loop.time()
                if now - self._heard_at >= SILENCE_S:
                    return self._lose("the other node is silent")
                if now - pinged_at >= PING_S:
                    pinged_at = now
                    await self._publish(_PING, 0)
                if not self._wakeup.is_set() and not (self._is_closing and not self._unsent):
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(self._due(pinged_at)):
                            await self._wakeup.wait()
            await self._publish(_CLOSE, 0)
        except (nats.errors.Error, OSError) as error:
            self._lose(f"NATS: {error or type(error).__name__}")
        finally:
            await self.end()
        return None

    def _due(self, pinged_at: float) -> float:
        """Return when there is something to do without input or output."""
        if self._is_closing:
            return self._close_by
        return min(pinged_at + PING_S, self._heard_at + SILENCE_S)

    def _owes_acknowledgement(self) -> bool:
        return not self._is_reading_paused and self._received - self._read >= ACK_BYTES

    async def _send_window(self) -> None:
        while self._unsent and (room := self._acknowledged + WINDOW_BYTES - self._sent) > 0:
            data = bytes(self._unsent[: min(FRAME_BYTES, room)])
            del self._unsent[: len(data)]
            await self._publish(_DATA, self._sent, data)
            self._sent += len(data)
        if self._is_writing_paused and len(self._unsent) <= WINDOW_BYTES // 2:
            self._is_writing_paused = False
            self._protocol.resume_writing()

    async def _publish(self, kind: bytes, offset: int, data: bytes = b"") -> None:
        await self._client.publish(self._subject, _HEADER.pack(kind, offset) + data)

    async def end(self) -> None:
        """End the link on this side."""
        self._is_closing = True
        if self._subscription is not None:
            with suppress(nats.errors.Error):
                await self._subscription.unsubscribe()
        self._protocol.eof_received()
        self._protocol.connection_lost(None)


def _new_end(client: Client, limit: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, _LinkTransport]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport = _LinkTransport(client, protocol)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop), transport


async def flush_subscriptions(client: Client) -> None:
    """Wait until the server has processed the subscriptions of a client.

    nats-py sends the PING of a flush at once, but a subscription with the next batch of commands, so that the first PING
    overtakes it. The second one follows it.
    """
    with keep_cancellation():
        await client.flush()
        await client.flush()


def answer_requests(client: Client, handle: RequestHandler) -> Callable[[Msg], Awaitable[None]]:
    """Return a callback that handles requests and publishes the answers to the inboxes of their senders.

    The sender chooses the subject of the answer. An answer elsewhere, or with the headers of the request (as `Msg.respond`
    sends it), would be a write with the permissions of this node, such as the deletion of its own row.
    """

    async def answer(message: Msg) -> None:
        if not message.reply.startswith(_INBOXES):
            _LOG.warning("a request names another subject than an inbox for its answer", extra={"subject": message.subject})
            return
        fields = await handle(message.data)
        if fields is not None:
            with suppress(nats.errors.Error):
                await client.publish(message.reply, json.dumps(fields).encode())

    return answer


def rpc_subject(site: str, node: str) -> str:
    """Return the subject of a node for requests to open a link."""
    return f"ptyctl.{site}.{node}.rpc"


async def open_link(
    client: Client, subject: str, node: str, limit: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
    """Open a link to the node that listens on a subject; return its streams, and an id of the node's process.

    Args:
        node: the name of this node.
        limit: the longest line that the reader accepts.

    Raises:
        PtyctlError: CONNECT_FAILED if the node does not answer; the node's refusal.
    """
    reader, writer, transport = _new_end(client, limit)
    try:
        inbox = await transport.listen()
        with keep_cancellation():
            answer = await client.request(subject, json.dumps({"node": node, "inbox": inbox}).encode(), timeout=OPEN_S)
        fields = json.loads(answer.data)
        if "error" in fields:
            raise decode_payload(fields["error"])
        inbox, process = str(fields["inbox"]), str(fields["process"])
        if not inbox.startswith(_INBOXES):
            raise ValueError("it names another subject than an inbox")
        transport.begin(inbox)
    except (nats.errors.Error, OSError, ValueError, KeyError) as error:
        await transport.end()
        raise PtyctlError(
            ErrorCode.CONNECT_FAILED,
            f"the node at {subject} does not answer: {error or type(error).__name__}",
            hint="see which nodes of its site are up: ptyctl fleet nodes with --fleet FILE, a file of that site",
        ) from None
    except BaseException:
        await transport.end()
        raise
    return reader, writer, process


class LinkListener:
    """Accepts links of other nodes on this node's subject."""

    def __init__(self, client: Client, subject: str, serve: Serve, limit: int) -> None:
        self._client = client
        self._subject = subject
        self._serve = serve
        self._limit = limit
        #: A node that was started again does not remember the calls of the process before.
        self._process = secrets.token_hex(8)
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        """Start to accept links."""
        self._subscription = await self._client.subscribe(self._subject, cb=answer_requests(self._client, self._accept))
        await flush_subscriptions(self._client)

    async def aclose(self) -> None:
        """Stop accepting links, and end all open ones."""
        if self._subscription is not None:
            with suppress(nats.errors.Error):
                await self._subscription.unsubscribe()
        await cancel_and_wait(*self._tasks)

    async def _accept(self, data: bytes) -> dict[str, Any] | None:
        try:
            fields = json.loads(data)
            node, subject = str(fields["node"]), str(fields["inbox"])
            if not subject.startswith(_INBOXES):
                raise ValueError("the frames would go to another subject than an inbox")
        except (ValueError, KeyError, TypeError):
            _LOG.warning("a request for a link is invalid", extra={"subject": self._subject})
            return None
        reader, writer, transport = _new_end(self._client, self._limit)
        inbox = await transport.listen()
        transport.begin(subject)
        task = asyncio.create_task(self._run(node, reader, writer), name=f"link of {node}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return {"inbox": inbox, "process": self._process}

    async def _run(self, node: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(node, reader, writer)
        finally:
            writer.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await writer.wait_closed()


class NodeLinks:
    """Controllers of the other nodes, by name; nodes of other sites as `site/node`."""

    def __init__(self, client: Client, site: str, node: str) -> None:
        self._client = client
        self._site = site
        self._node = node
        self._controllers: dict[str, RemoteController] = {}
        self._processes: dict[str, str] = {}
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def has(self, node: str) -> bool:
        """Return whether a link to a node is open."""
        controller = self._controllers.get(node)
        return controller is not None and controller.is_connected

    async def controller(self, node: str) -> RemoteController:
        """Return the controller of a node. Raises PtyctlError CONNECT_FAILED."""
        async with self._opening[node]:
            if not self.has(node):
                if (lost := self._controllers.pop(node, None)) is not None:
                    await lost.aclose()
                site, _, name = node.rpartition("/")
                subject = rpc_subject(site or self._site, name)
                reader, writer, self._processes[node] = await open_link(self._client, subject, self._node, MAX_REPLY_LINE_BYTES)
                self._controllers[node] = RemoteController(reader, writer, names_user=True)
            return self._controllers[node]

    def process_of(self, node: str) -> str | None:
        """Return the id of the process at the end of the last link to a node."""
        return self._processes.get(node)

    async def aclose(self) -> None:
        """Close all links."""
        await asyncio.gather(*(controller.aclose() for controller in self._controllers.values()))

"""The stream AUDIT: the rows of all nodes' audit logs, each node's chain as it is in its files.

A node sends the lines of its files, in order, to its own subject. The key of another node does not allow to send there;
docs/fleet.md (Trust) tells what a node that is taken over can do. The files stay the record: what the stream lacks is sent
again from them. A row is sent once: each message names the number of the one before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from heapq import heappop, heappush
from typing import Any

from nats.aio.client import Client
from nats.js import api
from nats.js.errors import BadRequestError, NotFoundError
from pydantic_core import to_json

from ptyctl.api.model import MAX_LIST_BYTES
from ptyctl.api.operator import AuditFault, AuditNode, AuditReply
from ptyctl.audit.chain import FIRST, ChainFault, Head, Verification, extend, hash_of, parse

from .buckets import reported

_LOG = logging.getLogger(__name__)

STREAM = "AUDIT"
#: Interval at which the files are checked for new rows (seconds), and the number of rows that are sent between two checks.
CHECK_S, BATCH = 1.0, 500
#: How long a read of the stream may wait for the next row (seconds).
_READ_S = 3.0
#: When the servers remove the consumer of a read that has ended (seconds; their default is 5 minutes). A stream takes 1,000.
_INACTIVE_S = 5.0
#: Number of rows that a query reads at most.
MAX_READ = 200_000


def audit_subject(site: str, node: str) -> str:
    """Return the subject of a node's audit rows."""
    return f"ptyctl.{site}.{node}.audit"


class AuditSender:
    """Sends the rows of this node."""

    def __init__(
        self, client: Client, site: str, node: str, read: Callable[[str, int], list[bytes]], replicas: int = 1
    ) -> None:
        """Create the stream. `read` returns the lines that follow the line with a hash; see `AuditTail.next`."""
        self._stream = client.jetstream()
        self._site = site
        self._subject = audit_subject(site, node)
        self._read = read
        self._replicas = replicas
        #: Hash of the last row in the stream, and the number of its message.
        self._sent: tuple[str, int] | None = None

    async def send(self) -> None:
        """Send the rows that the stream lacks, at most `BATCH`. Raises PtyctlError IO_ERROR."""
        async with reported("take audit rows"):
            if self._sent is None:
                await self._create()
                self._sent = await self._last()
            after, number = self._sent
            for line in await asyncio.to_thread(self._read, after, BATCH):
                headers = {"Nats-Expected-Last-Subject-Sequence": str(number)}
                self._sent = None  # until the answer: it is read again
                answer = await self._stream.publish(self._subject, line, headers=headers)
                after, number = hash_of(line), answer.seq
                self._sent = after, number

    async def _create(self) -> None:
        try:
            await self._stream.stream_info(STREAM)
        except NotFoundError:
            config = api.StreamConfig(name=STREAM, subjects=[audit_subject(self._site, "*")], num_replicas=self._replicas)
            try:
                await self._stream.add_stream(config)
            except BadRequestError:  # another node has created it
                _LOG.info("the stream of audit rows was created by another node")

    async def _last(self) -> tuple[str, int]:
        try:
            message = await self._stream.get_last_msg(STREAM, self._subject)
        except NotFoundError:
            return FIRST, 0
        return hash_of(message.data or b""), message.seq or 0


class AuditReader:
    """Reads the rows of all nodes of a site."""

    def __init__(self, client: Client, site: str) -> None:
        self._stream = client.jetstream()
        self._site = site

    async def newest(self, other_than: str, is_wanted: Callable[[Mapping[str, Any]], bool], limit: int) -> list[dict[str, Any]]:
        """Return the newest wanted rows of the other nodes with their `node`, oldest first. Raises PtyctlError IO_ERROR."""
        newest = NewestRows(limit, is_wanted)
        await self._read(lambda lines: newest.add((node, line) for node, line in lines if node != other_than))
        return newest.rows()

    async def verify(self) -> dict[str, Verification]:
        """Verify the chain of each node, as the stream has it. Raises PtyctlError IO_ERROR."""
        chains = NodeChains()
        await self._read(chains.add)
        return chains.verifications()

    async def _read(self, add: Callable[[Iterable[tuple[str, bytes]]], None]) -> None:
        """Pass the newest rows of all nodes on, batch by batch: parsing runs in a thread."""
        lines: list[tuple[str, bytes]] = []
        async with aclosing(self._messages()) as messages:
            async for message in messages:
                lines.append(message)
                if len(lines) >= BATCH:
                    await asyncio.to_thread(add, lines)
                    lines = []
        await asyncio.to_thread(add, lines)

    async def _messages(self) -> AsyncGenerator[tuple[str, bytes]]:
        """Yield the newest rows of all nodes, at most `MAX_READ`, with their nodes."""
        async with reported("read audit rows"):
            try:
                state = (await self._stream.stream_info(STREAM)).state
            except NotFoundError:
                return
            if not state.messages:  # none was sent yet, or all have expired
                return
            last = state.last_seq
            policy, begin = api.DeliverPolicy.BY_START_SEQUENCE, max(1, last - MAX_READ + 1)
            config = api.ConsumerConfig(deliver_policy=policy, opt_start_seq=begin, inactive_threshold=_INACTIVE_S)
            subject = audit_subject(self._site, "*")
            subscription = await self._stream.subscribe(subject, stream=STREAM, ordered_consumer=True, config=config)
            try:
                number = 0
                while number < last:
                    message = await subscription.next_msg(timeout=_READ_S)
                    number = message.metadata.sequence.stream
                    yield message.subject.split(".")[2], message.data
            finally:
                await subscription.unsubscribe()


class NewestRows:
    """The newest matching rows, up to a limit. Rows with the same time keep their order."""

    def __init__(self, limit: int, is_wanted: Callable[[Mapping[str, Any]], bool]) -> None:
        self._limit = limit
        self._is_wanted = is_wanted
        self._count = 0
        #: A heap: time of the row, number in the order of `add`, and the row.
        self._newest: list[tuple[float, int, dict[str, Any]]] = []

    def add(self, lines: Iterable[tuple[str, bytes]]) -> None:
        """Add the rows of lines with the names of their nodes."""
        for node, line in lines:
            row = parse(line)
            if row is None or not isinstance(row.get("ts", 0), int | float) or not self._is_wanted(row):
                continue
            self._count += 1
            heappush(self._newest, (row.get("ts", 0), self._count, {**row, "node": node}))
            if len(self._newest) > self._limit:
                heappop(self._newest)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, oldest first."""
        return [row for _, _, row in sorted(self._newest, key=lambda item: item[:2])]


class NodeChains:
    """The verifications of the chains of nodes, each from the first row that is added. Keeps no rows."""

    def __init__(self) -> None:
        self._verifications: dict[str, Verification] = {}

    def add(self, lines: Iterable[tuple[str, bytes]]) -> None:
        """Verify the next lines with the names of their nodes."""
        for node, line in lines:
            verification = self._verifications.get(node) or Verification(_begin(line))
            if verification.fault is None:
                self._verifications[node] = _continued(verification.head, node, line)

    def verifications(self) -> dict[str, Verification]:
        """Return the verifications, sorted by node."""
        return dict(sorted(self._verifications.items()))


def _begin(first: bytes) -> Head:
    """Return the head before the first row that was read."""
    row = parse(first)
    return Head(0, str(row.get("prev"))) if row is not None else Head()


def _continued(head: Head, node: str, line: bytes) -> Verification:
    extended, _ = extend(head, [line + b"\n"])
    if extended.rows > head.rows:
        return Verification(extended)
    return Verification(
        head, ChainFault(f"{STREAM}, node {node}", head.rows + 1, "it does not continue the chain of the rows before it")
    )


def add_rows(reply: AuditReply, own: list[dict[str, Any]], others: list[dict[str, Any]], limit: int) -> AuditReply:
    """Return a reply with the newest rows of all nodes, oldest first. The rows of each node keep their order."""
    rows = sorted([*own, *others], key=lambda row: row.get("ts", 0))
    kept, size = len(rows), 0
    for row in reversed(rows):
        size += len(to_json(row))
        if len(rows) - kept >= limit or (size > MAX_LIST_BYTES and kept < len(rows)):
            break
        kept -= 1
    return reply.model_copy(update={"rows": rows[kept:], "truncated": True if reply.truncated or kept else None})


def add_verifications(reply: AuditReply, verifications: Mapping[str, Verification]) -> AuditReply:
    """Add the verifications of all nodes' rows in the stream to that of this node's files."""
    nodes = [
        AuditNode(
            node=node,
            verified=verification.head.rows,
            head=verification.head.hash,
            first_bad=None if verification.fault is None else AuditFault(**verification.fault._asdict()),
        )
        for node, verification in verifications.items()
    ]
    bad = next((node.first_bad for node in nodes if node.first_bad is not None), None)
    return reply.model_copy(update={"nodes": nodes, "first_bad": reply.first_bad or bad})

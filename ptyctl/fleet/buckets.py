"""The key-value buckets of a fleet, with the configuration that claims rely on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import nats.errors
from nats.aio.msg import Msg
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, KeyNotFoundError, KeyWrongLastSequenceError, NotFoundError
from nats.js.kv import KeyValue

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.cancellation import keep_cancellation

#: A lease that its node does not renew expires after this time, and other nodes can take its consoles (seconds).
LEASE_TTL_S = 15.0
#: Buckets by name: how long a key lives without renewal (seconds), or None. One message per key is kept.
NODES, LEASES, CLAIMS, SESSIONS, POLICY = "nodes", "leases", "claims", "sessions", "policy"
BUCKET_TTL_S: dict[str, float | None] = {
    NODES: LEASE_TTL_S,
    LEASES: LEASE_TTL_S,
    CLAIMS: None,
    SESSIONS: None,
    POLICY: None,
}
#: Delay before a request that NATS did not answer is repeated (seconds).
RETRY_S = 0.5
#: The bucket of earlier versions, with a lifetime for each claim.
OLD_CLAIMS = "consoles"

#: How long the servers of a cluster may take until each knows a new bucket, and the interval of queries (seconds).
_CREATED_S = 10.0
_CREATED_POLL_S = 0.05
#: How long the marker of a deleted key stays in a bucket whose keys do not expire (seconds). A node that reads no changes for
#: longer finds that the key is missing.
_MARKERS_S = 30 * 60

#: Changes that a watch has received and its reader has not; the library holds more, up to its own limits.
_QUEUED = 256
#: After how long the servers end the watch of a client that is gone (seconds).
_INACTIVE_S = 300.0
#: Headers of the markers that replace the value of a deleted or expired key.
_MARKER_HEADERS = frozenset({"KV-Operation", "Nats-Marker-Reason"})

#: JetStream's error codes of a compare-and-set with another revision than the key's.
_WRONG_LAST_SEQUENCE = (10071, 10164)


class ConflictError(Exception):
    """A compare-and-set failed: the key has another revision."""


class Entry(NamedTuple):
    """A value of a key, and the revision that wrote it."""

    value: bytes
    revision: int


class Bucket:
    """One key-value bucket. Every operation is linearizable: the stream's leader answers it.

    Raises PtyctlError IO_ERROR (retryable) if NATS does not answer; whether a write was stored is then unknown.
    """

    def __init__(self, store: KeyValue, created_s: int, ttl_s: float | None) -> None:
        self.store = store
        #: How long a key lives without renewal (seconds), or None.
        self.ttl_s = ttl_s
        #: Creation time of the bucket's stream (seconds since 1970). Revisions restart when a stream is created again.
        self.created_s = created_s

    async def get(self, key: str) -> Entry | None:
        """Return a key's value; None if there is none, or it has expired."""
        async with reported("read"):
            try:
                entry = await self.store.get(key)
            except KeyNotFoundError:
                return None
        assert entry.revision is not None
        return None if entry.value is None else Entry(entry.value, entry.revision)

    async def create(self, key: str, value: bytes) -> int:
        """Write a key that does not exist; return its revision. Raises ConflictError."""
        async with reported("create"):
            try:
                return await self.store.create(key, value)
            except KeyNotFoundError:  # it was there, and has expired since
                raise ConflictError from None

    async def update(self, key: str, value: bytes, revision: int) -> int:
        """Replace the value that has the revision, which renews the key's life; return the new one. Raises ConflictError."""
        async with reported("update"):
            return await self.store.update(key, value, revision)

    async def put(self, key: str, value: bytes) -> int:
        """Write a key whatever its value; return the revision."""
        async with reported("write"):
            return await self.store.put(key, value)

    async def delete(self, key: str, revision: int | None = None) -> None:
        """Delete a key; with `revision`, only at that revision. Its marker remains for half an hour. Raises ConflictError."""
        headers = {"KV-Operation": "DEL"}
        if revision is not None:
            headers["Nats-Expected-Last-Subject-Sequence"] = str(revision)
        marker_ttl_s = _MARKERS_S if self.ttl_s is None else None  # others expire with the TTL of all keys
        async with reported("delete"):  # the library's delete() refuses a TTL
            await self.store._js.publish(f"{self.store._pre}{key}", headers=headers, msg_ttl=marker_ttl_s)

    async def watch(self) -> AsyncGenerator[tuple[str, Entry | None] | None]:
        """Yield each key with its value, then None, then each change; the value of a deleted key is None.

        Expiry is not reported.
        """
        changes: asyncio.Queue[Msg] = asyncio.Queue(_QUEUED)
        async with reported("report changes"):
            subscription = await self.store._js.subscribe(
                f"{self.store._pre}>",
                stream=self.store._stream,
                cb=changes.put,
                ordered_consumer=True,
                deliver_policy=api.DeliverPolicy.LAST_PER_SUBJECT,
                inactive_threshold=_INACTIVE_S,
            )
        first = _FirstValues(subscription)
        try:
            await first.ask()
            if first.are_complete:
                yield None
            while True:
                try:
                    async with asyncio.timeout(None if first.are_complete else RETRY_S):
                        message = await changes.get()
                except TimeoutError:
                    await first.ask()
                    if first.are_complete:
                        yield None
                    continue
                yield self._change(message)
                if not first.are_complete:
                    first.receive(message.metadata)
                    if first.are_complete:
                        yield None
        finally:
            await subscription.unsubscribe()

    def _change(self, message: Msg) -> tuple[str, Entry | None]:
        """Return the key of a message with its value; None if it is the marker of a deleted key."""
        is_marker = not _MARKER_HEADERS.isdisjoint(message.headers or ())
        entry = None if is_marker else Entry(message.data, message.metadata.sequence.stream)
        return message.subject.removeprefix(self.store._pre), entry


class _FirstValues:
    """Finds out when a watch has received all values that its bucket had at the start.

    The marker of nats-py can come too early (nats.py issue 842): it does not count messages that are on their way to the
    client, and a message can report that none is pending while other keys are written. Here the servers say how many
    messages come first; the last of them also reports that none is pending.
    """

    def __init__(self, subscription: JetStreamContext.PushSubscription) -> None:
        self.are_complete = False
        self._subscription = subscription
        #: The last message that was received, and the last of the first ones: sequence numbers of the consumer.
        self._received = 0
        self._last = 0

    async def ask(self) -> None:
        """Ask the servers for the number of messages: at the start, and again if no message comes, as when keys expire.

        Raises:
            PtyctlError: IO_ERROR.
        """
        try:
            async with reported("report changes"):
                info = await self._subscription.consumer_info()
        except NotFoundError as error:  # its server was restarted; the library creates another consumer
            raise _no_answer("report changes", error) from None
        pending = info.num_pending or 0
        self._last = (info.delivered.consumer_seq if info.delivered is not None else 0) + pending
        self.are_complete = not pending and self._received >= self._last

    def receive(self, metadata: Msg.Metadata) -> None:
        """Count a received message."""
        self._received = metadata.sequence.consumer
        self.are_complete = self._received >= self._last and not metadata.num_pending


async def open_bucket(stream: JetStreamContext, name: str, *, replicas: int = 1, ttl_s: float | None = None) -> Bucket:
    """Open a bucket of `BUCKET_TTL_S`, and create it if it does not exist.

    Args:
        replicas: of a new bucket.
        ttl_s: another life of its keys than the default, for tests.

    Raises:
        PtyctlError: UNSUPPORTED if the bucket is configured in a way that could give a console two owners; IO_ERROR.
    """
    ttl_s = BUCKET_TTL_S[name] if ttl_s is None else ttl_s
    async with reported(f"open the bucket {name}"):
        try:
            store, info = await _find(stream, name)
        except NotFoundError:
            await stream.add_stream(_configuration(name, replicas, ttl_s))
            store, info = await _find_new(stream, name)
    if problems := find_problems(info.config, ttl_s):
        raise PtyctlError(
            ErrorCode.UNSUPPORTED,
            f"the bucket {name} is not configured as a fleet needs it: {'; '.join(problems)}",
            hint="check it with ptyctl fleet doctor, and delete the bucket while no node is up: it is created again",
        )
    assert info.created is not None
    return Bucket(store, int(info.created.timestamp()), ttl_s)


async def check_format(stream: JetStreamContext) -> None:
    """Check that no claims of an earlier version are in use: a console could have two owners.

    Raises:
        PtyctlError: UNSUPPORTED; IO_ERROR.
    """
    async with reported(f"look for the bucket {OLD_CLAIMS}"):
        try:
            await stream.stream_info(f"KV_{OLD_CLAIMS}")
        except NotFoundError:
            return
    raise PtyctlError(
        ErrorCode.UNSUPPORTED,
        f"the site has the bucket {OLD_CLAIMS}, in which nodes of an earlier version claim consoles",
        hint=f"stop all nodes, then delete the streams KV_{OLD_CLAIMS} and KV_fences: nats stream rm KV_{OLD_CLAIMS}",
    )


async def _find(stream: JetStreamContext, name: str) -> tuple[KeyValue, api.StreamInfo]:
    """Return a bucket, and the state of its stream. Raises NotFoundError."""
    return await stream.key_value(name), await stream.stream_info(f"KV_{name}")


async def _find_new(stream: JetStreamContext, name: str) -> tuple[KeyValue, api.StreamInfo]:
    """Return a bucket that was just created. The other servers of a cluster know it a moment later. Raises TimeoutError."""
    async with asyncio.timeout(_CREATED_S):
        while True:
            with suppress(NotFoundError):
                return await _find(stream, name)
            await asyncio.sleep(_CREATED_POLL_S)


def _configuration(name: str, replicas: int, ttl_s: float | None) -> api.StreamConfig:
    """Return the configuration of a new bucket's stream.

    It is that of `create_key_value` without rollups: a node could remove the rows of all others with a header.
    """
    duplicate_window_s = 120.0
    return api.StreamConfig(
        name=f"KV_{name}",
        subjects=[f"$KV.{name}.>"],
        allow_direct=False,
        allow_rollup_hdrs=False,
        allow_msg_ttl=True,
        deny_delete=True,
        discard=api.DiscardPolicy.NEW,
        duplicate_window=min(ttl_s or duplicate_window_s, duplicate_window_s),
        max_age=ttl_s,
        max_consumers=-1,
        max_msgs=-1,
        max_msgs_per_subject=1,
        num_replicas=replicas,
        storage=api.StorageType.FILE,
    )


async def find_bucket(stream: JetStreamContext, name: str) -> Bucket:
    """Return a bucket as it is. Raises nats.js.errors.NotFoundError if there is none; PtyctlError IO_ERROR."""
    async with reported(f"open the bucket {name}"):
        store, info = await _find(stream, name)
    assert info.created is not None
    return Bucket(store, int(info.created.timestamp()), BUCKET_TTL_S[name])


def find_problems(config: api.StreamConfig, ttl_s: float | None) -> list[str]:
    """Return the problems in the configuration of a bucket's stream."""
    problems = []
    if config.allow_direct:
        problems.append("allow_direct is set: a replica can answer with an old owner")
    if (config.max_age or None) != ttl_s:
        problems.append(f"keys live for {config.max_age or 'any number of'} seconds instead of {ttl_s or 'any number'}")
    if config.subject_delete_marker_ttl:
        problems.append("it has markers for expired keys: a key cannot be created until its marker has expired too")
    if config.max_msgs_per_subject != 1:
        problems.append("it keeps more than one value per key")
    if config.allow_rollup_hdrs:
        problems.append("allow_rollup_hdrs is set: a node can remove the rows of all others")
    if ttl_s is None and not config.allow_msg_ttl:
        problems.append("allow_msg_ttl is not set: a key cannot be deleted")
    return problems


@asynccontextmanager
async def reported(action: str) -> AsyncIterator[None]:
    """Convert errors of NATS to ConflictError, or to PtyctlError IO_ERROR with the action. NotFoundError is unchanged."""
    try:
        with keep_cancellation():
            yield
    except KeyWrongLastSequenceError:
        raise ConflictError from None
    except NotFoundError:
        raise
    except APIError as error:
        if error.err_code in _WRONG_LAST_SEQUENCE:  # of a delete
            raise ConflictError from None
        raise _no_answer(action, error) from None
    except (nats.errors.Error, OSError, TimeoutError) as error:
        raise _no_answer(action, error) from None


def _no_answer(action: str, error: Exception) -> PtyctlError:
    return PtyctlError(
        ErrorCode.IO_ERROR,
        f"NATS did not {action}: {str(error) or type(error).__name__}",
        {"delivery": "unknown"},
        hint="check the servers with ptyctl fleet doctor",
    )


_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def encode_key(name: str) -> str:
    """Return a name as a key: of characters that NATS does not allow in a subject, each byte becomes = and two hex digits."""
    return "".join(chr(byte) if byte in _PLAIN else f"={byte:02x}" for byte in name.encode("utf-8", "surrogatepass"))


def decode_key(key: str) -> str:
    """Return the name of a key of `encode_key`."""
    decoded = re.sub(rb"=([0-9a-f]{2})", lambda match: bytes.fromhex(match[1].decode()), key.encode())
    return decoded.decode("utf-8", "replace")

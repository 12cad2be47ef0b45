"""Buckets: compare-and-set, and the check of their configuration."""

from __future__ import annotations

import asyncio
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, BucketNotFoundError, NotFoundError
from nats.js.kv import KeyValue

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.fleet import buckets
from ptyctl.fleet.buckets import (
    BUCKET_TTL_S,
    CLAIMS,
    LEASES,
    NODES,
    SESSIONS,
    Bucket,
    ConflictError,
    Entry,
    find_problems,
    open_bucket,
)

FIRST, SECOND = b"1", b"2"


async def test_compare_and_set_with_another_revision_is_refused(client: Client) -> None:
    bucket = await open_bucket(client.jetstream(), CLAIMS)
    revision = await bucket.create("k", FIRST)
    with pytest.raises(ConflictError):
        await bucket.create("k", SECOND)
    with pytest.raises(ConflictError):
        await bucket.update("k", SECOND, revision + 1)
    with pytest.raises(ConflictError):
        await bucket.delete("k", revision + 1)
    assert await bucket.get("k") == Entry(FIRST, revision)
    await bucket.delete("k", revision)
    assert await bucket.get("k") is None
    assert await bucket.create("k", SECOND) > revision


async def test_watch_yields_values_changes_and_deletions(client: Client) -> None:
    bucket = await open_bucket(client.jetstream(), SESSIONS)
    await bucket.put("a", FIRST)
    changes = bucket.watch()
    assert await anext(changes) == ("a", Entry(FIRST, 1))
    assert await anext(changes) is None
    await bucket.put("b", SECOND)
    assert await anext(changes) == ("b", Entry(SECOND, 2))
    await bucket.delete("a")
    assert await anext(changes) == ("a", None)
    await changes.aclose()


class _LateMessages:
    """The streams of a client that receives no message before it knows how many there are."""

    def __init__(self, stream: JetStreamContext) -> None:
        self._stream = stream
        self._arrived = asyncio.Semaphore(0)
        self._may_pass = asyncio.Event()

    async def subscribe(self, *args: Any, cb: Any, **options: Any) -> Any:
        async def hold(message: Msg) -> None:
            self._arrived.release()
            await self._may_pass.wait()
            await cb(message)

        subscription = await self._stream.subscribe(*args, cb=hold, **options)
        ask = subscription.consumer_info

        async def consumer_info() -> api.ConsumerInfo:
            await self._arrived.acquire()
            info = await ask()
            asyncio.get_running_loop().call_soon(self._may_pass.set)
            return info

        subscription.consumer_info = consumer_info  # type: ignore[method-assign]
        return subscription


async def test_watch_of_values_that_arrive_late_is_complete_after_the_last(client: Client) -> None:
    bucket = await open_bucket(client.jetstream(), SESSIONS)
    await bucket.put("a", FIRST)
    await bucket.put("b", SECOND)
    bucket.store._js = cast("JetStreamContext", _LateMessages(client.jetstream()))
    changes = bucket.watch()
    assert [await anext(changes) for _ in range(3)] == [("a", Entry(FIRST, 1)), ("b", Entry(SECOND, 2)), None]
    await changes.aclose()


class _Consumer:
    """A consumer that answers with its numbers of delivered and pending messages in turn."""

    def __init__(self, *answers: tuple[int, int]) -> None:
        self._answers = iter(answers)

    async def consumer_info(self) -> Mock:
        delivered, pending = next(self._answers)
        return Mock(delivered=Mock(consumer_seq=delivered), num_pending=pending)


def first_values(*answers: tuple[int, int]) -> buckets._FirstValues:
    return buckets._FirstValues(cast("JetStreamContext.PushSubscription", _Consumer(*answers)))


def metadata(number: int, pending: int) -> Msg.Metadata:
    return cast("Msg.Metadata", Mock(sequence=Mock(consumer=number), num_pending=pending))


@pytest.mark.parametrize(
    ("answer", "pending", "complete_after"),
    [
        ((0, 2), [1, 0], 2),
        ((2, 0), [1, 0], 2),  # both are under way
        ((1, 2), [0, 1, 0], 3),  # a message reports that none is pending, while others are written
        ((0, 2), [1, 2, 1, 0], 4),
    ],
)
async def test_first_values_are_complete_with_the_last_one(
    answer: tuple[int, int], pending: list[int], complete_after: int
) -> None:
    first = first_values(answer)
    await first.ask()
    assert not first.are_complete
    for number, left in enumerate(pending, 1):
        first.receive(metadata(number, left))
        assert first.are_complete == (number == complete_after)


async def test_first_values_of_an_empty_bucket_are_complete_at_once() -> None:
    first = first_values((0, 0))
    await first.ask()
    assert first.are_complete


async def test_first_values_that_expire_before_they_arrive_are_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "RETRY_S", 0.01)
    consumer: Any = _Consumer((0, 2), (0, 1), (0, 0))
    consumer.unsubscribe = AsyncMock()
    stream = Mock(subscribe=AsyncMock(return_value=consumer))
    changes = Bucket(Mock(_js=stream, _pre="$KV.sessions.", _stream="KV_sessions"), 0, None).watch()
    async with asyncio.timeout(10):
        assert await anext(changes) is None
    await changes.aclose()
    consumer.unsubscribe.assert_awaited_once()


async def test_watch_whose_consumer_is_gone_is_an_io_error() -> None:
    consumer = Mock(consumer_info=AsyncMock(side_effect=NotFoundError))
    with pytest.raises(PtyctlError) as raised:
        await buckets._FirstValues(consumer).ask()
    assert raised.value.code is ErrorCode.IO_ERROR


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"direct": True}, "allow_direct"),
        ({"ttl": 99.0}, "99.0 seconds"),
        ({"history": 5}, "more than one value"),
        ({"limit_marker_ttl": 60.0}, "markers"),
        ({}, "allow_rollup_hdrs"),
    ],
)
async def test_bucket_with_another_configuration_is_refused_with_the_reason(
    client: Client, fields: dict[str, object], problem: str
) -> None:
    config = api.KeyValueConfig(LEASES, ttl=15.0, direct=False).evolve(**fields)
    await client.jetstream().create_key_value(config)
    with pytest.raises(PtyctlError, match=problem) as raised:
        await open_bucket(client.jetstream(), LEASES)
    assert raised.value.code is ErrorCode.UNSUPPORTED
    assert raised.value.hint is not None


def test_bucket_whose_keys_cannot_be_deleted_has_a_problem() -> None:
    config = buckets._configuration(SESSIONS, 1, None)
    assert find_problems(config, None) == []
    assert "allow_msg_ttl" in find_problems(config.evolve(allow_msg_ttl=False), None)[0]


@pytest.mark.parametrize("name", BUCKET_TTL_S)
async def test_rollup_of_a_bucket_is_refused_and_the_rows_stay(client: Client, name: str) -> None:
    stream = client.jetstream()
    bucket = await open_bucket(stream, name)
    await bucket.put("other", FIRST)
    with pytest.raises(APIError, match="rollup"):
        await stream.publish(f"$KV.{name}.own", SECOND, headers={"Nats-Rollup": "all"})
    found = await bucket.get("other")
    assert found is not None
    await bucket.delete("other", found.revision)


async def test_marker_of_a_deleted_key_expires_and_the_key_can_be_created(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "_MARKERS_S", 1)
    stream = client.jetstream()
    bucket = await open_bucket(stream, SESSIONS)
    revision = await bucket.create("k", FIRST)
    with pytest.raises(ConflictError):
        await bucket.delete("k", revision + 1)
    await bucket.delete("k", revision)
    assert (await stream.stream_info("KV_sessions")).state.messages == 1
    async with asyncio.timeout(30):
        while (await stream.stream_info("KV_sessions")).state.messages:  # noqa: ASYNC110  (expiry is not reported)
            await asyncio.sleep(0.05)
    assert await bucket.create("k", SECOND) > revision


class _LateStream:
    """The streams of a client whose server knows a new bucket only when it is asked again."""

    def __init__(self, stream: JetStreamContext) -> None:
        self._stream = stream
        self._unknown = 2

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def key_value(self, bucket: str) -> KeyValue:
        if self._unknown:
            self._unknown -= 1
            raise BucketNotFoundError
        return await self._stream.key_value(bucket)


async def test_new_bucket_that_its_server_does_not_know_yet_is_opened(client: Client) -> None:
    bucket = await open_bucket(cast("JetStreamContext", _LateStream(client.jetstream())), NODES)
    assert await bucket.create("a", b"1")


async def test_operation_without_a_server_is_an_io_error_of_unknown_delivery(client: Client) -> None:
    stream = client.jetstream()
    bucket = await open_bucket(stream, CLAIMS)
    await stream.delete_stream("KV_claims")
    with pytest.raises(PtyctlError) as raised:
        async with asyncio.timeout(30):
            await bucket.update("k", FIRST, 1)
    assert raised.value.code is ErrorCode.IO_ERROR
    assert raised.value.details == {"delivery": "unknown"}

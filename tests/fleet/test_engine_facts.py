"""Facts about nats-server and nats-py that the fleet relies on. A test fails if a new version behaves differently."""

from __future__ import annotations

import asyncio
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext, api
from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError
from nats.js.kv import KeyValue

from fixtures.servers.nats import nats_server_path, running_nats
from fixtures.servers.programs import free_port

pytestmark = pytest.mark.waits

TTL_S = 1.0
#: Life of keys that a test renews or uses within it: a busy machine can stop the test for a second.
LONG_TTL_S = 4.0


async def _bucket(stream: JetStreamContext, ttl_s: float = TTL_S) -> KeyValue:
    return await stream.create_key_value(api.KeyValueConfig("b", ttl=ttl_s, direct=False))


async def _until_expired(store: KeyValue, key: str) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await store.get(key)
            except KeyNotFoundError:
                return
            await asyncio.sleep(0.05)


async def test_update_of_a_key_renews_its_life(client: Client) -> None:
    store = await _bucket(client.jetstream(), LONG_TTL_S)
    revision = await store.create("k", b"1")
    for _ in range(3):  # together longer than the lifetime
        await asyncio.sleep(0.4 * LONG_TTL_S)
        revision = await store.update("k", b"2", revision)
    assert (await store.get("k")).value == b"2"


async def test_expired_key_is_free_and_refuses_a_late_update(client: Client) -> None:
    store = await _bucket(client.jetstream())
    first = await store.create("k", b"old")
    await _until_expired(store, "k")
    with pytest.raises(KeyWrongLastSequenceError):
        await store.update("k", b"late", first)
    stream = client.jetstream()
    config = (await stream.stream_info("KV_b")).config
    await stream.update_stream(config.evolve(max_age=0))  # the key stays from now on
    second = await store.create("k", b"new")
    assert second > first
    with pytest.raises(KeyWrongLastSequenceError):
        await store.create("k", b"other")


async def test_expiry_is_not_reported_to_watchers(client: Client) -> None:
    store = await _bucket(client.jetstream())
    watcher = await store.watchall()
    await store.create("k", b"1")
    await _until_expired(store, "k")
    await store.put("end", b"")
    keys: list[str] = []
    while not keys or keys[-1] != "end":
        update = await watcher.updates(timeout=60)
        keys += [] if update is None else [update.key]
    await watcher.stop()
    assert keys == ["k", "end"]


async def test_key_with_an_own_life_loses_it_when_it_is_updated(client: Client) -> None:
    """Why the buckets have one TTL for all keys: an update removes the TTL of a single key."""
    store = await client.jetstream().create_key_value(api.KeyValueConfig("b", direct=False), limit_marker_ttl=60.0)
    await store.update("k", b"2", await store.create("k", b"1", msg_ttl=LONG_TTL_S))
    await asyncio.sleep(1.2 * LONG_TTL_S)
    assert (await store.get("k")).value == b"2"


async def test_expired_key_with_a_marker_cannot_be_created_until_the_marker_has_expired(client: Client) -> None:
    """Why the buckets have no markers for expired keys."""
    config = api.KeyValueConfig("b", ttl=TTL_S, direct=False)
    store = await client.jetstream().create_key_value(config, limit_marker_ttl=LONG_TTL_S)
    await store.create("k", b"1")
    async with asyncio.timeout(60):
        while (await store.get("k")).value is not None:  # noqa: ASYNC110  (expiry is not reported)
            await asyncio.sleep(0.05)
    with pytest.raises(KeyWrongLastSequenceError):
        await store.create("k", b"2")
    await _until_expired(store, "k")
    await store.create("k", b"2")


async def test_revisions_continue_after_a_purge_without_a_marker(client: Client) -> None:
    stream = client.jetstream()
    store = await _bucket(stream)
    last = await store.put("k", b"1")
    await stream.purge_stream("KV_b", subject="$KV.b.k")
    with pytest.raises(KeyWrongLastSequenceError):
        await store.update("k", b"late", last)
    last = await store.create("k", b"2")
    await stream.purge_stream("KV_b")
    assert await store.create("k", b"3") > last


async def test_server_syncs_every_two_minutes_unless_it_is_configured(tmp_path: Path) -> None:
    """Why the generated configuration sets `sync_interval: always`."""
    port, monitor = free_port(), free_port()
    for setting, expected in (("", (120 * 10**9, False)), ("sync_interval: always", (120 * 10**9, True))):
        file = tmp_path / "server.conf"
        jetstream = f'jetstream {{ store_dir: "{tmp_path}"\n{setting} }}'
        file.write_text(f"listen: 127.0.0.1:{port}\nhttp: 127.0.0.1:{monitor}\n{jetstream}\n")
        with _server(file):
            config = await _jetstream_config(monitor)
        assert (config["sync_interval"], config.get("sync_always", False)) == expected


@contextmanager
def _server(file: Path) -> Iterator[None]:
    process = subprocess.Popen([nats_server_path(), "-c", str(file)], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def _jetstream_config(monitor: int) -> dict[str, Any]:
    def read() -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{monitor}/jsz", timeout=30) as answer:
            config: dict[str, Any] = json.load(answer).get("config", {})
            return config

    async with asyncio.timeout(60):
        while True:
            with suppress(OSError):
                config = await asyncio.to_thread(read)
                if "sync_interval" in config:  # the server answers before it has started JetStream
                    return config
            await asyncio.sleep(0.05)


async def test_revisions_restart_when_a_bucket_is_created_again(client: Client) -> None:
    stream = client.jetstream()
    store = await _bucket(stream)
    await store.put("k", b"1")
    last = await store.put("k", b"2")
    before = (await stream.stream_info("KV_b")).created
    await stream.delete_key_value("b")
    store = await _bucket(stream)
    assert await store.create("k", b"3") < last
    after = (await stream.stream_info("KV_b")).created
    assert before is not None
    assert after is not None
    assert after > before


async def test_writes_continue_after_the_leader_of_three_servers_was_killed(tmp_path: Path) -> None:
    with running_nats(tmp_path, servers=3) as cluster:
        client = await cluster.connect()
        stream, patient = client.jetstream(timeout=1), client.jetstream(timeout=60)
        async with asyncio.timeout(30):
            while True:
                try:
                    store = await stream.create_key_value(api.KeyValueConfig("b", ttl=60, replicas=3, direct=False))
                    break
                except Exception:  # the servers are electing a leader  # noqa: BLE001
                    await asyncio.sleep(0.05)
        same = await patient.key_value("b")  # for requests that are not repeated
        revision = await same.create("k", b"1")
        info = await patient.stream_info("KV_b")
        assert info.cluster is not None
        next(server for server in cluster.servers if server.name == info.cluster.leader).kill()
        async with asyncio.timeout(30):
            while True:
                try:
                    assert await store.update("k", b"2", revision) > revision
                    break
                except KeyWrongLastSequenceError:  # an earlier attempt was stored, and its answer lost
                    entry = await same.get("k")
                    assert (entry.value, entry.revision) != (b"1", revision)
                    break
                except Exception:  # no leader yet  # noqa: BLE001
                    await asyncio.sleep(0.05)
        await client.close()

"""Rows of ended sessions in the fleet's directory: closed, then removed with their transcripts or by `forget`."""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import tracemalloc
from pathlib import Path

import pytest
from nats.aio.client import Client

from fixtures.servers.nats import NatsCluster
from ptyctl.api.errors import PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.session import SessionEntry, SessionRequest
from ptyctl.fleet.buckets import SESSIONS, Entry, open_bucket
from ptyctl.fleet.credentials import Credentials
from ptyctl.fleet.directory import SessionDirectory, SessionRow, session_key
from ptyctl.fleet.site_state import forget_node, read_site
from tests.fleet.fake_bucket import FakeBucket
from tests.fleet.nodes import TIMES, running_node, until

ENTRY = {
    "protocol": "telnet", "host": "ts1", "port": 2001, "session_type": "console", "device": "rack", "device_id": "rack",
    "state": "open", "observers": 0, "created_at": 1, "last_activity_at": 1, "bytes_received": 1, "bytes_sent": 1,
    "spool_size": 1, "disk_bytes": 1, "incarnation": 1,
}  # fmt: skip


async def test_idle_sessions_are_not_published_again() -> None:
    bucket = FakeBucket(15)
    directory = SessionDirectory(bucket, "a")  # type: ignore[arg-type]
    entries = [SessionEntry.model_validate({"session_id": f"s{number}", **ENTRY}) for number in range(1000)]
    await directory.publish(entries)
    assert bucket.revision == 1000
    for entry in entries:
        entry.last_activity_at, entry.bytes_received, entry.lock_expires_at = 2, 2, 2
    await directory.publish(entries)
    assert bucket.revision == 1000
    entries[0].state = "lost"
    await directory.publish(entries)
    assert bucket.revision == 1001


def test_rows_of_other_nodes_need_little_more_memory_than_their_json() -> None:
    directory = SessionDirectory(FakeBucket(15), "b")  # type: ignore[arg-type]
    ids = [f"session-{number}" for number in range(1000)]
    tracemalloc.start()
    for session_id in ids:
        value = json.dumps({"node": "a", "entry": {"session_id": session_id, **ENTRY}}).encode()
        directory._receive(session_key("a", session_id), Entry(value, 1))
    memory, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert memory / 1000 < 3 * len(value)
    row = list(directory.others())[-1]
    assert (row.session_id, row.entry().host) == (ids[-1], "ts1")


def test_collector_visits_no_rows_of_other_nodes_and_one_object_of_an_entry() -> None:
    """It took 24 ms for 90,000 rows, in the event loop; for a list of them, 138 ms. An entry is one object."""
    directory = SessionDirectory(FakeBucket(15), "b")  # type: ignore[arg-type]
    gc.collect()
    before = len(gc.get_objects())
    for number in range(1000):
        value = json.dumps({"node": "a", "entry": {"session_id": f"s{number}", **ENTRY}}).encode()
        directory._receive(session_key("a", f"s{number}"), Entry(value, 1))
    gc.collect()  # it forgets tuples of texts then
    assert len(list(directory.others())) == 1000
    assert len(gc.get_objects()) - before < 100
    listed = [row.entry() for row in directory.others()]
    gc.collect()
    assert len(gc.get_objects()) - before < len(listed) + 100


def test_entries_of_rows_are_changed_separately() -> None:
    rows = [SessionRow.decode(json.dumps({"node": "a", "entry": {"session_id": id_, **ENTRY}}).encode()) for id_ in "xy"]
    changed, other = (row.entry() for row in rows)
    changed.node, changed.unreachable_s = "a", 3
    assert (other.node, other.unreachable_s) == (None, None)
    copy = other.model_copy(update={"node": "b"})
    assert (copy.payload(), other.payload()) == (
        {"session_id": "y", **ENTRY, "node": "b"},
        {"session_id": "y", **ENTRY},
    )
    assert other == SessionEntry.model_validate({"session_id": "y", **ENTRY})


def test_row_of_a_newer_node_is_read_without_the_fields_that_this_version_does_not_know() -> None:
    directory = SessionDirectory(FakeBucket(15), "b")  # type: ignore[arg-type]
    value = json.dumps({"node": "a", "entry": {"session_id": "s1", **ENTRY, "new_field": 1}}).encode()
    directory._receive(session_key("a", "s1"), Entry(value, 1))
    assert directory.node_of("s1") == "a"
    assert next(directory.others()).entry().host == "ts1"


def test_row_that_has_become_invalid_is_not_shown_as_it_was() -> None:
    directory, key = SessionDirectory(FakeBucket(15), "b"), session_key("a", "s1")  # type: ignore[arg-type]
    entry = {"session_id": "s1", **ENTRY}
    directory._receive(key, Entry(json.dumps({"node": "a", "entry": entry}).encode(), 1))
    directory._receive(key, Entry(json.dumps({"node": "a", "entry": {**entry, "state": ["of a newer version"]}}).encode(), 2))
    assert list(directory.others()) == []


async def test_closed_session_of_another_node_is_readable_and_not_listed_until_its_transcript_is_removed(
    nats_server: NatsCluster, tmp_path: Path
) -> None:
    async with running_node(nats_server, "a", tmp_path / "a") as a, running_node(nats_server, "b", tmp_path / "b") as b:
        handle = await SessionHandle.open(a.controller, protocol="local", command=["echo", "from a"])
        assert (await handle.read(until_regex="from a", timeout_ms=50_000)).matched  # before the close, which ends the program
        there = SessionHandle(b.controller, handle.session_id)
        await until(lambda: b.fleet.sessions.node_of(handle.session_id) == "a")
        await handle.close(force=True)
        await until(lambda: [row.state for row in b.fleet.sessions.others()] == ["closed"])
        assert (await b.controller.session(SessionRequest(action="list"))).sessions == []
        assert "from a" in (await there.read()).chunk
        shutil.rmtree(tmp_path / "a" / "sessions" / handle.session_id)
        a.fleet._scan_at = 0.0
        await until(lambda: not list(b.fleet.sessions.others()))


async def test_row_whose_removal_was_missed_is_gone_when_the_bucket_is_followed_again(client: Client) -> None:
    stream = client.jetstream()
    bucket = await open_bucket(stream, SESSIONS)
    counters = {name: 0 for name, field in SessionEntry.model_fields.items() if field.annotation is int}
    for name in ("s", "t"):
        entry = SessionEntry(session_id=name, protocol="local", session_type="normal", state="open", **counters)
        await bucket.put(session_key("a", name), json.dumps({"node": "a", "entry": entry.payload()}).encode())
    directory = SessionDirectory(bucket, "b")
    for expected in (["s", "t"], ["t"]):
        following = asyncio.create_task(directory.follow())
        await until(lambda: [row.session_id for row in directory.others()] == expected)  # noqa: B023  (waited for)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await stream.purge_stream("KV_sessions", subject="$KV.sessions.a.s")  # the marker has expired
    assert directory.node_of("s") is None


async def test_forget_removes_the_rows_of_a_node_that_is_gone_and_refuses_one_that_is_up(
    nats_server: NatsCluster, tmp_path: Path
) -> None:
    admin = Credentials(site="site", node="admin", role="admin", servers=tuple(nats_server.urls))
    async with running_node(nats_server, "a", tmp_path / "a") as a:
        await SessionHandle.open(a.controller, protocol="local", command=["cat"])
        await a.fleet.publish()
        with pytest.raises(PtyctlError, match="node a is up"):
            await forget_node(admin, "a")
    async with asyncio.timeout(10 * TIMES.ttl_s):
        while (await read_site(admin))["nodes"] != [{"node": "a", "up": False}]:  # noqa: ASYNC110  (expiry is not reported)
            await asyncio.sleep(TIMES.renew_s)
    with pytest.raises(PtyctlError, match="only the administrator"):
        await forget_node(Credentials(site="site", node="b", servers=tuple(nats_server.urls)), "a")
    assert await forget_node(admin, "a") == 1
    assert (await read_site(admin))["nodes"] == []
    with pytest.raises(PtyctlError, match="has no session rows"):
        await forget_node(admin, "a")

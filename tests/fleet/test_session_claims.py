"""Console sessions of two controllers that share a console under claims."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.fleet.buckets import CLAIMS, LEASES, encode_key, find_bucket, open_bucket
from ptyctl.fleet.claim_directory import ClaimDirectory
from ptyctl.fleet.console_claims import ConsoleClaims
from ptyctl.fleet.node_lease import LeaseDirectory, LeaseTimes, NodeLease
from ptyctl.fleet.session_claims import SessionClaims
from tests.fleet.nodes import until

pytestmark = pytest.mark.waits

TIMES = LeaseTimes(ttl_s=3.0, renew_s=0.3, margin_s=0.5)


class Node:
    """A controller with claims, without the rest of a daemon."""

    def __init__(self, controller: LocalController, claims: ConsoleClaims, directory: ClaimDirectory) -> None:
        self.controller = controller
        self.claims = claims
        self.directory = directory

    async def open(self, **fields: Any) -> SessionHandle:
        return await SessionHandle.open(
            self.controller,
            session_type="console",
            device_id="rack-1",
            **{"protocol": "local", "command": ["cat"], **fields},
        )

    async def open_when_free(self, **fields: Any) -> SessionHandle:
        async with asyncio.timeout(60):
            while True:
                try:
                    return await self.open(**fields)
                except PtyctlError as error:
                    assert error.code is ErrorCode.SESSION_MOVED  # noqa: PT017  (other errors end the wait)
                    await asyncio.sleep(0.05)


MakeNode = Callable[..., Awaitable[Node]]


async def refusal(handle: SessionHandle) -> PtyctlError:
    """Lock a session; repeat the call while the error is retryable, as clients do. Return the final refusal."""
    async with asyncio.timeout(60):
        while True:
            try:
                await handle.lock(task_id="t")  # the loss is not known at once
            except PtyctlError as error:
                if not error.retryable:
                    return error
            await asyncio.sleep(0.05)


async def until_state(handle: SessionHandle, state: str) -> None:
    async with asyncio.timeout(60):
        while (await handle.status()).state != state:  # noqa: ASYNC110  (a status has no event)
            await asyncio.sleep(0.02)


@asynccontextmanager
async def breaking_console() -> AsyncIterator[tuple[int, Callable[..., None]]]:
    """Run a Telnet console; yield its port, and what closes its lines: with `stop`, it accepts no others."""
    writers = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(b"\xff\xfb\x01\xff\xfb\x03line>")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:

        def break_lines(*, stop: bool = False) -> None:
            if stop:
                server.close()
            for writer in writers:
                writer.transport.abort()

        try:
            yield server.sockets[0].getsockname()[1], break_lines
        finally:
            break_lines(stop=True)  # the server waits for its lines as of Python 3.12


async def remove_claim(client: Client) -> None:
    """Delete the claim on the console, as a person does with other software."""
    await (await find_bucket(client.jetstream(), CLAIMS)).delete(encode_key("rack-1"))


@pytest.fixture
async def make_node(client: Client, tmp_path: Path) -> AsyncIterator[MakeNode]:
    async with AsyncExitStack() as stack:
        leases = await open_bucket(client.jetstream(), LEASES, ttl_s=TIMES.ttl_s)
        bucket = await open_bucket(client.jetstream(), CLAIMS)

        async def make(name: str, reconnect_for_s: float = 0.0) -> Node:
            directory = ClaimDirectory(bucket, LeaseDirectory(leases, TIMES))
            claims = ConsoleClaims(NodeLease(leases, name, TIMES), directory)
            for each in (directory.leases, directory):
                stack.callback(asyncio.create_task(each.follow()).cancel)
            stack.push_async_callback(claims.aclose)
            ownership = SessionClaims(claims, directory, TIMES)
            stack.push_async_callback(ownership.aclose)
            local = LocalController(Settings(state_dir=tmp_path / name, reconnect_for_s=reconnect_for_s), ownership=ownership)
            return Node(await stack.enter_async_context(local), claims, directory)

        yield make


async def test_console_of_another_node_is_not_opened(make_node: MakeNode) -> None:
    a, b = await make_node("a"), await make_node("b")
    owned = await a.open()
    with pytest.raises(PtyctlError) as refused:
        await b.open()
    assert refused.value.code is ErrorCode.SESSION_MOVED
    assert refused.value.details == {"node": "a", "session_id": owned.session_id}


async def test_closed_console_can_be_opened_by_another_node(make_node: MakeNode) -> None:
    a, b = await make_node("a"), await make_node("b")
    await (await a.open()).close(force=True)
    await b.open_when_free()


async def test_console_moves_with_its_lock_when_its_node_stops_renewing(make_node: MakeNode) -> None:
    a, b = await make_node("a"), await make_node("b")
    first = await a.open(acquire_lock=True, task_id="t", lock_ttl_ms=60_000)
    assert first.opened.fence is not None
    await until(lambda: (seen := b.directory.last("rack-1")) is not None and seen.claim.lock is not None)
    await a.claims.aclose()
    second = await b.open_when_free()
    status = await second.status()
    assert status.lock_holder == "t"
    assert status.fence is not None
    assert status.fence > first.opened.fence
    with pytest.raises(PtyctlError) as refused:
        await first.write("late\n")
    assert refused.value.code is ErrorCode.CLAIM_LOST
    for force in (False, True):  # its fence would be smaller than that of the new owner's lock
        with pytest.raises(PtyctlError) as late:
            await first.lock(task_id="late", force=force or None, reason="test" if force else None)
        assert late.value.code is ErrorCode.CLAIM_LOST
    with pytest.raises(PtyctlError) as locked:
        await second.write("other\n", task_id="other")
    assert locked.value.code is ErrorCode.LOCKED
    assert "late" not in (await second.read(timeout_ms=500)).chunk
    await first.read(timeout_ms=0)  # stays possible


async def test_lock_of_a_console_whose_claim_is_gone_names_the_reason_and_then_the_new_owner(
    make_node: MakeNode, client: Client
) -> None:
    a, b = await make_node("a"), await make_node("b")
    first = await a.open()
    await remove_claim(client)
    gone = await refusal(first)
    assert gone.code is ErrorCode.REMOTE_CLOSED
    assert "the claim on console rack-1 was lost" in gone.message
    assert gone.hint == NextStep.OPEN_SESSION
    second = await b.open_when_free()
    await until(lambda: (owner := a.directory.owner("rack-1")) is not None and owner.node == "b")
    moved = await refusal(first)
    assert moved.code is ErrorCode.SESSION_MOVED
    assert moved.details == {"node": "b", "session_id": second.session_id}


async def test_lock_of_a_console_whose_line_broke_is_refused_until_it_is_opened_again(make_node: MakeNode) -> None:
    async with breaking_console() as (port, break_lines):
        node = await make_node("a")
        console = {"protocol": "telnet", "host": "127.0.0.1", "port": port, "command": None}
        first = await node.open(**console)
        break_lines()
        refused = await refusal(first)
        assert refused.code is ErrorCode.REMOTE_CLOSED
        assert refused.hint == NextStep.OPEN_SESSION
        with pytest.raises(PtyctlError) as write:
            await first.write("late")
        assert write.value.code is ErrorCode.REMOTE_CLOSED
        again = await node.open(**console)
        assert again.session_id == first.session_id
        await again.lock(task_id="t")


async def test_reconnecting_console_whose_claim_is_gone_is_lost(make_node: MakeNode, client: Client) -> None:
    async with breaking_console() as (port, break_lines):
        node = await make_node("a", reconnect_for_s=600.0)
        console = await node.open(protocol="telnet", host="127.0.0.1", port=port, command=None)
        break_lines(stop=True)
        await until_state(console, "reconnecting")
        await remove_claim(client)
        await until_state(console, "lost")
        assert (await refusal(console)).code is ErrorCode.REMOTE_CLOSED

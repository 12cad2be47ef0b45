"""The start of a node while its servers do not answer yet: without a leader, the servers of a cluster drop requests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from nats.aio.client import Client

from fixtures.virtual_clock import run_virtually
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.fleet import credentials as fleet_credentials
from ptyctl.fleet import node as fleet_node
from ptyctl.fleet.buckets import OLD_CLAIMS, POLICY, SESSIONS, Bucket, open_bucket
from ptyctl.fleet.claim_directory import ClaimDirectory
from ptyctl.fleet.credentials import Credentials
from ptyctl.fleet.fleet_policy import FleetPolicy
from ptyctl.fleet.node import START_S, FleetNode, Membership, StartBudget


def drop_requests(patch: pytest.MonkeyPatch, number: int) -> None:
    """Let the first requests of a node for its buckets have no answer."""
    dropped = iter(range(number))

    async def open_late(*args: object, **options: object) -> Bucket:
        if next(dropped, None) is not None:
            raise PtyctlError(ErrorCode.IO_ERROR, "nats: timeout")
        return await open_bucket(*args, **options)  # type: ignore[arg-type]

    async def find_no_old_bucket(*args: object) -> None:
        pass

    patch.setattr(fleet_node, "check_format", find_no_old_bucket)
    patch.setattr(fleet_node, "open_bucket", open_late)
    patch.setattr(fleet_node, "RETRY_S", 0.0)


class LateNode(FleetNode):
    """A node that has used up its budget when it has opened a bucket."""

    last = ""

    async def _bucket(self, name: str, ttl_s: float | None = None) -> Bucket:
        bucket = await super()._bucket(name, ttl_s)
        if name == self.last:
            self._budget.rest_s = 0.0
        return bucket


async def follow_nothing(*args: object) -> None:
    """Follow a bucket without reports of the servers."""
    await asyncio.Event().wait()


class RefusedClient:
    """A client to whose servers no connection is accepted."""

    async def connect(self, *args: object, **options: object) -> None:
        raise ConnectionRefusedError

    async def close(self) -> None:
        pass


def test_node_tries_servers_that_are_not_up_for_the_whole_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_credentials, "Client", RefusedClient)
    credentials = Credentials(site="fra", node="alpha", servers=("nats://nats1:4222",))

    async def start() -> float:
        with pytest.raises(PtyctlError, match="at last for the NATS servers nats://nats1:4222") as raised:
            await Membership(credentials).__aenter__()
        assert raised.value.code is ErrorCode.IO_ERROR
        assert "start them" in (raised.value.hint or "")
        return asyncio.get_running_loop().time()

    assert run_virtually(start()) == START_S


async def test_node_starts_once_its_servers_answer(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    drop_requests(monkeypatch, 3)
    async with FleetNode(client, "site", "alpha") as node:
        assert node.claimed.complete.is_set()


async def test_node_whose_servers_never_answer_ends_with_the_reason(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    drop_requests(monkeypatch, 1_000_000)
    with pytest.raises(PtyctlError, match="at last for the bucket leases: nats: timeout") as raised:
        await FleetNode(client, "site", "alpha", budget=StartBudget(0.0)).__aenter__()
    assert raised.value.code is ErrorCode.IO_ERROR
    assert "ptyctl fleet doctor" in (raised.value.hint or "")


async def test_node_whose_claims_are_not_reported_ends_with_the_reason(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClaimDirectory, "follow", follow_nothing)
    monkeypatch.setattr(LateNode, "last", SESSIONS)
    with pytest.raises(PtyctlError, match="at last for the claims of site site: no answer") as raised:
        await LateNode(client, "site", "alpha").__aenter__()
    assert "use the files of one ptyctl fleet init" in (raised.value.hint or "")


async def test_node_without_a_policy_whose_servers_report_none_ends_with_the_reason(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(FleetPolicy, "follow", follow_nothing)
    monkeypatch.setattr(LateNode, "last", POLICY)
    async with (
        LateNode(client, "site", "alpha") as node,
        LocalController(Settings(state_dir=tmp_path), ownership=node.ownership) as local,
    ):
        with pytest.raises(PtyctlError, match="at last for the policy of site site: no answer"):
            await node.serve(AccessController(local), local)


async def test_node_refuses_a_site_with_the_claims_of_an_earlier_version(client: Client) -> None:
    await client.jetstream().create_key_value(bucket=OLD_CLAIMS)
    with pytest.raises(PtyctlError, match=f"the site has the bucket {OLD_CLAIMS}") as raised:
        await FleetNode(client, "site", "alpha").__aenter__()
    assert raised.value.code is ErrorCode.UNSUPPORTED
    assert "stop all nodes" in (raised.value.hint or "")


def test_waits_of_a_start_have_one_budget_and_the_error_names_all() -> None:
    async def start() -> float:
        budget = StartBudget(60.0)
        for number in range(2):
            await budget.wait(f"thing {number}", lambda: asyncio.sleep(25.0), hint="look")
        with pytest.raises(PtyctlError) as raised:
            await budget.wait("thing 2", lambda: asyncio.sleep(25.0), hint="look")
        assert raised.value.message == (
            "the node does not start: waiting for its servers took 60 s, at last for thing 2: no answer;"
            " before it, thing 0 took 25 s, thing 1 took 25 s"
        )
        assert raised.value.hint == "look"
        return asyncio.get_running_loop().time()

    assert run_virtually(start()) == 60.0


def test_work_of_the_node_between_two_waits_does_not_count() -> None:
    async def start() -> str:
        budget = StartBudget(60.0)
        await budget.wait("first", lambda: asyncio.sleep(25.0), hint="look")
        await asyncio.sleep(1_000.0)
        return await budget.wait("second", lambda: asyncio.sleep(25.0, "done"), hint="look")

    assert run_virtually(start()) == "done"

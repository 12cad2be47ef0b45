"""Two sites and a hub, with the files of `ptyctl fleet init` and real servers."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from unittest.mock import Mock

import pytest

from fixtures.servers.nats import nats_server_path
from fixtures.servers.programs import free_port
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.session import SessionRequest
from ptyctl.clock import boot_time
from ptyctl.fleet.buckets import Entry
from ptyctl.fleet.certificates import Authority
from ptyctl.fleet.credentials import load_credentials
from ptyctl.fleet.directory import NodeDirectory, NodeRow, may_reach
from ptyctl.fleet.node import Membership
from ptyctl.fleet.server_files import Hub, Site, write_site
from ptyctl.fleet.sites import FleetNodes, see_nodes
from tests.fleet.fake_bucket import FakeBucket
from tests.fleet.nodes import RunningNode, serving, silent_console, until

pytestmark = pytest.mark.waits

DEVICES = """
[devices.rack]
protocol = "telnet"
host = "127.0.0.1"
port = {port}
session_type = "console"
login = {{ automatic = false }}
node_labels = ["nyc"]
[devices.nowhere]
protocol = "telnet"
host = "127.0.0.1"
port = {port}
session_type = "console"
"""


class Sites:
    """The servers of the hub and of two sites with one node each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        write_site(folder / "hub", Site("hub", [f"127.0.0.1:{free_port()}"], []))
        hub, authority = Hub.load(folder / "hub"), Authority.load(folder / "hub")
        for name in ("fra", "nyc"):
            write_site(folder / name, Site(name, [f"127.0.0.1:{free_port()}"], ["jump"], authority, hub))

    def start(self, name: str) -> None:
        with (self.folder / name / "log").open("ab") as log:
            command = [nats_server_path(), "-c", "nats-1.conf"]
            self._servers[name] = subprocess.Popen(command, cwd=self.folder / name, stdout=log, stderr=log)

    def stop(self, name: str) -> None:
        self._servers[name].kill()
        self._servers[name].wait()


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    running = Sites(tmp_path_factory.mktemp("sites"))
    names = ("hub", "fra", "nyc")
    for name in names:
        running.start(name)
    yield running
    for name in names:
        running.stop(name)


@asynccontextmanager
async def jump_node(sites: Sites, site: str, state_dir: Path, devices: str) -> AsyncIterator[RunningNode]:
    """Run the node of a site."""
    membership = Membership(load_credentials(sites.folder / site / "jump.toml"))
    async with membership as fleet, serving(fleet, "jump", state_dir, devices) as node:
        yield node


def seen_at(running: RunningNode, site: str, node: str) -> float:
    """Return when the last row of a node of another site was received."""
    assert running.fleet.others is not None
    ages = {row.node: age_s for row, age_s in running.fleet.others.nodes()[site].rows()}
    return boot_time() - ages.get(node, float("inf"))


async def test_sessions_and_consoles_of_another_site_are_used_and_a_site_without_hub_works_on(
    sites: Sites, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        devices = DEVICES.format(port=await stack.enter_async_context(silent_console()))
        fra = await stack.enter_async_context(jump_node(sites, "fra", tmp_path / "fra", devices))
        nyc = await stack.enter_async_context(jump_node(sites, "nyc", tmp_path / "nyc", devices))
        await until(lambda: {"jump", "nyc/jump"} <= {row.node for row in fra.controller._nodes.up()})

        shell = await SessionHandle.open(nyc.controller, protocol="local", command=["sh"])
        await until(lambda: fra.controller._sessions.node_of(shell.session_id) == "nyc/jump")
        there = SessionHandle(fra.controller, shell.session_id)
        assert (await there.exec("echo across")).stdout.strip() == "across"
        (entry,) = (await fra.controller.session(SessionRequest(action="list"))).sessions or []
        assert (entry.node, entry.unreachable_s) == ("nyc/jump", None)

        console = await SessionHandle.open(fra.controller, device="rack")
        assert nyc.local.holds(console.session_id)
        assert fra.fleet.claimed.last("rack") is None  # claims do not leave their site
        with pytest.raises(PtyctlError, match="does not name site fra") as refused:
            await SessionHandle.open(fra.controller, device="nowhere")
        assert refused.value.code is ErrorCode.UNSUPPORTED

        sites.stop("hub")
        try:
            assert fra.fleet.others is not None
            await fra.fleet.others.check()
            assert fra.fleet.others.cut_since is not None
            own = await SessionHandle.open(nyc.controller, device="rack")
            assert own.session_id == console.session_id
            assert (await own.status()).state == "open"
        finally:
            sites.start("hub")
        await until(lambda: fra.fleet.others is not None and fra.fleet.others.cut_since is None)
        returned = boot_time()
        await until(lambda: seen_at(fra, "nyc", "jump") > returned)
        assert (await there.exec("echo again")).stdout.strip() == "again"


def test_node_of_another_site_may_reach_only_devices_that_name_its_site() -> None:
    here = NodeRow("jump", "1", "host", 0.0, 0, ("dc1",), site="fra")
    there = NodeRow("nyc/jump", "1", "host", 0.0, 0, ("dc1",), site="nyc")
    assert [may_reach(row, []) for row in (here, there)] == [True, False]
    assert [may_reach(row, ["dc1"]) for row in (here, there)] == [True, False]
    assert [may_reach(row, ["nyc", "dc1"]) for row in (here, there)] == [False, True]
    assert [may_reach(row, ["fra"]) for row in (here, there)] == [True, False]


@pytest.mark.parametrize(
    ("nodes", "shown"),
    [
        ((), "ptyctl fleet nodes"),
        (("a", "b"), "ptyctl fleet nodes"),
        (("nyc/a", "nyc/b"), "ptyctl fleet nodes with --fleet FILE, a file of site nyc"),
        (("a", "sin/a", "nyc/a"), "ptyctl fleet nodes, also with --fleet FILE, a file of each of the sites nyc, sin"),
    ],
)
def test_hint_names_the_sites_of_the_nodes(nodes: tuple[str, ...], shown: str) -> None:
    assert see_nodes(nodes) == shown


def test_error_of_a_device_without_nodes_names_the_sites_of_its_labels() -> None:
    others = Mock()
    others.nodes.return_value = {"nyc": Mock(), "sin": Mock()}
    assert FleetNodes(Mock(), others).other_sites(["nyc", "dc1"]) == ["nyc"]
    assert FleetNodes(Mock()).other_sites(["nyc"]) == []


def test_what_is_degraded_is_named_with_its_begin_and_what_to_do() -> None:
    bucket = FakeBucket(15)
    own = NodeDirectory(bucket, "a", lambda: bucket.now)  # type: ignore[arg-type]
    others = Mock(cut_since=None)
    others.nodes.return_value = {}
    nodes = FleetNodes(own, others)
    assert nodes.degraded([]) == []
    for name in ("a", "b"):
        own._receive(name, Entry(json.dumps(asdict(NodeRow(name, "1", "host", 0.0, 0))).encode(), 1))
    assert nodes.degraded([]) == []
    others.cut_since = time.time()
    own._complete_at = bucket.now
    hub, silent = nodes.degraded(["b"])
    assert "cut off from the hub since 2" in hub
    assert "node b has not announced itself since 2" in silent
    assert nodes.degraded(["nyc/c"]) == [hub]  # cut off with its site
    hub, silent = nodes.degraded(["b"] * 10)
    assert silent.count("node b ") == 5
    assert "and 5 more nodes; check their" in silent
    bucket.now += 16
    (cut,) = nodes.degraded(["b"])
    assert "node a is cut off from its NATS servers since 2" in cut
    assert "ptyctl fleet doctor" in cut


def test_hub_has_no_nodes_and_a_site_needs_the_folder_of_a_hub(tmp_path: Path) -> None:
    with pytest.raises(PtyctlError, match="connects the others"):
        write_site(tmp_path / "hub", Site("hub", ["127.0.0.1"], ["a"]))
    with pytest.raises(PtyctlError, match=r"no valid hub\.toml"):
        Hub.load(tmp_path)

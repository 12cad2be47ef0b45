"""The policy of the fleet needs the signature of its administrator. A refused policy leaves the old one in force."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.controller.policies import PolicyStore, check_policy_file
from ptyctl.controller.settings import Settings
from ptyctl.fleet.buckets import POLICY, find_bucket
from ptyctl.fleet.certificates import CA_FILE, Authority
from ptyctl.fleet.credentials import ADMIN, connect, load_credentials
from ptyctl.fleet.fleet_policy import KEY, SIGNED_FILE, TEXT_FILE, FleetPolicy, SignedPolicy, decode_policy, sign_policy
from ptyctl.fleet.link import LinkListener
from ptyctl.fleet.node import Membership
from ptyctl.fleet.site_state import publish_policy
from ptyctl.platforms import Platforms
from tests.fleet.site_files import new_site, site_server

STRICT = 'extends = ["readonly"]\n'


class Fleet:
    """Files of an authority, with an administrator and a node."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        authority = Authority.create("test")
        self.ca = folder / CA_FILE
        self.ca.write_text(authority.certificate_pem())
        self.admin, self.node = folder / "admin.pem", folder / "node.pem"
        self.admin.write_text(authority.issue(ADMIN))
        self.node.write_text(authority.issue("node"))


class Node:
    """A node's policy, with a store that refuses texts with the word `faulty`."""

    def __init__(self, folder: Path, ca: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.in_force = "own"
        self.rows: list[dict[str, Any]] = []
        self.policy = FleetPolicy(folder, ca, ADMIN, self.use, lambda event, **fields: self.rows.append(fields))

    def use(self, file: Path, text: str) -> None:
        if "faulty" in text:
            raise invalid("faulty")
        self.in_force = text

    def receive(self, policy: SignedPolicy) -> str | None:
        """Return why a policy is not in force."""
        self.policy.receive(policy.model_dump_json().encode())
        return self.policy.problem


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path / "fleet")


@pytest.fixture
def node(tmp_path: Path, fleet: Fleet) -> Node:
    return Node(tmp_path / "state", fleet.ca)


def test_policy_of_the_administrator_is_put_in_force_and_restored(fleet: Fleet, node: Node) -> None:
    assert node.receive(sign_policy("one", 1, fleet.admin)) is None
    assert (node.in_force, node.policy.number) == ("one", 1)
    again = Node(node.folder, fleet.ca)
    again.policy.restore()
    assert (again.in_force, again.policy.number) == ("one", 1)


def test_policy_without_the_administrators_signature_is_refused_and_the_old_one_stays(
    fleet: Fleet, node: Node, tmp_path: Path
) -> None:
    good, foreign = sign_policy("one", 1, fleet.admin), Fleet(tmp_path / "other").admin
    node.receive(good)
    for bad, why in [
        (sign_policy("two", 2, foreign), "not one of this fleet"),
        (sign_policy("two", 2, fleet.node), "node is not the administrator"),
        (good.model_copy(update={"text": "two", "number": 2}), "the text was changed"),
        (good.model_copy(update={"number": 2}), "the text was changed"),
        (sign_policy("two", 2, foreign).model_copy(update={"certificate": good.certificate}), "not one of this fleet"),
        (good.model_copy(update={"certificate": "no certificate", "number": 2}), "refused"),
        (sign_policy("faulty", 2, fleet.admin), "faulty"),
    ]:
        problem = node.receive(bad)
        assert problem is not None
        assert why in problem
        assert (node.in_force, node.policy.number) == ("one", 1)
        assert (node.folder / TEXT_FILE).read_text() == "one"
        assert decode_policy((node.folder / SIGNED_FILE).read_bytes()) == good
    node.policy.receive(b"not a policy")
    assert node.in_force == "one"
    assert {row["result"] for row in node.rows} == {"loaded", "refused"}


def test_older_policy_is_refused(fleet: Fleet, node: Node) -> None:
    node.receive(sign_policy("two", 2, fleet.admin))
    problem = node.receive(sign_policy("one", 1, fleet.admin))
    assert problem is not None
    assert "not greater than 2" in problem
    assert node.in_force == "two"


def test_another_policy_of_the_same_number_is_a_problem(fleet: Fleet, node: Node) -> None:
    one = sign_policy("one", 1, fleet.admin)
    node.receive(one)
    problem = node.receive(sign_policy("another", 1, fleet.admin))
    assert problem is not None
    assert "not greater than 1" in problem
    assert node.in_force == "one"
    assert node.receive(one) is None


def test_policy_that_cannot_be_stored_is_received_again(fleet: Fleet, node: Node) -> None:
    obstacle = node.folder / SIGNED_FILE
    obstacle.mkdir()
    problem = node.receive(sign_policy("one", 1, fleet.admin))
    assert problem is not None
    assert "cannot be stored" in problem
    assert node.policy.number == 0
    obstacle.rmdir()
    assert node.receive(sign_policy("one", 1, fleet.admin)) is None
    assert decode_policy(obstacle.read_bytes()).number == 1


def test_edit_of_the_text_of_a_verified_policy_has_no_effect(tmp_path: Path) -> None:
    store = PolicyStore(Settings(state_dir=tmp_path), Platforms(Settings().platforms_dir))
    file = tmp_path / TEXT_FILE
    file.write_text(STRICT)
    store.use(file, STRICT)
    before = store.sha256
    file.write_text('extends = ["off"]\n')
    store.refresh()
    store.reload()
    assert (store.name, store.sha256, store.problem) == (str(file), before, None)
    (tmp_path / "base.toml").write_text(STRICT)
    with pytest.raises(PtyctlError, match="not verified"):
        store.use(file, 'extends = ["base.toml"]\n')
    store.reload()
    assert store.sha256 == before


def test_stored_policy_that_was_changed_stops_the_start(fleet: Fleet, node: Node) -> None:
    node.receive(sign_policy("one", 1, fleet.admin))
    file = node.folder / SIGNED_FILE
    file.write_text(file.read_text().replace('"one"', '"two"'))
    with pytest.raises(PtyctlError) as refused:
        Node(node.folder, fleet.ca).policy.restore()
    assert refused.value.code is ErrorCode.POLICY_DENIED


def test_policy_file_that_extends_another_file_is_not_published(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(STRICT)
    (tmp_path / "policy.toml").write_text('extends = ["base.toml"]\n')
    with pytest.raises(PtyctlError, match="extends other files"):
        check_policy_file(tmp_path / "policy.toml")
    assert check_policy_file(tmp_path / "base.toml") == STRICT


async def test_published_policy_is_in_force_on_a_node_of_the_site(tmp_path: Path) -> None:
    folder = new_site(tmp_path)
    with site_server(folder):
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Membership(load_credentials(folder / "alpha.toml")))
            local = LocalController(Settings(state_dir=tmp_path / "state"), ownership=node.ownership)
            await stack.enter_async_context(local)
            await node.serve(AccessController(local), local)
            assert await publish_policy(load_credentials(folder / "admin.toml"), STRICT) == 1
            async with asyncio.timeout(30):
                while local.policies.name != str(tmp_path / "state" / TEXT_FILE):  # noqa: ASYNC110  (there is no event)
                    await asyncio.sleep(0.05)
            late = await stack.enter_async_context(Membership(load_credentials(folder / "beta.toml")))
            other = LocalController(Settings(state_dir=tmp_path / "other"), ownership=late.ownership)
            await stack.enter_async_context(other)
            listening, was_early = threading.Event(), []
            receive, start = FleetPolicy.receive, LinkListener.start

            def receive_late(self: FleetPolicy, value: bytes) -> None:
                was_early.append(listening.wait(0.5))
                receive(self, value)

            async def report_start(self: LinkListener) -> None:
                listening.set()
                await start(self)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(FleetPolicy, "receive", receive_late)
                patch.setattr(LinkListener, "start", report_start)
                await late.serve(AccessController(other), other)
            assert (was_early, listening.is_set()) == ([False], True)
            assert other.policies.name == str(tmp_path / "other" / TEXT_FILE)  # before it serves the first call
            assert (other.policies.problem, late.policy and late.policy.problem) == (None, None)
            await node._announce()
            admin = load_credentials(folder / "admin.toml")
            client = await connect(admin)
            stack.push_async_callback(client.close)
            await (await find_bucket(client.jetstream(), POLICY)).delete(KEY)
            assert await publish_policy(admin, STRICT) == 2  # the nodes keep policy 1
            with pytest.raises(PtyctlError, match="only the administrator"):
                await publish_policy(load_credentials(folder / "beta.toml"), STRICT)

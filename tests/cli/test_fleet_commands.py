"""`ptyctl fleet` with a server and two nodes: status, drain, forget, policy and doctor."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from ptyctl.api.handle import SessionHandle
from ptyctl.fleet import site_state
from ptyctl.fleet.credentials import load_credentials
from ptyctl.fleet.node import Membership
from ptyctl.fleet.node_lease import LeaseTimes
from tests.cli.command_line import PROGRAM, CommandResult, is_one_line, ptyctl
from tests.fleet.nodes import RunningNode, serving, silent_console, until, until_known
from tests.fleet.site_files import new_site, site_server

DEVICES = """
[devices.rack]
protocol = "telnet"
host = "127.0.0.1"
port = {port}
session_type = "console"
login = {{ automatic = false }}
"""
#: The lifetime of keys that `fleet doctor` expects, with a short margin.
TIMES = LeaseTimes(renew_s=1.0, margin_s=0.5)


async def fleet(folder: Path, file: str, *arguments: str) -> CommandResult:
    """Run a command with a file of the site while the nodes are served."""
    return await asyncio.to_thread(ptyctl, "fleet", *arguments, "--fleet", str(folder / file))


@dataclass
class Fleet:
    """Two nodes; the first one can end before the second."""

    folder: Path
    alpha: RunningNode
    beta: RunningNode
    stop_alpha: AsyncExitStack


@pytest.fixture
async def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fleet]:
    monkeypatch.setattr(site_state, "_CONNECT_S", 60.0)  # the limit is for a person who waits
    folder = new_site(tmp_path)
    with site_server(folder):
        async with AsyncExitStack() as stack:
            devices = DEVICES.format(port=await stack.enter_async_context(silent_console()))

            async def run(name: str, until_end: AsyncExitStack) -> RunningNode:
                node = await until_end.enter_async_context(Membership(load_credentials(folder / f"{name}.toml"), TIMES))
                return await until_end.enter_async_context(serving(node, name, tmp_path / name, devices))

            stop_alpha = await stack.enter_async_context(AsyncExitStack())
            alpha, beta = await run("alpha", stop_alpha), await run("beta", stack)
            await until_known(alpha, "alpha", "beta")
            await until_known(beta, "alpha", "beta")
            yield Fleet(folder, alpha, beta, stop_alpha)


async def test_console_is_shown_drained_and_forgotten_with_its_node(running: Fleet) -> None:
    opened = await SessionHandle.open(running.alpha.local, device="rack", acquire_lock=True, task_id="t", lock_ttl_ms=60_000)
    await until(lambda: running.beta.fleet.claimed.owner("rack") is not None)
    status = await fleet(running.folder, "beta.toml", "status")
    assert (status.code, status.err) == (0, "")
    assert ["rack", "alpha", opened.session_id] in [line.split()[:3] for line in status.out.splitlines()]

    by_node = await fleet(running.folder, "beta.toml", "drain", "alpha")
    assert by_node.code != 0
    assert "only the administrator drains nodes" in by_node.err
    drained = await fleet(running.folder, "admin.toml", "drain", "alpha")
    assert drained.code == 0, drained.err
    (row,) = [line.split() for line in drained.out.splitlines()[1:]]
    assert row[:2] == ["rack", "beta"]
    assert ["alpha", "drained"] in [line.split()[:2] for line in (await nodes(running, as_json=False)).out.splitlines()]
    undone = await fleet(running.folder, "admin.toml", "drain", "alpha", "--undo")
    assert (undone.code, undone.err) == (0, "ptyctl: node alpha takes consoles again\n")
    assert [row["draining"] for row in (await nodes(running)).json] == [False, False]
    empty = await fleet(running.folder, "admin.toml", "drain", "alpha", "--json")
    assert empty.json == {"node": "alpha", "consoles": []}

    refused = await fleet(running.folder, "admin.toml", "forget", "alpha")
    assert "node alpha is up" in refused.err
    await running.alpha.fleet.publish()
    await running.stop_alpha.aclose()
    gone = await fleet(running.folder, "beta.toml", "status")
    assert gone.code == 6
    assert "node alpha does not announce itself" in gone.err
    unknown = await fleet(running.folder, "admin.toml", "drain", "alpha")
    assert (unknown.code, is_one_line(unknown.err)) == (6, True)
    forgotten = await fleet(running.folder, "admin.toml", "forget", "alpha")
    assert (forgotten.code, forgotten.err) == (0, "ptyctl: removed 1 sessions of node alpha from the fleet's list\n")
    assert [row["node"] for row in (await nodes(running)).json] == ["beta"]


async def nodes(running: Fleet, *, as_json: bool = True) -> CommandResult:
    return await fleet(running.folder, "beta.toml", "nodes", *["--json"] * as_json)


async def test_console_without_another_node_has_no_owner_after_a_drain(running: Fleet) -> None:
    await running.stop_alpha.aclose()
    await SessionHandle.open(running.beta.local, device="rack")
    drained = await fleet(running.folder, "admin.toml", "drain", "beta")
    assert drained.code == 6
    assert "no other node that is up may reach it" in drained.out


async def test_policy_is_published_by_the_administrator_alone(running: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('extends = ["guarded"]\n')
    published = await fleet(running.folder, "admin.toml", "policy", str(file))
    assert (published.code, published.err) == (0, "ptyctl: published policy 1; see its state with ptyctl fleet status\n")
    await until(lambda: all(node.fleet.policy and node.fleet.policy.number == 1 for node in (running.alpha, running.beta)))
    by_node = await fleet(running.folder, "alpha.toml", "policy", str(file))
    assert "only the administrator signs policies" in by_node.err
    file.write_text("rules = 1\n")
    faulty = await fleet(running.folder, "admin.toml", "policy", str(file))
    assert faulty.code != 0
    assert is_one_line(faulty.err)


async def test_doctor_exits_by_its_checks(running: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    command = (*PROGRAM, "fleet", "doctor", "--fleet", str(running.folder / "alpha.toml"))
    for _ in range(10):  # an answer of a busy machine can be too slow
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = await process.communicate()
        if process.returncode == 0:
            break
    assert (process.returncode, err) == (0, b""), out  # in this process, pytest takes the warnings
    assert all(line.startswith("ok ") for line in out.decode().splitlines())
    monkeypatch.setattr(site_state, "_SLOW_S", 60.0)
    await SessionHandle.open(running.alpha.local, protocol="local", command=["cat"])
    await running.alpha.fleet.publish()
    await running.stop_alpha.aclose()
    faulty = await fleet(running.folder, "beta.toml", "doctor", "--json")
    assert faulty.code == 6
    assert [check["check"] for check in json.loads(faulty.out) if not check["ok"]] == ["nodes"]


def test_fleet_commands_without_a_server_name_it_and_exit_with_6(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_state, "_CONNECT_S", 0.3)
    folder = new_site(tmp_path)
    for command in ("status", "nodes"):
        result = ptyctl("fleet", command, "--fleet", str(folder / "alpha.toml"))
        assert (result.code, is_one_line(result.err)) == (6, True)
        assert load_credentials(folder / "alpha.toml").servers[0] in result.err
    doctor = ptyctl("fleet", "doctor", "--fleet", str(folder / "alpha.toml"))
    assert doctor.code == 6
    assert doctor.out.startswith("failed  servers: ")

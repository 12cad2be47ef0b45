"""Three MCP clients and two people share one console: one types, all see the same, and any of them may be killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from fixtures.tmux.person import Person
from fixtures.tmux.server import running_tmux
from ptyctl import connect
from ptyctl.daemon.place import Place
from tests.cli.command_line import opened, ptyctl

PROGRAM = (sys.executable, "-c", "from ptyctl.cli import main; main()")
GREETING = {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
}  # fmt: skip


class Agent:
    """An MCP client by hand, over a shim of its own: one call after the other."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.shim = Popen([*PROGRAM, "mcp"], stdin=PIPE, stdout=PIPE, env=dict(os.environ))
        self._number = 0
        self._ask("initialize", GREETING)
        self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._ask("tools/call", {"name": tool, "arguments": {**arguments, "task_id": self.task_id}})
        told: dict[str, Any] = result["structuredContent"]
        return told

    def kill(self) -> None:
        self.shim.kill()
        self.shim.communicate()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._say({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self.shim.stdout is not None
        while (answer := json.loads(self.shim.stdout.readline())).get("id") != self._number:
            pass
        result: dict[str, Any] = answer["result"]
        return result

    def _say(self, message: dict[str, Any]) -> None:
        assert self.shim.stdin is not None
        self.shim.stdin.write(json.dumps(message).encode() + b"\n")
        self.shim.stdin.flush()


class Crowd:
    """Who shares the console `sw1`, which is 80 by 22."""

    def __init__(self, ends: ExitStack) -> None:
        self._ends = ends
        self.session_id = opened("--console", "sw1", "--cols", "80", "--rows", "22")

    def agent(self, task_id: str) -> Agent:
        agent = Agent(task_id)
        self._ends.callback(agent.kill)
        return agent

    def person(self, task_id: str, *options: str) -> Person:
        environment = {name: value for name, value in os.environ.items() if name.startswith("PTYCTL_") or name == "HOME"}
        tmux = self._ends.enter_context(running_tmux())
        return Person(tmux, [*PROGRAM, "attach", "--task", task_id, *options, "sw1"], environment, 80, 23)

    def lock(self, agent: Agent, **fields: Any) -> dict[str, Any]:
        return agent.call("ptyctl_session", action="lock", session_id=self.session_id, **fields)

    def execute(self, agent: Agent, cmd: str) -> dict[str, Any]:
        return agent.call("ptyctl_session_exec", session_id=self.session_id, cmd=cmd)


@pytest.fixture
def crowd(place: Place) -> Iterator[Crowd]:
    with ExitStack() as ends:
        yield Crowd(ends)


def kill_person(task_id: str) -> None:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        words = path.read_bytes().split(b"\0")
        if words[0] == sys.executable.encode() and b"attach" in words and task_id.encode() in words:
            os.kill(int(path.parent.name), signal.SIGKILL)
            return
    raise AssertionError(f"{task_id} is not attached")


async def received(session_id: str, until: bytes) -> bytes:
    """Every byte from the first on, as one who comes late gets them."""
    data = b""
    async with connect() as daemon:
        async for item in (await daemon.session(session_id)).watch(from_offset=0):
            data += b64decode(item.data_b64 or "") if item.kind == "output" else b""
            if until in data:
                return data
    raise AssertionError("the watch ended")


def test_one_types_and_all_see_the_same(crowd: Crowd) -> None:
    agents = [crowd.agent(f"agent-{number}") for number in range(3)]
    people = [crowd.person("anna"), crowd.person("bert")]
    crowd.lock(agents[0])
    for person in people:
        person.sees("agent-0 types")
    for agent in agents[1:]:
        assert crowd.execute(agent, "echo no")["error_code"] == "LOCKED"
    people[0].type("echo no\r")
    people[0].sees("you only look on")
    assert crowd.execute(agents[0], "echo $((20 + 22)) answers")["stdout"] == "42 answers\n"
    for person in people:
        person.sees("42 answers")
    seen = [
        agent.call("ptyctl_session_io", session_id=crowd.session_id, action="read", cursor="0")["chunk"] for agent in agents
    ]
    assert seen[0] == seen[1] == seen[2]
    assert "42 answers\n" in seen[0]
    assert "echo no" not in seen[0]
    screens = [person.until(lambda rows: any("42 answers" in row for row in rows))[:22] for person in people]
    assert screens[0] == screens[1]
    assert b"42 answers\r\n" in asyncio.run(received(crowd.session_id, b"42 answers\r\n"))


def test_each_may_be_killed_and_the_next_in_line_gets_the_lock(crowd: Crowd) -> None:
    first, second, looker = (crowd.agent(name) for name in ("first", "second", "looker"))
    crowd.lock(first, lock_ttl_ms=1000)
    person = crowd.person("anna", "--write", "--wait", "--ttl", "1")
    other = crowd.person("bert")
    first.kill()
    person.sees("you type")
    other.sees("anna types")
    person.type("echo $((40 + 2)) of anna\r")
    other.sees("42 of anna")
    kill_person("anna")
    assert crowd.lock(second, wait_ms=50_000)["lock_holder"] == "second"
    other.sees("second types")
    kill_person("bert")
    looker.kill()
    assert crowd.execute(second, "echo still $((40 + 3))")["stdout"] == "still 43\n"
    assert "42 of anna" in ptyctl("tail", "sw1", "-n", "50").out

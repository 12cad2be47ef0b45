"""Three MCP clients and two attached terminals share one console: one types, all see the same, any of them can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack
from subprocess import PIPE, Popen
from typing import Any

import pytest

from fixtures.tmux.person import Person
from fixtures.tmux.server import running_tmux
from ptyctl import connect
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.cli.command_line import PROGRAM, attach_pid, open_local, ptyctl, screen_rows, terminal_environment
from tests.controller.session_calls import PATIENCE_MS

INITIALIZE = {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
}  # fmt: skip


class Agent:
    """A minimal MCP client with its own `ptyctl mcp` process. Calls are sequential."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.shim = Popen([*PROGRAM, "mcp"], stdin=PIPE, stdout=PIPE, env=dict(os.environ))
        self._number = 0
        self._request("initialize", INITIALIZE)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = self._request("tools/call", {"name": tool, "arguments": {**arguments, "task_id": self.task_id}})
        content: dict[str, Any] = result["structuredContent"]
        return content

    def kill(self) -> None:
        self.shim.kill()
        self.shim.communicate()

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self.shim.stdout is not None
        while (answer := json.loads(self.shim.stdout.readline())).get("id") != self._number:
            pass
        result: dict[str, Any] = answer["result"]
        return result

    def _send(self, message: dict[str, Any]) -> None:
        assert self.shim.stdin is not None
        self.shim.stdin.write(json.dumps(message).encode() + b"\n")
        self.shim.stdin.flush()


class SharedConsole:
    """The console `sw1`, 80 by 22, and the clients that share it."""

    def __init__(self, clients: ExitStack) -> None:
        self._clients = clients
        self.session_id = open_local("--console", "sw1", "--cols", "80", "--rows", "22")

    def agent(self, task_id: str) -> Agent:
        agent = Agent(task_id)
        self._clients.callback(agent.kill)
        return agent

    def person(self, task_id: str, *options: str) -> Person:
        tmux = self._clients.enter_context(running_tmux())
        return Person(tmux, [*PROGRAM, "attach", "--task", task_id, *options, "sw1"], terminal_environment(), 80, 23)

    def lock(self, agent: Agent, **fields: Any) -> dict[str, Any]:
        return agent.call("ptyctl_session", action="lock", session_id=self.session_id, **fields)

    def execute(self, agent: Agent, cmd: str) -> dict[str, Any]:
        return agent.call("ptyctl_session_exec", session_id=self.session_id, cmd=cmd)

    def prompt_shown(self, agent: Agent, after: str) -> None:
        """Wait for the prompt after a line of output: the reply of its command can precede it."""
        fields = {"cursor": "0", "until_regex": rf"(?m)^{after}\n.*[$#] $", "timeout_ms": PATIENCE_MS}
        assert agent.call("ptyctl_session_io", session_id=self.session_id, action="read", **fields)["matched"]


@pytest.fixture
def console(runtime_dir: RuntimeDir) -> Iterator[SharedConsole]:
    with ExitStack() as clients:
        yield SharedConsole(clients)


def kill_person(task_id: str) -> None:
    os.kill(attach_pid(task_id), signal.SIGKILL)


async def received(session_id: str, until: bytes) -> bytes:
    """Return every byte from offset 0 to `until`, as a new viewer receives them."""
    data = b""
    async with connect() as daemon:
        async for item in (await daemon.session(session_id)).watch(from_offset=0):
            data += b64decode(item.data_b64 or "") if item.kind == "output" else b""
            if until in data:
                return data
    raise AssertionError("the watch ended")


def test_one_client_types_and_all_clients_see_the_same(console: SharedConsole) -> None:
    agents = [console.agent(f"agent-{number}") for number in range(3)]
    people = [console.person("anna"), console.person("bert")]
    console.lock(agents[0])
    for person in people:
        person.sees("locked by agent-0")
    for agent in agents[1:]:
        assert console.execute(agent, "echo no")["error_code"] == "LOCKED"
    people[0].type("echo no\r")
    people[0].sees("you only watch")
    assert console.execute(agents[0], "echo $((20 + 22)) answers")["stdout"] == "42 answers\n"
    console.prompt_shown(agents[0], "42 answers")
    seen = [
        agent.call("ptyctl_session_io", session_id=console.session_id, action="read", cursor="0")["chunk"] for agent in agents
    ]
    assert seen[0] == seen[1] == seen[2]
    assert "42 answers\n" in seen[0]
    assert "echo no" not in seen[0]
    screen = screen_rows(console.session_id)
    assert "42 answers" in screen
    for person in people:
        person.until(lambda rows: [row.rstrip() for row in rows[:22]] == screen)
    assert b"42 answers\r\n" in asyncio.run(received(console.session_id, b"42 answers\r\n"))


def test_killed_lock_holder_next_in_queue_gets_lock(console: SharedConsole) -> None:
    first, second, viewer = (console.agent(name) for name in ("first", "second", "viewer"))
    console.lock(first, lock_ttl_ms=1000)
    person = console.person("anna", "--write", "--wait", "--ttl", "1")
    other = console.person("bert")
    first.kill()
    person.sees("you have the lock")
    other.sees("locked by anna")
    person.type("echo $((40 + 2)) of anna\r")
    other.sees("42 of anna")
    kill_person("anna")
    assert console.lock(second, wait_ms=50_000)["lock_holder"] == "second"
    other.sees("locked by second")
    kill_person("bert")
    viewer.kill()
    assert console.execute(second, "echo still $((40 + 3))")["stdout"] == "still 43\n"
    assert "42 of anna" in ptyctl("tail", "sw1", "-n", "50").out

"""`ptyctl mcp`: many clients share one daemon, and continue with the next one if it exits."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY, TextContent
from mcp_types.version import LATEST_MODERN_VERSION

from fixtures.daemons import daemon_pid, end_daemon
from fixtures.forked_process import PTYCTL
from ptyctl.core import json_lines
from ptyctl.daemon.connection import connect
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.daemon.shim import _error_reply
from tests.mcp.server_process import ServerProcess, client_streams, ptyctl_process
from tests.session.scripted_session import wait_until

PATIENCE_S = 60
ERAS = ["legacy", "auto"]
BASH = ["bash", "--norc", "--noprofile"]
SHIM = ["-c", PTYCTL, "mcp"]


@pytest.fixture(autouse=True)
def _running_daemon(runtime_dir: RuntimeDir) -> None:
    """Start the daemon here, where it is forked from a template. A shim that is not forked starts new interpreters."""
    connect(runtime_dir).close()


@asynccontextmanager
async def client(mode: str = "auto", *options: str) -> AsyncIterator[Client]:
    """Fork a shim, and connect a client to it; the daemon that the shim starts is forked too."""
    transport = client_streams(ptyctl_process("mcp", *options))
    async with Client(transport, mode=mode, read_timeout_seconds=PATIENCE_S) as connected:
        yield connected


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert result.structured_content is not None
    return {**result.structured_content, "is_error": bool(result.is_error)}


@pytest.mark.parametrize("mode", ERAS)
async def test_two_clients_share_one_session(runtime_dir: RuntimeDir, mode: str) -> None:
    async with client(mode) as one, client(mode) as two:
        opened = await call(one, "ptyctl_session", action="open", protocol="local", command=BASH, task_id="one")
        session = {"session_id": opened["session_id"]}
        assert not (await call(one, "ptyctl_session", action="lock", **session, task_id="one"))["is_error"]
        refused = await call(two, "ptyctl_session_exec", **session, cmd="echo no", task_id="two")
        assert refused["error_code"] == "LOCKED"
        assert (await call(one, "ptyctl_session_exec", **session, cmd="echo hi", task_id="one"))["stdout"] == "hi\n"
        seen = await call(two, "ptyctl_session_io", **session, action="read", mode="tail")
        assert "hi" in seen["chunk"]


async def test_twenty_concurrent_shims_share_one_daemon(runtime_dir: RuntimeDir) -> None:
    end_daemon(runtime_dir)  # one of the shims is to start it
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client()) for _ in range(4)]
        shims = await asyncio.gather(*(_shim() for _ in range(16)))
        opened = await call(clients[0], "ptyctl_session", action="open", protocol="local", command=BASH)
        for other in clients:
            listed = await call(other, "ptyctl_session", action="list")
            assert [entry["session_id"] for entry in listed["sessions"]] == [opened["session_id"]]
        for shim in shims:
            assert shim.stdin is not None
            shim.stdin.close()
            assert await asyncio.wait_for(shim.wait(), PATIENCE_S) == 0


async def _shim() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, *SHIM, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
    )


@pytest.mark.parametrize("mode", ERAS)
async def test_client_continues_with_next_daemon(runtime_dir: RuntimeDir, mode: str) -> None:
    async with client(mode) as agent:
        opened = await call(agent, "ptyctl_session", action="open", protocol="local", command=BASH)
        session = {"session_id": opened["session_id"]}
        await call(agent, "ptyctl_session_exec", **session, cmd="echo before")
        first = daemon_pid(runtime_dir)
        waiting = asyncio.create_task(
            call(agent, "ptyctl_session_io", **session, action="read", until_regex="never", timeout_ms=50_000)
        )
        status = await call(agent, "ptyctl_session", action="status", **session)
        assert status["state"] == "open"
        end_daemon(runtime_dir, signal.SIGKILL)
        lost = await asyncio.wait_for(waiting, PATIENCE_S)
        assert (lost["error_code"], lost["retryable"]) == ("IO_ERROR", True)
        history = await call(agent, "ptyctl_session_io", **session, action="read", cursor="0", timeout_ms=0)
        assert "before" in history["chunk"]
        assert daemon_pid(runtime_dir) not in (None, first)


async def test_daemon_restart_between_calls_is_transparent(runtime_dir: RuntimeDir) -> None:
    async with client() as agent:
        await call(agent, "ptyctl_session", action="list")
        end_daemon(runtime_dir)
        assert (await call(agent, "ptyctl_session", action="list"))["sessions"] == []


async def test_killed_shim_leaves_session_open(runtime_dir: RuntimeDir) -> None:
    async with client() as agent:
        shim = await _shim()
        opened = await call(agent, "ptyctl_session", action="open", protocol="local", command=BASH)
        shim.kill()
        await shim.wait()
        done = await call(agent, "ptyctl_session_exec", session_id=opened["session_id"], cmd="echo still here")
        assert done["stdout"] == "still here\n"


async def test_toolsets_option_applies_to_its_connection(runtime_dir: RuntimeDir) -> None:
    async with client("auto", "--toolsets", "blocks") as one, client() as two:
        assert {tool.name for tool in (await one.list_tools()).tools} >= {"blocks_since", "blocks_search"}
        assert {tool.name for tool in (await two.list_tools()).tools} == {
            "ptyctl_session", "ptyctl_session_io", "ptyctl_session_exec", "ptyctl_session_config",
        }  # fmt: skip


@pytest.mark.parametrize("option", ["--full-text", "--short-text"])
async def test_text_option_applies_to_its_connection(runtime_dir: RuntimeDir, option: str) -> None:
    async with client("legacy", option) as connected:
        opened = await call(connected, "ptyctl_session", action="open", protocol="local", command=BASH)
        executed = {"session_id": opened["session_id"], "cmd": "printf %1000s x"}
        result = await connected.call_tool("ptyctl_session_exec", executed)
        assert result.structured_content is not None
        assert result.structured_content["stdout"] == " " * 999 + "x"
        (text,) = result.content
        assert isinstance(text, TextContent)
        assert (" " * 999 in text.text) == (option == "--full-text")


async def test_invalid_toolset_exits_with_one_line(runtime_dir: RuntimeDir) -> None:
    shim = await asyncio.create_subprocess_exec(
        sys.executable, *SHIM, "--toolsets", "nope", stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, said = await asyncio.wait_for(shim.communicate(), PATIENCE_S)
    assert shim.returncode == 2
    assert said.decode().startswith("ptyctl: no toolset 'nope'; available: core")
    assert said.count(b"\n") == 1


class Piped:
    """A forked shim and its standard streams, used as a client would."""

    def __init__(self, shim: ServerProcess) -> None:
        self.shim, self.stdin, self.stdout = shim, shim.stdin, shim.stdout

    def ask(self, method: str, number: Any = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params, **({} if number is None else {"id": number})}
        self.stdin.write(json.dumps(message).encode() + b"\n")

    async def hear(self) -> dict[str, Any]:
        heard: dict[str, Any] = json.loads(await asyncio.wait_for(self.stdout.readline(), PATIENCE_S))
        return heard

    async def greet(self) -> None:
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        self.ask("initialize", "first", **client)
        assert (await self.hear())["id"] == "first"
        self.ask("notifications/initialized")


@pytest.fixture
async def ungreeted(runtime_dir: RuntimeDir) -> AsyncIterator[Piped]:
    async with ptyctl_process("mcp") as shim:
        yield Piped(shim)
        shim.stdin.close()
        await shim.end()


@pytest.fixture
async def piped(ungreeted: Piped) -> Piped:
    await ungreeted.greet()
    return ungreeted


async def test_refused_initialize_is_not_replayed_to_next_daemon(runtime_dir: RuntimeDir, ungreeted: Piped) -> None:
    """A client whose `server/discover` is answered late has tried `initialize` meanwhile, and stays with what was answered."""
    info = {"name": "t", "version": "1"}
    envelope = {
        PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
        CLIENT_INFO_META_KEY: info,
        CLIENT_CAPABILITIES_META_KEY: {},
    }
    ungreeted.ask("server/discover", 1, _meta=envelope)
    ungreeted.ask("initialize", 2, protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
    heard = {message["id"]: message for message in [await ungreeted.hear(), await ungreeted.hear()]}
    assert ("result" in heard[1], "error" in heard[2]) == (True, True)
    end_daemon(runtime_dir, signal.SIGKILL)
    ungreeted.ask("tools/list", 3, _meta=envelope)
    answer = await ungreeted.hear()
    if answer.get("error", {}).get("code") == -32000:  # the request was sent to the daemon that ended
        ungreeted.ask("tools/list", 3, _meta=envelope)
        answer = await ungreeted.hear()
    assert "result" in answer, answer


async def test_tool_call_during_the_end_of_the_daemon_gets_a_tool_error(runtime_dir: RuntimeDir, piped: Piped) -> None:
    piped.ask("tools/call", 1, name="ptyctl_session", arguments={"action": "open", "protocol": "local", "command": ["cat"]})
    session_id = (await piped.hear())["result"]["structuredContent"]["session_id"]
    arguments = {"session_id": session_id, "cmd": "x", "until_regex": "never", "timeout_ms": 50_000}
    piped.ask("tools/call", 2, name="ptyctl_session_exec", arguments=arguments)
    piped.ask("ping", 3)
    assert (await piped.hear())["id"] == 3
    end_daemon(runtime_dir, signal.SIGKILL)
    result = (await piped.hear())["result"]
    payload = result["structuredContent"]
    assert json.loads(result["content"][0]["text"]) == payload
    assert (result["isError"], payload["error_code"], payload["retryable"]) == (True, "IO_ERROR", True)
    assert "connection to the daemon was lost" in payload["message"]
    assert payload["hint"].startswith("get the session's state with ptyctl_session action=status")


def test_error_of_a_lost_pty_call_has_the_form_of_its_tools() -> None:
    result = json.loads(_error_reply("a", "pty_wait_for"))["result"]
    payload = result["structuredContent"]
    assert (result["isError"], payload["ok"], payload["error"]) == (False, False, "io_error")
    assert payload["hint"].startswith("get the state with pty_status")


def test_error_of_a_lost_request_without_tool_is_a_protocol_error() -> None:
    assert json.loads(_error_reply(7, None))["error"]["code"] == -32000


async def test_stopped_daemon_is_not_restarted_before_next_request(runtime_dir: RuntimeDir, piped: Piped) -> None:
    end_daemon(runtime_dir)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(piped.stdout.readline(), 0.5)  # nothing is to happen
    assert daemon_pid(runtime_dir) is None
    piped.ask("tools/list", 2)
    assert "result" in await piped.hear()


async def test_stopped_daemon_is_not_restarted_by_a_notification(runtime_dir: RuntimeDir, piped: Piped) -> None:
    end_daemon(runtime_dir)
    piped.ask("notifications/cancelled", requestId="first")
    piped.stdin.close()
    assert (await piped.shim.end())[0] == 0
    assert daemon_pid(runtime_dir) is None


async def test_killed_daemon_is_restarted_at_once(runtime_dir: RuntimeDir, piped: Piped) -> None:
    end_daemon(runtime_dir, signal.SIGKILL)
    await wait_until(lambda: daemon_pid(runtime_dir) is not None and runtime_dir.socket.exists())
    for number in range(5):  # also one after the other
        end_daemon(runtime_dir, signal.SIGKILL)
        piped.ask("ping", number)
        await piped.hear()
    piped.ask("tools/list", "x" * 1000)
    assert (await piped.hear())["id"] == "x" * 1000


async def test_invalid_message_does_not_end_shim(piped: Piped) -> None:
    for number, nonsense in enumerate((b"[]", b"7", b"{", b"[" * 100_000, b'{"id":[],"method":"ping"}', b"\xff"), 2**63):
        piped.stdin.write(nonsense + b"\n")
        piped.ask("ping", number)
        while (heard := await piped.hear()).get("id") != number:
            assert "error" in heard, nonsense[:100]
        assert heard["result"] == {}


async def test_last_line_without_newline_is_relayed(piped: Piped) -> None:
    piped.ask("ping", 1)
    piped.stdin.write(b'{"jsonrpc":"2.0","id":2,"method":"ping"}')
    piped.stdin.write_eof()
    assert [(await piped.hear())["id"] for _ in range(2)] == [1, 2]
    assert (await piped.shim.end())[0] == 0


async def test_long_message_is_relayed_and_too_long_one_rejected(piped: Piped) -> None:
    piped.ask("ping", 1, padding="x" * (json_lines.MAX_LINE_BYTES - 1000))
    assert (await piped.hear())["id"] == 1
    piped.ask("ping", 2, padding="x" * (3 * json_lines.MAX_LINE_BYTES))
    answer = await piped.hear()
    assert answer["id"] == 2
    assert "longer than" in answer["error"]["message"]


async def test_interrupt_exits_with_130_and_no_output(piped: Piped) -> None:
    piped.shim.process.send_signal(signal.SIGINT)
    assert await piped.shim.end() == (130, "")


#: Runs a shim that receives SIGINT in its first poll, after the last check for signals: `map` and `call` are in C.
INTERRUPTED_BEFORE_POLL = """
import ctypes, functools, operator, os, select
kill = functools.partial(ctypes.CDLL(None).kill, os.getpid(), 2)
real_poll = select.poll
class Poll:
    def __init__(self):
        self.real = real_poll()
        self.register, self.unregister = self.real.register, self.real.unregister
    def poll(self):
        return list(map(operator.call, (kill, self.real.poll)))[1]
select.poll = Poll
from ptyctl.daemon import shim
raise SystemExit(shim.run("core"))
"""


async def test_interrupt_just_before_poll_exits_with_130(runtime_dir: RuntimeDir) -> None:
    pipe = asyncio.subprocess.PIPE
    shim = await asyncio.create_subprocess_exec(sys.executable, "-c", INTERRUPTED_BEFORE_POLL, stdin=pipe)
    assert await asyncio.wait_for(shim.wait(), PATIENCE_S) == 130

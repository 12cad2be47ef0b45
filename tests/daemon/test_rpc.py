"""The handshake of a connection, and the RPC protocol after it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ptyctl import __version__
from ptyctl.api import ExecRequest, PtyctlError, SessionReply, SessionRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.core import json_lines
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.connection import exchange_hello, hello_line
from ptyctl.daemon.errors import DaemonError
from ptyctl.daemon.rpc import RpcConnection
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.session.clients import user
from ptyctl.trace import current_trace_id

pytestmark = pytest.mark.waits

GOOD = {"speaks": "rpc", "version": __version__, "cwd": "/", "env": {}}


class Raw:
    """A connection that sends and receives lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, line: bytes) -> dict[str, Any]:
        self.writer.write(line + b"\n")
        return await self.hear()

    async def hear(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await asyncio.wait_for(self.reader.readline(), 120))
        return answer

    async def ask(self, **message: Any) -> dict[str, Any]:
        return await self.say(json.dumps(message).encode())


@asynccontextmanager
async def connection_of(principal: Principal) -> AsyncIterator[Raw]:
    """A connection of this principal to a controller without sessions."""
    ours, theirs = socket.socketpair()
    raw = Raw(*await asyncio.open_connection(sock=ours))
    reader, writer = await asyncio.open_connection(sock=theirs)
    async with LocalController() as controller:
        serving = asyncio.create_task(RpcConnection(AccessController(controller), reader, writer, principal).run())
        yield raw
        raw.writer.close()
        await serving
    for each in (raw.writer, writer):
        each.close()
        await each.wait_closed()


@pytest.mark.parametrize("principal", [user(), Principal("alice", Kind.PERSON, Role.ADMIN)])
async def test_call_for_another_principal_has_its_role_and_needs_the_daemons_user(principal: Principal) -> None:
    viewer = {"name": "reader", "kind": "agent", "role": "viewer", "devices": []}
    async with connection_of(principal) as raw:
        listed = await raw.ask(id=1, method="ptyctl_session", params={"action": "list"}, principal=viewer)
        opened = await raw.ask(id=2, method="ptyctl_session", params={"action": "open", "protocol": "local"}, principal=viewer)
        assert opened["error"]["data"]["error_code"] == "FORBIDDEN"
        if principal == user():
            assert listed["result"]["reply"]["sessions"] == []
            assert opened["error"]["message"].startswith("reader has the role viewer")
        else:
            assert "alice may make no calls for other principals" in listed["error"]["message"]


@pytest.mark.parametrize(
    "principal",
    [
        None,
        [],
        {"name": "x"},
        {"name": "x", "kind": "agent", "role": "viewer", "devices": "*"},
        {"name": "x", "kind": "agent", "role": "king", "devices": []},
    ],
)
async def test_call_for_an_invalid_principal_is_refused(principal: Any) -> None:
    async with connection_of(user()) as raw:
        answer = await raw.ask(id=1, method="ptyctl_session", params={"action": "list"}, principal=principal)
        assert answer["error"]["data"]["error_code"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize(("given", "kept"), [("trace_1", "trace_1"), ("a\nb", None), ("", None), ("x" * 257, None), (5, None)])
async def test_trace_id_of_a_call_is_kept_if_it_can_be_logged(
    given: Any, kept: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def session(_controller: LocalController, _request: SessionRequest) -> SessionReply:
        raise RuntimeError(current_trace_id())

    monkeypatch.setattr(LocalController, "session", session)
    async with connection_of(user()) as raw:
        answer = await raw.ask(id=1, method="ptyctl_session", params={"action": "list"}, trace_id=given)
    assert answer["error"]["message"] == "internal error in the daemon: RuntimeError; see its log"
    (record,) = caplog.records
    assert (getattr(record, "trace_id", None), str(record.exc_info and record.exc_info[1])) == (kept, str(kept))


async def test_calls_that_arrive_together_begin_in_separate_iterations_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, iteration, begun = asyncio.get_running_loop(), 0, list[int]()

    def count() -> None:
        nonlocal iteration
        iteration += 1
        loop.call_soon(count)

    async def session(controller: LocalController, request: SessionRequest) -> SessionReply:
        begun.append(iteration)
        return SessionReply(action="list")

    monkeypatch.setattr(LocalController, "session", session)
    count()
    async with connection_of(user()) as raw:
        call = {"method": "ptyctl_session", "params": {"action": "list"}}
        raw.writer.writelines(json.dumps({**call, "id": number}).encode() + b"\n" for number in range(20))
        for _ in range(20):
            await raw.hear()
    assert len(set(begun)) == 20


@pytest.fixture
async def connect_raw(runtime_dir: RuntimeDir) -> AsyncIterator[Callable[[], Awaitable[Raw]]]:
    """Open connections to one daemon."""
    opened: list[Raw] = []

    async def connect() -> Raw:
        opened.append(Raw(*await asyncio.open_unix_connection(str(runtime_dir.socket), limit=1 << 22)))
        return opened[-1]

    async with await RemoteController.connect(runtime_dir):
        yield connect
        for raw in opened:
            raw.writer.close()


@pytest.fixture
async def raw(connect_raw: Callable[[], Awaitable[Raw]]) -> Raw:
    return await connect_raw()


async def test_invalid_handshake_is_rejected(connect_raw: Callable[[], Awaitable[Raw]]) -> None:
    for said, told in (
        (b"GET / HTTP/1.1", "the first line must be"),
        (b"[]", "the first line must be"),
        (json.dumps({**GOOD, "speaks": "smtp"}).encode(), "the first line must be"),
        (json.dumps({**GOOD, "version": "0.0.9"}).encode(), "ptyctl daemon restart"),
        (json.dumps({**GOOD, "cwd": "here"}).encode(), "an absolute path"),
        (json.dumps({**GOOD, "env": {"A": 1}}).encode(), "an object of strings"),
        (json.dumps({**GOOD, "umask": "022"}).encode(), "umask (a number"),
        (json.dumps({**GOOD, "umask": -1}).encode(), "umask (a number"),
        (json.dumps({**GOOD, "speaks": "mcp", "toolsets": "core,nope"}).encode(), "no toolset 'nope'"),
        (json.dumps({**GOOD, "x": [[]] * json_lines.MAX_STRUCTURE_BYTES}).encode(), "the first line must be"),
    ):
        raw = await connect_raw()
        answer = await raw.say(said)
        assert answer["ok"] is False, said[:100]
        assert told in answer["message"]
        assert await raw.reader.read() == b""


async def test_handshake_returns_version(raw: Raw) -> None:
    answer = await raw.say(json.dumps(GOOD).encode())
    assert (answer["ok"], answer["version"]) == (True, __version__)


async def test_invalid_request_returns_json_rpc_error(raw: Raw) -> None:
    await raw.say(json.dumps(GOOD).encode())
    assert (await raw.say(b"{"))["error"]["code"] == -32700
    assert (await raw.say(b"7"))["error"]["code"] == -32600
    assert (await raw.ask(id=1, method="nope"))["error"]["code"] == -32601
    refused = await raw.ask(id=2, method="ptyctl_session", params={"action": "status"})
    assert (refused["id"], refused["error"]["data"]["error_code"]) == (2, "INVALID_ARGUMENT")
    assert "session_id" in refused["error"]["message"]
    listed = await raw.ask(id="three", method="ptyctl_session", params={"action": "list"})
    assert (listed["id"], listed["result"]["reply"]["sessions"]) == ("three", [])


async def test_cancelled_wait_leaves_command_running(raw: Raw, runtime_dir: RuntimeDir) -> None:
    async with await RemoteController.connect(runtime_dir) as controller:
        handle = await SessionHandle.open(controller, protocol="local", command=("bash", "--norc", "--noprofile"))
        begun = await handle.exec("echo begun; read -r line; echo got $line", timeout_ms=0)
        assert (await handle.read(until_regex="(?m)^begun$", timeout_ms=20_000)).matched
        wait = asyncio.create_task(handle.wait(begun.block_id, timeout_ms=20_000))
        await asyncio.sleep(0)
        wait.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wait
        await handle.write("on\n")
        assert (await handle.wait(begun.block_id)).stdout.endswith("got on\n")


async def test_progress_is_reported_during_call(runtime_dir: RuntimeDir, tmp_path: Path) -> None:
    os.mkfifo(end := tmp_path / "end")
    told: asyncio.Queue[tuple[int, float]] = asyncio.Queue()
    async with await RemoteController.connect(runtime_dir) as controller:
        handle = await SessionHandle.open(controller, protocol="local", command=("bash", "--norc", "--noprofile"))
        request = ExecRequest.of({"session_id": handle.session_id, "cmd": f"cat {end}", "timeout_ms": 60_000})
        running = asyncio.create_task(controller.exec(request, lambda *reported: told.put_nowait(reported)))
        async with asyncio.timeout(60):
            (_, first_s), (_, second_s) = await told.get(), await told.get()
        await asyncio.to_thread(end.write_text, "")
        assert (await running).exit_code == 0
    assert first_s < second_s


async def test_invalid_message_does_not_end_connection(raw: Raw) -> None:
    await raw.say(json.dumps(GOOD).encode())
    for nonsense in (
        {"id": 1, "method": "ptyctl_session", "params": []},
        {"id": 1, "method": "ptyctl_session", "params": None},
        {"id": {}, "method": "ptyctl_session", "params": {"action": "list"}},
        {"id": [], "method": "nope"},
        {"id": True, "method": "watch", "params": {"session_id": "x"}},
        {"method": "ptyctl_session", "params": {"action": "list"}},
        {"id": 1, "method": "watch", "params": []},
        {"method": "cancel", "params": []},
        {"method": "cancel", "params": {"id": []}},
        {"method": "cancel", "params": {"id": "nobody's"}},
        {"method": "more"},
        {"method": "more", "params": {"id": {}, "count": 1}},
        {"method": "more", "params": {"id": 1, "count": "many"}},
    ):
        raw.writer.write(json.dumps(nonsense).encode() + b"\n")
        listed = await raw.ask(id="after", method="ptyctl_session", params={"action": "list"})
        if "after" not in listed.values():  # an invalid call is rejected first; a notification has no reply
            assert listed["error"]["code"] in (-32600, -32601, -32000), nonsense
            listed = await raw.hear()
        assert (listed["id"], listed["result"]["reply"]["sessions"]) == ("after", []), nonsense


async def test_deeply_nested_request_is_refused_with_its_id(raw: Raw) -> None:
    """More than 64 KiB outside strings is refused before it is parsed."""
    await raw.say(json.dumps(GOOD).encode())
    for depth, code in ((1_000, -32700), (100_000, -32600)):
        assert (await raw.say(b"[" * depth))["error"]["code"] == code
        deep = b'{"jsonrpc":"2.0","id":7,"method":"ptyctl_session","params":%s}' % (b"[" * depth)
        answer = await raw.say(deep)
        assert (answer["id"], answer["error"]["code"]) == (7, code)
        assert "result" in await raw.ask(id=2**70, method="ptyctl_session", params={"action": "list"})


async def test_request_that_strict_parsers_reject_is_answered_with_its_id(raw: Raw) -> None:
    await raw.say(json.dumps(GOOD).encode())
    for value in (b"9" * 5000, b"[" * 300 + b"]" * 300, b'"\\ud800"'):
        params = b'{"action":"heartbeat","session_id":"s","task_id":"t","lock_ttl_ms":%s}' % value
        answer = await raw.say(b'{"jsonrpc":"2.0","method":"ptyctl_session","params":%s,"id":"mine"}' % params)
        assert (answer["id"], answer["error"]["data"]["error_code"]) == ("mine", "INVALID_ARGUMENT")
        assert "lock_ttl_ms" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("padding", "why"),
    [
        (b"[" + b"[]," * json_lines.MAX_STRUCTURE_BYTES + b"[]]", "outside its strings"),
        (b'"' + b"x" * json_lines.MAX_LINE_BYTES + b'"', "longer than"),
        (b'"' + b"x" * (10 * json_lines.MAX_LINE_BYTES) + b'"', "longer than"),
    ],
    ids=["structure", "long", "very long"],
)
async def test_too_large_request_is_answered_with_its_id_and_the_next_one_is_served(raw: Raw, padding: bytes, why: str) -> None:
    await raw.say(json.dumps(GOOD).encode())
    for begin, end in ((b'"id":"mine",', b""), (b"", b',"id":"mine"')):
        answer = await raw.say(b'{%s"method":"ptyctl_session","params":%s%s}' % (begin, padding, end))
        assert (answer["id"], answer["error"]["code"]) == ("mine", -32600)
        assert why in answer["error"]["message"]
        assert "result" in await raw.ask(id=2, method="ptyctl_session", params={"action": "list"})


async def test_id_of_running_call_is_rejected_until_it_ends(raw: Raw) -> None:
    await raw.say(json.dumps(GOOD).encode())
    opened = await raw.ask(id=1, method="ptyctl_session", params={"action": "open", "protocol": "local", "command": ["cat"]})
    session = {"session_id": opened["result"]["reply"]["session_id"]}
    wait = {**session, "action": "read", "until_regex": "never", "timeout_ms": 20_000}
    raw.writer.write(json.dumps({"id": 7, "method": "ptyctl_session_io", "params": wait}).encode() + b"\n")
    again = await raw.ask(id=7, method="ptyctl_session", params={"action": "list"})
    assert (again["id"], again["error"]["code"]) == (7, -32600)
    raw.writer.write(b'{"method": "cancel", "params": {"id": 7}}\n')
    listed = await raw.ask(id=8, method="ptyctl_session", params={"action": "list"})
    assert listed["id"] == 8
    assert "result" in await raw.ask(id=7, method="ptyctl_session", params={"action": "list"})


async def test_handshake_with_invalid_environment_is_rejected(connect_raw: Callable[[], Awaitable[Raw]]) -> None:
    for env in ({"A=B": "x"}, {"": "x"}, {"A": "x\0y"}):
        raw = await connect_raw()
        answer = await raw.say(json.dumps({**GOOD, "env": env}).encode())
        assert answer["ok"] is False
        assert "an object of strings" in answer["message"]


async def test_client_that_does_not_read_is_throttled(raw: Raw, runtime_dir: RuntimeDir) -> None:
    """Unsent replies are bounded: no further call is read while earlier replies wait."""
    await raw.say(json.dumps(GOOD).encode())
    link = socket.socket(socket.AF_UNIX)
    link.connect(str(runtime_dir.socket))
    link.sendall(json.dumps(GOOD).encode() + b"\n")
    link.settimeout(2)
    asked = json.dumps({"id": 1, "method": "x" * 30_000}).encode() + b" " * 30_000 + b"\n"
    sent = 0
    with suppress(TimeoutError):
        while sent < 200 << 20:
            await asyncio.sleep(0)
            link.sendall(asked)
            sent += len(asked)
    assert sent < 64 << 20
    assert "result" in await raw.ask(id=2, method="ptyctl_session", params={"action": "list"})  # other clients are served
    link.close()


async def test_request_beyond_limit_raises_in_client(runtime_dir: RuntimeDir) -> None:
    async with await RemoteController.connect(runtime_dir) as controller:
        handle = await SessionHandle.open(controller, protocol="local", command=("cat",))
        with pytest.raises(PtyctlError, match="longer than") as caught:
            await handle.write("x" * json_lines.MAX_LINE_BYTES)
        assert caught.value.hint == "split it into several requests"
        with pytest.raises(PtyctlError, match="outside its strings"):
            await SessionHandle.open(controller, protocol="local", command=("",) * json_lines.MAX_STRUCTURE_BYTES)
        assert (await handle.status()).state == "open"


def test_peer_that_is_no_daemon_raises_handshake_error() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"220 mail.example\n")
        with pytest.raises(DaemonError, match="no ptyctl daemon"):
            exchange_hello(ours, hello_line("rpc"))

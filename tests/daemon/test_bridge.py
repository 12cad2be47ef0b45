"""The bridge of containers to the host's terminals: proof, limits, principals, and lost connections."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.programs import free_port, require_program
from ptyctl.api.session import SessionReply, SessionRequest
from ptyctl.cli.terminal_preflight import check
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.core import json_lines
from ptyctl.daemon import bridge
from ptyctl.daemon.bridge import BridgeServer, ListenError, Streams, bridge_principal, open_listener
from ptyctl.daemon.rpc import RpcConnection
from ptyctl.session.clients import user
from ptyctl.terminal.adapters.base import ConnectInput
from ptyctl.terminal.adapters.container_bridge import ContainerBridgeAdapter
from ptyctl.terminal.adapters.rpc_adapter import RuntimeStreams, exchange
from ptyctl.terminal.errors import TerminalError
from ptyctl.terminal.handshake import MAX_MESSAGE_BYTES, ClientHandshake, HandshakeError
from ptyctl.terminal.runtime_mode import BridgeSettings
from ptyctl.terminal.service import ServiceState, TerminalService

pytestmark = pytest.mark.waits

TOKEN, WRONG = "t" * 43, "w" * 43
NAME = bridge_principal(TOKEN).name
WHAT = ConnectInput("trace_t")
HEADLESS = {"mode": "headless", "intent": "execute_command"}
INTERACTIVE = {"mode": "interactive", "intent": "execute_command"}


class Host:
    """A daemon in this process, and its bridge.

    Attributes:
        controller: of the daemon, as its web console has it.
        rows: those of the audit log.
        calls: the messages that the daemon has got.
        drop: if set, the bridge is stopped at the next call with this text.
    """

    def __init__(self, controller: LocalController) -> None:
        self.controller = AccessController(controller)
        self.rows: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.port = free_port()  # the system gives it to no one else while the bridge is stopped
        self.drop = ""
        self._serving: asyncio.Task[None] | None = None
        self._daemons: set[asyncio.Task[None]] = set()

    async def start(self, **options: Any) -> None:
        listener = open_listener(f"127.0.0.1:{self.port}")
        server = BridgeServer(TOKEN, self._connect, self._record, **options)
        self._serving = asyncio.create_task(server.serve(listener))
        await asyncio.sleep(0)

    async def stop(self) -> None:
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)

    def cancel(self) -> None:
        """Stop the bridge without waiting for that."""
        assert self._serving is not None
        self._serving.cancel()

    async def close(self) -> None:
        await self.stop()
        await asyncio.gather(*self._daemons)

    async def open_as_user(self) -> SessionReply:
        return await self.controller.session(SessionRequest(action="open", protocol="local"))

    def refusals(self) -> list[str]:
        return [row["why"] for row in self.rows if row["event"] == "refused"]

    def _record(self, event: str, **fields: Any) -> None:
        self.rows.append({"event": event, **fields})

    async def _connect(self) -> Streams:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=theirs, limit=json_lines.MAX_LINE_BYTES)
        watched: Any = _DroppingReader(reader, self)
        task = asyncio.create_task(RpcConnection(self.controller, watched, writer, user()).run())
        self._daemons.add(task)
        task.add_done_callback(lambda _: writer.close())
        return Streams(*await asyncio.open_unix_connection(sock=ours))


class _DroppingReader:
    """The daemon's input; at a line with the text `host.drop` the bridge is stopped, after the daemon has got the line."""

    def __init__(self, reader: asyncio.StreamReader, host: Host) -> None:
        self._reader, self._host = reader, host

    async def readuntil(self, separator: bytes) -> bytes:
        line = await self._reader.readuntil(separator)
        self._host.calls.append(json.loads(line))
        if self._host.drop and self._host.drop.encode() in line:
            asyncio.get_running_loop().call_soon(self._host.cancel)
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


@pytest.fixture
async def host(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    monkeypatch.setenv("SHELL", require_program("bash", "bash"))
    async with LocalController() as controller:
        host = Host(controller)
        await host.start()
        yield host
        await host.close()


def settings(port: int, token: str = TOKEN, **fields: Any) -> BridgeSettings:
    return BridgeSettings(("127.0.0.1",), port, token, 20_000, 20_000)._replace(**fields)


@asynccontextmanager
async def service(host: Host, **variables: str) -> AsyncIterator[Callable[..., Awaitable[dict[str, Any]]]]:
    """Yield a function that makes a request of the contract in a container."""
    environment = {"PM_RUNNING_IN_CONTAINER": "true", "PM_INTERACTIVE_TERMINAL_TOKEN": TOKEN}
    values = {"HOST_ALIAS": "127.0.0.1", "HOST_PORT": str(host.port), "CONNECT_TIMEOUT_MS": "20000", **variables}
    environment |= {f"PM_INTERACTIVE_TERMINAL_{name}": value for name, value in values.items()}
    state = ServiceState()
    nothing: Any = None
    served = TerminalService(nothing, state, environment, "me", others_allowed=True)

    async def call(action: str, **fields: Any) -> dict[str, Any]:
        correlation = {"trace_id": "trace_t", "request_id": "req_t"}
        response = await served.handle({"action": action, "correlation": correlation, **fields})
        assert response["correlation"] == correlation
        assert response["success"] == ("fallback" not in response)
        return response

    yield call
    await state.runtimes.close()


@asynccontextmanager
async def proven(host: Host) -> AsyncIterator[RuntimeStreams]:
    """Yield a connection after its handshake."""
    streams = RuntimeStreams(*await asyncio.open_connection("127.0.0.1", host.port), "host")
    await exchange(streams, ClientHandshake("trace_t", TOKEN))
    yield streams
    streams.writer.close()
    with suppress(OSError):
        await streams.writer.wait_closed()


@asynccontextmanager
async def peer(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[int]:
    """Yield the port of a server that is no bridge."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def open_unproven(host: Host, count: int) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open connections that have been asked for their proof."""
    opened = [await asyncio.open_connection("127.0.0.1", host.port) for _ in range(count)]
    for _, writer in opened:
        writer.write(ClientHandshake("t", TOKEN).hello())
    answers = await asyncio.gather(*(reader.readline() for reader, _ in opened))
    assert all(b"challenge" in answer for answer in answers)
    return opened


async def failure(adapter: ContainerBridgeAdapter) -> TerminalError:
    with pytest.raises(TerminalError) as error:
        await adapter.connect(WHAT)
    await adapter.close()
    return error.value


async def ask(streams: RuntimeStreams, **message: Any) -> dict[str, Any]:
    streams.writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    return dict(json.loads(await streams.reader.readline()))


async def test_container_runs_a_command_in_a_terminal_that_the_host_sees(host: Host) -> None:
    async with service(host) as call:
        sent = await call("execute", invocation=INTERACTIVE, execution={"command": "echo on the $((40 + 2))", "name": "x"})
        assert (sent["status"], sent["result"]["stdout"]) == ("completed", "on the 42\n")
        (entry,) = (await host.controller.session(SessionRequest(action="list", details=True))).sessions or []
        assert (entry.session_id, entry.opened_by) == (sent["identity"]["session_id"], NAME)
        assert entry.terminal is not None
        assert entry.terminal.runtime_session_id == host.rows[0]["runtime_session_id"]
        assert (await call("terminate", target={"terminal_id": sent["identity"]["terminal_id"]}))["success"]
        assert (await call("list"))["result"]["items"] == []
    assert {(message["trace_id"], message["principal"]["name"]) for message in host.calls} == {("trace_t", NAME)}


async def test_audit_log_has_connections_with_their_trace_id_and_no_token(host: Host) -> None:
    adapter = ContainerBridgeAdapter(settings(host.port))
    result = await adapter.connect(WHAT)
    await adapter.close()
    assert (await failure(ContainerBridgeAdapter(settings(host.port, WRONG)))).code == "PM_TERM_DISCONNECTED"
    await host.close()
    fields = {"principal": NAME, "via": "bridge", "address": "127.0.0.1", "trace_id": "trace_t"}
    fields["runtime_session_id"] = result.runtime_session_id
    refused = {"event": "refused", "via": "bridge", "address": "127.0.0.1", "why": "the token is not that of this bridge"}
    rows = [{"event": "connect", **fields}, {"event": "disconnect", **fields}, refused]
    assert sorted(map(repr, host.rows)) == sorted(map(repr, rows))
    assert not {TOKEN, WRONG} & set(repr(host.rows))


async def test_command_does_not_inherit_the_token(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PM_INTERACTIVE_TERMINAL_TOKEN", TOKEN)
    async with service(host) as call:
        execution = {"command": "echo [$PM_INTERACTIVE_TERMINAL_TOKEN]"}
        ran = await call("execute", invocation=HEADLESS, execution=execution, runtime={"timeout_ms": 50_000})
    assert ran["result"]["stdout"] == "[]\n"


async def test_client_is_an_operator_whatever_it_claims(host: Host) -> None:
    admin = {"name": user().name, "kind": "person", "role": "admin", "devices": []}
    async with proven(host) as streams:
        opened = await ask(
            streams, id=1, method="ptyctl_session", principal=admin, params={"action": "open", "protocol": "local"}
        )
        assert opened["result"]["reply"]["session_id"]
        (entry,) = (await host.controller.session(SessionRequest(action="list"))).sessions or []
        assert entry.opened_by == NAME
        remove = {"action": "close", "session_id": (await host.open_as_user()).session_id}
        closed = await ask(streams, id=2, method="ptyctl_session", principal=admin, params=remove)
        assert closed["error"]["data"]["error_code"] == "FORBIDDEN"


@pytest.mark.parametrize("method", ["approvals", "audit", "gc", "notify", "policy", "watch", "web", "nonsense"])
async def test_method_that_sessions_do_not_need_is_refused(host: Host, method: str) -> None:
    async with proven(host) as streams:
        answer = await ask(streams, id=3, method=method, params={"action": "approve", "via": "elicitation"})
        assert (answer["id"], answer["error"]["code"]) == (3, -32601)


@pytest.mark.parametrize("line", [b"nonsense\n", b"[]\n", b'{"id": 1}\n'])
async def test_line_that_is_no_request_is_answered_and_not_relayed(host: Host, line: bytes) -> None:
    async with proven(host) as streams:
        streams.writer.write(line)
        assert json.loads(await streams.reader.readline())["error"]["code"] == -32600
        assert (await ask(streams, id=2, method="ptyctl_session", params={"action": "list"}))["result"]


async def test_line_that_is_too_long_ends_the_connection(host: Host) -> None:
    async with proven(host) as streams:
        streams.writer.write(b"x" * (json_lines.MAX_LINE_BYTES + 1) + b"\n")
        assert json.loads(await streams.reader.readline())["error"]["code"] == -32600
        assert await streams.reader.read() == b""


async def test_client_without_proof_is_refused_after_a_time_limit(host: Host) -> None:
    await host.stop()
    await host.start(proof_timeout_s=2)
    reader, writer = await asyncio.open_connection("127.0.0.1", host.port)
    writer.write(ClientHandshake("t", TOKEN).hello())
    challenge, refusal = await reader.readline(), await reader.read()
    assert (json.loads(challenge).keys(), json.loads(refusal)["ready"]) == ({"challenge"}, False)
    writer.close()
    assert host.refusals() == ["the handshake was not finished in time"]


async def test_address_with_many_failures_has_a_smaller_quota_and_can_prove_the_token(host: Host) -> None:
    wrong = ContainerBridgeAdapter(settings(host.port, WRONG))
    for _ in range(bridge.MAX_FAILURES):
        assert (await failure(wrong)).details["spawn_errors"][0]["reason"] == "proof"
    adapter = ContainerBridgeAdapter(settings(host.port))
    assert (await adapter.connect(WHAT)).protocol_version == 1
    await adapter.close()
    opened = await open_unproven(host, bridge.MAX_UNPROVEN_AFTER_FAILURES)
    error = await failure(ContainerBridgeAdapter(settings(host.port)))
    assert (error.code, error.details["spawn_errors"][0]["reason"]) == ("PM_TERM_GUI_UNAVAILABLE", "limit")
    for _, writer in opened:
        writer.close()


async def test_connection_closed_before_its_first_byte_is_no_failure(host: Host) -> None:
    for _ in range(bridge.MAX_FAILURES):
        reader, writer = await asyncio.open_connection("127.0.0.1", host.port)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
    opened = await open_unproven(host, bridge.MAX_UNPROVEN_AFTER_FAILURES + 1)
    assert host.refusals() == []
    for _, writer in opened:
        writer.close()


async def test_client_that_waits_for_the_daemon_is_not_counted_as_unproven(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    await host.stop()
    connect, waiting, answered = host._connect, asyncio.Semaphore(0), asyncio.Event()

    async def stalled() -> Streams:
        waiting.release()
        await answered.wait()
        return await connect()

    monkeypatch.setattr(host, "_connect", stalled)
    monkeypatch.setattr(bridge, "MAX_UNPROVEN", 1)
    await host.start(daemon_timeout_s=30)
    adapters = [ContainerBridgeAdapter(settings(host.port)) for _ in range(2)]
    connecting = []
    for adapter in adapters:
        connecting.append(asyncio.create_task(adapter.connect(WHAT)))
        await asyncio.wait([asyncio.create_task(waiting.acquire()), connecting[-1]], return_when="FIRST_COMPLETED")
    answered.set()
    assert [result.protocol_version for result in await asyncio.gather(*connecting)] == [1, 1]
    for adapter in adapters:
        await adapter.close()


async def test_daemon_that_does_not_answer_is_unavailable(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    await host.stop()
    monkeypatch.setattr(host, "_connect", asyncio.Event().wait)
    await host.start(daemon_timeout_s=0.01)
    error = await failure(ContainerBridgeAdapter(settings(host.port)))
    assert error.details["spawn_errors"][0]["reason"] == "unavailable"


async def test_peer_that_resets_the_connection_is_ignored(host: Host) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", host.port)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    async with proven(host):
        assert [row["event"] for row in host.rows] == ["connect"]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"x" * MAX_MESSAGE_BYTES, "a line of the handshake has more than 4096 bytes"),
        (ClientHandshake("t", TOKEN).hello() + b"{}", "the client sends more than one message of the handshake"),
    ],
    ids=["long line", "second message"],
)
async def test_client_without_proof_is_read_up_to_one_message(host: Host, sent: bytes, why: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", host.port)
    writer.write(sent)
    refusal = json.loads(await reader.read())
    assert (refusal["ready"], refusal["message"]) == (False, why)
    assert host.refusals() == [why]
    writer.close()


async def test_refused_client_that_stays_connected_takes_no_place(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "MAX_CONNECTIONS", 1)
    monkeypatch.setattr(bridge, "_REFUSAL_S", 60.0)
    reader, writer = await asyncio.open_connection("127.0.0.1", host.port)
    writer.write(b"no handshake\n")
    assert json.loads(await reader.read())["ready"] is False
    async with proven(host):
        assert len(host.rows) == 2
    writer.close()


async def test_connections_before_their_proof_are_limited(host: Host) -> None:
    opened = await open_unproven(host, bridge.MAX_UNPROVEN)
    error = await failure(ContainerBridgeAdapter(settings(host.port)))
    assert error.details["spawn_errors"][0]["reason"] == "limit"
    for _, writer in opened:
        writer.close()


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0:0",
        "[::]:0",
        "[::ffff:0.0.0.0]:0",
        "::ffff:0.0.0.0:0",
        "host:1",
        "127.0.0.1",
        "127.0.0.1:x",
        "127.0.0.1:65536",
        "",
    ],
)
def test_listening_address_that_is_not_one_address_is_refused(text: str) -> None:
    with pytest.raises(ListenError, match="--listen"):
        open_listener(text)


def test_all_addresses_need_an_explicit_option() -> None:
    with open_listener("0.0.0.0:0", all_addresses=True) as listener:
        assert listener.getsockname()[0] == "0.0.0.0"


# Sections 7.1 and 7.3 of the contract


@pytest.mark.parametrize("row", ["spec-7.1-10 spec-7.3-9"])
async def test_host_that_refuses_is_gui_unavailable_with_all_aliases(row: str) -> None:
    port = free_port()
    error = await failure(ContainerBridgeAdapter(settings(port, hosts=("127.0.0.1", "bad..name", "127.0.0.2"))))
    assert error.code == "PM_TERM_GUI_UNAVAILABLE"
    assert error.details["attempted_candidates"] == [f"127.0.0.1:{port}", f"bad..name:{port}", f"127.0.0.2:{port}"]
    assert "ptyctl bridge" in error.details["next_action"]


@pytest.mark.parametrize("row", ["spec-7.1-2 spec-7.1-6"])
async def test_second_alias_is_used_if_the_first_refuses(host: Host, row: str) -> None:
    adapter = ContainerBridgeAdapter(settings(host.port, hosts=("127.0.0.9", "127.0.0.1")))
    assert (await adapter.connect(WHAT)).source == f"127.0.0.1:{host.port}"
    await adapter.close()


async def _silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def _closing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.readline()


async def _older(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.write(HandshakeError("version", "the peer speaks version 1, and this side version 0").encode())


async def _http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def _without_token(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    hello = json.loads(await reader.readline())
    ready = {"ready": True, "protocol": hello["protocol"], "version": 1, "trace_id": hello["trace_id"]}
    writer.write(json.dumps({**ready, "runtime_session_id": "rt_" + "0" * 32, "proof": "0" * 64}).encode() + b"\n")


@pytest.mark.parametrize(
    ("serve", "code", "reason"),
    [
        pytest.param(_silent, "PM_TERM_TIMEOUT", "timeout", id="spec-7.1-7 spec-7.1-9 slow bridge"),
        pytest.param(_closing, "PM_TERM_DISCONNECTED", "protocol", id="spec-7.1-9 bridge that closes"),
        pytest.param(_older, "PM_TERM_DISCONNECTED", "version", id="spec-7.1-8 bridge of another version"),
        pytest.param(_http, "PM_TERM_DISCONNECTED", "protocol", id="another protocol"),
        pytest.param(_without_token, "PM_TERM_DISCONNECTED", "proof", id="bridge that does not know the token"),
    ],
)
async def test_failed_handshake_is_classified(serve: Any, code: str, reason: str) -> None:
    async with peer(serve) as port:
        error = await failure(
            ContainerBridgeAdapter(settings(port, connect_timeout_ms=2_000 if reason == "timeout" else 20_000))
        )
    assert error.code == code
    assert [entry["reason"] for entry in error.details["spawn_errors"]] == [reason]
    assert (error.details["attempted_candidates"], error.details["delivery"]) == ([f"127.0.0.1:{port}"], "not_sent")


async def test_handshake_that_is_cancelled_closes_the_connection() -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readline()
        asked.set()
        await reader.read()
        closed.set()

    async with peer(serve) as port:
        connecting = asyncio.create_task(ContainerBridgeAdapter(settings(port)).connect(WHAT))
        await asked.wait()
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)
        async with asyncio.timeout(30):
            await closed.wait()


@pytest.mark.parametrize("row", ["spec-7.3-10"])
async def test_bridge_that_stops_in_mid_command_loses_the_connection_and_nothing_runs_twice(
    host: Host, tmp_path: Path, row: str
) -> None:
    marks = tmp_path / "marks"
    async with service(host) as call:
        host.drop = "ptyctl_session_exec"
        command = {"command": f"echo run >>{marks}; echo done", "name": "x"}
        lost = await call("execute", invocation=INTERACTIVE, execution=command)
        assert (lost["error"]["code"], lost["error"]["details"]["delivery"]) == ("PM_TERM_DISCONNECTED", "sent")
        assert lost["fallback"]["can_auto_retry"] is False
        host.drop = ""
        await host.start()
        (item,) = (await call("list"))["result"]["items"]
        assert item["runtime_session_id"] == lost["error"]["details"]["runtime_session_id"]
        target, output = {"session_id": item["session_id"]}, ""
        for _ in range(30):
            read = await call("read_output", target=target, runtime={"timeout_ms": 10_000})
            output += read["result"]["stdout"]
            if not read["result"]["running"]:
                break
        assert output == "done\n"
        repeated = await call("execute", invocation=INTERACTIVE, execution=command)
        assert (repeated["resolved"]["repeated"], repeated["result"]["stdout"]) == (True, "done\n")
        assert repeated["identity"]["terminal_id"] == "term_x"
        assert marks.read_text() == "run\n"
    connects = [row["runtime_session_id"] for row in host.rows if row["event"] == "connect"]
    assert connects == [item["runtime_session_id"]] * 2  # the second connection resumes the runtime session


async def test_connection_that_is_lost_before_the_command_reports_that_it_was_not_sent(host: Host, tmp_path: Path) -> None:
    async with service(host) as call:
        host.drop = '"open"'
        lost = await call("execute", invocation=HEADLESS, execution={"command": f"touch {tmp_path}/ran"})
        assert (lost["error"]["code"], lost["error"]["details"]["delivery"]) == ("PM_TERM_DISCONNECTED", "not_sent")
        host.drop = ""
        await host.start()
        assert (await call("list"))["success"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("row", ["spec-5.1-6"])
async def test_recover_returns_the_terminals_of_the_runtime_session(host: Host, row: str) -> None:
    adapter = ContainerBridgeAdapter(settings(host.port))
    first = await adapter.connect(WHAT)
    for runtime_session_id in (first.runtime_session_id, "rt_" + "0" * 32):
        terminal = {"mode": "interactive", "terminal_id": "t", "runtime_session_id": runtime_session_id}
        await host.controller.session(SessionRequest.of({"action": "open", "protocol": "local", "terminal": terminal}))
    found = await adapter.recover(ConnectInput("trace_2", first.runtime_session_id))
    assert found.connection.runtime_session_id == first.runtime_session_id
    (entry,) = found.sessions
    assert entry.terminal is not None
    assert entry.terminal.runtime_session_id == first.runtime_session_id
    await adapter.close()


async def test_call_that_is_not_answered_is_a_timeout_and_can_have_been_sent(host: Host) -> None:
    adapter = ContainerBridgeAdapter(settings(host.port, request_timeout_ms=200))
    await adapter.connect(WHAT)
    never = asyncio.get_running_loop().create_future()

    async def session(_: SessionRequest) -> Any:
        return await never

    host.controller.session = session  # type: ignore[assignment, method-assign]
    sent = await adapter.send_request("ptyctl_session", SessionRequest(action="list"))
    with pytest.raises(TerminalError) as error:
        await adapter.await_response(sent)
    assert (error.value.code, error.value.details["timeout_ms"]) == ("PM_TERM_TIMEOUT", 200)
    await adapter.close()
    await asyncio.wait([never])  # the call was cancelled


@pytest.mark.parametrize("token", [pytest.param(TOKEN, id="spec-7.2-7"), pytest.param(WRONG, id="wrong token")])
async def test_traces_name_the_steps_and_hold_no_secret(host: Host, caplog: pytest.LogCaptureFixture, token: str) -> None:
    with caplog.at_level(logging.DEBUG):
        async with service(host, TRACE_BRIDGE="1", TOKEN=token) as call:
            await call("execute", invocation=HEADLESS, execution={"command": "echo SECRET"})
    traced = [record.__dict__ for record in caplog.records if record.message == "bridge"]
    assert [(fields["step"], fields["trace_id"]) for fields in traced] == [("connect", "trace_t"), ("handshake", "trace_t")]
    assert token not in repr(traced)
    assert "SECRET" not in repr(traced)


@pytest.mark.parametrize("row", ["spec-5.1-2"])
async def test_health_check_reports_whether_the_daemon_answers(host: Host, row: str) -> None:
    adapter = ContainerBridgeAdapter(settings(host.port))
    assert not (await adapter.health_check()).healthy
    await adapter.connect(WHAT)
    assert (await adapter.health_check()).healthy
    await host.stop()
    assert (await adapter.health_check()).details["code"] == "PM_TERM_DISCONNECTED"
    await adapter.close()


# ptyctl terminal preflight


def container(port: int, **variables: str) -> dict[str, str]:
    values = {
        "TOKEN": TOKEN,
        "HOST_ALIAS": "127.0.0.1",
        "HOST_FALLBACK_ALIAS": "127.0.0.2",
        "HOST_PORT": str(port),
        **variables,
    }
    return {f"PM_INTERACTIVE_TERMINAL_{name}": value for name, value in values.items()}


@pytest.mark.parametrize("row", ["spec-9.5-3"])
async def test_preflight_is_ready_if_the_bridge_listens_and_opens_nothing(host: Host, row: str) -> None:
    result = await check("container_bridge", container(host.port, CONNECT_TIMEOUT_MS="20000"))
    assert (result["ready"], result["error"]) == (True, None)
    assert [line["check"] for line in result["checks"]] == ["mode", "variables", "handshake", "health"]
    assert (await host.controller.session(SessionRequest(action="list"))).sessions == []


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        pytest.param({"TOKEN": ""}, "PM_TERM_INVALID_MODE", id="spec-9.4-5 no token"),
        pytest.param({"HOST_PORT": "x"}, "PM_TERM_INVALID_MODE", id="spec-9.4-5 invalid port"),
        pytest.param({}, "PM_TERM_GUI_UNAVAILABLE", id="spec-9.4-6"),
    ],
)
async def test_preflight_reports_what_is_not_ready(variables: dict[str, str], code: str) -> None:
    result = await check("container_bridge", container(free_port(), **variables))
    assert (result["ready"], result["error"]["code"]) == (False, code)
    assert result["fallback"]["strategy"]
    assert TOKEN not in repr(result)

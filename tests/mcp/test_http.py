"""The streamable HTTP transport: clients of both protocol generations, access control and shutdown."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent
from mcp_types.version import LATEST_MODERN_VERSION

from fixtures.http_client import loopback_client
from ptyctl.api import SessionRequest
from ptyctl.core.json_lines import MAX_LINE_BYTES, MAX_STRUCTURE_BYTES
from tests.mcp.http_server import TOKEN, http_client, http_server
from tests.mcp.progress_log import ProgressLog
from tests.mcp.server_process import PATIENCE_S
from tests.mcp.stub_controller import StubController

ERAS = ["legacy", LATEST_MODERN_VERSION, "auto"]
EXEC = "ptyctl_session_exec"
CALL = {"session_id": "s", "cmd": "echo hi"}
HANG = {"session_id": "s", "cmd": "hang"}
ACCEPT = {"Accept": "application/json, text/event-stream"}
BEARER = {"Authorization": f"Bearer {TOKEN}"}
META = {"io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION, "io.modelcontextprotocol/clientCapabilities": {}}


def by_hand(method: str, params: dict[str, Any], **headers: str) -> tuple[dict[str, str], dict[str, Any]]:
    return {**ACCEPT, **headers}, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def modern(method: str, params: dict[str, Any], name: str = "") -> tuple[dict[str, str], dict[str, Any]]:
    headers = {"MCP-Protocol-Version": LATEST_MODERN_VERSION, "Mcp-Method": method, **({"Mcp-Name": name} if name else {})}
    return by_hand(method, {**params, "_meta": META}, **headers)


#: First request of a client of each protocol generation.
OPENINGS = {
    "2025": by_hand(
        "initialize",
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}},
    ),
    "2026": modern("server/discover", {}),
}


@pytest.mark.parametrize("mode", ERAS)
async def test_sdk_client_of_each_revision_can_call_tools(mode: str) -> None:
    progress = ProgressLog()
    async with http_server(StubController()) as url, http_client(url, mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else LATEST_MODERN_VERSION)
        assert len((await client.list_tools()).tools) == 4
        assert (await client.call_tool(EXEC, CALL)).structured_content["stdout"] == "hi"
        refused = await client.call_tool(EXEC, {"session_id": "s", "cmd": "fail LOCK_LOST"})
        assert (refused.is_error, refused.structured_content["error_code"]) == (True, "LOCK_LOST")
        call = {"session_id": "s", "cmd": "progress 0.5 1.5 1.6 2.7 2.8 4"}
        assert (await client.call_tool(EXEC, call, progress_callback=progress)).structured_content["stdout"] == "told"
    progress.check()


@pytest.mark.parametrize("mode", ERAS)
async def test_large_reply_is_repeated_as_text_to_2025_clients_only(mode: str) -> None:
    sent = 0

    async def count(response: httpx2.Response) -> None:
        nonlocal sent
        sent += len(await response.aread())

    async with (
        http_server(StubController()) as url,
        loopback_client(headers=BEARER, timeout=PATIENCE_S, event_hooks={"response": [count]}) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, read_timeout_seconds=PATIENCE_S) as client,
    ):
        before = sent
        result = await client.call_tool(EXEC, {**CALL, "cmd": "big 20000"})
        output, size = "x" * 20_000, sent - before
        assert result.structured_content["stdout"] == output
        (text,) = [part.text for part in result.content if isinstance(part, TextContent)]
        assert (output in text, size > 40_000) == (mode == "legacy", mode == "legacy")
        assert size > 20_000


async def test_clients_share_one_controller() -> None:
    controller = StubController()
    async with http_server(controller) as url, http_client(url, "legacy") as old, http_client(url, "auto") as new:
        clients = [old, new, old, new]
        opened = [await client.call_tool("ptyctl_session", {"action": "list"}) for client in clients]
        assert [reply.structured_content["message"] for reply in opened] == [f"call {n}" for n in (1, 2, 3, 4)]
    assert all(isinstance(request, SessionRequest) for request in controller.requests)
    assert not controller.closed  # its creator closes it


async def test_calls_of_all_clients_run_concurrently() -> None:
    controller = StubController()
    async with http_server(controller) as url, http_client(url, "legacy") as old, http_client(url, "auto") as new:
        hanging = asyncio.create_task(old.call_tool(EXEC, HANG))
        await asyncio.wait_for(controller.hanging.wait(), PATIENCE_S)
        assert (await new.call_tool(EXEC, CALL)).structured_content["stdout"] == "hi"
        assert (await old.call_tool(EXEC, CALL)).structured_content["stdout"] == "hi"
        controller.released.set()
        assert not (await hanging).is_error


@pytest.mark.parametrize("mode", ["legacy", LATEST_MODERN_VERSION])
async def test_call_cancelled_by_client_is_cancelled_in_controller(mode: str) -> None:
    controller = StubController()
    async with http_server(controller) as url, http_client(url, mode) as client:
        call = asyncio.create_task(client.call_tool(EXEC, HANG))
        await asyncio.wait_for(controller.hanging.wait(), PATIENCE_S)
        call.cancel()
        await asyncio.wait_for(controller.cancelled.wait(), PATIENCE_S)
        assert (await client.call_tool(EXEC, CALL)).structured_content["stdout"] == "hi"


async def posted(url: str, request: tuple[dict[str, str], dict[str, Any]], **headers: str) -> httpx2.Response:
    own, body = request
    async with loopback_client(timeout=PATIENCE_S) as http:
        return await http.post(url, json=body, headers={**own, **headers})


async def test_connection_lost_during_call_cancels_it_and_server_continues() -> None:
    """The connection is cut without a cancel notification, as when the client's machine goes down."""
    controller = StubController()
    async with http_server(controller) as url:
        call = modern("tools/call", {"name": EXEC, "arguments": HANG}, EXEC)
        posting = asyncio.create_task(posted(url, call, **BEARER))
        await asyncio.wait_for(controller.hanging.wait(), PATIENCE_S)
        posting.cancel()
        await asyncio.wait_for(controller.cancelled.wait(), PATIENCE_S)
        async with http_client(url, "auto") as client:
            assert (await client.call_tool(EXEC, CALL)).structured_content["stdout"] == "hi"


async def test_connection_of_2025_client_lost_during_call_leaves_it_running(caplog: pytest.LogCaptureFixture) -> None:
    """In this revision a lost connection cancels nothing; the server drops the reply."""
    controller = StubController()
    async with http_server(controller) as url:
        session = {"Mcp-Session-Id": (await posted(url, OPENINGS["2025"], **BEARER)).headers["Mcp-Session-Id"]}
        call = by_hand("tools/call", {"name": EXEC, "arguments": HANG})
        posting = asyncio.create_task(posted(url, call, **BEARER, **session))
        await asyncio.wait_for(controller.hanging.wait(), PATIENCE_S)
        posting.cancel()
        await asyncio.gather(posting, return_exceptions=True)
        controller.released.set()
        answer = await posted(url, by_hand("tools/call", {"name": EXEC, "arguments": CALL}), **BEARER, **session)
        assert '"stdout":"hi"' in answer.text
    assert not controller.cancelled.is_set()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


RESUMABLE = {"MCP-Protocol-Version": "2025-11-25"}


async def resumable_session(url: str) -> dict[str, str]:
    """Begin a session of the revision that can resume streams; return its headers."""
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}
    opened = await posted(url, by_hand("initialize", client), **BEARER)
    assert events(opened.text)[0] == {"id": "1", "retry": "1000", "data": ""}
    return {**ACCEPT, **BEARER, **RESUMABLE, "Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}


def events(text: str) -> list[dict[str, str]]:
    """Return the server-sent events of a stream."""
    blocks = [block for block in text.replace("\r\n", "\n").split("\n\n") if block]
    return [{name: value for name, _, value in (line.partition(": ") for line in block.splitlines())} for block in blocks]


async def test_events_have_ids_and_first_one_has_retry() -> None:
    async with http_server(StubController()) as url:
        session = await resumable_session(url)
        answer = await posted(url, by_hand("tools/call", {"name": EXEC, "arguments": CALL}), **session)
        first, reply = events(answer.text)
        assert first["retry"] == "1000"
        assert int(reply["id"]) > int(first["id"])
        assert '"stdout":"hi"' in reply["data"]


async def test_events_of_modern_revision_have_ids_and_first_one_has_retry() -> None:
    """A reply without progress is no stream but one JSON object."""
    arguments = {"session_id": "s", "cmd": "progress 0.5 1.5 2.7 4"}
    headers, body = modern("tools/call", {"name": EXEC, "arguments": arguments}, EXEC)
    body["params"]["_meta"] = {**META, "progressToken": "t"}
    async with http_server(StubController()) as url:
        answer = await posted(url, (headers, body), **BEARER)
        sent = events(answer.text)
    assert [event["id"] for event in sent] == [str(number) for number in range(1, len(sent) + 1)]
    assert [event.get("retry") for event in sent] == ["1000", *[None] * (len(sent) - 1)]
    assert '"stdout":"told"' in sent[-1]["data"]


async def test_client_that_lost_its_stream_gets_the_reply() -> None:
    controller = StubController()
    async with http_server(controller) as url, loopback_client(timeout=PATIENCE_S) as http:
        session = await resumable_session(url)
        other = await resumable_session(url)
        headers, body = by_hand("tools/call", {"name": EXEC, "arguments": HANG})
        async with http.stream("POST", url, json=body, headers={**headers, **session}) as lost:
            async for line in lost.aiter_lines():
                if line.startswith("id: "):
                    break
        await asyncio.wait_for(controller.hanging.wait(), PATIENCE_S)
        called = await posted(url, by_hand("tools/call", {"name": EXEC, "arguments": CALL}), **other)  # the same request id
        assert '"stdout":"hi"' in called.text
        controller.released.set()
        async with http.stream("GET", url, headers={**session, "Last-Event-ID": line.removeprefix("id: ")}) as resumed:
            async for line in resumed.aiter_lines():
                if line.startswith("data: {"):
                    assert '"structuredContent"' in line
                    assert '"stdout":"hi"' not in line
                    break


@pytest.mark.parametrize("era", OPENINGS)
async def test_guard_rejects_clients_of_both_revisions(era: str) -> None:
    async with http_server(StubController()) as url:
        opening = OPENINGS[era]
        assert (await posted(url, opening, **BEARER)).status_code == 200
        nothing = await posted(url, opening)
        assert (nothing.status_code, nothing.headers["WWW-Authenticate"]) == (401, 'Bearer realm="ptyctl"')
        assert (await posted(url, opening, Authorization="Bearer wrong")).status_code == 401
        assert (await posted(url, opening, **BEARER, Host="evil.example")).status_code == 403
        assert (await posted(url, opening, **BEARER, Origin="http://evil.example")).status_code == 403


async def test_other_methods_paths_and_large_bodies_are_rejected() -> None:
    async with http_server(StubController()) as url, loopback_client(timeout=PATIENCE_S) as http:
        for method in ("GET", "DELETE", "OPTIONS", "PUT"):
            assert (await http.request(method, url)).status_code == 401
            assert (await http.request(method, url, headers=BEARER)).status_code in {400, 405, 406}
        for path in ("/", "/mcp/", "/sse"):
            elsewhere = url.removesuffix("/mcp") + path
            assert (await http.get(elsewhere)).status_code == 401
            assert (await http.get(elsewhere, headers=BEARER)).status_code == 404
        large = await http.post(url, content=b"x" * (MAX_LINE_BYTES + 1), headers={**ACCEPT, **BEARER})
        assert large.status_code == 413


@pytest.mark.parametrize("era", OPENINGS)
@pytest.mark.parametrize("value", ["9" * 5000, "[" * 300 + "]" * 300, "[" * 9000 + "]" * 9000, '"\\ud800"', "nonsense"])
async def test_request_that_cannot_be_parsed_is_answered_with_its_id(era: str, value: str) -> None:
    async with http_server(StubController()) as url, loopback_client(timeout=PATIENCE_S) as http:
        headers, _ = OPENINGS[era]
        body = f'{{"method":"tools/call","params":{{"name":"{EXEC}","arguments":{value}}},"jsonrpc":"2.0","id":"mine"}}'
        answer = await http.post(url, content=body, headers={**headers, **BEARER, "Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["id"], answer.json()["error"]["code"]) == (400, "mine", -32700)


@pytest.mark.parametrize("era", OPENINGS)
async def test_request_with_long_structure_is_answered_with_its_id(era: str) -> None:
    async with http_server(StubController()) as url, loopback_client(timeout=PATIENCE_S) as http:
        headers, _ = OPENINGS[era]
        value = "[" + "[]," * MAX_STRUCTURE_BYTES + "[]]"
        body = f'{{"method":"tools/call","params":{{"name":"{EXEC}","arguments":{value}}},"jsonrpc":"2.0","id":"mine"}}'
        answer = await http.post(url, content=body, headers={**headers, **BEARER, "Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["id"], answer.json()["error"]["code"]) == (400, "mine", -32600)
        assert "outside its strings" in answer.json()["error"]["message"]


async def test_request_without_host_returns_403() -> None:
    """HTTP/1.0 allows requests without a Host header."""
    async with http_server(StubController()) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        writer.write(f"POST /mcp HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n\r\n".encode())
        assert (await asyncio.wait_for(reader.readline(), PATIENCE_S)).split()[1] == b"403"
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("mode", ["legacy", LATEST_MODERN_VERSION])
async def test_server_shutdown_cancels_running_calls(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    controller = StubController()
    async with asyncio.timeout(PATIENCE_S), OutlivingClients() as ended:
        async with http_server(controller) as url:
            client = await ended.enter(url, mode)
            call = asyncio.create_task(client.call_tool(EXEC, HANG))
            await asyncio.wait_for(controller.hanging.wait(), PATIENCE_S)
        await asyncio.wait_for(controller.cancelled.wait(), PATIENCE_S)
        with pytest.raises(Exception, match=r"."):  # the SDK's clients raise various errors for a lost server
            await call
    assert [record.getMessage() for record in caplog.records if record.name.startswith(("uvicorn", "ptyctl.http"))] == []


class OutlivingClients:
    """Clients that outlive their server. Errors on closing them are ignored."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._leave = asyncio.Event()

    async def __aenter__(self) -> OutlivingClients:
        return self

    async def enter(self, url: str, mode: str) -> Client:
        entered: asyncio.Future[Client] = asyncio.get_running_loop().create_future()

        async def live() -> None:
            async with http_client(url, mode) as client:
                entered.set_result(client)
                await self._leave.wait()

        self._tasks.append(asyncio.create_task(live()))
        return await entered

    async def __aexit__(self, *_: object) -> None:
        self._leave.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

"""Whole workflows: MCP clients of both protocol eras over stdio and HTTP, and a person who declines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types.version import LATEST_MODERN_VERSION

from fixtures.daemons import daemon_folder
from ptyctl.api.session import SessionRequest
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.session.clients import Client as CallingClient
from ptyctl.session.clients import serving, user_agent
from ptyctl.terminal.adapters import local
from ptyctl.terminal.service import ServiceState, TerminalService
from tests.cli.command_line import start
from tests.controller.local_daemon import served
from tests.daemon.test_bridge import TOKEN, Host
from tests.mcp.http_server import http_client, http_server
from tests.mcp.server_process import PATIENCE_S, client_streams, ptyctl_process
from tests.web.console import console

from .test_error_causes import CORRELATION, FAULT, READY

TOOL = "memory_terminal_interactive"
HEADLESS = {"mode": "headless", "intent": "execute_command"}
INTERACTIVE = {"mode": "interactive", "intent": "execute_command"}
#: A destructive command that does nothing here: the device does not exist.
MKFS = "mkfs.ext4 /dev/nope"
WAIT = {"timeout_ms": 50_000}


@asynccontextmanager
async def mcp_client(transport: str, era: str, controller: LocalController) -> AsyncIterator[Client]:
    """Yield a client of an MCP server with the tool: in this process over HTTP, or another process on a daemon over stdio."""
    access = AccessController(controller)
    if transport == "http":
        async with http_server(access, toolsets="terminal") as url, http_client(url, era) as client:
            yield client
        return
    with daemon_folder() as folder:
        async with served(access, folder):
            running = ptyctl_process("mcp", "--toolsets", "terminal", PTYCTL_RUNTIME_DIR=str(folder))
            async with Client(client_streams(running), mode=era, read_timeout_seconds=PATIENCE_S) as client:
                yield client


@pytest.mark.parametrize("era", ["legacy", LATEST_MODERN_VERSION])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_client_builds_headless_and_works_in_a_terminal(
    transport: str, era: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHELL", "/bin/bash")
    number = 0

    async def call(action: str, **fields: Any) -> dict[str, Any]:
        nonlocal number
        number += 1
        correlation = {"request_id": f"req_{number}", "trace_id": f"trace_{number}"}
        result = await client.call_tool(TOOL, {"action": action, "correlation": correlation, **fields})
        response = result.structured_content
        assert response is not None
        assert (response["error"], response["correlation"]) == (None, correlation)
        return response

    async with LocalController() as controller:
        async with mcp_client(transport, era, controller) as client:
            build = {"command": "sh", "args": ["-c", "echo building; pwd; exit 2"]}
            built = await call("execute", invocation=HEADLESS, execution=build, runtime={"cwd": str(tmp_path), **WAIT})
            assert (built["result"]["stdout"], built["result"]["exit_code"]) == (f"building\n{tmp_path}\n", 2)
            opening = {"mode": "interactive", "intent": "open_only"}
            opened = await call("execute", invocation=opening, execution={"name": "work"})
            assert opened["identity"]["terminal_id"] == "term_work"
            target = {"terminal_id": "term_work"}
            sent = {"command": "echo one; read -r line; echo two"}
            running = await call("execute", invocation=INTERACTIVE, execution=sent, target=target, runtime={"timeout_ms": 300})
            (item,) = (await call("list"))["result"]["items"]
            assert (item["terminal_id"], item["mode"], item["running"]) == ("term_work", "interactive", True)
            output = running["result"]["stdout"]
            while "one\n" not in output:
                output += (await call("read_output", target=target, runtime={"timeout_ms": 300}))["result"]["stdout"]
            await call("terminate", target=target)
            assert (await call("list"))["result"]["items"] == []
        await asyncio.to_thread(controller.audit_log.close)
        rows = [row for row in controller.audit_log._files.rows() if row.get("via") == "exec"]
        assert [row["trace_id"] for row in rows] == ["trace_1", "trace_3"]


async def test_program_of_another_runtime_ends_with_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program ignores the end of its input: only a server that closes its runtimes ends it with SIGTERM."""
    program, ended = tmp_path / "program", tmp_path / "ended"
    steps = f"trap 'echo ended >{ended}; exit' TERM; read -r hello; echo '{READY}'; read -r call; echo '{FAULT}'"
    program.write_text(f"#!/bin/sh\n{steps}\nfor n in $(seq 600); do sleep 0.1; done\n")
    program.chmod(0o755)
    monkeypatch.setenv("PM_INTERACTIVE_TERMINAL_BINARY", str(program))
    monkeypatch.setattr(local, "_EXIT_TIMEOUT_S", PATIENCE_S)  # on a busy machine the program needs longer to exit
    runtime = {"adapter_override": "local", "spawn_timeout_ms": 20_000}
    request = {"action": "list", "correlation": CORRELATION, "runtime": runtime}
    with daemon_folder() as folder:
        async with LocalController() as controller, served(AccessController(controller), folder):
            running = ptyctl_process("mcp", "--toolsets", "terminal", PTYCTL_RUNTIME_DIR=str(folder))
            async with Client(client_streams(running), read_timeout_seconds=PATIENCE_S) as client:
                response = (await client.call_tool(TOOL, request)).structured_content
                assert response is not None
                assert response["error"]["code"] == "PM_TERM_INTERNAL"
    assert ended.read_text() == "ended\n"


@asynccontextmanager
async def agent(controller: LocalController) -> AsyncIterator[Any]:
    """Yield a function that calls the tool as the user's agent."""
    service = TerminalService(AccessController(controller), ServiceState(), {}, user_agent().name)
    with serving(CallingClient(user_agent())):

        async def call(action: str, **fields: Any) -> dict[str, Any]:
            return await service.handle({"action": action, "correlation": {"trace_id": "trace_1"}, **fields})

        yield call


async def test_terminal_of_a_container_is_seen_and_declined_in_the_web_console_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/bash")
    async with console(tmp_path) as server, server.browser() as browser:
        host = Host(server.controller)
        await host.start()
        variables = {
            "PM_RUNNING_IN_CONTAINER": "true",
            "PM_INTERACTIVE_TERMINAL_TOKEN": TOKEN,
            "PM_INTERACTIVE_TERMINAL_HOST_ALIAS": "127.0.0.1",
            "PM_INTERACTIVE_TERMINAL_HOST_PORT": str(host.port),
            "PM_INTERACTIVE_TERMINAL_CONNECT_TIMEOUT_MS": "30000",
        }
        async with LocalController() as of_container:
            state = ServiceState()
            service = TerminalService(of_container, state, variables, "me", others_allowed=True)

            async def call(action: str, **fields: Any) -> dict[str, Any]:
                return await service.handle({"action": action, "correlation": {"trace_id": "trace_1"}, **fields})

            approval_id, target = await held_in_a_terminal(call)
            listed = (await browser.post("/api/call/ptyctl_session", json={"action": "list"})).json()["sessions"]
            assert [session["terminal"]["terminal_id"] for session in listed] == ["term_risky"]
            answer = {"action": "decline", "approval_id": approval_id, "comment": "not on the host"}
            assert (await browser.post("/api/call/approvals", json=answer)).status_code == 200
            await check_declined(call, target, "not on the host")
            assert (await of_container.session(SessionRequest(action="list"))).sessions == []
            await state.runtimes.close()
        await host.close()
        await asyncio.to_thread(server.controller.audit_log.close)
        rows = [row for row in server.controller.audit_log._files.rows() if row["event"] in ("open", "approval")]
        assert {row["trace_id"] for row in rows} == {"trace_1"}


async def held_in_a_terminal(call: Any) -> tuple[str, dict[str, str]]:
    """Send a command that a person must allow; return the approval's id, and the terminal."""
    sent = await call(
        "execute", invocation=INTERACTIVE, execution={"command": MKFS, "name": "risky"}, runtime={"timeout_ms": 0}
    )
    assert (sent["status"], sent["result"]["authorization"]) == ("accepted", None)
    (item,) = (await call("list"))["result"]["items"]
    assert (item["terminal_id"], item["pending_approvals"]) == ("term_risky", 1)
    return sent["result"]["pending_approval"]["approval_id"], {"terminal_id": "term_risky"}


async def check_declined(call: Any, target: dict[str, str], comment: str) -> None:
    for _ in range(2):  # also once it is known
        declined = await call("read_output", target=target, runtime=WAIT)
        assert declined["error"]["code"] == "PM_TERM_DECLINED"
        assert declined["error"]["details"]["comment"] == comment
        assert declined["fallback"]["can_auto_retry"] is False


@pytest.mark.parametrize("row", ["spec-3.1-4"])
async def test_person_sees_a_terminal_and_declines_its_command_with_the_cli(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/bash")
    with daemon_folder() as folder:
        monkeypatch.setenv("PTYCTL_RUNTIME_DIR", str(folder))

        async def ptyctl(*arguments: str) -> str:
            return (await asyncio.to_thread(start(*arguments).communicate))[0]

        async with LocalController() as controller, served(AccessController(controller), folder), agent(controller) as call:
            approval_id, target = await held_in_a_terminal(call)
            assert "term_risky" in await ptyctl("sessions")
            assert MKFS in await ptyctl("approvals")
            await ptyctl("decline", approval_id, "--comment", "wrong disk")
            await check_declined(call, target, "wrong disk")


async def test_person_sees_a_terminal_and_declines_its_command_in_the_web_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/bash")
    async with console(tmp_path) as server, server.browser() as browser, agent(server.controller) as call:
        approval_id, target = await held_in_a_terminal(call)
        listed = (await browser.post("/api/call/ptyctl_session", json={"action": "list"})).json()["sessions"]
        assert [session["terminal"]["terminal_id"] for session in listed] == ["term_risky"]
        answer = {"action": "decline", "approval_id": approval_id, "comment": "wrong disk"}
        assert (await browser.post("/api/call/approvals", json=answer)).status_code == 200
        await check_declined(call, target, "wrong disk")
        await asyncio.to_thread(server.controller.audit_log.close)
        rows = [row for row in server.controller.audit_log._files.rows() if row["event"] == "approval"]
        assert [(row["action"], row["principal"], row["trace_id"]) for row in rows] == [
            ("ask", user_agent().name, "trace_1"),
            ("decline", "alice", "trace_1"),
        ]

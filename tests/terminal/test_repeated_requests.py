"""Repeated requests: nothing is executed twice, wherever the server of the first request is killed."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fixtures.daemons import daemon_folder
from ptyctl.api.exec import ExecRequest
from ptyctl.controller.access import AccessController
from ptyctl.controller.call_memory import DurableCallMemory, repeatable
from ptyctl.controller.local import LocalController
from ptyctl.terminal.adapters.base import AdapterController, BundledAdapter, SentRequest
from ptyctl.terminal.errors import TerminalError, TerminalErrorCode
from ptyctl.terminal.request import CanonicalRequest, repeat_id
from ptyctl.terminal.service import ServiceState, TerminalService
from tests.controller.local_daemon import served

from .killed_server import ROWS, client_killed_at_call, daemon_killed_at_row, request, run_killed

KILLED = -9
EXECUTE = {
    "action": "execute",
    "invocation": {"mode": "headless", "intent": "execute_command"},
    "execution": {"command": "make"},
    "correlation": {"request_id": "r"},
}


async def repeat(controller: Any, command: str) -> dict[str, Any]:
    """Send the request to a new server."""
    return await TerminalService(controller, ServiceState(), {}, "me").handle(request(command))


def delivery(response: dict[str, Any]) -> str | None:
    """Return what the error reports; None of a success."""
    if response["success"]:
        assert response["result"]["stdout"].endswith("ran\n")
        return None
    assert response["error"]["code"] == "PM_TERM_DISCONNECTED"
    assert response["fallback"]["can_auto_retry"] is False
    assert response["correlation"]["trace_id"] == "trace_1"
    return str(response["error"]["details"]["delivery"])


@pytest.mark.parametrize(
    ("row", "after", "runs", "expected"),
    [
        pytest.param(1, False, 1, None, id="before anything"),
        pytest.param(1, True, 0, "unknown", id="before the terminal is opened"),
        pytest.param(2, False, 0, "unknown", id="the terminal is opened"),
        pytest.param(2, True, 1, None, id="the terminal is recorded"),
        pytest.param(3, False, 1, None, id="before the command is recorded"),
        pytest.param(3, True, 0, "unknown", id="before the command"),
        pytest.param(0, True, 1, "unknown", id="in the command"),
        pytest.param(4, False, 1, "unknown", id="after the command"),
        pytest.param(4, True, 1, None, id="the answer is recorded"),
    ],
)
async def test_daemon_that_is_killed_at_a_step_runs_the_command_at_most_once(
    row: int, after: bool, runs: int, expected: str | None, tmp_path: Path
) -> None:
    assert row <= ROWS
    marks = tmp_path / "marks"
    command = f"echo ran >>{marks}; cat {marks}" + ("" if row else "; kill -9 $PPID")
    killed = await asyncio.to_thread(run_killed, partial(daemon_killed_at_row, after=after), command, row)
    assert killed == KILLED
    for _ in range(2):  # and the third request gets the same answer as the second
        async with LocalController(persistent=True) as controller:
            response = await repeat(controller, command)
        assert (response["identity"]["session_id"] is None) == (expected == "unknown" and row in (1, 2))
        assert (delivery(response), marks.read_text().count("ran") if marks.exists() else 0) == (expected, runs)


@pytest.mark.parametrize(
    ("call", "answered", "repeated"),
    [
        pytest.param(1, False, False, id="the terminal is being opened"),
        pytest.param(1, True, False, id="the terminal is opened"),
        pytest.param(2, False, True, id="the command runs"),
        pytest.param(2, True, True, id="the command has ended"),
    ],
)
async def test_mcp_server_that_is_killed_at_a_step_runs_the_command_once(
    call: int, answered: bool, repeated: bool, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    command = f"echo ran >>{marks}; cat {marks}"
    with daemon_folder() as folder:
        async with LocalController() as controller, served(AccessController(controller), folder) as remote:
            kill = partial(client_killed_at_call, answered=answered)
            assert await asyncio.to_thread(run_killed, kill, folder, command, call) == KILLED
            response = await repeat(remote, command)
            assert delivery(response) is None
            assert response["resolved"].get("repeated", False) is repeated
            assert (await repeat(remote, command))["resolved"]["repeated"] is True
            assert controller.entries() == []
    assert marks.read_text() == "ran\n"


async def test_request_that_executed_nothing_is_tried_again(tmp_path: Path) -> None:
    arguments = {**request("true"), "runtime": {"cwd": str(tmp_path / "later"), "timeout_ms": 50_000}}
    async with LocalController(persistent=True) as controller:
        service = TerminalService(controller, ServiceState(), {}, "me")
        assert (await service.handle(arguments))["error"]["code"] == "PM_TERM_INVALID_PAYLOAD"
        (tmp_path / "later").mkdir()
        assert (await service.handle(arguments))["success"]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"correlation": {"request_id": "r", "trace_id": "t"}}, True),
        ({"runtime": {"timeout_ms": 1}}, True),
        ({"runtime": {"cwd": "/"}}, False),
        ({"runtime": {"binary_path": "/bin/x"}}, False),
        ({"execution": {"command": "make test"}}, False),
        ({"correlation": {"request_id": "s"}}, False),
    ],
)
def test_identity_of_a_repeated_request_depends_on_what_is_executed(change: dict[str, Any], same: bool) -> None:
    first, second = (repeat_id("me", CanonicalRequest.model_validate(each)) for each in (EXECUTE, EXECUTE | change))
    assert (first == second) is same


def test_request_of_another_principal_is_another_one() -> None:
    executed = CanonicalRequest.model_validate(EXECUTE)
    assert repeat_id("me", executed) != repeat_id("other", executed)


@pytest.mark.parametrize("change", [{"correlation": {}}, {"action": "list", "invocation": None, "execution": None}])
def test_request_without_an_id_or_a_command_cannot_be_repeated(change: dict[str, Any]) -> None:
    assert repeat_id("me", CanonicalRequest.model_validate(EXECUTE | change)) is None


async def test_command_of_a_runtime_that_remembers_nothing_is_sent_once() -> None:
    sent = 0

    class Forgetful(BundledAdapter):
        remembers_calls = False

        async def send_request(self, method: str, request: Any) -> SentRequest:
            nonlocal sent
            sent += 1
            raise TerminalError(TerminalErrorCode.DISCONNECTED, "lost", {"delivery": "sent"})

    nothing: Any = None
    controller = AdapterController(Forgetful(nothing), DurableCallMemory())
    for _ in range(2):
        with pytest.raises(TerminalError), repeatable("r", durable=True):
            await controller.exec(ExecRequest.of({"session_id": "s", "cmd": "x"}))
    assert sent == 1

"""Random requests on a Controller that fails in every way: each failure is complete, and its fallback is the same each time."""

from __future__ import annotations

import json
from random import Random
from typing import Any, cast

import pytest

from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.session import SessionEntry, SessionReply, SessionRequest, TerminalInfo
from ptyctl.terminal.aliases import ALIASES, CANONICAL_ACTIONS
from ptyctl.terminal.errors import ERROR_KINDS, TerminalErrorCode
from ptyctl.terminal.service import ServiceState, TerminalService

REQUESTS = 1_000
#: What the exception of a bug may say, and no response must.
SECRET = "hunter2 at line 7 of vault.py"
VALUES: dict[str, list[Any]] = {
    "action": [*CANONICAL_ACTIONS * 3, *ALIASES, "spawn", "", 5, None],
    "mode": ["headless", "interactive", "headless", "interactive", "visible", 3],
    "intent": ["execute_command", "execute_command", "open_only", "other"],
    "command": ["ls", "make test", "", "x" * 140_000, None, 7],
    "session_id": ["s", "s", "missing", "", 9],
    "terminal_id": ["term_a", "term_a", "missing"],
    "timeout_ms": [0, 100, -1, "x"],
    "trace_id": ["trace_1", "", "a\nb", {}],
    "request_id": ["req_1", "req_2", None, 3],
    "legacy_action": [None, None, "send", "kill", "spawn"],
    "adapter_override": [None, None, "bundled", "auto", "remote"],
}
VALID: list[dict[str, Any]] = [
    {"action": "execute", "invocation": {"mode": mode, "intent": "execute_command"}, "execution": {"command": "ls"}, **target}
    for mode in ("headless", "interactive")
    for target in ({}, {"target": {"session_id": "s"}})
] + [{"action": action, "target": {"terminal_id": "term_a"}} for action in ("read_output", "terminate", "send")]
PLACES = {
    "invocation": ("mode", "intent"),
    "correlation": ("trace_id", "request_id"),
    "execution": ("command",),
    "target": ("session_id", "terminal_id"),
    "runtime": ("timeout_ms", "adapter_override"),
    "compat": ("legacy_action",),
}


class FailingController:
    """Has one terminal; most calls raise an error of any code, or an exception."""

    def __init__(self, random: Random) -> None:
        self._random = random

    async def session(self, request: SessionRequest) -> SessionReply:
        if request.action != "list" or self._random.random() < 0.2:
            await self._fail()
        terminal = TerminalInfo(mode="interactive", terminal_id="term_a")
        fields: dict[str, Any] = {"session_id": "s", "state": "open", "mode": "idle", "terminal": terminal}
        entry = SessionEntry.model_construct(**fields)
        return SessionReply.model_construct(action="list", sessions=[entry])

    async def exec(self, _request: Any, _progress: Any = None) -> Any:
        await self._fail()

    pty = exec

    async def _fail(self) -> None:
        code = self._random.choice([*ErrorCode, None])
        raise RuntimeError(SECRET) if code is None else PtyctlError(code, f"failed with {code}", {"field": "x"}, hint="wait")


def random_request(random: Random) -> Any:
    if random.random() < 0.5:
        return random.choice(VALID)
    request: dict[str, Any] = {"action": random.choice(VALUES["action"])}
    for part, fields in PLACES.items():
        if random.random() < 0.7:
            request[part] = {name: random.choice(VALUES[name]) for name in fields if random.random() < 0.8}
        elif random.random() < 0.05:
            request[part] = random.choice([5, [], "x", None])
    return request if random.random() < 0.95 else random.choice([None, [], "execute"])


def given_trace_id(request: Any) -> str:
    """Return the valid trace id of a request; "trace_" is the start of a generated one."""
    correlation = request.get("correlation") if isinstance(request, dict) else None
    given = correlation.get("trace_id") if isinstance(correlation, dict) else None
    return given if given == "trace_1" else "trace_"


@pytest.mark.parametrize("seed", [pytest.param(15, id="spec-3.3-1 spec-3.3-2 spec-3.3-3")])
async def test_failures_of_random_requests_are_complete_and_deterministic(seed: int) -> None:
    random = Random(seed)
    controller = cast(Controller, FailingController(random))
    service = TerminalService(controller, ServiceState(), {"PM_TERM_ALIAS_PHASE": "warn"}, "me")
    fallbacks: dict[tuple[Any, ...], Any] = {}
    codes = set()
    for _ in range(REQUESTS):
        request = random_request(random)
        response = await service.handle(request)
        if response["success"]:
            continue
        assert set(response) >= {"success", "action", "status", "correlation", "resolved", "identity", "error", "fallback"}
        assert response["status"] == "failed"
        assert response["correlation"]["request_id"]
        generated = response["correlation"]["trace_id"] != "trace_1"
        assert response["correlation"]["trace_id"].startswith(given_trace_id(request))
        assert generated == (given_trace_id(request) != "trace_1")
        error, resolved = response["error"], response["resolved"]
        assert set(error) == {"code", "category", "message", "retriable", "details"}
        assert set(resolved) == {"canonical_action", "alias_applied", "legacy_action", "mode"}
        assert response["fallback"]["strategy"] == ERROR_KINDS[TerminalErrorCode(error["code"])].strategy
        if error["code"] == "PM_TERM_INTERNAL":
            assert error["details"]["trace_id"] == response["correlation"]["trace_id"]
        assert "vault" not in json.dumps(response)
        request_class = (error["code"], resolved["canonical_action"], resolved["mode"])
        assert fallbacks.setdefault(request_class, response["fallback"]) == response["fallback"]
        codes.add(error["code"])
    assert codes == {str(code) for code in TerminalErrorCode}

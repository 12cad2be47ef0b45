"""Each shape of a response is that of its file in `golden/`, with values that differ by run masked.

`python -m tests.terminal.test_golden` writes the files.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ptyctl.api.approvals import ApprovalsRequest
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.session.clients import user
from ptyctl.terminal.service import ServiceState, TerminalService

GOLDEN = Path(__file__).parent / "golden"
HEADLESS = {"mode": "headless", "intent": "execute_command"}
MKFS = "mkfs.ext4 /dev/nope"
IDS = {"request_id": "req_1", "trace_id": "trace_1", "client_request_id": "client_1"}
#: Fields whose values differ by run.
_MASKED = frozenset(("session_id", "approval_id", "expires_at", "started_at"))


def masked(value: Any, name: str = "") -> Any:
    """Replace values that differ by run."""
    if isinstance(value, dict):
        # Of a terminal, it is after a prompt, whose size differs by user, host and directory, or before the prompt has arrived.
        if "next_cursor" in value and not 0 < int(value["next_cursor"]) == len(value["stdout"]):
            value = {**value, "next_cursor": "*"}
        return {key: masked(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [masked(each) for each in value]
    if name in _MASKED and value is not None:
        return "*"
    return value.replace(user().name, "USER") if isinstance(value, str) and name in ("decided_by", "message") else value


async def responses(state_dir: Path) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Yield a response of each shape, with its name."""
    async with LocalController(Settings(state_dir=state_dir)) as controller:
        state = ServiceState()
        service = TerminalService(controller, state, {}, "me")

        async def call(action: str, environment: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
            used = service if environment is None else TerminalService(controller, state, environment, "me")
            return await used.handle({"action": action, "correlation": IDS, **fields})

        async def execute(command: str, timeout_ms: int = 50_000, **execution: Any) -> dict[str, Any]:
            fields = {"execution": {"command": command, **execution}, "runtime": {"timeout_ms": timeout_ms}}
            return await call("execute", invocation=HEADLESS, **fields)

        yield "list_empty", await call("list")
        done = await execute("echo out; exit 3")
        yield "execute_completed", done
        yield "execute_split", await execute("echo out; echo err >&2", pty=False)
        slow = await execute("read -r line", 0)
        yield "execute_accepted", slow
        target = {"session_id": done["identity"]["session_id"]}
        yield "read_output", await call("read_output", target=target, runtime={"cursor": "0"})
        yield "terminate", await call("terminate", target={"session_id": slow["identity"]["session_id"]})
        opening = {"invocation": {"mode": "interactive", "intent": "open_only"}, "execution": {"name": "a"}}
        yield "open_only", await call("execute", **opening, runtime={"workspace_id": "w"})
        yield "list", await call("list")
        held = await execute(MKFS, 0)
        yield "execute_pending", held
        approval_id = held["result"]["pending_approval"]["approval_id"]
        await controller.approvals(ApprovalsRequest(action="decline", approval_id=approval_id, comment="not now"))
        declined = {"session_id": held["identity"]["session_id"]}
        yield "declined", await call("read_output", target=declined, runtime={"timeout_ms": 50_000})
        yield "not_found", await call("read_output", target={"terminal_id": "term_none"})
        yield "invalid_payload", await call("execute", invocation=HEADLESS, runtime={"timeout_ms": -1})
        yield "invalid_action", await call("spawn")
        yield "invalid_mode", await call("execute", invocation={"mode": "visible", "intent": "open_only"})
        for name, phase in (("alias", "compat"), ("alias_warn", "warn"), ("alias_strict", "strict")):
            yield name, await call("run", {"PM_TERM_ALIAS_PHASE": phase}, command=f"true # {phase}", timeout=50_000)
        controller.session = None  # type: ignore[method-assign, assignment]  # a bug
        yield "internal", await call("list")
        del controller.session


@pytest.mark.parametrize("row", ["spec-2.2-1"])
async def test_each_shape_of_a_response_is_that_of_its_golden_file(
    row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/bash")
    unmasked = {name: response async for name, response in responses(tmp_path)}
    assert unmasked["read_output"]["result"]["next_cursor"] == unmasked["execute_completed"]["result"]["next_cursor"]
    found = {name: masked(response) for name, response in unmasked.items()}
    expected = {path.stem: json.loads(path.read_text()) for path in GOLDEN.glob("*.json")}
    assert found == expected, "write the files: python -m tests.terminal.test_golden"


async def _write() -> None:
    GOLDEN.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        async for name, response in responses(Path(folder)):
            (GOLDEN / f"{name}.json").write_text(json.dumps(masked(response), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    os.environ["SHELL"] = "/bin/bash"
    asyncio.run(_write())

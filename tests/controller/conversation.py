"""A conversation terminal, with calls by tool name, as an interface makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ptyctl.api import Controller
from ptyctl.api.methods import PTY_REQUESTS

PATIENCE_MS = 50_000
#: The required fields of each tool, without the address.
LEAST: dict[str, dict[str, Any]] = {
    "pty_wait_for": {"match": "x", "from_cursor": 0, "timeout_ms": 0},
    "pty_wait_prompt": {"from_cursor": 0, "timeout_ms": 0},
    "pty_expect_send": {"expect": "x", "send": "y", "from_cursor": 0, "timeout_ms": 0},
    "pty_read_spool": {"from_cursor": 0},
    "pty_resize": {"cols": 80, "rows": 24},
    "blocks_get": {"block_id": "1_1"},
    "blocks_read": {"block_id": "1_1"},
    "blocks_search": {"query": "x"},
    "pty_exec_block": {"cmd": "true"},
    "pty_exec_interactive": {"cmd": "true"},
    "pty_exec_interactive_expect": {"cmd": "true", "steps": []},
    "pty_send": {"data": "x"},
}


class Pty:
    """A terminal by its address. `call` returns the payload that an interface sends."""

    def __init__(self, controller: Controller, **address: Any) -> None:
        self.controller = controller
        self.address = address or {"conversation_id": "c1"}

    def at(self, **address: Any) -> Pty:
        return Pty(self.controller, **address)

    async def call(self, tool: str, **fields: Any) -> dict[str, Any]:
        request = PTY_REQUESTS[tool].of({**self.address, **fields})
        return (await self.controller.pty(request)).payload()

    async def good(self, tool: str, **fields: Any) -> dict[str, Any]:
        reply = await self.call(tool, **fields)
        assert reply["ok"], reply
        return reply

    async def refused(self, error: str, tool: str, *parts: str, **fields: Any) -> dict[str, Any]:
        """Expect a reply with this error whose message and hint contain all `parts`."""
        reply = await self.call(tool, **fields)
        assert (reply["ok"], reply.get("error")) == (False, error), reply
        shown = f"{reply['message']}; {reply.get('hint')}"
        assert [part for part in parts if part not in shown] == [], shown
        return reply

    async def run(self, cmd: str, **fields: Any) -> dict[str, Any]:
        """Run a command to its end. Return its block with the text."""
        begun = await self.good("pty_exec_block", cmd=cmd, **fields)
        await self.prompt(begun["resume_cursor"])
        return await self.block(begun["block_id"])

    async def prompt(self, cursor: int) -> dict[str, Any]:
        return await self.good("pty_wait_prompt", from_cursor=cursor, timeout_ms=PATIENCE_MS)

    async def match(self, text: str, cursor: int, **fields: Any) -> dict[str, Any]:
        return await self.good("pty_wait_for", match=text, from_cursor=cursor, **{"timeout_ms": PATIENCE_MS, **fields})

    async def block(self, block_id: str) -> dict[str, Any]:
        block = (await self.good("blocks_get", block_id=block_id))["block"]
        return {**block, "text": (await self.good("blocks_read", block_id=block_id))["data"]}

    async def end(self) -> int:
        """Return the end of the output so far."""
        return int((await self.good("pty_status"))["resume_cursor"])


async def folder_of(pty: Pty, tmp_path: Path) -> Path:
    """Return the folder of the terminal's session in the test's state directory."""
    return tmp_path / "state" / "sessions" / str((await pty.good("pty_status"))["shell_id"])

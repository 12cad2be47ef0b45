"""A command that a simulated switch refuses: its block has the error line, and searches for failures find it."""

from __future__ import annotations

from ptyctl.api.blocks import BlocksReply, BlocksSearch, BlocksSince
from ptyctl.api.controller import Controller
from ptyctl.api.handle import SessionHandle, call_pty
from ptyctl.api.history import SearchRequest
from ptyctl.controller.local import LocalController
from tests.controller.session_calls import PATIENCE_MS, execute, session
from tests.integration.devices.switch_inventory import SwitchInventory

REFUSED = ["% Invalid input detected at '^' marker."]


async def failed_commands(controller: Controller) -> list[tuple[str, list[str] | None]]:
    found = await controller.search(SearchRequest.of({"failed": True}))
    return [(hit.cmd, hit.error_hints) for hit in found.hits]


async def test_refused_command_is_found_as_failed_in_memory_and_on_disk(inventory: SwitchInventory) -> None:
    async with (
        LocalController(inventory.settings()) as controller,
        await SessionHandle.open(controller, device="sw-telnet") as handle,
    ):
        for command in ("show clock", "show clok"):
            await execute(handle, cmd=command, timeout_ms=PATIENCE_MS)
        listed = (await session(controller, "list", details=True)).sessions or []
        assert [entry.last_command and entry.last_command.error_hints for entry in listed] == [REFUSED]
        since = BlocksSince(session_id=handle.session_id)
        blocks = (await call_pty(controller, since, BlocksReply)).items or []
        assert [(block.cmd, block.status, block.error_hints) for block in blocks] == [
            ("show clock", "completed", None),
            ("show clok", "completed", REFUSED),
        ]
        lines = BlocksSearch(session_id=handle.session_id, query="%", status="failed")
        assert [hit.text for hit in (await call_pty(controller, lines, BlocksReply)).hits or []] == REFUSED
        assert await failed_commands(controller) == [("show clok", REFUSED)]
    async with LocalController(inventory.settings()) as later:
        assert await failed_commands(later) == [("show clok", REFUSED)]

"""Shells with marks, and helpers for their blocks and spools."""

from __future__ import annotations

import pytest

from ptyctl.api.blocks import Block, BlocksReply, BlocksSince
from ptyctl.api.handle import SessionHandle, call_pty
from ptyctl.api.pty import PtyReadSpool, PtyReply
from tests.controller.session_calls import PATIENCE_MS, read, until

SHELLS = {
    "bash": ("bash", "--norc", "--noprofile"),
    "zsh": ("zsh",),
    "fish": ("fish", "--no-config"),
}
#: A prompt's line in the spool begins with it.
SENTINEL = "__FWS_PROMPT__"
#: For a test that takes the fixture `shell`.
in_each = pytest.mark.parametrize("shell", SHELLS, indirect=True)


async def blocks(handle: SessionHandle) -> list[Block]:
    request = BlocksSince.of({"session_id": handle.session_id, "limit": 1000})
    return list((await call_pty(handle.controller, request, BlocksReply)).items or ())


async def spool(handle: SessionHandle) -> str:
    request = PtyReadSpool.of({"session_id": handle.session_id, "from_cursor": 0, "max_bytes": 4_000_000})
    reply = await call_pty(handle.controller, request, PtyReply)
    return reply.data or ""


async def settled(handle: SessionHandle) -> None:
    """Waits until the shell shows its prompt, and nothing follows."""
    await read(handle, cursor="0", until_regex=r"[^\n]\z", timeout_ms=PATIENCE_MS)  # the text of a prompt
    await read(handle, cursor="0", until_idle_ms=400, timeout_ms=PATIENCE_MS)


async def block_of(handle: SessionHandle, number: int) -> Block:
    """That block, once it has ended."""

    async def ended() -> bool:
        found = await blocks(handle)
        return len(found) >= number and found[number - 1].ts_end is not None

    await until(ended)
    return (await blocks(handle))[number - 1]

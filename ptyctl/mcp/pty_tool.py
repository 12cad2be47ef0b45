"""How a tool of the pty_* and blocks_* surface is made from its request: all go the same way through the controller."""

from __future__ import annotations

from ptyctl.api import PtyReply, PtyRequest
from ptyctl.api.methods import METHODS
from ptyctl.api.model import Reply
from ptyctl.api.pty import encode_error

from .tool import Tool

#: What every answer may have.
_COMMON = ("ok", "error", "message", "hint")
#: What tells more of an error, and what a task was not told yet.
_PTY = ("notices", "mode", "active_block_id", "lock_holder")


def pty_tool(
    request: type[PtyRequest],
    title: str,
    description: str,
    told: str = "",
    *,
    reply: type[Reply] = PtyReply,
    read_only: bool = False,
    destructive: bool = True,
    idempotent: bool = False,
) -> Tool:
    """`told` names the fields of the reply that this tool fills."""
    extra = _PTY if reply is PtyReply else ()
    return Tool(
        request.TOOL,
        title,
        description,
        request,
        reply,
        METHODS[request.TOOL].call,
        read_only=read_only,
        destructive=destructive and not read_only,
        idempotent=idempotent or read_only,
        told=tuple(dict.fromkeys((*_COMMON, *told.split(), *extra))),
        refused=encode_error,
    )

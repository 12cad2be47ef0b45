"""The declaration of a tool: its description and schemas for clients, and its Controller call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ptyctl.api import PtyctlError, PtyReply, PtyRequest
from ptyctl.api.methods import METHODS, Call, Method
from ptyctl.api.model import Reply, Request
from ptyctl.api.pty import encode_error

#: Reply fields of every tool that reports errors in its reply.
_STATUS_FIELDS = ("ok", "error", "message", "hint")
#: Reply fields of every pty_* tool.
_PTY_FIELDS = ("notices", "mode", "active_block_id", "lock_holder")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of the server.

    Attributes:
        read_only, destructive, idempotent: the hints of MCP's ToolAnnotations. openWorldHint is always true, because every
            tool may reach a device.
        reply_fields: the fields of `reply` that this tool fills; None for all.
        encode_error: makes the reply to an error (`ok` false); None if errors are MCP errors (`isError`).
        method: its request and call, if it is not the Controller's method of the same name.
    """

    name: str
    title: str
    description: str
    reply: type[Reply]
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    reply_fields: tuple[str, ...] | None = None
    encode_error: Callable[[PtyctlError], Reply] | None = None
    method: Method | None = None

    @property
    def request(self) -> type[Request]:
        return (self.method or METHODS[self.name]).request

    @property
    def call(self) -> Call:
        return (self.method or METHODS[self.name]).call


def pty_tool(
    request: type[PtyRequest],
    title: str,
    description: str,
    reply_fields: str = "",
    *,
    reply: type[Reply] = PtyReply,
    read_only: bool = False,
    destructive: bool = True,
    idempotent: bool = False,
) -> Tool:
    """Return a pty_*, blocks_* or screen tool, which reports errors in its reply. `reply_fields` is separated by spaces."""
    common = _PTY_FIELDS if reply is PtyReply else ("notices",)
    return Tool(
        request.TOOL,
        title,
        description,
        reply,
        read_only=read_only,
        destructive=destructive and not read_only,
        idempotent=idempotent or read_only,
        reply_fields=tuple(dict.fromkeys((*_STATUS_FIELDS, *reply_fields.split(), *common))),
        encode_error=encode_error,
    )

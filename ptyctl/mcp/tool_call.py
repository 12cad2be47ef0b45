"""One tool call: validates the arguments, calls the Controller, reports progress and builds the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp_types import CallToolResult, TextContent
from pydantic_core import to_json

from ptyctl.api import Controller, Progress, PtyctlError
from ptyctl.api.model import Reply, Request
from ptyctl.internal_error import internal_error

from .arguments import read_request
from .elicitation import Elicitor, InputRequiredError
from .hints import format_hint
from .toolsets import Tool

#: A longer text is not repeated for clients that read structured content.
MAX_REPEATED_TEXT = 500
#: Seconds between two progress notifications.
PROGRESS_INTERVAL_S = 1.0

#: Sends one progress notification: a number and a text.
SendProgress = Callable[[float, str], Awaitable[None]]


async def call_tool(
    tool: Tool,
    controller: Controller,
    arguments: dict[str, Any],
    progress: Progress | None,
    *,
    full_text: bool = True,
    elicitor: Elicitor | None = None,
) -> CallToolResult:
    """Perform one call. Every error becomes a result, an unexpected exception one with code INTERNAL.

    Without `full_text`, a large reply is sent only as structured content, and its text refers to that. An error is always sent
    as text too: some clients show the model the structured content of a reply, but the text of an error.

    Raises:
        InputRequiredError: the client is to ask its user for an approval, and to repeat the call.
    """
    try:
        request = read_request(tool.request, arguments)

        async def perform(request: Request) -> Reply:
            return await tool.call(controller, request, progress)

        reply = await (perform(request) if elicitor is None else elicitor.call(request, perform))
        return _result(tool, reply.payload(), full_text=full_text)
    except PtyctlError as error:
        return _error_result(tool, error)
    except InputRequiredError:
        raise
    except Exception as error:  # noqa: BLE001 - the SDK would send the exception's text to the client
        return _error_result(tool, internal_error(tool.name, error))


def _error_result(tool: Tool, error: PtyctlError) -> CallToolResult:
    if tool.encode_error is None:
        return _result(tool, error.payload(), is_error=True)
    return _result(tool, tool.encode_error(error).payload())


def _result(tool: Tool, payload: dict[str, Any], *, full_text: bool = True, is_error: bool = False) -> CallToolResult:
    """Return the payload as structured content and as text."""
    if isinstance(hint := payload.get("hint"), str):
        payload = {**payload, "hint": format_hint(hint, pty=tool.encode_error is not None)}
    encoded = to_json(payload).decode()
    if not full_text and len(encoded) > MAX_REPEATED_TEXT:
        encoded = f"The result is in structuredContent: {', '.join(payload)}. For clients without it: ptyctl mcp --full-text"
    text = TextContent(type="text", text=encoded)
    return CallToolResult(content=[text], structured_content=payload, is_error=is_error)


class ProgressReporter:
    """A `Progress` callback that sends the latest value about once a second, never a queue of values.

    MCP requires a number that increases with every notification (2025-11-25, Progress, Behavior requirements). The byte count
    does not increase while a device is silent, so the number is the elapsed seconds, and the text contains the bytes.
    """

    def __init__(self, send: SendProgress) -> None:
        self._send = send
        self._latest = (0, 0.0)
        self._due_s = PROGRESS_INTERVAL_S
        self._pending = anyio.Event()

    def __call__(self, received: int, seconds: float) -> None:
        """Record the progress if a notification is due. It replaces one that a slow client has not read yet."""
        if seconds >= self._due_s:
            self._latest = (received, seconds)
            self._due_s = seconds + PROGRESS_INTERVAL_S
            self._pending.set()

    async def run(self) -> None:
        """Send notifications until cancelled."""
        while True:
            await self._pending.wait()
            self._pending = anyio.Event()
            received, seconds = self._latest
            await self._send(seconds, f"{received} bytes in {seconds:.0f} s")

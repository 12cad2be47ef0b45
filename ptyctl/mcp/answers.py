"""One tool call, from its arguments to its result: whatever happens becomes an answer that a model can act upon."""

from __future__ import annotations

import secrets
import traceback
from pathlib import PurePath
from typing import Any

import structlog
from mcp_types import CallToolResult, TextContent
from pydantic_core import to_json

from ptyctl.api import Controller, ErrorCode, Progress, PtyctlError

from .tool import Tool

_log = structlog.get_logger("ptyctl.mcp")


async def answer(tool: Tool, controller: Controller, arguments: dict[str, Any], progress: Progress | None) -> CallToolResult:
    """Performs one call. Raises nothing: a PtyctlError becomes its own answer, anything unforeseen INTERNAL."""
    try:
        request = tool.request.of(arguments)
        reply = await tool.call(controller, request, progress)
        return _result(reply.payload())
    except PtyctlError as error:
        return _refusal(tool, error)
    except Exception as error:  # noqa: BLE001 - the outer edge: what escapes here would reach the client as raw text
        return _refusal(tool, _internal(tool.name, error))


def _refusal(tool: Tool, error: PtyctlError) -> CallToolResult:
    return _result(error.payload(), is_error=True) if tool.refused is None else _result(tool.refused(error).payload())


def _result(payload: dict[str, Any], *, is_error: bool = False) -> CallToolResult:
    """The payload as structured content, and once more as text: many clients show the model the text only (MCP, Structured
    Content)."""
    text = TextContent(type="text", text=to_json(payload).decode())
    return CallToolResult(content=[text], structured_content=payload, is_error=is_error)


def _internal(tool: str, error: Exception) -> PtyctlError:
    """The answer to a bug of ours. Neither it nor the log holds the exception's text: that may be what somebody typed."""
    trace_id = secrets.token_hex(8)
    trace = traceback.extract_tb(error.__traceback__)
    frames = [f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in trace]
    _log.error("tool call failed", tool=tool, trace_id=trace_id, error=type(error).__qualname__, frames=frames)
    told = f"ptyctl met a bug of its own ({type(error).__qualname__}); the server's log has it under trace id {trace_id}. "
    return PtyctlError(
        ErrorCode.INTERNAL, told + "Read the session's state before you repeat the call.", {"trace_id": trace_id}
    )

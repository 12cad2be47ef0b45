"""Next steps in errors, worded in terms of the tools."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ptyctl.api import ErrorCode, PtyctlError, PtyReply
from ptyctl.api.errors import NextStep
from ptyctl.api.pty import encode_error
from ptyctl.mcp.hints import format_hint
from ptyctl.mcp.tool_call import call_tool
from ptyctl.mcp.toolsets import choose
from tests.mcp.stub_controller import StubController

TOOLS = {tool.name: tool for tool in choose("all")}
BUSY = PtyctlError(ErrorCode.BUSY, "a command is running", hint=NextStep.INTERRUPT_OR_WAIT)


class BusyController(StubController):
    """A controller whose terminal is busy: an error of the core tools, a reply of the pty tools."""

    async def exec(self, *_: Any) -> Any:
        raise BUSY

    async def pty(self, *_: Any) -> PtyReply:
        return encode_error(BUSY)


@pytest.mark.parametrize("pty", [False, True])
@pytest.mark.parametrize("step", NextStep)
def test_next_step_names_only_existing_tools(step: NextStep, pty: bool) -> None:
    names = re.findall(r"\b(?:ptyctl|pty|blocks)_\w+", format_hint(step, pty=pty))
    assert set(names) <= set(TOOLS)
    without_tool = NextStep.LIST_DEVICES, NextStep.AWAIT_ANSWER, NextStep.FIND_APPROVER  # the call itself is repeated
    assert names or step in without_tool


def test_closed_conversation_is_opened_again_by_a_pty_tool() -> None:
    assert "pty_exec_block" in format_hint(NextStep.OPEN_SESSION, pty=True)


def test_other_hint_is_unchanged() -> None:
    assert format_hint("run: chmod 700 /state", pty=True) == "run: chmod 700 /state"


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("ptyctl_session_exec", {"session_id": "s", "cmd": "x"}, "ptyctl_session_exec"),
        ("pty_exec_block", {"conversation_id": "c", "cmd": "x"}, "pty_ctrl_c"),
    ],
)
async def test_hint_of_error_names_the_tool_in_both_surfaces(tool: str, arguments: dict[str, Any], named: str) -> None:
    result = await call_tool(TOOLS[tool], BusyController(), arguments, None)  # type: ignore[arg-type]
    assert result.structured_content is not None
    assert named in result.structured_content["hint"]
    assert result.structured_content["message"] == "a command is running"

"""Selection of toolsets, and the names of the tools."""

from __future__ import annotations

import pytest

from ptyctl.api.methods import PTY_REQUESTS
from ptyctl.controller.session_actions import capabilities
from ptyctl.mcp.toolsets import ALL, DEFAULT, TOOLSETS, choose

CORE = TOOLSETS["core"]
PTY = TOOLSETS["pty"] + TOOLSETS["blocks"] + TOOLSETS["screen"]


@pytest.mark.parametrize("names", ["core", " core ,", "core,core"])
def test_choose_repeated_toolset_returns_each_tool_once(names: str) -> None:
    assert choose(names) == CORE


@pytest.mark.parametrize("names", ["all", "core,all", "core,pty,blocks,screen,approvals", "approvals,screen,blocks,pty,core"])
def test_choose_all_toolsets_returns_fixed_order(names: str) -> None:
    assert choose(names) == CORE + PTY + TOOLSETS["approvals"]


def test_terminal_contract_is_chosen_by_name_only() -> None:
    (tool,) = TOOLSETS["terminal"]
    assert tool not in choose("all")
    assert choose("terminal") == (tool,)
    assert tool in choose("all,terminal")


def test_default_toolset_is_core() -> None:
    assert choose(DEFAULT) == CORE


@pytest.mark.parametrize("names", ["cores", "core,pty2", ""])
def test_choose_unknown_toolset_raises_with_available_names(names: str) -> None:
    with pytest.raises(ValueError, match=f"available: {', '.join([*TOOLSETS, ALL])}"):
        choose(names)


def test_choose_unknown_toolsets_raises_with_their_names() -> None:
    with pytest.raises(ValueError, match="'pty2', 'x'"):
        choose("x,core,pty2")


def test_tool_names_are_unique_and_valid() -> None:
    names = [tool.name for tools in TOOLSETS.values() for tool in tools]
    assert len(set(names)) == len(names)
    assert all(name.replace("_", "").replace("-", "").isalnum() for name in names)


def test_every_pty_request_has_a_tool() -> None:
    assert {tool.name: tool.request for tool in PTY} == PTY_REQUESTS


def test_capabilities_list_all_toolsets() -> None:
    assert capabilities(()).toolsets == list(TOOLSETS)

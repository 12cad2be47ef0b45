from __future__ import annotations

import pytest

from ptyctl.api.methods import PTY_REQUESTS
from ptyctl.controller.session_actions import capabilities
from ptyctl.mcp import blocks_tools, core_tools, pty_tools, screen_tools
from ptyctl.mcp.toolsets import ALL, DEFAULT, TOOLSETS, choose

SURFACE = pty_tools.TOOLS + blocks_tools.TOOLS + screen_tools.TOOLS
EVERY = core_tools.TOOLS + SURFACE


@pytest.mark.parametrize("names", ["core", " core ,", "core,core"])
def test_each_tool_comes_once(names: str) -> None:
    assert choose(names) == core_tools.TOOLS


@pytest.mark.parametrize("names", ["all", "core,all", "core,pty,blocks,screen", "screen,blocks,pty,core"])
def test_all_tools_come_in_one_order(names: str) -> None:
    assert choose(names) == EVERY


def test_the_default_is_there() -> None:
    assert choose(DEFAULT) == core_tools.TOOLS


@pytest.mark.parametrize("names", ["cores", "core,pty2", ""])
def test_what_is_not_there_is_told_with_what_is(names: str) -> None:
    with pytest.raises(ValueError, match=f"there is: {', '.join([*TOOLSETS, ALL])}"):
        choose(names)


def test_an_unknown_name_is_named() -> None:
    with pytest.raises(ValueError, match="'pty2', 'x'"):
        choose("x,core,pty2")


def test_names_of_tools_are_unique_and_allowed() -> None:
    names = [tool.name for tools in TOOLSETS.values() for tool in tools]
    assert len(set(names)) == len(names)
    assert all(name.replace("_", "").replace("-", "").isalnum() for name in names)


def test_every_request_of_the_pty_surface_has_its_tool() -> None:
    assert {tool.name: tool.request for tool in SURFACE} == PTY_REQUESTS


def test_the_controller_tells_of_the_toolsets() -> None:
    assert capabilities(()).toolsets == list(TOOLSETS)

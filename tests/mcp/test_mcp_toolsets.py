from __future__ import annotations

import pytest

from ptyctl.mcp.core_tools import TOOLS
from ptyctl.mcp.toolsets import ALL, DEFAULT, TOOLSETS, choose


@pytest.mark.parametrize("names", ["core", "all", "core,all", " core ,", "core,core"])
def test_each_tool_comes_once(names: str) -> None:
    assert choose(names) == TOOLS


def test_the_default_is_there() -> None:
    assert choose(DEFAULT) == TOOLS


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

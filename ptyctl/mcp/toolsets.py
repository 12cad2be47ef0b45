"""The sets of tools among which a server chooses with `--toolsets`. A further toolset is one more entry here."""

from __future__ import annotations

from collections.abc import Mapping

from . import blocks_tools, core_tools, pty_tools, screen_tools
from .tool import Tool

TOOLSETS: Mapping[str, tuple[Tool, ...]] = {
    "core": core_tools.TOOLS,
    "pty": pty_tools.TOOLS,
    "blocks": blocks_tools.TOOLS,
    "screen": screen_tools.TOOLS,
}

DEFAULT = "core"
ALL = "all"


def choose(names: str) -> tuple[Tool, ...]:
    """The tools of a comma-separated list of toolsets, each once and in the order of TOOLSETS; `all` is all of them.

    Raises:
        ValueError: an unknown name, or none at all; the message names what there is.
    """
    wanted = {name.strip() for name in names.split(",")} - {""}
    there_is = f"there is: {', '.join([*TOOLSETS, ALL])}"
    unknown = sorted(wanted - {*TOOLSETS, ALL})
    if unknown:
        raise ValueError(f"no toolset {', '.join(map(repr, unknown))}; {there_is}")
    if not wanted:
        raise ValueError(f"--toolsets is empty; {there_is}")
    return tuple(tool for name, tools in TOOLSETS.items() if name in wanted or ALL in wanted for tool in tools)

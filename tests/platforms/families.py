"""All the families that are ours, and what their tests ask of one or of a table by family."""

from __future__ import annotations

from ptyctl.platforms import ModeGraph, Platforms

PLATFORMS = Platforms()


def rows(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(family, line) for family, lines in table.items() for line in lines]


def graph_of(family: str) -> ModeGraph:
    return ModeGraph(PLATFORMS.get(family))

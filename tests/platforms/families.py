"""The built-in platforms, and helpers for tables of examples by family."""

from __future__ import annotations

from ptyctl.platforms import DeviceProfile, Platforms

PLATFORMS = Platforms()


def rows(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(family, line) for family, lines in table.items() for line in lines]


def profile_of(family: str) -> DeviceProfile:
    return PLATFORMS.get(family).profile

"""The built-in platforms."""

from __future__ import annotations

from ptyctl.platforms import DeviceProfile, Platforms

PLATFORMS = Platforms()


def profile_of(family: str) -> DeviceProfile:
    return PLATFORMS.get(family).profile

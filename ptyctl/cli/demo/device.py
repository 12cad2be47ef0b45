"""The device that the demo works on."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class Device:
    """Where it is and how to get in. `commands` are read-only, and the last of them is longer than a page."""

    name: str
    host: str
    port: int
    username: str | None
    password: str | None
    enable: str | None
    commands: tuple[str, ...] = ("show version", "show interface")


def device_of(address: str | None, username: str | None, password: str | None, enable: str | None) -> Device | None:
    """The device at HOST:PORT, or None for the simulated switch.

    Raises:
        ValueError: the address is none; the text says how one looks.
    """
    if address is None:
        return None
    found = _ADDRESS.fullmatch(address)
    if found is None or not 1 <= int(found["port"]) <= 65535:
        raise ValueError(f"--telnet {address}: give HOST:PORT, as in 192.0.2.10:23")
    return Device(address, found["v6"] or found["host"], int(found["port"]), username, password, enable)

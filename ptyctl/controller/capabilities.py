"""What this controller can do, told with every list (CONTRACTS)."""

from __future__ import annotations

from collections.abc import Iterable

from ptyctl.api.session import Capabilities

_PROTOCOLS = ("local", "ssh", "telnet")


def capabilities(platforms: Iterable[str]) -> Capabilities:
    """`platforms`: the families' names; users may have their own."""
    return Capabilities(
        protocols=list(_PROTOCOLS),
        toolsets=["core", "pty", "blocks", "screen"],
        platforms=list(platforms),
        supports_split_stdout_stderr=dict.fromkeys(_PROTOCOLS, False),
        supports_exit_code=dict.fromkeys(_PROTOCOLS, True),
        supports_resize=dict.fromkeys(_PROTOCOLS, True),
    )

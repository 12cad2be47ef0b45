"""What this controller can do, told with every list (CONTRACTS)."""

from __future__ import annotations

from ptyctl.api.session import Capabilities

from .platforms import PLATFORMS

_PROTOCOLS = ("local", "ssh", "telnet")

CAPABILITIES = Capabilities(
    protocols=list(_PROTOCOLS),
    toolsets=["core", "pty", "blocks", "screen"],
    platforms=list(PLATFORMS),
    supports_split_stdout_stderr=dict.fromkeys(_PROTOCOLS, False),
    supports_exit_code=dict.fromkeys(_PROTOCOLS, True),
    supports_resize=dict.fromkeys(_PROTOCOLS, True),
)

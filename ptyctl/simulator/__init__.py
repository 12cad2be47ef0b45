"""A simulated switch with an IOS-like command line, for `ptyctl demo` and for tests.

Reachable over Telnet and SSH on 127.0.0.1. `Quirks` make its consoles behave like those of other devices. Start reading in
`switch.py`; from there the call path is `telnet_server` or `ssh_server`, `terminal_lines`, `quirky_console`, `console`, and
`commands`. The modules below `terminal_lines` perform no I/O. The package imports no other package of ptyctl.
"""

from __future__ import annotations

from .quirks import Quirks
from .switch import SimulatedSwitch

__all__ = ["Quirks", "SimulatedSwitch"]

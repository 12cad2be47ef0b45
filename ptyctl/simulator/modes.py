"""The command modes: how each shows in the prompt, and where `exit` leads."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """The value is the end of the prompt, behind the hostname."""

    USER = ">"
    PRIVILEGED = "#"
    CONFIG = "(config)#"
    CONFIG_IF = "(config-if)#"
    CONFIG_VLAN = "(config-vlan)#"

    @property
    def configures(self) -> bool:
        return self in PARENT


#: `exit` from a mode that is not here ends the session.
PARENT = {Mode.CONFIG: Mode.PRIVILEGED, Mode.CONFIG_IF: Mode.CONFIG, Mode.CONFIG_VLAN: Mode.CONFIG}

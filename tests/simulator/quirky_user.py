"""Somebody in front of a console of the simulated switch that has quirks."""

from __future__ import annotations

from ptyctl.simulator import Quirks
from ptyctl.simulator.actions import Action, Output
from ptyctl.simulator.console import Console
from ptyctl.simulator.device import Account, Device

LOGIN = "admin\rpw\renable\ren\r"


class QuirkyDesk:
    """A logged-in user of a console with quirks."""

    def __init__(self, quirks: Quirks, keys: str = LOGIN, name: str = "vty0") -> None:
        self.console = Console(Device("sw1", Account("admin", "pw", "en")), name, quirks)
        self.actions: list[Action] = self.console.start()
        self.greeting = said(self.actions)
        self.type(keys)

    def type(self, keys: str, now: float = 0.0) -> str:
        self.actions = self.console.feed(keys.encode(), now)
        return said(self.actions)


def said(actions: list[Action]) -> str:
    return b"".join(action.data for action in actions if isinstance(action, Output)).decode()

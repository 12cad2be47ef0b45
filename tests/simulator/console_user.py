"""Somebody in front of a console of the simulated switch, without any connection."""

from __future__ import annotations

from ptyctl.simulator.actions import Action, Output
from ptyctl.simulator.console import Console
from ptyctl.simulator.device import Account, Device

ACCOUNT = Account("admin", "pw", "en")


class Desk:
    """Somebody in front of a console."""

    def __init__(self, name: str = "vty0", *, account: Account = ACCOUNT, device: Device | None = None) -> None:
        self.device = device or Device("sw1", account)
        self.console = Console(self.device, name)
        self.actions: list[Action] = []
        self.greeting = self.shown(self.console.start())

    def type(self, keys: str, now: float = 0.0) -> str:
        """Types `keys`; gives what appears."""
        return self.shown(self.console.feed(keys.encode(), now))

    def wait(self, now: float = 0.0) -> str:
        """Lets the time pass that the console asked for."""
        return self.shown(self.console.wake(now))

    def log_in(self) -> Desk:
        self.type("admin\rpw\r")
        return self

    def enable(self) -> Desk:
        self.log_in().type("enable\ren\r")
        return self

    def asked_for(self, kind: type[Action]) -> bool:
        return any(isinstance(action, kind) for action in self.actions)

    def shown(self, actions: list[Action]) -> str:
        self.actions = actions
        return b"".join(action.data for action in actions if isinstance(action, Output)).decode()


def body(said: str) -> str:
    """Between the echo and the prompt, with plain line ends."""
    return said.replace("\r\n", "\n").split("\n", 1)[1].rpartition("\n")[0]

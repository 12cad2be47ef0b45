"""A user of a simulated console, without a connection."""

from __future__ import annotations

from typing import Self

from ptyctl.simulator import Quirks
from ptyctl.simulator.device import DeviceAccount, SimulatedDevice
from ptyctl.simulator.quirks import NO_QUIRKS
from ptyctl.simulator.quirky_console import QuirkyConsole
from ptyctl.simulator.terminal import SendOutput, TerminalAction

ACCOUNT = DeviceAccount("admin", "pw", "en")

#: Keys that lead from the login to privileged mode.
LOGIN = "admin\rpw\renable\ren\r"


class ConsoleUser:
    """Types keys into a console and sees the output. `actions` are those of the last call."""

    def __init__(
        self,
        quirks: Quirks = NO_QUIRKS,
        keys: str = "",
        name: str = "vty0",
        *,
        account: DeviceAccount = ACCOUNT,
        device: SimulatedDevice | None = None,
        user: str | None = None,
    ) -> None:
        self.device = device or SimulatedDevice("sw1", account)
        self.console = QuirkyConsole(self.device, name, quirks, user=user)
        self.actions: list[TerminalAction] = []
        self.greeting = self.output_of(self.console.start())
        self.type(keys)

    def type(self, keys: str, now: float = 0.0) -> str:
        """Type `keys` and return the output."""
        return self.output_of(self.console.feed(keys.encode(), now))

    def wake(self, now: float = 0.0) -> str:
        """Let the delay that the console requested pass, and return the output."""
        return self.output_of(self.console.wake(now))

    def log_in(self) -> Self:
        self.type("admin\rpw\r")
        return self

    def enable(self) -> Self:
        self.type(LOGIN)
        return self

    def requested(self, kind: type[TerminalAction]) -> bool:
        """Whether the last call resulted in an action of this kind."""
        return any(isinstance(action, kind) for action in self.actions)

    def output_of(self, actions: list[TerminalAction]) -> str:
        self.actions = actions
        return output_of(actions)


def output_of(actions: list[TerminalAction]) -> str:
    return b"".join(action.data for action in actions if isinstance(action, SendOutput)).decode()


def command_output(text: str) -> str:
    """Return the output between echo and prompt, with line feeds as line ends."""
    return text.replace("\r\n", "\n").split("\n", 1)[1].rpartition("\n")[0]

"""All lines of a simulated switch: new ones, and what one has to tell the others."""

from __future__ import annotations

import asyncio
from itertools import count

from .actions import Action, Log, Reload
from .console import Console
from .device import Device
from .line import Line, Wire
from .quirks import Quirks


class Lines:
    """Gives each connection its line. With `shared_console`, all of Telnet is the one serial console."""

    def __init__(self, device: Device, quirks: Quirks, *, shared_console: bool, ping_interval: float) -> None:
        self.quirks = quirks
        self._device, self._ping_interval = device, ping_interval
        self._vtys: dict[int, Line] = {}
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._console = self._new("con0", None) if shared_console else None

    def telnet(self) -> Line:
        """The line of a new Telnet connection, which has yet to be attached to it."""
        return self._console or self._vty(None)

    def ssh(self, user: str) -> Line:
        """The line of a new SSH session, likewise; `user` has been authenticated."""
        return self._vty(user)

    def release(self, line: Line, wire: Wire) -> None:
        """The connection is gone. A vty ends with it, a console stays as it is."""
        if line is self._console:
            line.detach(wire)
            return
        line.stop()
        self._vtys = {number: vty for number, vty in self._vtys.items() if vty is not line}

    def syslog(self, message: str) -> None:
        """Logs `message` and shows it on every line that shows such."""
        self._tell(self._device.record(message, self._now()), None)

    def stop(self) -> None:
        for line in self._all():
            line.stop()

    def _now(self) -> float:
        return self._loop.time() - self._started

    def _all(self) -> list[Line]:
        return [*self._vtys.values(), *([self._console] if self._console else [])]

    def _vty(self, user: str | None) -> Line:
        number = next(number for number in count() if number not in self._vtys)
        line = self._new(f"vty{number}", user)
        self._vtys[number] = line
        return line

    def _new(self, name: str, user: str | None) -> Line:
        console = Console(self._device, name, self.quirks, user=user, ping_interval=self._ping_interval)
        return Line(console, self._now, self._others)

    def _others(self, origin: Line, action: Action) -> None:
        match action:
            case Log(line):
                self._tell(line, origin)
            case Reload():
                self._device.reload(self._now())
                for each in self._all():
                    each.reboot()

    def _tell(self, text: str, origin: Line | None) -> None:
        for line in self._all():
            if line is not origin:
                line.syslog(text)

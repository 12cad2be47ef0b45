"""A switch to practise on: it runs inside of the process and listens on 127.0.0.1."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from .device import Account, Device
from .lines import Lines
from .login import same
from .quirks import NO_QUIRKS, Quirks
from .ssh_server import SSHServer
from .telnet_server import TelnetServer


class SimulatedSwitch:
    """`async with SimulatedSwitch(password=…) as switch:` and it can be reached at its two ports.

    Args:
        hostname: of the switch; `hostname` in configuration mode changes it.
        username: None asks for the password only (on SSH any name is then right).
        password: of the login.
        enable_secret: of `enable`; None asks for none.
        quirks: what is odd about its consoles.
        shared_console: all Telnet connections share the one serial console, whose state outlives them. Otherwise each has
            a vty of its own, as SSH sessions always do.
        ping_interval: seconds from one mark of `ping` to the next.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        hostname: str = "switch-001",
        username: str | None = "admin",
        *,
        password: str,
        enable_secret: str | None = None,
        quirks: Quirks = NO_QUIRKS,
        shared_console: bool = False,
        ping_interval: float = 0.2,
    ) -> None:
        self._account = Account(username, password, enable_secret)
        self._device = Device(hostname, self._account)
        self._quirks, self._shared_console, self._ping_interval = quirks, shared_console, ping_interval
        self._lines: Lines | None = None
        self._stack = AsyncExitStack()
        self.telnet_port = 0
        self.ssh_port = 0
        self.host_key_fingerprint = ""

    @property
    def hostname(self) -> str:
        """As it is configured now."""
        return self._device.hostname

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._lines = Lines(
                self._device, self._quirks, shared_console=self._shared_console, ping_interval=self._ping_interval
            )
            stack.callback(self._lines.stop)
            telnet, ssh = TelnetServer(self._lines), SSHServer(self._lines, self._check)
            stack.push_async_callback(telnet.stop)
            stack.push_async_callback(ssh.stop)
            self.telnet_port = await telnet.start(self.host)
            self.ssh_port = await ssh.start(self.host)
            self.host_key_fingerprint = ssh.fingerprint
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lines = None
        await self._stack.aclose()

    async def syslog(self, message: str) -> None:
        """Logs `message` (`%LINK-3-UPDOWN: …`) and shows it wherever syslog is shown: on the serial console, and on each
        vty after `terminal monitor`."""
        if self._lines is None:
            raise RuntimeError("the switch is not running: use it in `async with`")
        self._lines.syslog(message)

    def _check(self, username: str, password: str) -> bool:
        known = self._account.username is None or same(username, self._account.username)
        return known and same(password, self._account.password)

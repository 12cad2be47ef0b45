"""The simulated switch: runs inside the process and listens for Telnet and SSH on 127.0.0.1."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from .device import DeviceAccount, SimulatedDevice
from .quirks import NO_QUIRKS, Quirks
from .ssh_server import ssh_listener
from .telnet_server import telnet_listener
from .terminal_lines import LineTable


class SimulatedSwitch:
    """A switch with an IOS-like command line. An asynchronous context manager: listens while it is entered.

    Args:
        hostname: Initial hostname; `hostname` in configuration mode changes it.
        username: Login name. With None, Telnet asks for the password only and SSH accepts any name.
        password: Login password.
        enable_secret: Secret of `enable`; with None it asks for none.
        quirks: Quirks of its consoles.
        shared_console: All Telnet connections share one serial console, whose state outlives them. Otherwise each has its
            own vty, as SSH sessions always do.
        ping_interval: Seconds between two marks of `ping`.
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
        self._account = DeviceAccount(username, password, enable_secret)
        self._device = SimulatedDevice(hostname, self._account)
        self.quirks = quirks
        self._shared_console, self._ping_interval = shared_console, ping_interval
        self._lines: LineTable | None = None
        self._stack = AsyncExitStack()
        self.telnet_port = 0
        self.ssh_port = 0
        self.host_key_fingerprint = ""

    @property
    def hostname(self) -> str:
        """The configured hostname."""
        return self._device.hostname

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._lines = LineTable(
                self._device, self.quirks, shared_console=self._shared_console, ping_interval=self._ping_interval
            )
            stack.callback(self._lines.stop)
            self.telnet_port = await stack.enter_async_context(telnet_listener(self._lines, self.host))
            ssh = ssh_listener(self._lines, self._account.accepts, self.host)
            self.ssh_port, self.host_key_fingerprint = await stack.enter_async_context(ssh)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lines = None
        await self._stack.aclose()

    async def syslog(self, message: str) -> None:
        """Log `message` (`%LINK-3-UPDOWN: …`) and show it on the serial console and on each vty with `terminal monitor`.

        Raises:
            RuntimeError: the switch is not running.
        """
        if self._lines is None:
            raise RuntimeError("the switch is not running: use it in `async with`")
        self._lines.syslog(message)

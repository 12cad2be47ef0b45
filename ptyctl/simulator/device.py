"""The switch behind the consoles: what all of them share."""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import AddressValueError, IPv4Address, IPv4Interface
from itertools import cycle

from .configuration import factory

#: A switch that nobody told the time starts here; the `*` before its times says that they are not to be trusted.
EPOCH = datetime(1993, 3, 1)

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

#: How many lines `show logging` can show: the default buffer of a switch is 4 KiB.
LOG_LINES = 50

#: What happens on a switch all day long.
CHATTER = (
    "%LINK-3-UPDOWN: Interface GigabitEthernet1/0/7, changed state to down",
    "%LINEPROTO-5-UPDOWN: Line protocol on Interface GigabitEthernet1/0/7, changed state to down",
    "%LINK-3-UPDOWN: Interface GigabitEthernet1/0/7, changed state to up",
    "%LINEPROTO-5-UPDOWN: Line protocol on Interface GigabitEthernet1/0/7, changed state to up",
)


@dataclass(frozen=True, slots=True)
class Account:
    """Who may log in. `username` None asks for the password only; `enable_secret` None lets everybody enable."""

    username: str | None
    password: str = field(repr=False)
    enable_secret: str | None = field(default=None, repr=False)


class Device:
    """Configurations, log and clock. All times are seconds since the simulated switch started."""

    def __init__(self, hostname: str, account: Account) -> None:
        self.account = account
        self.startup = factory(hostname)
        self.running = deepcopy(self.startup)
        self.log: deque[str] = deque(maxlen=LOG_LINES)
        self._chatter = cycle(CHATTER)
        self._booted = 0.0
        self._restarted(0.0)

    @property
    def hostname(self) -> str:
        return self.running.hostname

    @property
    def modified(self) -> bool:
        """Whether a reload would lose something."""
        return self.running != self.startup

    def save(self) -> None:
        self.startup = deepcopy(self.running)

    def discard(self) -> None:
        """Forgets what was not saved."""
        self.running = deepcopy(self.startup)

    def reload(self, now: float) -> None:
        self.discard()
        self.log.clear()
        self._booted = now
        self._restarted(now)

    def uptime(self, now: float) -> timedelta:
        return timedelta(seconds=max(0.0, now - self._booted))

    def time(self, now: float) -> str:
        """The clock as `show clock` prints it."""
        moment = EPOCH + self.uptime(now)
        return (
            f"*{moment:%H:%M:%S}.{moment.microsecond // 1000:03} UTC "
            f"{DAYS[moment.weekday()]} {MONTHS[moment.month - 1]} {moment.day} {moment.year}"
        )

    def record(self, message: str, now: float) -> str:
        """Logs `message` (`%FACILITY-SEVERITY-MNEMONIC: text`); gives the line with its time."""
        moment = EPOCH + self.uptime(now)
        stamp = f"{MONTHS[moment.month - 1]} {moment.day:2} {moment:%H:%M:%S}.{moment.microsecond // 1000:03}"
        line = f"*{stamp}: {message}"
        self.log.append(line)
        return line

    def chatter(self) -> str:
        """The next thing that happens by itself."""
        return next(self._chatter)

    def reaches(self, address: str) -> bool:
        """Whether a ping is answered: only hosts on a network of the switch itself are.

        Raises:
            ValueError: no IPv4 address.
        """
        try:
            target = IPv4Address(address)
        except AddressValueError as error:
            raise ValueError(f"no IPv4 address: {address}") from error
        up = [interface for interface in self.running.interfaces.values() if interface.address and interface.up]
        return any(target in IPv4Interface(f"{own.address}/{own.mask}").network for own in up)

    def _restarted(self, now: float) -> None:
        self.record("%SYS-5-RESTART: System restarted", now)
        self.record("%LINEPROTO-5-UPDOWN: Line protocol on Interface Vlan99, changed state to up", now)

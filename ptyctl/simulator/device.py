"""State of the simulated switch that all its lines share: accounts, configurations, log and clock."""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from ipaddress import AddressValueError, IPv4Address, IPv4Interface
from itertools import cycle

from .running_config import factory_config

#: Clock at start-up. IOS starts there without a time source, and marks such times with `*`.
EPOCH = datetime(1993, 3, 1)

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

#: Lines that `show logging` keeps.
LOG_LINES = 50

#: Messages of the quirks that add syslog lines.
SAMPLE_EVENTS = (
    "%LINK-3-UPDOWN: Interface GigabitEthernet1/0/7, changed state to down",
    "%LINEPROTO-5-UPDOWN: Line protocol on Interface GigabitEthernet1/0/7, changed state to down",
    "%LINK-3-UPDOWN: Interface GigabitEthernet1/0/7, changed state to up",
    "%LINEPROTO-5-UPDOWN: Line protocol on Interface GigabitEthernet1/0/7, changed state to up",
)


@dataclass(frozen=True, slots=True)
class DeviceAccount:
    """Login credentials. Without `username` only the password is asked; without `enable_secret` enable asks for none."""

    username: str | None
    password: str = field(repr=False)
    enable_secret: str | None = field(default=None, repr=False)


class SimulatedDevice:
    """Configurations, log and clock. `now` is in seconds since the simulator started."""

    def __init__(self, hostname: str, account: DeviceAccount) -> None:
        self.account = account
        self.startup = factory_config(hostname)
        self.running = deepcopy(self.startup)
        self.log: deque[str] = deque(maxlen=LOG_LINES)
        self._sample_events = cycle(SAMPLE_EVENTS)
        self._booted = 0.0
        self._record_restart(0.0)

    @property
    def hostname(self) -> str:
        return self.running.hostname

    @hostname.setter
    def hostname(self, hostname: str) -> None:
        self.running.hostname = hostname

    @property
    def modified(self) -> bool:
        """Whether the running configuration differs from the saved one."""
        return self.running != self.startup

    def change_password(self, password: str) -> None:
        self.account = replace(self.account, password=password)

    def save(self) -> None:
        self.startup = deepcopy(self.running)

    def revert(self) -> None:
        """Discard unsaved changes."""
        self.running = deepcopy(self.startup)

    def reload(self, now: float) -> None:
        self.revert()
        self.log.clear()
        self._booted = now
        self._record_restart(now)

    def uptime(self, now: float) -> timedelta:
        return timedelta(seconds=max(0.0, now - self._booted))

    def clock(self, now: float) -> str:
        """Return the time as `show clock` prints it."""
        time = EPOCH + self.uptime(now)
        return (
            f"*{time:%H:%M:%S}.{time.microsecond // 1000:03} UTC "
            f"{DAYS[time.weekday()]} {MONTHS[time.month - 1]} {time.day} {time.year}"
        )

    def record(self, message: str, now: float) -> str:
        """Log `message` (`%FACILITY-SEVERITY-MNEMONIC: text`) and return the line with its timestamp."""
        time = EPOCH + self.uptime(now)
        stamp = f"{MONTHS[time.month - 1]} {time.day:2} {time:%H:%M:%S}.{time.microsecond // 1000:03}"
        line = f"*{stamp}: {message}"
        self.log.append(line)
        return line

    def next_sample_event(self) -> str:
        return next(self._sample_events)

    def reaches(self, address: str) -> bool:
        """Return whether a ping to the address is answered. Only directly connected networks answer.

        Raises:
            ValueError: not an IPv4 address.
        """
        try:
            target = IPv4Address(address)
        except AddressValueError as error:
            raise ValueError(f"not an IPv4 address: {address}") from error
        up = [interface for interface in self.running.interfaces.values() if interface.address and interface.up]
        return any(target in IPv4Interface(f"{own.address}/{own.mask}").network for own in up)

    def _record_restart(self, now: float) -> None:
        self.record("%SYS-5-RESTART: System restarted", now)
        self.record("%LINEPROTO-5-UPDOWN: Line protocol on Interface Vlan99, changed state to up", now)

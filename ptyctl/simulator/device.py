"""State of the simulated switch that all its lines share: account, configurations, log and clock."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hmac import compare_digest
from ipaddress import IPv4Address, IPv4Interface
from itertools import cycle

#: Clock at start-up. IOS starts there without a time source, and marks such times with `*`.
EPOCH = datetime(1993, 3, 1)

#: Lines that `show logging` keeps.
LOG_LINES = 50

#: Messages of the quirks that add syslog lines.
SAMPLE_EVENTS = (
    "%LINK-3-UPDOWN: Interface GigabitEthernet1/0/7, changed state to down",
    "%LINEPROTO-5-UPDOWN: Line protocol on Interface GigabitEthernet1/0/7, changed state to down",
    "%LINK-3-UPDOWN: Interface GigabitEthernet1/0/7, changed state to up",
    "%LINEPROTO-5-UPDOWN: Line protocol on Interface GigabitEthernet1/0/7, changed state to up",
)

#: Interface types and their short forms.
KINDS = {"GigabitEthernet": "Gi", "Vlan": "Vl", "Loopback": "Lo"}

#: Interface types that are created by configuring them.
VIRTUAL = ("Vlan", "Loopback")

PORTS = 48

#: Ports with a link.
CABLED = frozenset([*range(1, 13), 47, 48])


@dataclass(slots=True)
class SwitchInterface:
    """An interface. `address` and `mask` are dotted quads, or empty."""

    kind: str
    number: str
    description: str = ""
    shutdown: bool = False
    trunk: bool = False
    vlan: int = 1
    address: str = ""
    mask: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind}{self.number}"

    @property
    def short(self) -> str:
        return f"{KINDS[self.kind]}{self.number}"

    @property
    def is_port(self) -> bool:
        return self.kind not in VIRTUAL

    @property
    def up(self) -> bool:
        """Whether the line protocol is up."""
        has_link = not self.is_port or int(self.number.rpartition("/")[2]) in CABLED
        return has_link and not self.shutdown

    def lines(self) -> list[str]:
        """Return the interface section of the configuration."""
        lines = [f"interface {self.name}"]
        if self.description:
            lines.append(f" description {self.description}")
        if self.is_port and self.vlan != 1:
            lines.append(f" switchport access vlan {self.vlan}")
        if self.is_port:
            lines.append(" switchport mode trunk" if self.trunk else " switchport mode access")
        else:
            lines.append(f" ip address {self.address} {self.mask}" if self.address else " no ip address")
        return [*lines, " shutdown", "!"] if self.shutdown else [*lines, "!"]


@dataclass(slots=True)
class RunningConfig:
    """A configuration. Equal configurations have equal text."""

    hostname: str
    interfaces: dict[str, SwitchInterface] = field(default_factory=dict)
    vlans: dict[int, str] = field(default_factory=dict)

    def find_interface(self, name: str) -> SwitchInterface | None:
        """Return the interface with this name or abbreviation: gi1/0/1, GigabitEthernet1/0/1, vl1.

        Creates virtual interfaces.
        """
        parts = re.fullmatch(r"([A-Za-z]+)(\d[\d/]*)", name)
        if parts is None:
            return None
        kinds = [kind for kind in KINDS if kind.lower().startswith(parts[1].lower())]
        if len(kinds) != 1:
            return None
        full = kinds[0] + parts[2]
        if kinds[0] in VIRTUAL and parts[2].isdigit() and len(parts[2]) <= 4:
            self.interfaces.setdefault(full, SwitchInterface(kinds[0], parts[2]))
        return self.interfaces.get(full)

    def add_vlan(self, number: int) -> None:
        """Add a VLAN, named after its number, unless it exists."""
        self.vlans.setdefault(number, f"VLAN{number:04}")

    def remove_vlan(self, number: int) -> None:
        """Remove a VLAN if it exists."""
        self.vlans.pop(number, None)

    def name_vlan(self, number: int, name: str) -> None:
        """Set the name of a VLAN."""
        self.vlans[number] = name

    def text(self) -> str:
        """Return the configuration as `show running-config` prints it, without the heading."""
        lines = ["!", "version 15.2", "no service pad", "service timestamps log datetime msec", "!"]
        lines += [f"hostname {self.hostname}", "!", "no ip domain-lookup", "!", "spanning-tree mode rapid-pvst", "!"]
        for number, name in sorted(self.vlans.items()):
            lines += [f"vlan {number}", f" name {name}", "!"]
        for interface in self.interfaces.values():
            lines += interface.lines()
        lines += ["ip default-gateway 192.0.2.1", "!", "line con 0", "line vty 0 15"]
        lines += [" login local", " transport input telnet ssh", "!", "end"]
        return "\n".join(lines) + "\n"


def factory_config(hostname: str) -> RunningConfig:
    """Return the configuration of an access switch. Its addresses are from RFC 5737, for documentation."""
    descriptions = {1: "printer room 101", 2: "desk 12", 47: "uplink core-2", 48: "uplink core-1"}
    interfaces = [
        SwitchInterface(
            "GigabitEthernet",
            f"1/0/{number}",
            descriptions.get(number, ""),
            shutdown=40 <= number <= 44,
            trunk=number in (47, 48),
            vlan=10 if number <= 24 else 20 if number <= 46 else 1,
        )
        for number in range(1, PORTS + 1)
    ]
    interfaces.append(SwitchInterface("Vlan", "1", shutdown=True))
    interfaces.append(SwitchInterface("Vlan", "99", address="192.0.2.11", mask="255.255.255.0"))
    vlans = {10: "users", 20: "voice", 99: "management"}
    return RunningConfig(hostname, {interface.name: interface for interface in interfaces}, vlans)


@dataclass(frozen=True, slots=True)
class DeviceAccount:
    """Login credentials. Without `username` only the password is asked; without `enable_secret` enable asks for none."""

    username: str | None
    password: str = field(repr=False)
    enable_secret: str | None = field(default=None, repr=False)

    def accepts(self, username: str, password: str) -> bool:
        is_known = self.username is None or secrets_equal(username, self.username)
        return is_known and secrets_equal(password, self.password)


def secrets_equal(given: str, secret: str) -> bool:
    return compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode())


class SimulatedDevice:
    """State of the switch: configurations, log and clock. `now`: seconds since the simulator started."""

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

    def rename(self, hostname: str) -> None:
        """Change the host name, and with it the prompt."""
        self.running.hostname = hostname

    @property
    def enable_secret(self) -> str | None:
        return self.account.enable_secret

    def interfaces(self) -> Iterable[SwitchInterface]:
        """Return the interfaces of the running configuration."""
        return self.running.interfaces.values()

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
        weekday, month, day, clock, year = time.ctime().split()
        return f"*{clock}.{time.microsecond // 1000:03} UTC {weekday} {month} {day} {year}"

    def record(self, message: str, now: float) -> str:
        """Log `message` (`%FACILITY-SEVERITY-MNEMONIC: text`) and return the line with its timestamp."""
        time = EPOCH + self.uptime(now)
        line = f"*{time.ctime()[4:19]}.{time.microsecond // 1000:03}: {message}"
        self.log.append(line)
        return line

    def next_sample_event(self) -> str:
        return next(self._sample_events)

    def reaches(self, address: str) -> bool:
        """Return whether a ping to the address is answered. Only directly connected networks answer.

        Raises:
            ValueError: not an IPv4 address.
        """
        target = IPv4Address(address)
        up = [interface for interface in self.interfaces() if interface.address and interface.up]
        return any(target in IPv4Interface(f"{own.address}/{own.mask}").network for own in up)

    def _record_restart(self, now: float) -> None:
        self.record("%SYS-5-RESTART: System restarted", now)
        self.record("%LINEPROTO-5-UPDOWN: Line protocol on Interface Vlan99, changed state to up", now)

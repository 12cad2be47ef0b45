"""Configuration of the simulated switch: hostname, VLANs and interfaces, and its text form."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

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
        if self.is_port:
            lines += [f" switchport access vlan {self.vlan}"] if self.vlan != 1 else []
            lines += [" switchport mode trunk"] if self.trunk else [" switchport mode access"]
        else:
            lines.append(f" ip address {self.address} {self.mask}" if self.address else " no ip address")
        if self.shutdown:
            lines.append(" shutdown")
        return [*lines, "!"]


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

    def text(self) -> str:
        """Return the configuration as `show running-config` prints it, without the heading."""
        lines = [
            "!",
            "version 15.2",
            "no service pad",
            "service timestamps log datetime msec",
            "!",
            f"hostname {self.hostname}",
            "!",
            "no ip domain-lookup",
            "!",
            "spanning-tree mode rapid-pvst",
            "!",
        ]
        for number, name in sorted(self.vlans.items()):
            lines += [f"vlan {number}", f" name {name}", "!"]
        for interface in self.interfaces.values():
            lines += interface.lines()
        lines += ["ip default-gateway 192.0.2.1", "!", "line con 0", "line vty 0 15"]
        lines += [" login local", " transport input telnet ssh", "!", "end"]
        return "\n".join(lines) + "\n"


def factory_config(hostname: str) -> RunningConfig:
    """Return the configuration of an access switch. Its addresses are from RFC 5737, for documentation."""
    configuration = RunningConfig(hostname, vlans={10: "users", 20: "voice", 99: "management"})
    for number in range(1, PORTS + 1):
        port = SwitchInterface("GigabitEthernet", f"1/0/{number}")
        port.vlan = 10 if number <= 24 else 20
        port.shutdown = 40 <= number <= 44
        configuration.interfaces[port.name] = port
    for number, description in ((1, "printer room 101"), (2, "desk 12"), (47, "uplink core-2"), (48, "uplink core-1")):
        configuration.interfaces[f"GigabitEthernet1/0/{number}"].description = description
    for number in (47, 48):
        uplink = configuration.interfaces[f"GigabitEthernet1/0/{number}"]
        uplink.trunk, uplink.vlan = True, 1
    configuration.interfaces["Vlan1"] = SwitchInterface("Vlan", "1", shutdown=True)
    configuration.interfaces["Vlan99"] = SwitchInterface("Vlan", "99", address="192.0.2.11", mask="255.255.255.0")
    return configuration

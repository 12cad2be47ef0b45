"""What can be configured: the hostname, VLANs and interfaces, and how a switch prints that."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

#: Interface types: the name, and how the short form of it begins.
KINDS = {"GigabitEthernet": "Gi", "Vlan": "Vl", "Loopback": "Lo"}

#: The kinds that exist once they are configured; ports are soldered on.
VIRTUAL = ("Vlan", "Loopback")

PORTS = 48

#: The ports that have a cable in them.
CABLED = frozenset([*range(1, 13), 47, 48])


@dataclass(slots=True)
class Interface:
    """One interface. `address` and `mask` are dotted quads, or empty."""

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
        """Its part of the configuration."""
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
class Configuration:
    """A whole configuration. Two are equal when they would print the same."""

    hostname: str
    interfaces: dict[str, Interface] = field(default_factory=dict)
    vlans: dict[int, str] = field(default_factory=dict)

    def find(self, name: str) -> Interface | None:
        """The interface of that name, however abbreviated: gi1/0/1, GigabitEthernet1/0/1, vl1.

        A virtual one that does not exist yet is made.
        """
        parts = re.fullmatch(r"([A-Za-z]+)(\d[\d/]*)", name)
        if parts is None:
            return None
        kinds = [kind for kind in KINDS if kind.lower().startswith(parts[1].lower())]
        if len(kinds) != 1:
            return None
        full = kinds[0] + parts[2]
        if kinds[0] in VIRTUAL and parts[2].isdigit() and len(parts[2]) <= 4:
            self.interfaces.setdefault(full, Interface(kinds[0], parts[2]))
        return self.interfaces.get(full)

    def text(self) -> str:
        """The configuration as `show running-config` prints it, without its heading."""
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


def factory(hostname: str) -> Configuration:
    """A small office's access switch. Its address is one of RFC 5737's, for documentation."""
    configuration = Configuration(hostname, vlans={10: "users", 20: "voice", 99: "management"})
    for number in range(1, PORTS + 1):
        port = Interface("GigabitEthernet", f"1/0/{number}")
        port.vlan = 10 if number <= 24 else 20
        port.shutdown = 40 <= number <= 44
        configuration.interfaces[port.name] = port
    for number, description in ((1, "printer room 101"), (2, "desk 12"), (47, "uplink core-2"), (48, "uplink core-1")):
        configuration.interfaces[f"GigabitEthernet1/0/{number}"].description = description
    for number in (47, 48):
        uplink = configuration.interfaces[f"GigabitEthernet1/0/{number}"]
        uplink.trunk, uplink.vlan = True, 1
    configuration.interfaces["Vlan1"] = Interface("Vlan", "1", shutdown=True)
    configuration.interfaces["Vlan99"] = Interface("Vlan", "99", address="192.0.2.11", mask="255.255.255.0")
    return configuration

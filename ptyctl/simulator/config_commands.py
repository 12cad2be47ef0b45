"""The commands below `configure terminal`."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from .configuration import Interface
from .exec_commands import PRIVILEGED
from .grammar import Arguments, InvalidInput, build, parse
from .modes import PARENT, Mode

if TYPE_CHECKING:
    from .console import Console
    from .exec_commands import Handler

#: What a hostname may be (RFC 1123, one label).
_HOSTNAME = re.compile(r"[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


def _hostname(console: Console, arguments: Arguments) -> str:
    name = arguments.texts[0]
    if not _HOSTNAME.fullmatch(name):
        return "% Hostname contains one or more illegal characters.\n\n"
    console.device.running.hostname = name
    return ""


def _no_hostname(console: Console, _: Arguments) -> str:
    console.device.running.hostname = "Switch"
    return ""


def _choose_interface(console: Console, arguments: Arguments) -> str:
    interface = console.device.running.find("".join(arguments.texts))
    if interface is None:
        raise InvalidInput(arguments.offsets[-1])
    console.mode, console.subject = Mode.CONFIG_IF, interface.name
    return ""


def _choose_vlan(console: Console, arguments: Arguments) -> str:
    number = int(arguments.texts[0])
    console.device.running.vlans.setdefault(number, f"VLAN{number:04}")
    console.mode, console.subject = Mode.CONFIG_VLAN, str(number)
    return ""


def _remove_vlan(console: Console, arguments: Arguments) -> str:
    console.device.running.vlans.pop(int(arguments.texts[0]), None)
    return ""


def _name_vlan(console: Console, arguments: Arguments) -> str:
    console.device.running.vlans[int(console.subject)] = arguments.texts[0]
    return ""


def _exit(console: Console, _: Arguments) -> str | None:
    if PARENT[console.mode].configures:
        console.mode, console.subject = PARENT[console.mode], ""
        return ""
    console.leave_configuration(console.finish)
    return None


def _end(console: Console, _: Arguments) -> None:
    console.leave_configuration(console.finish)


def _do(console: Console, arguments: Arguments) -> str | None:
    try:
        run, inner = parse(PRIVILEGED, arguments.texts[0])
    except InvalidInput as error:
        raise InvalidInput(arguments.offsets[0] + error.offset) from error
    return run(console, inner)


def _on_interface(change: Callable[[Interface, Arguments], None]) -> Handler:
    def run(console: Console, arguments: Arguments) -> str:
        change(console.device.running.interfaces[console.subject], arguments)
        return ""

    return run


def _shut(down: bool) -> Handler:
    def run(console: Console, _: Arguments) -> str:
        interface = console.device.running.interfaces[console.subject]
        if interface.shutdown != down:
            interface.shutdown = down
            state = "administratively down" if down else "up" if interface.up else "down"
            facility = "%LINK-5-CHANGED" if down else "%LINK-3-UPDOWN"
            console.log(f"{facility}: Interface {interface.name}, changed state to {state}")
        return ""

    return run


def _describe(interface: Interface, arguments: Arguments) -> None:
    interface.description = arguments.texts[0] if arguments.texts else ""


def _access_vlan(interface: Interface, arguments: Arguments) -> None:
    interface.vlan = int(arguments.texts[0]) if arguments.texts else 1


def _trunk(interface: Interface, _: Arguments) -> None:
    interface.trunk = True


def _access(interface: Interface, _: Arguments) -> None:
    interface.trunk = False


def _address(interface: Interface, arguments: Arguments) -> None:
    if interface.is_port:
        raise InvalidInput(arguments.offsets[0])
    try:
        IPv4Network(f"0.0.0.0/{arguments.texts[1]}")
    except ValueError as error:
        raise InvalidInput(arguments.offsets[1]) from error
    interface.address, interface.mask = arguments.texts


def _no_address(interface: Interface, _: Arguments) -> None:
    interface.address = interface.mask = ""


_CONFIG: tuple[tuple[str, Handler], ...] = (
    ("do LINE", _do),
    ("end", _end),
    ("exit", _exit),
    ("hostname WORD", _hostname),
    ("interface IFNAME", _choose_interface),
    ("interface IFTYPE IFNUMBER", _choose_interface),
    ("no hostname", _no_hostname),
    ("no vlan <2-4094>", _remove_vlan),
    ("vlan <2-4094>", _choose_vlan),
)

_INTERFACE: tuple[tuple[str, Handler], ...] = (
    ("description LINE", _on_interface(_describe)),
    ("ip address A.B.C.D A.B.C.D", _on_interface(_address)),
    ("no description", _on_interface(_describe)),
    ("no ip address", _on_interface(_no_address)),
    ("no shutdown", _shut(False)),
    ("no switchport access vlan", _on_interface(_access_vlan)),
    ("shutdown", _shut(True)),
    ("switchport access vlan <1-4094>", _on_interface(_access_vlan)),
    ("switchport mode access", _on_interface(_access)),
    ("switchport mode trunk", _on_interface(_trunk)),
)

_VLAN: tuple[tuple[str, Handler], ...] = (("name WORD", _name_vlan),)

CONFIG = build(_CONFIG)
INTERFACE = build(_INTERFACE)
VLAN = build(_VLAN)

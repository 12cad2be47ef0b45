"""Commands of the configuration modes, and `COMMANDS`, the commands of all modes."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Network

from .cli_grammar import Arguments, CommandSet, InvalidInput
from .console import PARENT_MODE, CommandHandler, CommandMode, DeviceConsole
from .exec_commands import PRIVILEGED_COMMANDS, USER_COMMANDS
from .running_config import RunningConfig, SwitchInterface

#: Valid hostnames: one label (RFC 1123).
_HOSTNAME = re.compile(r"[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


def _config(console: DeviceConsole) -> RunningConfig:
    return console.device.running


def _hostname(console: DeviceConsole, arguments: Arguments) -> str:
    name = arguments.texts[0]
    if not _HOSTNAME.fullmatch(name):
        return "% Hostname contains one or more illegal characters.\n\n"
    console.device.hostname = name
    return ""


def _no_hostname(console: DeviceConsole, _: Arguments) -> str:
    console.device.hostname = "Switch"
    return ""


def _interface(console: DeviceConsole, arguments: Arguments) -> str:
    interface = _config(console).find_interface("".join(arguments.texts))
    if interface is None:
        raise InvalidInput(arguments.offsets[-1])
    console.enter_mode(CommandMode.CONFIG_IF, interface.name)
    return ""


def _vlan(console: DeviceConsole, arguments: Arguments) -> str:
    number = int(arguments.texts[0])
    _config(console).vlans.setdefault(number, f"VLAN{number:04}")
    console.enter_mode(CommandMode.CONFIG_VLAN, str(number))
    return ""


def _no_vlan(console: DeviceConsole, arguments: Arguments) -> str:
    _config(console).vlans.pop(int(arguments.texts[0]), None)
    return ""


def _vlan_name(console: DeviceConsole, arguments: Arguments) -> str:
    _config(console).vlans[int(console.subject)] = arguments.texts[0]
    return ""


def _exit(console: DeviceConsole, _: Arguments) -> str | None:
    parent = PARENT_MODE[console.mode]
    if parent.is_config:
        console.enter_mode(parent)
        return ""
    console.exit_config(console.finish)
    return None


def _end(console: DeviceConsole, _: Arguments) -> None:
    console.exit_config(console.finish)


def _do(console: DeviceConsole, arguments: Arguments) -> str | None:
    try:
        handler, inner = PRIVILEGED_COMMANDS.parse(arguments.texts[0])
    except InvalidInput as error:
        raise InvalidInput(arguments.offsets[0] + error.offset) from error
    return handler(console, inner)


def _on_interface(change: Callable[[SwitchInterface, Arguments], None]) -> CommandHandler:
    def run(console: DeviceConsole, arguments: Arguments) -> str:
        change(_config(console).interfaces[console.subject], arguments)
        return ""

    return run


def _set_shutdown(down: bool) -> CommandHandler:
    def run(console: DeviceConsole, _: Arguments) -> str:
        interface = _config(console).interfaces[console.subject]
        if interface.shutdown != down:
            interface.shutdown = down
            state = "administratively down" if down else "up" if interface.up else "down"
            facility = "%LINK-5-CHANGED" if down else "%LINK-3-UPDOWN"
            console.log(f"{facility}: Interface {interface.name}, changed state to {state}")
        return ""

    return run


def _description(interface: SwitchInterface, arguments: Arguments) -> None:
    interface.description = arguments.texts[0] if arguments.texts else ""


def _access_vlan(interface: SwitchInterface, arguments: Arguments) -> None:
    interface.vlan = int(arguments.texts[0]) if arguments.texts else 1


def _trunk(interface: SwitchInterface, _: Arguments) -> None:
    interface.trunk = True


def _access(interface: SwitchInterface, _: Arguments) -> None:
    interface.trunk = False


def _address(interface: SwitchInterface, arguments: Arguments) -> None:
    if interface.is_port:
        raise InvalidInput(arguments.offsets[0])
    try:
        IPv4Network(f"0.0.0.0/{arguments.texts[1]}")
    except ValueError as error:
        raise InvalidInput(arguments.offsets[1]) from error
    interface.address, interface.mask = arguments.texts


def _no_address(interface: SwitchInterface, _: Arguments) -> None:
    interface.address = interface.mask = ""


_CONFIG: tuple[tuple[str, CommandHandler], ...] = (
    ("do LINE", _do),
    ("end", _end),
    ("exit", _exit),
    ("hostname WORD", _hostname),
    ("interface IFNAME", _interface),
    ("interface IFTYPE IFNUMBER", _interface),
    ("no hostname", _no_hostname),
    ("no vlan <2-4094>", _no_vlan),
    ("vlan <2-4094>", _vlan),
)

_CONFIG_IF: tuple[tuple[str, CommandHandler], ...] = (
    ("description LINE", _on_interface(_description)),
    ("ip address A.B.C.D A.B.C.D", _on_interface(_address)),
    ("no description", _on_interface(_description)),
    ("no ip address", _on_interface(_no_address)),
    ("no shutdown", _set_shutdown(False)),
    ("no switchport access vlan", _on_interface(_access_vlan)),
    ("shutdown", _set_shutdown(True)),
    ("switchport access vlan <1-4094>", _on_interface(_access_vlan)),
    ("switchport mode access", _on_interface(_access)),
    ("switchport mode trunk", _on_interface(_trunk)),
)

_CONFIG_VLAN: tuple[tuple[str, CommandHandler], ...] = (("name WORD", _vlan_name),)

CONFIG_COMMANDS = CommandSet(_CONFIG)

COMMANDS: dict[CommandMode, CommandSet[CommandHandler]] = {
    CommandMode.USER: USER_COMMANDS,
    CommandMode.PRIVILEGED: PRIVILEGED_COMMANDS,
    CommandMode.CONFIG: CONFIG_COMMANDS,
    CommandMode.CONFIG_IF: CommandSet(_CONFIG_IF, fallback=CONFIG_COMMANDS),
    CommandMode.CONFIG_VLAN: CommandSet(_CONFIG_VLAN, fallback=CONFIG_COMMANDS),
}

"""Output of the show commands, and the filters after `|`: include, exclude, begin and section.

Lines end with a line feed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import dropwhile

import re2

from .cli_grammar import CommandSet, InvalidInput
from .device import RunningConfig, SimulatedDevice, SwitchInterface

RULE = "------------------"

LineMatcher = Callable[[str], bool]
LineFilter = Callable[[Iterable[str], LineMatcher], Iterable[str]]


def version(device: SimulatedDevice, now: float) -> str:
    return f"""\
Cisco IOS Software, Simulated Software (PTYCTL-SIM-M), Version 15.2(7)E4, RELEASE SOFTWARE (fc1)
This is the simulated switch of ptyctl. It forwards no traffic.

ROM: Bootstrap program is the simulator boot loader

{device.hostname} uptime is {_duration(device.uptime(now))}
System returned to ROM by power-on
System image file is "flash:/simulator-15.2-7.E4.bin"
Last reload reason: power-on

cisco WS-SIM-48 (PowerPC) processor (revision A0) with 524288K bytes of memory.
Processor board ID PTY0001SIMU
Last reset from power-on
2 Virtual Ethernet interfaces
48 Gigabit Ethernet interfaces
64K bytes of flash-simulated non-volatile configuration memory.
Base ethernet MAC Address       : 00:00:5E:00:53:01
Model number                    : WS-SIM-48
System serial number            : PTY0001SIMU

Switch Ports Model              SW Version            SW Image
------ ----- -----              ----------            ----------
*    1 48    WS-SIM-48          15.2(7)E4             PTYCTL-SIM-M

Configuration register is 0xF

"""


def clock(device: SimulatedDevice, now: float) -> str:
    return device.clock(now) + "\n"


def running_config(device: SimulatedDevice, now: float) -> str:
    text = device.running.text()
    return f"Building configuration...\n\nCurrent configuration : {_size(device.running)} bytes\n{text}\n"


def startup_config(device: SimulatedDevice, now: float) -> str:
    return f"Using {_size(device.startup)} out of 65536 bytes\n{device.startup.text()}\n"


def interfaces_status(device: SimulatedDevice, now: float) -> str:
    heading = "\nPort      Name               Status       Vlan       Duplex  Speed Type\n"
    ports = (interface for interface in device.interfaces() if interface.is_port)
    return heading + "".join(_status_row(port) for port in ports)


def ip_interface_brief(device: SimulatedDevice, now: float) -> str:
    heading = "Interface              IP-Address      OK? Method Status                Protocol\n"
    # Virtual interfaces come first.
    interfaces = sorted(device.interfaces(), key=lambda interface: interface.is_port)
    return heading + "".join(_address_row(interface) for interface in interfaces)


def logging(device: SimulatedDevice, now: float) -> str:
    lines = list(device.log)
    heading = f"""\
Syslog logging: enabled (0 messages dropped, 0 messages rate-limited, 0 flushes, 0 overruns)

    Console logging: level debugging, {len(lines)} messages logged
    Monitor logging: level debugging, {len(lines)} messages logged
    Buffer logging:  level debugging, {len(lines)} messages logged

Log Buffer (4096 bytes):

"""
    return heading + "".join(line + "\n" for line in lines)


def tech_support(device: SimulatedDevice, now: float) -> str:
    """Return all show outputs in sequence: the longest output of the switch."""
    parts = {
        "clock": clock,
        "version": version,
        "running-config": running_config,
        "interfaces status": interfaces_status,
        "ip interface brief": ip_interface_brief,
        "logging": logging,
    }
    return "".join(f"{RULE} show {name} {RULE}\n\n{show(device, now)}\n" for name, show in parts.items())


def _size(configuration: RunningConfig) -> int:
    return len(_encode(configuration.text()))


def _status_row(port: SwitchInterface) -> str:
    state = "disabled" if port.shutdown else "connected" if port.up else "notconnect"
    vlan = "trunk" if port.trunk and port.up else str(port.vlan)
    duplex, speed = ("a-full", "a-1000") if port.up else ("auto", "auto")
    name = port.description[:18]
    return f"{port.short:<9} {name:<18} {state:<12} {vlan:<10} {duplex:>6} {speed:>6} 10/100/1000BaseTX\n"


def _address_row(interface: SwitchInterface) -> str:
    address, method = (interface.address, "NVRAM") if interface.address else ("unassigned", "unset")
    state = "administratively down" if interface.shutdown else "up" if interface.up else "down"
    protocol = "up" if interface.up else "down"
    return f"{interface.name:<22} {address:<15} YES {method:<6} {state:<21} {protocol:<8}\n"


def _duration(uptime: timedelta) -> str:
    minutes = int(uptime.total_seconds()) // 60
    parts = ((minutes // 1440, "day"), (minutes // 60 % 24, "hour"), (minutes % 60, "minute"))
    words = [f"{count} {unit}{'s' if count != 1 else ''}" for count, unit in parts if count or unit == "minute"]
    return ", ".join(words)


def filter_output(text: str, expression: str, offset: int) -> str:
    """Apply an output filter such as `include REGEX`, which begins `offset` characters into the command line.

    Raises:
        InvalidInput, AmbiguousCommand, IncompleteCommand.
    """
    try:
        line_filter, arguments = OUTPUT_FILTERS.parse(expression)
    except InvalidInput as error:
        raise InvalidInput(offset + error.offset) from error
    options = re2.Options()
    options.log_errors = False
    try:
        # Runs in the caller's event loop, so matching must take linear time.
        pattern = re2.compile(_encode(arguments.texts[0]), options)
    except re2.error as error:
        raise InvalidInput(offset + arguments.offsets[0]) from error
    lines = text.splitlines(keepends=True)
    return "".join(line_filter(lines, lambda line: pattern.search(_encode(line.rstrip("\n"))) is not None))


def _include(lines: Iterable[str], matches: LineMatcher) -> Iterable[str]:
    return filter(matches, lines)


def _exclude(lines: Iterable[str], matches: LineMatcher) -> Iterable[str]:
    return (line for line in lines if not matches(line))


def _begin(lines: Iterable[str], matches: LineMatcher) -> Iterable[str]:
    return dropwhile(lambda line: not matches(line), lines)


def _section(lines: Iterable[str], matches: LineMatcher) -> Iterator[str]:
    """Yield each matching line with the indented lines below it."""
    inside = False
    for line in lines:
        inside = matches(line) or (inside and line.startswith(" "))
        if inside:
            yield line


_FILTERS: tuple[tuple[str, LineFilter], ...] = (
    ("include LINE", _include),
    ("exclude LINE", _exclude),
    ("begin LINE", _begin),
    ("section LINE", _section),
)

OUTPUT_FILTERS = CommandSet(_FILTERS)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

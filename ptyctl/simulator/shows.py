"""The texts of the show commands. Each takes the device and the time, and gives text with `\\n` as the end of a line."""

from __future__ import annotations

from datetime import timedelta

from .configuration import Configuration, Interface
from .device import Device

RULE = "------------------"


def version(device: Device, now: float) -> str:
    return f"""\
Cisco IOS Software, Practice Software (PTYCTL-PRACTICE-M), Version 15.2(7)E4, RELEASE SOFTWARE (fc1)
This is a simulated switch inside of ptyctl. It switches nothing.

ROM: Bootstrap program is the practice boot loader

{device.hostname} uptime is {_duration(device.uptime(now))}
System returned to ROM by power-on
System image file is "flash:/practice-15.2-7.E4.bin"
Last reload reason: power-on

cisco WS-PRACTICE-48 (PowerPC) processor (revision A0) with 524288K bytes of memory.
Processor board ID PTY0001PRAC
Last reset from power-on
2 Virtual Ethernet interfaces
48 Gigabit Ethernet interfaces
64K bytes of flash-simulated non-volatile configuration memory.
Base ethernet MAC Address       : 00:00:5E:00:53:01
Model number                    : WS-PRACTICE-48
System serial number            : PTY0001PRAC

Switch Ports Model              SW Version            SW Image
------ ----- -----              ----------            ----------
*    1 48    WS-PRACTICE-48     15.2(7)E4             PTYCTL-PRACTICE-M

Configuration register is 0xF

"""


def clock(device: Device, now: float) -> str:
    return device.time(now) + "\n"


def running_config(device: Device, now: float) -> str:
    text = device.running.text()
    return f"Building configuration...\n\nCurrent configuration : {_size(device.running)} bytes\n{text}\n"


def startup_config(device: Device, now: float) -> str:
    return f"Using {_size(device.startup)} out of 65536 bytes\n{device.startup.text()}\n"


def interfaces_status(device: Device, now: float) -> str:
    heading = "\nPort      Name               Status       Vlan       Duplex  Speed Type\n"
    ports = (interface for interface in device.running.interfaces.values() if interface.is_port)
    return heading + "".join(_status_row(port) for port in ports)


def ip_interface_brief(device: Device, now: float) -> str:
    heading = "Interface              IP-Address      OK? Method Status                Protocol\n"
    # Virtual interfaces come first, as the ports are numbered after them.
    interfaces = sorted(device.running.interfaces.values(), key=lambda interface: interface.is_port)
    return heading + "".join(_address_row(interface) for interface in interfaces)


def logging(device: Device, now: float) -> str:
    lines = list(device.log)
    heading = f"""\
Syslog logging: enabled (0 messages dropped, 0 messages rate-limited, 0 flushes, 0 overruns)

    Console logging: level debugging, {len(lines)} messages logged
    Monitor logging: level debugging, {len(lines)} messages logged
    Buffer logging:  level debugging, {len(lines)} messages logged

Log Buffer (4096 bytes):

"""
    return heading + "".join(line + "\n" for line in lines)


def tech_support(device: Device, now: float) -> str:
    """Everything, one after the other: the longest text that the switch has."""
    parts = {
        "clock": clock,
        "version": version,
        "running-config": running_config,
        "interfaces status": interfaces_status,
        "ip interface brief": ip_interface_brief,
        "logging": logging,
    }
    return "".join(f"{RULE} show {name} {RULE}\n\n{show(device, now)}\n" for name, show in parts.items())


def _size(configuration: Configuration) -> int:
    return len(configuration.text().encode("utf-8", "surrogateescape"))


def _status_row(port: Interface) -> str:
    state = "disabled" if port.shutdown else "connected" if port.up else "notconnect"
    vlan = "trunk" if port.trunk and port.up else str(port.vlan)
    duplex, speed = ("a-full", "a-1000") if port.up else ("auto", "auto")
    name = port.description[:18]
    return f"{port.short:<9} {name:<18} {state:<12} {vlan:<10} {duplex:>6} {speed:>6} 10/100/1000BaseTX\n"


def _address_row(interface: Interface) -> str:
    address, method = (interface.address, "NVRAM") if interface.address else ("unassigned", "unset")
    state = "administratively down" if interface.shutdown else "up" if interface.up else "down"
    protocol = "up" if interface.up else "down"
    return f"{interface.name:<22} {address:<15} YES {method:<6} {state:<21} {protocol:<8}\n"


def _duration(uptime: timedelta) -> str:
    minutes = int(uptime.total_seconds()) // 60
    parts = ((minutes // 1440, "day"), (minutes // 60 % 24, "hour"), (minutes % 60, "minute"))
    words = [f"{count} {unit}{'s' if count != 1 else ''}" for count, unit in parts if count or unit == "minute"]
    return ", ".join(words)

"""What no single table can be wrong about: names that lead nowhere, and devices that could not be reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .faults import Fault
from .model import ConsoleServer, Device, Document

MAX_PORT = 65535


def faults_in(document: Document, devices: Mapping[str, Device]) -> Iterator[Fault]:
    """What is wrong with the servers, and with the devices as they are after merging."""
    for name, server in document.console_servers.items():
        yield from _server(f"console_servers.{name}", server, document)
    taken = _Taken()
    for name, device in devices.items():
        place = f"devices.{name}"
        yield from _reach(place, device, document)
        yield from _session(place, device)
        yield from taken.faults(name, device)


def _server(place: str, server: ConsoleServer, document: Document) -> Iterator[Fault]:
    if server.base_port is not None and server.port is not None:
        yield Fault(place, "has both port and base_port; leave one out")
    if server.base_port is None and "{port}" not in (server.username or ""):
        yield Fault(place, "says nowhere which line is meant; give base_port, or a username with {port} in it")
    yield from _jump(place, server.protocol, server.jump, document)


def _reach(place: str, device: Device, document: Document) -> Iterator[Fault]:
    if device.console is not None:
        yield from _console(place, device, document)
        return
    if device.host is None:
        yield Fault(place, "has neither host nor console; give one of them")
    if device.protocol is None:
        yield Fault(f"{place}.protocol", "is missing, also in its groups and the defaults; give ssh or telnet")
    yield from _jump(place, device.protocol, device.jump, document)


def _console(place: str, device: Device, document: Document) -> Iterator[Fault]:
    assert device.console is not None, "only a device with a console comes here"
    if device.host is not None:
        yield Fault(place, "has both host and console; leave one out")
    if device.session_type == "normal":
        yield Fault(f"{place}.session_type", 'is "normal", but a console server\'s line is a "console"; leave it out')
    server = document.console_servers.get(device.console.server)
    if server is None:
        yield Fault(
            f"{place}.console.server", f"there is no [console_servers.{device.console.server}]; add it or choose another"
        )
    elif server.base_port is not None and not 1 <= server.base_port + device.console.port <= MAX_PORT:
        yield Fault(f"{place}.console.port", f"is past {MAX_PORT} when added to base_port {server.base_port} of the server")


def _jump(place: str, protocol: str | None, jump: tuple[str, ...] | None, document: Document) -> Iterator[Fault]:
    for name in jump or ():
        if name not in document.jump_hosts:
            yield Fault(f"{place}.jump", f"there is no [jump_hosts.{name}]; add it or choose another")
    if jump and protocol == "telnet":
        yield Fault(f"{place}.jump", "goes through SSH hosts, and the protocol is telnet; set jump = [] to go there directly")


def _session(place: str, device: Device) -> Iterator[Fault]:
    if device.ssh_options is not None and device.ssh_options.jump is not None and device.jump:
        yield Fault(f"{place}.jump", "and ssh_options.jump both say which way to go; leave one out")
    if device.device_id is not None and device.session_type != "console" and device.console is None:
        yield Fault(f"{place}.device_id", 'is the name of a console; set session_type = "console" or leave it out')


@dataclass(slots=True)
class _Taken:
    """What only one device can have."""

    ids: dict[str, str] = field(default_factory=dict)
    lines: dict[tuple[str, int], str] = field(default_factory=dict)

    def faults(self, name: str, device: Device) -> Iterator[Fault]:
        if device.session_type == "console" or device.console is not None:
            device_id = device.device_id or name
            other = self.ids.setdefault(device_id, name)
            if other != name:
                yield Fault(f"devices.{name}.device_id", f"{device_id} is that of {other} too; one console has one name")
        if device.console is not None:
            line = (device.console.server, device.console.port)
            other = self.lines.setdefault(line, name)
            if other != name:
                yield Fault(
                    f"devices.{name}.console", f"port {line[1]} of {line[0]} is that of {other} too; a line has one device"
                )

"""Rules of devices.toml between tables: names that must exist, addresses that must be complete, names that must be unique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from transports.channel import MAX_PORT

from .faults import Fault
from .model import ConsoleServer, Document, InventoryDevice


def cross_table_faults(document: Document, devices: Mapping[str, InventoryDevice]) -> Iterator[Fault]:
    """Yield the faults of the console servers, and of the devices after merging."""
    for name, server in document.console_servers.items():
        yield from _server_faults(f"console_servers.{name}", server, document)
    users: dict[object, str] = {}
    for name, device in devices.items():
        place = f"devices.{name}"
        yield from _address_faults(place, device, document)
        yield from _session_faults(place, device)
        yield from _duplicate_faults(name, device, users)


def _server_faults(place: str, server: ConsoleServer, document: Document) -> Iterator[Fault]:
    if server.base_port is not None and server.port is not None:
        yield Fault(place, "has both port and base_port")
    if server.base_port is None and "{port}" not in (server.username or ""):
        yield Fault(place, "does not select the line: it has neither base_port nor a username with {port} in it")
    yield from _jump_faults(place, server.protocol, server.jump, document)


def _address_faults(place: str, device: InventoryDevice, document: Document) -> Iterator[Fault]:
    if device.console is not None:
        yield from _console_faults(place, device, document)
        return
    if device.host is None:
        yield Fault(place, "has neither host nor console")
    if device.protocol is None:
        yield Fault(f"{place}.protocol", "is missing, also in its groups and the defaults")
    yield from _jump_faults(place, device.protocol, device.jump, document)


def _console_faults(place: str, device: InventoryDevice, document: Document) -> Iterator[Fault]:
    assert device.console is not None, "called for console devices only"
    if device.host is not None:
        yield Fault(place, "has both host and console")
    if device.session_type == "normal":
        yield Fault(f"{place}.session_type", 'is "normal", but a console server\'s line is always a "console"')
    server = document.console_servers.get(device.console.server)
    if server is None:
        yield Fault(f"{place}.console.server", f"there is no [console_servers.{device.console.server}]")
    elif server.base_port is not None and not 1 <= server.base_port + device.console.port <= MAX_PORT:
        yield Fault(f"{place}.console.port", f"exceeds {MAX_PORT} when added to base_port {server.base_port} of the server")


def _jump_faults(place: str, protocol: str | None, jump: tuple[str, ...] | None, document: Document) -> Iterator[Fault]:
    for name in jump or ():
        if name not in document.jump_hosts:
            yield Fault(f"{place}.jump", f"there is no [jump_hosts.{name}]")
    if jump and protocol == "telnet":
        yield Fault(f"{place}.jump", "needs SSH, but the protocol is telnet (jump = [] connects directly)")


def _session_faults(place: str, device: InventoryDevice) -> Iterator[Fault]:
    if device.ssh_options is not None and device.ssh_options.jump is not None and device.jump:
        yield Fault(f"{place}.jump", "and ssh_options.jump both set the jump hosts")
    if device.device_id is not None and device.session_type != "console" and device.console is None:
        yield Fault(f"{place}.device_id", 'is for devices with session_type = "console" only')


def _duplicate_faults(name: str, device: InventoryDevice, users: dict[object, str]) -> Iterator[Fault]:
    """Yield a fault if another device uses the console name, or the line of a console server. `users`: the devices so far."""
    if device.session_type == "console" or device.console is not None:
        device_id = device.device_id or name
        if (other := users.setdefault(device_id, name)) != name:
            yield Fault(f"devices.{name}.device_id", f"{device_id} is also the console name of {other}")
    if device.console is not None:
        server, port = device.console.server, device.console.port
        if (other := users.setdefault((server, port), name)) != name:
            yield Fault(f"devices.{name}.console", f"port {port} of {server} is also the line of {other}")

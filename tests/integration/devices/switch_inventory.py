"""Inventory with one simulated switch as three devices: Telnet, console, and SSH."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fixtures.servers.relay import Relay
from ptyctl.controller.settings import Settings
from ptyctl.simulator import SimulatedSwitch

#: Long, and unlike any other output.
PASSWORD = "Kr0kodil-unterm-Bett"
ENABLE = "Nilpferd_am_Klavier"

_DEVICES = """
[defaults]
platform = "cisco_ios"
username = "admin"
password = "file:secrets/password"
enable_secret = "file:secrets/enable"

[devices.sw-telnet]
host = "127.0.0.1"
port = {telnet}
protocol = "telnet"

[devices.sw-console]
host = "127.0.0.1"
port = {telnet}
protocol = "telnet"
session_type = "console"

[devices.sw-ssh]
host = "127.0.0.1"
port = {ssh}
protocol = "ssh"
ssh_options = {{ host_key_fingerprint = "{fingerprint}", use_openssh_config = false }}
"""


class SwitchInventory:
    """Writes the inventory file `devices` and its secrets. Telnet goes through `relay`, which can break the connection."""

    def __init__(self, folder: Path, switch: SimulatedSwitch, relay: Relay) -> None:
        self.folder, self.switch, self.relay = folder, switch, relay
        self.devices = folder / "devices.toml"
        self.write_devices(telnet=relay.port)
        self.write_secret("password", PASSWORD)
        self.write_secret("enable", ENABLE)

    def write_devices(self, telnet: int, more: str = "") -> None:
        self.devices.write_text(
            _DEVICES.format(telnet=telnet, ssh=self.switch.ssh_port, fingerprint=self.switch.host_key_fingerprint) + more
        )

    def write_secret(self, name: str, secret: str) -> None:
        path = self.folder / "secrets" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{secret}\n")
        path.chmod(0o600)

    def settings(self, **more: Any) -> Settings:
        return Settings(state_dir=self.folder / "state", devices_file=self.devices, **more)

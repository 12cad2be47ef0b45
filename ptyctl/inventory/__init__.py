"""The inventory: devices that can be opened by name, with their addresses, jump hosts and references to credentials.

Start with `loader.Inventory`, which reads devices.toml and resolves a device's name to a `Target`.

- `model`: the tables of devices.toml and the rules between them; `faults`: how violations are reported.
- `loader`: reads the file and merges defaults, groups and devices.
- `secrets`: references to secrets, and fetching them.
- `target`: a device with its secrets, ready to be opened.

Imports `platforms`, `api` and `session.device.login`. A secret is never stored in the file, and never kept after it was used.
"""

from __future__ import annotations

from .loader import Inventory
from .model import InventoryDevice, LoginOptions
from .target import Route, Target, TargetHop, console_id

__all__ = ["Inventory", "InventoryDevice", "LoginOptions", "Route", "Target", "TargetHop", "console_id"]

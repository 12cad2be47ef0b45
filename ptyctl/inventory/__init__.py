"""The devices that can be opened by name: where they are, how to get there, and where their credentials are kept."""

from __future__ import annotations

from .inventory import Inventory
from .model import Device, LoginOptions
from .target import Hop, Login, Target

__all__ = ["Device", "Hop", "Inventory", "Login", "LoginOptions", "Target"]

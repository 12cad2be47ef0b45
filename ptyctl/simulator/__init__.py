"""A simulated switch: an IOS-like device inside of the process, for `ptyctl demo` and for tests."""

from __future__ import annotations

from .quirks import Quirks
from .switch import SimulatedSwitch

__all__ = ["Quirks", "SimulatedSwitch"]

"""A practice switch: an IOS-like device inside of the process, for `ptyctl demo` and for tests."""

from __future__ import annotations

from .quirks import Quirks
from .switch import PracticeSwitch

__all__ = ["PracticeSwitch", "Quirks"]

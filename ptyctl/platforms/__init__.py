"""Device families as data: TOML files, their model, and pure functions on them.

Start with `platform.py`, the model of a file. `loader.py` reads the files, `device_profile.py` is the compiled form that the
CLI engine uses, `mode_graph.py` finds paths between modes, `detection.py` recognises a family. Nothing here reads a terminal.
The package imports `ptyctl.api` and `ptyctl.core` only.
"""

from .detection import DetectedFamily, Detection
from .device_profile import UNKNOWN_DEVICE, DeviceProfile, ShownPrompt
from .loader import COMMON, Platforms, common
from .mode_graph import ModeGraph, ModeStep
from .platform import CommandSequence, Platform, QuestionAnswer, SecretName

__all__ = [
    "COMMON",
    "UNKNOWN_DEVICE",
    "CommandSequence",
    "DetectedFamily",
    "Detection",
    "DeviceProfile",
    "ModeGraph",
    "ModeStep",
    "Platform",
    "Platforms",
    "QuestionAnswer",
    "SecretName",
    "ShownPrompt",
    "common",
]

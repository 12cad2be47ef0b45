"""Device families as data, one TOML file each, and what can be told from them without a terminal: modes, logins, families."""

from .command import Answer, Commands
from .credentials import Layer
from .detection import Detection, Verdict
from .loading import Platforms, common
from .log_lines import LogLines
from .login_action import Action
from .login_dialog import LoginDialog
from .mode_graph import ModeGraph, Shown, Step
from .platform import Platform

__all__ = [
    "Action",
    "Answer",
    "Commands",
    "Detection",
    "Layer",
    "LogLines",
    "LoginDialog",
    "ModeGraph",
    "Platform",
    "Platforms",
    "Shown",
    "Step",
    "Verdict",
    "common",
]

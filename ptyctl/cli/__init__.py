"""The command line. It translates and holds no logic; heavy parts are imported by the command that needs them."""

from .main import main

__all__ = ["main"]

"""ptyctl: a session controller for terminals, shared safely by agents and people."""

__version__ = "0.1.0"

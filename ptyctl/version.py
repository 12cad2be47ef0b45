"""The version, in a module without imports so that `ptyctl --version` is fast."""

__version__ = "0.1.0"

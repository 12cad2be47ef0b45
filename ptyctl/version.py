"""The version, apart from the library: whoever tells it needs nothing of that."""

__version__ = "0.1.0"

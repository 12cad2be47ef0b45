"""Opens, finds, lists and closes sessions."""

from .local import LocalController

__all__ = ["LocalController"]

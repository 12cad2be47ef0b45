"""What a terminal shows after some bytes: pure, exact however the bytes were cut."""

from .model import ScreenModel
from .picture import Picture, Run
from .queries import QueryReader

__all__ = ["Picture", "QueryReader", "Run", "ScreenModel"]

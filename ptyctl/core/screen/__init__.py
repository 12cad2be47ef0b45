"""What a terminal shows after some bytes: pure, exact however the bytes were cut."""

from .model import ScreenModel
from .picture import Picture, Run
from .queries import QueryReader
from .view import Frame, View

__all__ = ["Frame", "Picture", "QueryReader", "Run", "ScreenModel", "View"]

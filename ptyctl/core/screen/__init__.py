"""Terminal emulation: the screen after a stream of bytes. Pure; the result does not depend on how the bytes are split.

`ScreenModel` (`model.py`) is the entry point. It tokenizes bytes (`parser.py`), applies them (`dispatch.py`) to an `Emulator`
(`emulator.py`, cells in `cells.py`, SGR in `attributes.py`, modes in `modes.py`) and answers queries (`query_responses.py`).
Results leave as a `ScreenSnapshot` (`snapshot.py`) or as bytes for another terminal (`redraw.py`). `fast_forward.py`
finds input that need not be drawn, and `line_redraws.py` redraws of lines of which only the last ones need to be drawn.
Imports `ptyctl.core.control_sequences`, pyte, wcwidth and re2 only.
"""

from .model import ScreenModel
from .query_responses import QueryDetector
from .redraw import ScreenFrame, ScreenView
from .snapshot import ScreenSnapshot, Scrollback, StyledRun

__all__ = ["QueryDetector", "ScreenFrame", "ScreenModel", "ScreenSnapshot", "ScreenView", "Scrollback", "StyledRun"]

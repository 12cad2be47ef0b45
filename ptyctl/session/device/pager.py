"""Pager handling: detects whether the device has erased an answered pager.

The patterns and keys of a platform are in `platforms/device_profile.py`. `output_end.py` recognises a pager at the end of the
output; `runs/prompt_strategy.py` (exec) and `device_cli.py` (commands of ptyctl) press the key, and `core/renderer.py` removes
the erased pager from the output.
"""

from __future__ import annotations

import re

from ptyctl.core.control_sequences import strip_sequences
from ptyctl.session.io.terminal_state import TerminalState

#: Largest number of bytes with which a device erases a pager.
_ERASER_BYTES = 4096
_PRINTED = re.compile(rb"[^\x00-\x20\x7f]")


class AnsweredPager:
    """The pager that was answered last. Its line stays at the end of the output until the device erases it."""

    def __init__(self, terminal: TerminalState) -> None:
        self._stream = terminal.stream
        self._answered_raw: int | None = None

    def answered(self) -> None:
        """Record that a key was sent to the pager."""
        self._answered_raw = self._stream.raw_size

    @property
    def erased(self) -> bool:
        """Whether the line of the pager is gone: something was printed since it was answered."""
        if self._answered_raw is not None:
            data = self._stream.read_raw(self._answered_raw, min(self._answered_raw + _ERASER_BYTES, self._stream.raw_size))
            if _PRINTED.search(printed := strip_sequences(data)) or len(printed) >= _ERASER_BYTES:
                self._answered_raw = None
        return self._answered_raw is None

"""One viewer of a terminal: which output it is sent, and when it has to wait. Pure.

A viewer acknowledges the raw offset up to which its terminal has parsed the output. Every offset that it is sent is one at
which it can resume later: it is never within a control sequence that the sanitizer holds back.
"""

from __future__ import annotations

import struct

from ptyctl.core.sanitizer import TerminalSanitizer

#: Size of unacknowledged output at which sending pauses.
WINDOW_BYTES = 256 * 1024
#: A viewer that is further behind gets the screen instead of the output.
MAX_BEHIND_BYTES = 4 * 1024 * 1024
#: Precedes the output in a binary frame: the id of the subscription, and the raw offset after the output.
HEADER = struct.Struct(">IQ")


class Viewer:
    """The state of one subscription to a terminal."""

    def __init__(self, subscription_id: int) -> None:
        self._id = subscription_id
        self._sanitizer = TerminalSanitizer()
        self._begin = self._sent = self._acknowledged = 0

    @property
    def must_wait(self) -> bool:
        """Whether too much output is unacknowledged."""
        return self._sent - self._acknowledged >= WINDOW_BYTES

    def begin(self, offset: int, painted: bytes = b"") -> bytes | None:
        """Start at an offset, and return the frame that paints the screen there; without a painting the viewer resumes."""
        self._sanitizer = TerminalSanitizer()
        self._begin = self._sent = self._acknowledged = offset
        data = self._sanitizer.feed(painted)
        return HEADER.pack(self._id, offset) + data if painted else None

    def output(self, offset: int, data: bytes) -> bytes | None:
        """Return the frame of output that ends at an offset; None if no part of it can be sent yet."""
        passed = self._sanitizer.feed(data)
        if not passed:
            return None
        self._sent = max(offset - self._sanitizer.held, self._begin)
        return HEADER.pack(self._id, self._sent) + passed

    def acknowledge(self, offset: int) -> None:
        """Record the offset that the viewer has parsed. Offsets beyond the sent ones, or below earlier ones, are ignored."""
        self._acknowledged = max(self._acknowledged, min(offset, self._sent))

"""A terminal emulator at one offset of the output, and its advance from there."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ptyctl.core.screen import ScreenModel
from ptyctl.core.session_export import RESET
from ptyctl.session.transcript.timeline import TimelineStep

from .output_source import OutputSource

#: The emulator skips scrolled-off output only within one piece.
PIECE_BYTES = 1 << 20
#: While replies are collected, the last bytes are fed in pieces so small that the emulator can hold all replies of one.
_NEAR_END_BYTES = 64 * 1024
_REPLY_PIECE_BYTES = 256
#: A program may query all 256 colours at once. More replies are dropped.
MAX_REPLIES = 256


class ScreenReplay:
    """An emulator that has replayed the first `raw` bytes and `step` timeline steps.

    Attributes:
        spent_s: seconds of replaying since the last checkpoint.
    """

    def __init__(self, model: ScreenModel, raw: int = 0, step: int = 0) -> None:
        self.model = model
        self.raw = raw
        self.step = step
        self.spent_s = 0.0
        self._replies: list[bytes] = []

    def advance(
        self,
        source: OutputSource,
        steps: Sequence[TimelineStep],
        end: int,
        seconds: float = 3600.0,
        replies_from: int | None = None,
    ) -> None:
        """Replay up to `end`, or for at most `seconds`.

        Replies to queries before raw offset `replies_from` are dropped; None drops all.
        """
        started = time.perf_counter()
        self._apply_steps(steps)
        self._drop_early_replies(replies_from)
        while self.raw < end and time.perf_counter() < started + seconds:
            collecting = replies_from is not None and self.raw >= replies_from
            self._feed(source, self._piece_end(steps, end, replies_from), collecting and end - self.raw <= _NEAR_END_BYTES)
            self._apply_steps(steps)
            self._drop_early_replies(replies_from)
        self.spent_s += time.perf_counter() - started

    def take_replies(self) -> list[bytes]:
        """Return and clear the collected replies."""
        replies, self._replies = self._replies, []
        return replies

    def checkpoint_written(self) -> None:
        """Restart the count of seconds since the last checkpoint."""
        self.spent_s = 0.0

    def _piece_end(self, steps: Sequence[TimelineStep], end: int, replies_from: int | None) -> int:
        piece_end = min(end, self.raw + PIECE_BYTES)
        if self.step < len(steps):
            piece_end = min(piece_end, steps[self.step].raw)
        if replies_from is not None and self.raw < replies_from:
            piece_end = min(piece_end, replies_from)
        return piece_end

    def _drop_early_replies(self, replies_from: int | None) -> None:
        if replies_from is None or self.raw <= replies_from:
            self._replies.clear()

    def _feed(self, source: OutputSource, end: int, collecting: bool) -> None:
        data = source.read(self.raw, end)
        size = _REPLY_PIECE_BYTES if collecting else max(len(data), 1)
        for begin in range(0, len(data), size):
            self.model.feed(data[begin : begin + size])
            self._replies += self.model.responses[: MAX_REPLIES - len(self._replies)]
            self.model.responses.clear()
        if data:
            self.raw += len(data)
        else:
            lost = min(source.next_readable(self.raw), end) - self.raw
            source.lost += lost
            self.raw += lost

    def _apply_steps(self, steps: Sequence[TimelineStep]) -> None:
        while self.step < len(steps) and steps[self.step].raw <= self.raw:
            size = steps[self.step].size
            self.step += 1
            if size is None:
                self.model.feed(RESET)
            else:
                self.model.resize(*size)

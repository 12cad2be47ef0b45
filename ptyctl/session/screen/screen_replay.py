"""A terminal emulator at one offset of the output, and its advance from there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

from ptyctl.core.screen import ScreenModel
from ptyctl.core.session_export import RESET
from ptyctl.session.transcript.timeline import TimelineStep

from .output_source import OutputSource

#: A piece of output takes about this long (seconds of processor time): between two pieces a checkpoint is possible.
PIECE_S = 0.02
#: The emulator skips scrolled-off output only within one piece.
_MIN_PIECE_BYTES, _MAX_PIECE_BYTES = 16 * 1024, 1 << 20
#: While replies are collected, the last bytes are fed in pieces so small that the emulator can hold all replies of one.
_NEAR_END_BYTES = 64 * 1024
_REPLY_PIECE_BYTES = 256
#: A program may query all 256 colours at once. More replies are dropped.
MAX_REPLIES = 256
_ROW_CELLS = 16


class ScreenReplay:
    """An emulator that has replayed the first `raw` bytes and `step` timeline steps.

    While a piece of output is being drawn, the model is ahead of `raw`, and only `advance` and `settle` may be called: both
    continue the drawing.

    Attributes:
        spent_s: seconds of processor time for replaying since the last checkpoint.
    """

    def __init__(self, model: ScreenModel, raw: int = 0, step: int = 0) -> None:
        self.model = model
        self.raw = raw
        self.step = step
        self.spent_s = 0.0
        self._replies: list[bytes] = []
        self._drawing: Iterator[None] | None = None
        self._piece_bytes = 4 * _MIN_PIECE_BYTES
        self._piece_s = 0.0

    @property
    def settled(self) -> bool:
        """Whether the model is the screen at `raw`."""
        return self._drawing is None

    @property
    def cells(self) -> int:
        """The size of the screen; a row counts as some more cells."""
        return cells_of((self.model.cols, self.model.rows))

    def advance(
        self,
        source: OutputSource,
        steps: Sequence[TimelineStep],
        end: int,
        replies_from: int | None = None,
        stop: Callable[[], bool] = lambda: False,
        spend_s: float = math.inf,
    ) -> bool:
        """Replay up to `end`, or until `stop` returns true after a step of some milliseconds; return whether it is reached.

        It also ends between two pieces once `spent_s` has reached `spend_s`. Replies to queries before raw offset
        `replies_from` are dropped; None drops all.
        """
        started = time.thread_time()
        try:
            while True:
                if self._drawing is None and self.step < len(steps) and steps[self.step].raw <= self.raw:
                    self._drawing = self._apply(steps[self.step])
                elif self._drawing is None:
                    self._drop_early_replies(replies_from)
                    if self.raw >= end:
                        return True
                    collecting = replies_from is not None and self.raw >= replies_from
                    piece_end = self._piece_end(steps, end, replies_from)
                    self._drawing = self._feed(source, piece_end, collecting and end - self.raw <= _NEAR_END_BYTES)
                for _ in self._drawing:
                    if stop():
                        return False
                self._drawing = None
                started = self._spend(started)
                self._choose_piece_size()
                if self.raw < end and (self.spent_s >= spend_s or stop()):
                    return False
        finally:
            self._spend(started)

    def settle(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Draw deferred text, so that the model can be read; return False if `stop` returned true before the end."""
        if self._drawing is None:
            self._drawing = self.model.settle()
        for _ in self._drawing:
            if stop():
                return False
        self._drawing = None
        return True

    def take_replies(self) -> list[bytes]:
        """Return and clear the collected replies."""
        replies, self._replies = self._replies, []
        return replies

    def checkpoint_written(self) -> None:
        """Restart the count of seconds since the last checkpoint."""
        self.spent_s = 0.0

    def _spend(self, started: float) -> float:
        """Count the processor time since `started`; return the present one."""
        now = time.thread_time()
        self.spent_s += now - started
        self._piece_s += now - started
        return now

    def _choose_piece_size(self) -> None:
        if self._piece_s > PIECE_S:
            self._piece_bytes = max(self._piece_bytes // 2, _MIN_PIECE_BYTES)
        elif self._piece_s < PIECE_S / 4:
            self._piece_bytes = min(self._piece_bytes * 2, _MAX_PIECE_BYTES)
        self._piece_s = 0.0

    def _piece_end(self, steps: Sequence[TimelineStep], end: int, replies_from: int | None) -> int:
        piece_end = min(end, self.raw + self._piece_bytes)
        if self.step < len(steps):
            piece_end = min(piece_end, steps[self.step].raw)
        if replies_from is not None and self.raw < replies_from:
            piece_end = min(piece_end, replies_from)
        return piece_end

    def _drop_early_replies(self, replies_from: int | None) -> None:
        if replies_from is None or self.raw <= replies_from:
            self._replies.clear()

    def _feed(self, source: OutputSource, end: int, collecting: bool) -> Iterator[None]:
        data = source.read(self.raw, end)
        shown = source.shown(self.raw, data)
        size = _REPLY_PIECE_BYTES if collecting else max(len(shown), 1)
        for begin in range(0, len(shown), size):
            yield from self.model.steps(shown[begin : begin + size])
            self._replies += self.model.take_responses()[: MAX_REPLIES - len(self._replies)]
        if data:
            self.raw += len(data)
        else:
            lost = min(source.next_readable(self.raw), end) - self.raw
            source.lose(lost)
            self.raw += lost

    def _apply(self, step: TimelineStep) -> Iterator[None]:
        self.step += 1
        if step.size is None:
            yield from self.model.steps(RESET)
        else:
            yield from self.model.settle()
            self.model.resize(*step.size)


def cells_of(size: tuple[int, int]) -> int:
    """Return the number of cells of a terminal, with `_ROW_CELLS` more for each row: much work is done by row."""
    return (size[0] + _ROW_CELLS) * size[1]

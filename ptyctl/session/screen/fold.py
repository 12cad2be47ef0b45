"""A session's screen at one place of its output: what went into it so far, and how it goes on from there."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ptyctl.core.recording import RESET
from ptyctl.core.screen import ScreenModel
from ptyctl.session.transcript.steps import Step

from .source import ScreenSource

#: The model skips what has scrolled off only within what it is given at once.
PIECE_BYTES = 1 << 20
#: So near the end what may be asked is fed in pieces so small that the model, which keeps few answers, has room for all of one.
_NEAR_BYTES = 64 * 1024
_ASKING_BYTES = 256
#: A program may ask for all 256 colours at once; more is not answered.
ANSWERS = 256


class Fold:
    """`raw` bytes and `step` steps are in the model. `spent` is how many seconds that took since it was set to 0; `answers` are
    the replies that are owed to programs."""

    def __init__(self, model: ScreenModel, raw: int = 0, step: int = 0) -> None:
        self.model = model
        self.raw = raw
        self.step = step
        self.spent = 0.0
        self.answers: list[bytes] = []

    def advance(
        self, source: ScreenSource, steps: Sequence[Step], end: int, seconds: float = 3600.0, answer_from: int | None = None
    ) -> None:
        """Goes on to `end`, or until so many seconds are over. Replies that the model owes for what came before `answer_from`
        are dropped: nobody waits for them any more."""
        begun = time.perf_counter()
        self._take_steps(steps)
        self._forget_answers(answer_from)
        while self.raw < end and time.perf_counter() < begun + seconds:
            asking = answer_from is not None and self.raw >= answer_from
            self._feed(source, self._stop(steps, end, answer_from), asking and end - self.raw <= _NEAR_BYTES)
            self._take_steps(steps)
            self._forget_answers(answer_from)
        self.spent += time.perf_counter() - begun

    def take_answers(self) -> list[bytes]:
        answers, self.answers = self.answers, []
        return answers

    def _stop(self, steps: Sequence[Step], end: int, answer_from: int | None) -> int:
        """How far the next piece goes."""
        stop = min(end, self.raw + PIECE_BYTES)
        if self.step < len(steps):
            stop = min(stop, steps[self.step].raw)
        if answer_from is not None and self.raw < answer_from:
            stop = min(stop, answer_from)
        return stop

    def _forget_answers(self, answer_from: int | None) -> None:
        if answer_from is None or self.raw <= answer_from:
            self.answers.clear()

    def _feed(self, source: ScreenSource, stop: int, asking: bool) -> None:
        data = source.read(self.raw, stop)
        size = _ASKING_BYTES if asking else max(len(data), 1)
        for begin in range(0, len(data), size):
            self.model.feed(data[begin : begin + size])
            self.answers += self.model.responses[: ANSWERS - len(self.answers)]
            self.model.responses.clear()
        if data:
            self.raw += len(data)
        else:  # what came here was neither kept nor seen in time
            lost = min(source.next_from(self.raw), stop) - self.raw
            source.lost += lost
            self.raw += lost

    def _take_steps(self, steps: Sequence[Step]) -> None:
        while self.step < len(steps) and steps[self.step].raw <= self.raw:
            size = steps[self.step].size
            self.step += 1
            if size is None:
                self.model.feed(RESET)
            else:
                self.model.resize(*size)

"""Programs ask their terminal where the cursor is, what it is and what it can (DSR, DA, XTVERSION, DECRQM, OSC colours ...),
and wait. The session answers from its screen: each query once, when it has just come, not when it is read again from disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ptyctl.api.errors import PtyctlError

from .gate import Gate
from .screen import Screen
from .screen_fold import ANSWERS

#: After a first burst so many answers a second are enough for any program that waits for them.
BURST = ANSWERS
ANSWERS_PER_S = 64.0
#: Who asked has given up by then, and the answer would be typed to somebody else.
LATE_S = 1.0


class Allowance:
    """A token bucket. Times are seconds of any clock that only grows."""

    def __init__(self, burst: int, per_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._left = float(burst)
        self._at = 0.0

    def left(self, now: float) -> int:
        """How many may be taken now."""
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
        self._at = now
        return int(self._left)

    def take(self, count: int) -> None:
        self._left -= count


class Answers:
    """Types the replies of one session's screen. `may` says whether they are its to give: not while a person's terminal is
    attached, which answers by itself."""

    def __init__(self, screen: Screen, gate: Gate, may: Callable[[], bool]) -> None:
        self._screen = screen
        self._gate = gate
        self._may = may
        self._allowance = Allowance(BURST, ANSWERS_PER_S)
        self._listening = self._asked = False
        self._asked_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def may_be_asked(self, raw: int) -> None:
        """Output that begins at `raw` has just come, and may hold a query: whoever folds it now keeps the answers."""
        self._listening = True
        if self._screen.answer_from is None and self._may():
            self._screen.answer_from = raw

    def heard(self, asked: bool) -> None:
        """What came was looked through."""
        self._listening = False
        now = asyncio.get_running_loop().time()
        if asked and self._screen.answer_from is not None and self._allowance.left(now):
            self._asked, self._asked_at = True, now
            self._task = self._task or asyncio.create_task(self._answer(), name="terminal answers")
        elif self._task is None:
            self._screen.answer_from = None

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _answer(self) -> None:
        try:
            while self._asked:
                self._asked, asked_at = False, self._asked_at
                async with self._screen.looking() as fold:
                    answers = fold.take_answers()
                    self._screen.answer_from = fold.raw if self._asked or self._listening else None
                await self._type(answers, asked_at)
        except PtyctlError:  # the screen is too far behind
            self._asked = False
        finally:
            self._task = None
            if not self._listening:
                self._screen.answer_from = None

    async def _type(self, answers: list[bytes], asked_at: float) -> None:
        now = asyncio.get_running_loop().time()
        if not self._may() or now - asked_at > LATE_S:
            return
        answers = answers[: self._allowance.left(now)]
        self._allowance.take(len(answers))
        if answers:
            with suppress(PtyctlError):
                await self._gate.answer(b"".join(answers))

"""Programs ask their terminal where the cursor is, what it is and what it can (DSR, DA, XTVERSION, DECRQM, OSC colours ...),
and wait. The session answers from its screen: each query once, when it has just come, not when it is read again from disk."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol

from ptyctl.api.errors import PtyctlError
from ptyctl.session.line.gate import Gate

from .fold import ANSWERS
from .screen import Screen

#: After a first burst so many answers a second are enough for any program that waits for them.
BURST = ANSWERS
ANSWERS_PER_S = 64.0
#: Who asked has given up by then, and the answer would be typed to somebody else.
LATE_S = 1.0
#: An answer is held back for so long: if the shell tells meanwhile that the asker has ended, the answer would be typed into the
#: next command, as when `cat` shows a file with queries in it.
HOLD_S = 0.004
#: A program that waits for an answer takes single keys, and has set its terminal so by then.
RAW_S = 0.1


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


class FarEnd(Protocol):
    """What is known of those who ask."""

    def may_answer(self) -> bool:
        """Whether queries are the session's to answer: not while a person's terminal is attached, which answers by itself."""
        ...

    def takes_lines(self) -> bool | None:
        """Whether no program reads single keys now; None where unknown."""
        ...

    def ended_since(self, raw: int) -> bool:
        """Whether, behind that offset, the shell was in front again, or was given a command."""
        ...


class Answers:
    """Types the replies of one session's screen."""

    def __init__(self, screen: Screen, gate: Gate, far_end: FarEnd) -> None:
        self._screen = screen
        self._gate = gate
        self._far_end = far_end
        self._allowance = Allowance(BURST, ANSWERS_PER_S)
        self._listening = self._asked = False
        self._asked_at = 0.0
        self._asked_raw = 0
        self._task: asyncio.Task[None] | None = None

    def may_be_asked(self, raw: int) -> None:
        """Output that begins at `raw` has just come, and may hold a query: whoever folds it now keeps the answers."""
        self._listening = True
        if self._screen.answer_from is None and self._far_end.may_answer():
            self._screen.answer_from = raw

    def heard(self, raw: int | None) -> None:
        """What came was looked through: a query ended at that offset, or there was none."""
        self._listening = False
        now = asyncio.get_running_loop().time()
        if raw is not None and self._screen.answer_from is not None and self._allowance.left(now):
            self._asked, self._asked_at, self._asked_raw = True, now, raw
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
                self._asked, asked_at, raw = False, self._asked_at, self._asked_raw
                async with self._screen.looking() as fold:
                    answers = fold.take_answers()
                    self._screen.answer_from = fold.raw if self._asked or self._listening else None
                if answers and await self._awaited(raw):
                    await self._type(answers, asked_at)
        except PtyctlError:  # the screen is too far behind
            self._asked = False
        finally:
            self._task = None
            if not self._listening:
                self._screen.answer_from = None

    async def _awaited(self, raw: int) -> bool:
        """Whether somebody still waits for what was asked at that offset, as far as can be known."""
        deadline = asyncio.get_running_loop().time() + RAW_S
        while True:
            in_lines = self._far_end.takes_lines()
            # what a shell told before it took single keys again has come by then
            await asyncio.sleep(2 * HOLD_S if in_lines is None else HOLD_S)
            if self._far_end.ended_since(raw):
                return False
            if not in_lines or asyncio.get_running_loop().time() >= deadline:
                return not in_lines

    async def _type(self, answers: list[bytes], asked_at: float) -> None:
        now = asyncio.get_running_loop().time()
        if not self._far_end.may_answer() or now - asked_at > LATE_S:
            return
        answers = answers[: self._allowance.left(now)]
        self._allowance.take(len(answers))
        if answers:
            with suppress(PtyctlError):
                await self._gate.answer(b"".join(answers))

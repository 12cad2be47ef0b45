"""The screen of a session, as a lazy fold of its output (design, section 3): while nobody looks it costs nothing.

It is made when somebody looks, kept for those who look again, and then let go: a snapshot on disk says how to go on. What is
far behind is folded in a thread, so that other sessions go on; as long as nobody waits for it, with long rests in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.screen import ScreenSnapshot

from .checkpoints import CHECKPOINT_S, Checkpoints
from .fold import Fold
from .source import ScreenSource

#: So much is folded at once in the event loop; more goes to a thread, in turns of so many seconds.
AT_ONCE_BYTES = 16 * 1024
TURN_S = 0.1
#: A look that is so far behind is given up; the next one goes on from where it came to.
LOOK_S = 30.0
#: A screen at which nobody looks for so long is let go.
KEEP_S = 60.0
#: Unseen output of this size is folded though nobody looks, once it pauses or goes slowly, in a turn and then a rest of many.
FAR_BEHIND_BYTES = 8 << 20
QUIET_BYTES = 1 << 20
REST_S = 1.0
RESTS = 19
#: What is kept in memory only is folded before it is too much to keep.
UNKEPT_TURN_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class View:
    """The screen after `raw` bytes and `steps` resizes and incarnations."""

    picture: ScreenSnapshot
    raw: int
    steps: int


class Screen:
    """`looking` is the one way to the fold: whoever is within it has it for himself. `answer_from` is the offset from which on
    queries wait for an answer."""

    def __init__(self, source: ScreenSource, checkpoints: Checkpoints) -> None:
        self.source = source
        self.checkpoints = checkpoints
        self.answer_from: int | None = None
        self.watched: Callable[[], bool] = lambda: False
        self._fold: Fold | None = None
        self._lock = asyncio.Lock()
        self._looked_at = 0.0
        self._raw = 0  # how far the fold came, also when it was let go
        self._keep_timer: asyncio.TimerHandle | None = None
        self._behind: asyncio.Task[None] | None = None
        self._closed = False

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[Fold]:
        """The fold, caught up with what had come when it was asked for; to be used without an await.

        Raises:
            PtyctlError: BUSY, where so much has come that it takes too long; the next look goes on from there.
        """
        deadline = asyncio.get_running_loop().time() + LOOK_S
        async with self._lock:
            fold = await self._kept()
            await self._advance(fold, self.source.end, deadline)
            self._looked()
            yield fold

    async def view(self, *, attributes: bool = False) -> View:
        """What is to be seen now. Raises PtyctlError as `looking`."""
        async with self.looking() as fold:
            return View(fold.model.snapshot(attributes=attributes), fold.raw, self.source.count())

    async def view_at(self, raw: int, *, attributes: bool = False) -> View:
        """What was to be seen after so many bytes, in the size that the terminal had.

        Raises:
            PtyctlError: BUSY as `looking`.
        """
        steps = await self.source.steps()
        fold = await self.checkpoints.before(raw, len(steps), self.source.first_size)
        await self._advance(fold, raw, asyncio.get_running_loop().time() + LOOK_S)
        return View(fold.model.snapshot(attributes=attributes), fold.raw, self.source.count())

    def behind(self, view: View) -> bool:
        """Whether something has come since that may show."""
        return self.source.end != view.raw or self.source.count() != view.steps

    async def write_snapshot(self) -> None:
        """Puts what was seen last on disk."""
        async with self._lock:
            if self._fold is not None and not self._closed:
                self.checkpoints.write_snapshot(self._fold)

    def flushed(self) -> None:
        """Output has come, and its text was just written: a good time to see how far behind the screen is."""
        far = self.source.end - self._raw >= FAR_BEHIND_BYTES or self.source.waiting >= UNKEPT_TURN_BYTES
        if far and self._behind is None and not self._closed:
            self._behind = asyncio.create_task(self._catch_up(), name="screen")

    async def close(self) -> None:
        """Lets the fold go, and ends what is done on its own; a look at what is on disk still works."""
        if self._behind is not None:
            self._behind.cancel()
            await asyncio.wait({self._behind})
        async with self._lock:
            self._drop()
            self.end_writing()

    def end_writing(self) -> None:
        """From now on nothing of the session's folder changes."""
        self._closed = True
        self._fold = None
        self.checkpoints.close()

    async def _kept(self) -> Fold:
        if self._fold is None:
            steps = len(await self.source.steps())
            self._fold = await self.checkpoints.newest(self.source.end, steps, self.source.first_size)
        return self._fold

    async def _advance(self, fold: Fold, end: int, deadline: float) -> None:
        """Folds up to `end`: at once where that is near, else in a thread, which ends its turn before anybody else has one."""
        steps = await self.source.steps()  # one list, that grows
        while end - fold.raw > AT_ONCE_BYTES:
            if asyncio.get_running_loop().time() >= deadline:
                raise _too_far_behind(end - fold.raw)
            turn = asyncio.ensure_future(asyncio.to_thread(fold.advance, self.source, steps, end, TURN_S, self.answer_from))
            try:
                await asyncio.shield(turn)
            finally:
                await asyncio.wait({turn})
            if fold is self._fold:
                self._came(fold)
        fold.advance(self.source, steps, end, answer_from=self.answer_from)
        if fold is self._fold:
            self._came(fold)

    def _came(self, fold: Fold) -> None:
        self._raw = fold.raw
        self.source.seen(fold.raw)
        if fold.spent >= CHECKPOINT_S and not self._closed:
            self.checkpoints.add(fold)
            self.checkpoints.write_snapshot(fold)

    async def _catch_up(self) -> None:
        """Folds what nobody looks at, before it is too much: when it pauses or goes slowly, and with rests."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                end = self.source.end
                if not self.source.waiting:
                    await asyncio.sleep(REST_S)
                    if self.source.end - end > QUIET_BYTES:
                        continue
                begun = loop.time()
                async with self._lock:
                    fold = await self._kept()
                    with suppress(PtyctlError):  # it goes on from there
                        await self._advance(fold, min(fold.raw + QUIET_BYTES, self.source.end), begun + LOOK_S)
                    self._looked()
                if self.source.end - fold.raw < QUIET_BYTES and not self.source.waiting:
                    return
                await asyncio.sleep(0 if self.source.waiting else (loop.time() - begun) * RESTS)
        finally:
            self._behind = None

    def _looked(self) -> None:
        loop = asyncio.get_running_loop()
        self._looked_at = loop.time()
        if self._keep_timer is None:
            self._keep_timer = loop.call_later(KEEP_S, self._keep_on)

    def _keep_on(self) -> None:
        """Lets the fold go when nobody has looked at it for long."""
        self._keep_timer = None
        loop = asyncio.get_running_loop()
        due = self._looked_at + KEEP_S
        if self._lock.locked() or self.watched() or loop.time() < due or not self._drop():
            self._keep_timer = loop.call_at(max(due, loop.time() + REST_S), self._keep_on)

    def _drop(self) -> bool:
        """Whether the fold could be let go: it must be possible to go on from where it stands."""
        if self._keep_timer is not None:
            self._keep_timer.cancel()
            self._keep_timer = None
        fold = self._fold
        if fold is not None and not self._closed and not self.checkpoints.write_snapshot(fold):
            return False
        self._fold = None
        return True


def _too_far_behind(size: int) -> PtyctlError:
    return PtyctlError(
        ErrorCode.BUSY, f"the screen is {size} bytes behind, and they take long to draw; ask again, it goes on from where it is"
    )

"""The screen of a session, replayed from its output on demand: without viewers it costs nothing.

The emulator is created at the first look, kept for the next ones, and then dropped; a snapshot on disk lets it resume. What
takes longer than some milliseconds runs in a thread, in turns, so that other sessions continue: much or expensive new output,
and everything on a large screen. Without waiting viewers output is replayed with long pauses.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.screen import ScreenSnapshot
from ptyctl.session.io.errors import log_background_error
from ptyctl.session.transcript.timeline import TimelineStep

from .checkpoints import CHECKPOINT_S, Checkpoints, checkpoint_line
from .output_source import OutputSource
from .screen_replay import ScreenReplay, cells_of

#: Largest amount of output, its largest cost (in cells of about 10 ns) and the largest screen that the event loop handles.
INLINE_BYTES = 16 * 1024
INLINE_COST = 1 << 19
INLINE_CELLS = 15_000
#: Cost of a cell's attributes, in cells: each cell may have a separate style.
ATTRIBUTES_COST = 7
#: More runs in a thread, in turns of this many seconds. One thread serves all sessions: it holds the interpreter lock.
THREAD_TURN_S = 0.1
_thread = ThreadPoolExecutor(1, "screen")

Result = TypeVar("Result")
#: A look that takes longer fails with BUSY; the next one continues from where it got to (seconds).
LOOK_TIMEOUT_S = 30.0
#: The emulator is dropped this long after the last look (seconds).
KEEP_S = 60.0
#: Without viewers, output is replayed once this much is unseen and the output pauses or is slow: QUIET_BYTES at a time, or
#: what QUIET_S seconds suffice for, each followed by a pause of PAUSE_FACTOR times its duration.
FAR_BEHIND_BYTES = 8 << 20
QUIET_BYTES = 1 << 20
QUIET_S = 0.2
OUTPUT_PAUSE_S = 1.0
PAUSE_FACTOR = 19
#: Unpersisted output is replayed before the memory limit drops it.
UNPERSISTED_TURN_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ScreenState:
    """The screen after `raw` bytes and at least `steps` resizes and incarnations.

    `painted`: bytes that paint it on a blank terminal, if the caller requested them.
    """

    snapshot: ScreenSnapshot
    raw: int
    steps: int
    painted: bytes | None = None


class Screen:
    """The current screen. `current` is the only access to the emulator, and exclusive."""

    def __init__(self, source: OutputSource, checkpoints: Checkpoints, recorded: Callable[[], bool] = lambda: False) -> None:
        """Create the screen. `recorded` returns whether screen changes are recorded, during which the emulator is kept."""
        self._source = source
        self._checkpoints = checkpoints
        self._recorded = recorded
        self._replies_from: int | None = None
        self._replay: ScreenReplay | None = None
        self._lock = asyncio.Lock()
        self._looked_at = 0.0
        self._replayed_raw = 0  # remains when the emulator is dropped
        self._drop_timer: asyncio.TimerHandle | None = None
        self._catch_up_task: asyncio.Task[None] | None = None
        self._drop_task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def collecting_replies(self) -> bool:
        """Whether replies to terminal queries are collected."""
        return self._replies_from is not None

    def collect_replies_from(self, raw: int | None) -> None:
        """Collect replies to queries from a raw offset on; None stops collecting."""
        self._replies_from = raw

    @asynccontextmanager
    async def current(self) -> AsyncIterator[ScreenReplay]:
        """Yield the emulator with all output so far. The body must be cheap, or use `run_for`.

        Raises:
            PtyctlError: BUSY if there is too much new output to replay in time; the next call continues.
        """
        deadline = asyncio.get_running_loop().time() + LOOK_TIMEOUT_S
        async with self._lock:
            replay = await self._open_replay()
            await self._advance(replay, self._source.end, deadline, settle=True)
            self._looked()
            yield replay

    async def state(self, *, attributes: bool = False, paint: bool = False) -> ScreenState:
        """Return the current screen. Raises as `current`."""
        steps = self._source.step_count()  # the snapshot may lack a later one
        async with self.current() as replay:
            return await _state(replay, attributes, steps, paint)

    async def state_at(self, raw: int, *, attributes: bool = False, paint: bool = False) -> ScreenState:
        """Return the screen when the first `raw` bytes had arrived, before later resizes. Raises as `current`."""
        steps = await self._source.steps()
        replay = await self._checkpoints.before(raw, len(steps), self._source.first_size)
        steps = steps[: bisect_left(steps, raw, key=lambda step: step.raw)]
        await self._advance(replay, raw, asyncio.get_running_loop().time() + LOOK_TIMEOUT_S, steps, settle=True)
        return await _state(replay, attributes, len(steps), paint)

    def is_outdated(self, state: ScreenState) -> bool:
        """Return whether output or steps have arrived since the state."""
        return self._source.end != state.raw or self._source.step_count() != state.steps

    async def write_snapshot(self) -> None:
        """Write the last replayed screen to disk."""
        async with self._lock:
            await self._write_snapshot()

    def output_flushed(self) -> None:
        """Start replaying in the background if too much output is unseen. Called when output pauses or is slow."""
        unseen = self._source.end - self._replayed_raw
        far = unseen >= FAR_BEHIND_BYTES or self._source.unpersisted_bytes >= UNPERSISTED_TURN_BYTES
        if far and self._catch_up_task is None and not self._closed:
            self._catch_up_task = asyncio.create_task(self._catch_up(), name="screen")

    async def close(self) -> None:
        """Drop the emulator and stop background work; the screen on disk can still be read."""
        for task in filter(None, (self._catch_up_task, self._drop_task)):
            task.cancel()
            await asyncio.wait({task})
        async with self._lock:
            await self._drop()
            self.end_writing()

    def end_writing(self) -> None:
        """Stop writing to the session's folder."""
        self._closed = True
        self._replay = None
        self._checkpoints.close()

    async def _open_replay(self) -> ScreenReplay:
        if self._replay is None:
            steps = len(await self._source.steps())
            self._replay = await self._checkpoints.newest(self._source.end, steps, self._source.first_size)
        return self._replay

    async def _advance(
        self,
        replay: ScreenReplay,
        end: int,
        deadline: float,
        steps: Sequence[TimelineStep] | None = None,
        *,
        settle: bool = False,
    ) -> None:
        """Replay up to `end`: cheap output inline, the rest in a thread, whose step is completed on a cancellation.

        `steps` are the resizes and incarnations to apply; all unless given. `settle` draws deferred text too.
        """
        if steps is None:
            steps = await self._source.steps()

        def advance(stop: Callable[[], bool]) -> bool:
            reached = replay.advance(self._source, steps, end, self._replies_from, stop, CHECKPOINT_S)
            return reached and (not settle or replay.settle(stop))

        largest = max([replay.cells, *(cells_of(step.size) for step in steps[replay.step :] if step.size is not None)])
        limit = replay.model.cost + INLINE_COST
        inline = end - replay.raw <= INLINE_BYTES and largest <= INLINE_CELLS
        reached = inline and advance(lambda: replay.model.cost >= limit)
        while not reached:
            reached = await _in_thread(lambda: advance(_after(THREAD_TURN_S)))
            await self._advanced(replay)
            if not reached and asyncio.get_running_loop().time() >= deadline:
                raise _too_far_behind(end - replay.raw)
        await self._advanced(replay)

    async def _advanced(self, replay: ScreenReplay) -> None:
        if not replay.settled:
            return
        if replay is self._replay:
            self._replayed_raw = replay.raw
            self._source.drawn(replay.raw)
        if replay.spent_s >= CHECKPOINT_S:
            line = await _in_thread(lambda: checkpoint_line(replay))
            add = self._checkpoints.add_in_memory if self._closed else self._checkpoints.add
            add(replay, line)
            replay.checkpoint_written()
            if replay is self._replay:
                await self._write_snapshot()

    async def _write_snapshot(self) -> bool:
        """Write the last replayed screen to disk; return False if the disk is full. The caller holds the lock."""
        replay = self._replay
        if replay is None or self._closed or not replay.settled:
            return True
        return await _in_thread(lambda: self._closed or self._checkpoints.write_snapshot(replay))

    async def _catch_up(self) -> None:
        """Replay unseen output while it pauses or is slow, with pauses in between."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                end = self._source.end
                if not self._source.unpersisted_bytes:
                    await asyncio.sleep(OUTPUT_PAUSE_S)
                    if self._source.end - end > QUIET_BYTES:
                        continue
                started = loop.time()
                async with self._lock:
                    replay = await self._open_replay()
                    with suppress(PtyctlError):  # the next round continues
                        next_end = min(replay.raw + QUIET_BYTES, self._source.end)
                        await self._advance(replay, next_end, started + QUIET_S)
                    self._looked()
                if self._source.end - replay.raw < QUIET_BYTES and not self._source.unpersisted_bytes:
                    return
                await asyncio.sleep(0 if self._source.unpersisted_bytes else (loop.time() - started) * PAUSE_FACTOR)
        except OSError as error:  # the next flush or call continues
            log_background_error(error, "drawing the screen")
        finally:
            self._catch_up_task = None

    def _looked(self) -> None:
        loop = asyncio.get_running_loop()
        self._looked_at = loop.time()
        if self._drop_timer is None:
            self._drop_timer = loop.call_later(KEEP_S, self._drop_if_unused)

    def _drop_if_unused(self) -> None:
        self._drop_timer = None
        loop = asyncio.get_running_loop()
        due = self._looked_at + KEEP_S
        if self._lock.locked() or self._recorded() or loop.time() < due:
            self._drop_timer = loop.call_at(max(due, loop.time() + OUTPUT_PAUSE_S), self._drop_if_unused)
        else:
            self._drop_task = loop.create_task(self._drop_unused(), name="screen")

    async def _drop_unused(self) -> None:
        async with self._lock:
            if not await self._drop():
                self._looked()

    async def _drop(self) -> bool:
        """Drop the emulator and return True, unless its state could not be written to disk. The caller holds the lock."""
        if self._drop_timer is not None:
            self._drop_timer.cancel()
            self._drop_timer = None
        if not await self._write_snapshot():
            return False
        self._replay = None
        return True


async def run_for(cells: int, function: Callable[[], Result]) -> Result:
    """Return the result of a function that handles a number of cells: at once if they are few, otherwise in the thread."""
    return function() if cells <= INLINE_CELLS else await _in_thread(function)


async def _in_thread(function: Callable[[], Result]) -> Result:
    """Run a function in the screen thread and return its result. A cancellation takes effect after its end."""
    turn = asyncio.get_running_loop().run_in_executor(_thread, function)
    try:
        return await asyncio.shield(turn)
    finally:
        await asyncio.wait({turn})


async def _state(replay: ScreenReplay, attributes: bool, steps: int, paint: bool) -> ScreenState:
    cost = replay.cells * (ATTRIBUTES_COST if attributes else 1)
    snapshot = await run_for(cost, lambda: replay.model.snapshot(attributes=attributes))
    painted = await run_for(replay.cells, replay.model.serialize) if paint else None
    return ScreenState(snapshot, replay.raw, steps, painted)


def _after(seconds: float) -> Callable[[], bool]:
    """Return a function that returns whether the seconds have passed."""
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= end


def _too_far_behind(size: int) -> PtyctlError:
    return PtyctlError(
        ErrorCode.BUSY,
        f"the screen is {size} bytes behind the output, and drawing them takes long",
        hint="try again: drawing continues where it stopped",
    )

"""The runs of one session: at most one at a time, each with a block_id, kept for those who ask again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import DoneReason, ExecRequest
from ptyctl.core.marks import PlacedMark
from ptyctl.core.renderer import render
from ptyctl.core.states import TerminalMode, next_mode
from ptyctl.platforms import UNKNOWN_DEVICE, DeviceProfile
from ptyctl.session.io.coalesced_timer import CoalescedTimer
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.signal import Signal
from ptyctl.session.io.terminal_state import TerminalState
from ptyctl.session.transcript.open_block import OpenBlock

from .eager_task import start_eagerly
from .run import Origin, Run
from .run_tasks import compile_responses, start_run_tasks
from .run_terminal import finish_run
from .shell_probe import Shell
from .strategy import Typing
from .strategy_selector import StrategySelector, closed

#: A run that is about to end (its text is there, its mark not yet) does not make the next call fail.
BUSY_GRACE_S = 0.25
#: Ended runs that can still be asked for by their block_id.
KEPT_RUNS = 64
#: What a shell shows before the further lines of a command (POSIX PS2).
_CONTINUATION = "> "


class Runs:
    """`on_begin` and `on_end` are told of each run, exactly once each; `first_seq` is the number of the first one."""

    def __init__(
        self,
        terminal: TerminalState,
        driver: StrategySelector,
        first_seq: int = 1,
        *,
        on_begin: Callable[[Run], None] = lambda run: None,
        on_end: Callable[[Run], None] = lambda run: None,
    ) -> None:
        self.mode: TerminalMode = "idle"
        self.current: Run | None = None
        self._on_begin = on_begin
        self._on_end = on_end
        #: Beats when a run has ended, or asks.
        self.ended = Signal()
        self._terminal = terminal
        self._driver = driver
        self._history: dict[str, Run] = {}
        self._next_seq = first_seq
        self._task: asyncio.Task[None] | None = None
        self._helpers: list[asyncio.Task[None]] = []
        self._alarm = CoalescedTimer(self._due)
        self._reserved_for = ""
        self._prompt_end = 0
        self._prompt_line = ""

    async def begin(
        self,
        command: str,
        profile: DeviceProfile,
        writer: Writer,
        request: ExecRequest | None = None,
        origin: Origin = "exec",
        submitted: str | None = None,
        cwd: str | None = None,
    ) -> Run:
        """Starts a run; it goes on whether its caller waits or not. For `submitted` and `cwd` see Run.

        Raises:
            PtyctlError: BUSY, naming the run in the way; LOCKED, LOCK_REQUIRED, REMOTE_CLOSED, INVALID_ARGUMENT.
        """
        fence = self._terminal.gate.check(writer)
        answers = compile_responses(request, writer)
        if self.current is not None or self._reserved_for:
            await self._free()
            fence = self._terminal.gate.check(writer)
        run = self._new(command, profile, origin, request, writer.task_id, submitted, cwd)
        run.fence = fence
        self._on_begin(run)
        self._helpers = start_run_tasks(run, answers, self._terminal, self.interrupted)
        self._type(run, self._driver.begin(run, writer))
        return run

    @contextlib.asynccontextmanager
    async def reserved(self, why: str) -> AsyncIterator[None]:
        """The session types by itself meanwhile, and nobody begins a run.

        Raises:
            PtyctlError: BUSY, where a run is on.
        """
        await self._free()
        self._reserved_for = why
        try:
            yield
        finally:
            self._reserved_for = ""

    @property
    def shell(self) -> Shell | None:
        """What was found out of the program in front; None before its first command."""
        return self._driver.shell

    def find(self, block_id: str) -> Run:
        """Raises PtyctlError NOT_FOUND for an id that is unknown, or of too long ago."""
        try:
            return self._history[block_id]
        except KeyError:
            raise PtyctlError(
                ErrorCode.NOT_FOUND, f"no run {block_id} here (any more); use the block_id of a recent reply"
            ) from None

    def interrupted(self) -> None:
        """Somebody pressed an interrupt key: the run may now end with the prompt alone."""
        if self.current is not None:
            self.current.interrupted = True
            self._terminal.stream.signal.notify()

    def typing(self) -> None:
        """Something is typed: what stands in the line by now is the prompt, or a question that is answered."""
        if self.current is not None:
            self.current.question, self.current.answered = None, self._terminal.now()
        if self.current is None and not self._prompt_line:
            self._prompt_line = self._terminal.last_line()

    def marked(self, placed: PlacedMark) -> None:
        """A mark of this session came by: it belongs to the present run, or somebody has typed a command."""
        kind = placed.mark.kind
        hooks = placed.mark.nonce == self._driver.hooks_nonce
        if kind == "prompt":
            self._driver.prompt_marked()
        if self.current is None and kind == "begin" and hooks:
            self._begin_typed(placed)
        run, way = self.current, self._driver.way
        if run is not None and way is not None and run.done_reason is None:
            way.marked(run, placed)
            if run.done_reason is not None:  # at once: who asks next finds the terminal free
                self._finish(run)
        if kind == "prompt":
            self._prompt_end, self._prompt_line = placed.raw_end, ""

    def end_by_caller(self, run: Run, reason: DoneReason, spool_end: int) -> None:
        """A run ends with what its caller waited for, unless marks will tell its true end: then it goes on."""
        way = self._driver.way
        if way is None or not way.told_by_marks or self.current is not run:
            stream = self._terminal.stream
            run.finish(reason, self._terminal.now(), raw_end=stream.raw_size, spool_end=spool_end)
            stream.signal.notify()

    def far_end_gone(self) -> None:
        """The far end is gone: a typed command has nobody who would notice."""
        if self.current is not None and not self.current.driven:
            finish_run(self._terminal, self.current, "eof")
            self._finish(self.current)

    async def close(self) -> None:
        """Ends what drives the present run."""
        await self.abort("the session was closed")

    async def abort(self, reason: str) -> None:
        """Ends the present run, whatever it does, and what drives it, so that nothing more is typed for it."""
        if self.current is not None:
            self.current.reason = reason
            self._finish(self.current)
        self._alarm.stop()
        await closed(self._task)

    def _new(
        self,
        command: str,
        profile: DeviceProfile,
        origin: Origin,
        request: ExecRequest | None = None,
        task_id: str | None = None,
        submitted: str | None = None,
        cwd: str | None = None,
    ) -> Run:
        run = Run(self._next_seq, command, profile, self._terminal.now(), self.ended, request, origin, task_id)
        run.submitted, run.cwd = submitted, cwd
        self._next_seq += 1
        self.mode = next_mode(self.mode, "begin_interactive" if origin == "interactive" else "begin_block")
        self.current = run
        self._history[run.block_id] = run
        while len(self._history) > KEPT_RUNS:
            self._history.pop(next(iter(self._history)))
        return run

    def _begin_typed(self, placed: PlacedMark) -> None:
        told = placed.mark.command
        command = told.decode("utf-8", "replace") if told is not None else self._read_off(placed.raw_begin)
        run = self._new(command.strip(), UNKNOWN_DEVICE, "typed", None, None)
        run.sent, run.driven = True, False
        run.raw_begin, run.spool_begin = placed.raw_end, placed.spool_end
        self._on_begin(run)
        self._driver.watch_typed()

    def resume(self, running: OpenBlock) -> None:
        """A command of an earlier process still runs: it has begun already, and its marks will tell its end."""
        block = running.block
        self._next_seq = block.seq
        run = self._new(block.cmd, UNKNOWN_DEVICE, block.origin, None, block.task_id)
        self._history.pop(run.block_id)
        run.begun_ms, run.block_id, run.sent, run.driven = block.ts_begin, block.block_id, True, False
        self._history[run.block_id] = run
        run.raw_sent, run.spool_sent = block.raw_begin, block.spool_begin
        run.raw_begin, run.spool_begin = running.raw_begin, running.spool_begin
        self._driver.watch_typed()

    def _read_off(self, raw_begin: int) -> str:
        """The command as the screen shows it behind the prompt, where the shell does not tell it."""
        terminal = self._terminal
        shown = render(terminal.stream.read_raw(self._prompt_end, raw_begin), terminal.width()).strip("\n")
        lines = shown.split("\n")
        prompt = self._prompt_line or terminal.prompt.learned or ""
        first = next((at for at in reversed(range(len(lines))) if lines[at].startswith(prompt)), 0)
        more = [line.removeprefix(_CONTINUATION) for line in lines[first + 1 :]]
        return "\n".join([lines[first].removeprefix(prompt), *more])

    def _type(self, run: Run, typing: Typing) -> None:
        self._task = start_eagerly(self._typed(run, typing), f"run {run.block_id}")

    async def _typed(self, run: Run, typing: Typing) -> None:
        """Types for a run, then looks at it again: while something is on its way, what the terminal shows tells little."""
        try:
            await typing
        except PtyctlError as error:
            self._failed(run, error)
        except BaseException:  # a cancel, or a fault of ours: nobody looks at it any more
            self._finish(run)
            raise
        if self.current is run:
            self._look()

    def _look(self) -> None:
        """Whether the present run is over, or something more is to be typed for it."""
        run, way, signal = self.current, self._driver.way, self._terminal.stream.signal
        signal.observe(None)
        if run is None:
            return
        typing = way.look(run) if way is not None and run.done_reason is None else None
        if run.done_reason is not None:
            self._finish(run)
        elif typing is not None:
            self._type(run, typing)
        elif way is not None:
            signal.observe(self._look)
            if way.look_at is not None:
                self._alarm.at(way.look_at)

    def _due(self) -> None:
        if self._terminal.stream.signal.observed:
            self._look()

    def _failed(self, run: Run, error: PtyctlError) -> None:
        stream = self._terminal.stream
        if stream.ended is not None and run.sent:
            finish_run(self._terminal, run, "eof")
        else:
            run.fail(error, self._terminal.now(), raw_end=stream.raw_size, spool_end=stream.spool_end)

    def _finish(self, run: Run) -> None:
        if run.done_reason is None:  # the session was closed, or the server ends
            finish_run(self._terminal, run, "cancelled")
        if self.current is run:
            self.current = None
            self._terminal.stream.signal.observe(None)
            for helper in self._helpers:
                helper.cancel()
            self._helpers.clear()
            if run.driven:
                self._driver.over(run)
            self.mode = next_mode(self.mode, "end")
            self._on_end(run)
        self._terminal.stream.signal.notify()

    async def _free(self) -> None:
        """Raises PtyctlError BUSY, naming what is in the way."""
        grace = self._terminal.now() + BUSY_GRACE_S
        while self.current is not None and self._terminal.now() < grace:
            await self.ended.wait(grace)
        if self.current is not None:
            raise self._busy(self.current)
        if self._reserved_for:
            raise PtyctlError(ErrorCode.BUSY, f"the session is busy with {self._reserved_for}; try again in a second")

    def _busy(self, run: Run) -> PtyctlError:
        mode = "interactive mode" if self.mode == "interactive" else "block running"
        return PtyctlError(
            ErrorCode.BUSY,
            f"{mode}: block {run.block_id} is still running ({_brief(run.submitted or run.command)}); wait for it with "
            "block_id, answer it with a write, or interrupt it with ctrl_c",
            {"block_id": run.block_id, "mode": self.mode},
        )


def _brief(command: str) -> str:
    first = command.split("\n", 1)[0]
    return first if len(first) <= 60 and first == command else f"{first[:57]}..."

"""The runs of one session: at most one at a time, each with a block_id, kept for those who ask again."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import DoneReason, ExecRequest
from ptyctl.core.control import ETX
from ptyctl.core.marker import AsciiMarker, Marker, shell_dialect
from ptyctl.core.normalise import Osc
from ptyctl.core.prompt import Expectations
from ptyctl.core.search import Search, compile_pattern
from ptyctl.core.states import Mode, next_mode

from .by_marker import ByMarker
from .by_prompt import DEFAULT_IDLE_S, ByPrompt
from .dialect import PROMPT_WAIT_S, Shell, ask, settled_prompt
from .gate import SYSTEM, Writer
from .run import Run
from .terminal import Terminal

#: A run that is about to end (its text is there, its mark not yet) does not make the next call fail.
BUSY_GRACE_S = 0.25
#: Ended runs that can still be asked for by their block_id.
KEPT_RUNS = 64
#: A shell's first prompt tells that it reads; typed before, its line editor may lose or show it twice.
FIRST_OUTPUT_WAIT_S = 3.0
FIRST_OUTPUT_QUIET_S = 0.05
#: After a run its prompt returns at once; a shell whose prompt changes each time is waited for so long.
NEXT_PROMPT_WAIT_S = 0.1


class Runs:
    """`program` is a local program's path; `probing` says whether an unknown terminal may be asked what it is."""

    def __init__(self, terminal: Terminal, program: str | None, probing: bool) -> None:
        self.mode: Mode = "idle"
        self.current: Run | None = None
        self._terminal = terminal
        self._program = program
        self._probing = probing
        self._nonce = secrets.token_hex(8)
        self._shell: Shell | None = None
        self._by_marker: ByMarker | None = None
        self._history: dict[str, Run] = {}
        self._seq = 0
        self._task: asyncio.Task[None] | None = None

    def new_incarnation(self) -> None:
        """Another program may answer now: what was known of the old one is forgotten."""
        self._shell = None
        self._terminal.prompt.learned = None

    async def begin(self, request: ExecRequest, expect: Expectations, writer: Writer) -> Run:
        """Starts a run; it goes on whether its caller waits or not.

        Raises:
            PtyctlError: BUSY, naming the run in the way; LOCKED, LOCK_REQUIRED, REMOTE_CLOSED, INVALID_ARGUMENT.
        """
        self._terminal.gate.check(writer)
        responses = [(compile_pattern(item.match, "responses.match"), item.send) for item in request.responses or ()]
        if self.current is not None and self._task is not None:
            await asyncio.wait({self._task}, timeout=BUSY_GRACE_S)
        if self.current is not None:
            raise self._busy(self.current)
        self._terminal.gate.check(writer)
        self._seq += 1
        run = Run(f"{self._seq}_{int(time.time() * 1000)}", request, expect, self._terminal.now())
        self.mode = next_mode(self.mode, "begin_block")
        self.current = run
        self._remember(run)
        self._task = asyncio.create_task(self._drive(run, writer, responses), name=f"run {run.block_id}")
        return run

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
            self._terminal.stream.pulse.beat()

    def osc(self, osc: Osc) -> None:
        """An operating system command came by; it may be a mark."""
        self._terminal.osc_seen(osc.payload)
        run, by_marker = self.current, self._by_marker
        if run is None or by_marker is None:
            return
        mark = by_marker.marker.osc(osc.payload)
        if mark is not None:
            by_marker.marked(run, mark, osc.raw_begin, osc.raw_end, osc.spool, self._terminal.now())

    def end_by_caller(self, run: Run, reason: DoneReason, spool_end: int) -> None:
        """A run ends with what its caller waited for, unless marks will tell its true end: then it goes on."""
        if self._by_marker is None or self.current is not run:
            stream = self._terminal.stream
            run.finish(reason, self._terminal.now(), raw_end=stream.normaliser.raw, spool_end=spool_end)
            stream.pulse.beat()

    async def close(self) -> None:
        """Ends what drives the present run."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _drive(self, run: Run, writer: Writer, responses: list[tuple[object, str]]) -> None:
        helpers = [asyncio.create_task(self._answer(run, writer, pattern, text)) for pattern, text in responses]
        if run.request.cancel_after_ms is not None:
            helpers.append(asyncio.create_task(self._cancel_later(run, run.request.cancel_after_ms / 1000)))
        try:
            await self._drive_by_its_way(run, writer)
        except PtyctlError as error:
            self._failed(run, error)
        finally:
            for helper in helpers:
                helper.cancel()
            self._finish(run)

    async def _drive_by_its_way(self, run: Run, writer: Writer) -> None:
        marker = await self._marker(run, writer)
        if marker is not None:
            self._by_marker = ByMarker(self._terminal, marker)
            await self._by_marker.drive(run, writer)
            return
        self._by_marker = None
        found = await settled_prompt(self._terminal, run.expect, self._terminal.now() + PROMPT_WAIT_S, writer)
        idle_ms = run.request.until_idle_ms
        idle_s = idle_ms / 1000 if idle_ms is not None else None if found else DEFAULT_IDLE_S
        lines = list(run.request.lines or (run.request.cmd or "").split("\n"))
        await ByPrompt(self._terminal).drive(run, writer, lines, idle_s)

    async def _marker(self, run: Run, writer: Writer) -> Marker | None:
        """The marker to run with, or None: then the run says why it has no exit code."""
        wanted = run.request.rc_mode
        enabled = "auto" if wanted is None else wanted.enabled
        if enabled is False or run.request.lines is not None:
            run.exit_code_reason = "rc_mode is off" if enabled is False else "lines are not a shell's command"
            return None
        if self._shell is None:
            self._shell = await self._find_shell(run, writer, forced=enabled is True)
        else:
            await self._next_prompt(run)
        marker = self._shell.marker
        if marker is None:
            run.exit_code_reason = self._shell.why
        elif wanted is not None and (wanted.marker_prefix or wanted.marker_suffix):
            marker = AsciiMarker(self._nonce, marker.dialect, wanted.marker_prefix or "__PTYCTL_", wanted.marker_suffix or "__")
        return marker

    async def _find_shell(self, run: Run, writer: Writer, *, forced: bool) -> Shell:
        terminal = self._terminal
        spoken = shell_dialect(self._program) if self._program is not None else None
        if spoken is not None or forced:
            if terminal.prompts:
                patience = NEXT_PROMPT_WAIT_S if terminal.stream.end else FIRST_OUTPUT_WAIT_S
                await terminal.quiet(FIRST_OUTPUT_QUIET_S, terminal.now() + patience)
                self._learn_prompt(run)
            await self._next_prompt(run)
            return Shell(Marker(self._nonce, spoken or "posix"))
        if not self._probing:
            return Shell(None, "this is not known to be a POSIX shell")
        if not await settled_prompt(terminal, run.expect, terminal.now() + PROMPT_WAIT_S, writer):
            return Shell(None, "no prompt was there at which to look for a POSIX shell")
        return await ask(terminal, run.expect, self._nonce, writer)

    async def _next_prompt(self, run: Run) -> None:
        """Lets the shell's prompt come back, and learns it. Output without a last newline may stand before it in its line."""
        terminal = self._terminal
        if not terminal.prompts:
            return
        deadline = terminal.now() + NEXT_PROMPT_WAIT_S
        learned = terminal.prompt.learned
        while terminal.stream.ended is None and terminal.now() < deadline:
            if learned is not None and terminal.last_line().endswith(learned):
                return
            await terminal.stream.pulse.wait(deadline)
        self._learn_prompt(run)

    def _learn_prompt(self, run: Run) -> None:
        line = self._terminal.last_line()
        if self._terminal.prompt.match(line, run.expect) is not None:
            self._terminal.prompt.learn(line)

    async def _answer(self, run: Run, writer: Writer, pattern: object, text: str) -> None:
        """Sends `text` each time the pattern appears behind what was answered before, as long as the run's writer may."""
        stream = self._terminal.stream
        while run.spool_begin is None:
            await stream.pulse.wait()
        search = Search(pattern, run.spool_begin)
        while True:
            found = search.search(stream.window)
            if found is None or found.start == found.end:
                await stream.pulse.wait()
                continue
            try:
                await self._terminal.gate.type(text, writer)
            except PtyctlError:
                return  # the lock was lost, or the far end is gone: the run goes on, or ends by itself
            search = Search(pattern, found.end)

    async def _cancel_later(self, run: Run, after_s: float) -> None:
        await asyncio.sleep(after_s)
        if run.done_reason is None:
            with contextlib.suppress(PtyctlError):  # the far end is gone: that ends the run too
                await self._terminal.gate.interrupt(ETX, SYSTEM)
            self.interrupted()

    def _failed(self, run: Run, error: PtyctlError) -> None:
        stream = self._terminal.stream
        if stream.ended is not None and run.sent:
            self._terminal.finish(run, "eof")
        else:
            run.fail(error, self._terminal.now(), raw_end=stream.normaliser.raw, spool_end=stream.end)

    def _finish(self, run: Run) -> None:
        if run.done_reason is None:  # the session was closed, or the server ends
            self._terminal.finish(run, "cancelled")
        self.mode = next_mode(self.mode, "end")
        if self.current is run:
            self.current = None
        self._terminal.stream.pulse.beat()

    def _remember(self, run: Run) -> None:
        self._history[run.block_id] = run
        while len(self._history) > KEPT_RUNS:
            self._history.pop(next(iter(self._history)))

    def _busy(self, run: Run) -> PtyctlError:
        return PtyctlError(
            ErrorCode.BUSY,
            f"block {run.block_id} is still running ({_brief(run.command)}); wait for it with block_id, answer it with "
            "ptyctl_session_io, or interrupt it with key ctrl_c",
            {"block_id": run.block_id, "mode": self.mode},
        )


def _brief(command: str) -> str:
    first = command.split("\n", 1)[0]
    return first if len(first) <= 60 and first == command else f"{first[:57]}..."

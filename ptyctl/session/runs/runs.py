"""The runs of one session: at most one at a time. Ended runs can be queried by their block_id."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextvars import copy_context
from typing import Any, Protocol

from ptyctl.api.blocks import BlockOrigin
from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.api.exec import DoneReason, ExecRequest
from ptyctl.cancellation import cancel_and_wait
from ptyctl.core.lease import Owner
from ptyctl.core.marks import PlacedMark
from ptyctl.core.renderer import render
from ptyctl.core.shells import shell_change
from ptyctl.core.states import TerminalMode, next_mode
from ptyctl.platforms import UNKNOWN_DEVICE, DeviceProfile
from ptyctl.session.device.prompt_guard import PromptGuard
from ptyctl.session.io.errors import from_os_error
from ptyctl.session.io.gate import Permit, Writer
from ptyctl.session.io.shell_identity import ShellIdentity, ShellReader
from ptyctl.session.io.signal import CoalescedTimer, Signal
from ptyctl.session.io.terminal_state import ANSWER_S, TerminalState
from ptyctl.session.transcript.stored_blocks import OpenBlock
from ptyctl.session.verdict_thread import LONG_TEXT

from .run import Run
from .run_tasks import ResponseRule, compile_responses, start_eagerly, start_run_tasks
from .shell_probe import ProbedShell
from .strategy import CompletionStrategy, Typing, finish_run
from .strategy_selector import StrategySelector

#: How long a call waits for a run whose output is complete but whose mark has not arrived (seconds).
BUSY_GRACE_S = 0.25
#: The same for a typed command that starts another shell, until that shell shows its prompt (seconds).
NESTED_GRACE_S = 3.0
#: Number of ended runs that can be queried.
KEPT_RUNS = 64
#: Prompt of a shell for the further lines of a command (POSIX PS2).
_CONTINUATION_PROMPT = "> "


class Authorizer(Protocol):
    """Judges the commands of runs."""

    async def judge_ahead(self, text: str, writer: Writer) -> None:
        """Judge a long command outside the event loop. Raises PtyctlError LIMIT_EXCEEDED."""
        ...

    def judge_command(self, text: str, writer: Writer, block_id: str, *, is_quoted: bool | None) -> Permit | None:
        """Return the approval that a command must wait for, or None. Raises PtyctlError POLICY_DENIED; BUSY."""
        ...

    def check_for_shell(self, text: str, writer: Writer, block_id: str, *, is_quoted: bool) -> None:
        """Judge a command for a shell that was judged for a program. Raises PtyctlError POLICY_DENIED; BUSY."""
        ...

    def confirm(self, permit: Any, writer: Writer) -> str:
        """Use an approval; return the command to type. Raises PtyctlError DECLINED."""
        ...


class Runs:
    """Starts runs, drives the current one, and ends it.

    Attributes:
        mode: the terminal's mode, from the table in `core/states.py`.
        current: the current run.
        changed: notified when a run ends or asks a question.
    """

    def __init__(
        self,
        terminal: TerminalState,
        selector: StrategySelector,
        authorizer: Authorizer,
        reader: ShellReader,
        *,
        first_seq: int,
        on_hold: Callable[[Run], None],
        on_discard: Callable[[Run], None],
        on_begin: Callable[[Run], None],
        on_typed: Callable[[], None],
        on_end: Callable[[Run], None],
    ) -> None:
        """Create the runs of a session.

        Args:
            authorizer: judges each command.
            reader: observes which shell reads.
            first_seq: the number of the first run.
            on_hold, on_discard: called when a run waits for an approval, and when it ends because its command was refused.
            on_begin, on_end: called once for each other run.
            on_typed: called after each `on_begin`, when the command is being typed or was typed.
        """
        self.mode: TerminalMode = "idle"
        self.current: Run | None = None
        self.changed = Signal()
        self._authorizer = authorizer
        self._reader = reader
        #: Who gave the current run's command, and the shell that reads it: None for the one that sends marks. Without a run,
        #: and for one that an earlier process began, there is neither.
        self._begun: tuple[Writer | Owner | None, ShellIdentity | None] | None = None
        self._on_hold, self._on_discard = on_hold, on_discard
        self._on_begin = on_begin
        self._on_typed = on_typed
        self._on_end = on_end
        self._terminal = terminal
        self._stream = terminal.stream
        self._signal = terminal.stream.signal
        self._gate = terminal.gate
        self._unfinished_line = terminal.unfinished_line
        self._selector = selector
        #: Oldest first. Finding the first key of a plain dict would pass all removed entries.
        self._history: OrderedDict[str, Run] = OrderedDict()
        self._held: dict[str, tuple[Permit, Writer]] = {}
        self._next_seq = first_seq
        self._task: asyncio.Task[None] | None = None
        self._run_tasks: list[asyncio.Task[None]] = []
        self._timer = CoalescedTimer(self._check_due)
        self._reserved_for = ""
        #: The line feeds of the output when the last run ended at its typed end mark, which precedes the prompt; -1 otherwise.
        self._ended_at_marker = -1
        self._prompt_raw_end = 0
        self._prompt_line = ""

    async def begin(
        self,
        command: str,
        profile: DeviceProfile,
        writer: Writer,
        request: ExecRequest | None = None,
        origin: BlockOrigin = "exec",
        submitted: str | None = None,
        cwd: str | None = None,
    ) -> Run:
        """Start a run. It continues whether its caller waits or not. For `submitted` and `cwd` see `Run`.

        A run that needs an approval is returned in the state `awaiting`. Other runs can start before it.

        Raises:
            PtyctlError: BUSY, naming the current run; LOCKED, LOCK_REQUIRED, REMOTE_CLOSED, INVALID_ARGUMENT, POLICY_DENIED.
        """
        self._gate.check(writer)
        rules = compile_responses(request, writer)
        text = command if submitted is None else submitted
        guard = PromptGuard(self._terminal, profile)
        await self._wait_until_ready(guard)
        if len(text) > LONG_TEXT:
            await self._authorizer.judge_ahead(text, writer)
            await self._wait_until_ready(guard)
        fence = self._gate.check(writer)  # the lock may have changed meanwhile
        guard.refuse_password()
        has_marks = self._selector.has_marks
        if not (has_marks and self._reader.settled == (writer.by.name, writer.task_id)):
            self._reader.check(writer.owner)
        run = Run(
            self.changed,
            self._next_seq,
            command,
            profile,
            self._terminal.now(),
            request=request,
            origin=origin,
            task_id=writer.task_id,
            fence=fence,
            submitted=submitted,
            cwd=cwd,
            review=writer.review,
        )
        try:
            permit = self._authorizer.judge_command(
                text, writer, run.block_id, is_quoted=self._is_quoted(request, has_marks=has_marks)
            )
        except PtyctlError as error:
            self._deny(run, writer, error)
            raise
        if permit is not None:
            self._hold(run, rules, writer, permit)
        else:
            self._start(run, rules, writer)
        return run

    def _start(self, run: Run, rules: list[ResponseRule], writer: Writer) -> None:
        self._add(run)
        self._begun = writer, None
        self._on_begin(run)
        self._run_tasks = start_run_tasks(run, rules, self._terminal, self.interrupted)
        sent = self._gate.bytes_sent
        typing = self._selector.begin(run, writer, self._check_for_shell, self._observe_shell)
        self._task = start_eagerly(self._type(run, typing), f"run {run.block_id}")
        if run.state == "queued" or self._gate.bytes_sent == sent:  # its row is stored before the command is typed
            run.noted_untyped = True
            self._stream.transcript.note("run", int(time.time() * 1000), block_id=run.block_id, strategy="untyped")
        self._on_typed()

    def _observe_shell(self, writer: Writer) -> None:
        """Note the shell that reads the command of the current run. Raises PtyctlError BUSY."""
        self._begun = writer, self._reader.check_prompt(writer.owner)

    def _check_for_shell(self, run: Run, writer: Writer, is_quoted: bool) -> None:
        """Judge a command that was judged for a program again if a shell gets it. Raises PtyctlError."""
        text = run.command if run.submitted is None else run.submitted
        self._authorizer.check_for_shell(text, writer, run.block_id, is_quoted=is_quoted)

    def _hold(self, run: Run, rules: list[ResponseRule], writer: Writer, permit: Permit) -> None:
        """Hold a run until its approval is answered. It is then started in the context of the caller that requested it."""
        run.hold()
        self._remember(run)
        self._held[run.block_id] = permit, writer
        context = copy_context()
        permit.subscribe(lambda: context.copy().run(self._answered, run, rules, writer, permit))
        self._on_hold(run)

    def _answered(self, run: Run, rules: list[ResponseRule], writer: Writer, permit: Permit) -> None:
        """Start a held run that was approved, or end it."""
        if self._held.pop(run.block_id, None) is None:
            return
        try:
            self._check_unchanged(run, writer, permit)
            command = self._authorizer.confirm(permit, writer)
        except PtyctlError as error:
            self._discard(run, error)
            self._stream.notify_waiters()
            return
        run.release(command, self._terminal.now())
        self._start(run, rules, writer)
        self.changed.notify()

    def _deny(self, run: Run, writer: Writer, error: PtyctlError) -> None:
        """Record a run that the policy denies. A secret, and a command that was not judged, are not recorded."""
        review = writer.review
        if error.code is ErrorCode.POLICY_DENIED and review.verdict is not None and not review.is_secret:
            self._remember(run)
            error.details["block_id"] = run.block_id
            self._discard(run, error)

    def _discard(self, run: Run, error: PtyctlError) -> None:
        """End a run whose command is not typed."""
        finish_run(self._terminal, run, "cancelled", failure=error, cancel_reason=error.message)
        self._on_discard(run)

    def _check_unchanged(self, run: Run, writer: Writer, permit: Permit) -> None:
        """Mark an approval as stale if it cannot be used: the terminal is in use or closed, or the lock has changed."""
        if permit.state != "approved":
            return
        try:
            fence = self._gate.check(writer)
        except PtyctlError as error:
            permit.set_stale(error.message)
            return
        if self.current is not None or self._reserved_for or not self._unfinished_line.untouched:
            permit.set_stale("the terminal is in use by another command or by typed text")
        elif fence != run.fence:
            permit.set_stale("the lock was given to another task meanwhile")

    def _is_quoted(self, request: ExecRequest | None, *, has_marks: bool) -> bool | None:
        """Return whether the command is typed as a quoted word of a shell's command; None if the shell is not known yet."""
        if request is not None and (request.lines is not None or (request.rc_mode and request.rc_mode.enabled is False)):
            return False
        shell = self._selector.shell
        if has_marks or (shell is None and self._selector.starts_shell):
            return True
        return None if shell is None else shell.marker is not None

    @contextlib.asynccontextmanager
    async def reserved(self, why: str) -> AsyncIterator[None]:
        """Reserve the terminal for input of the session itself: no run can start meanwhile.

        Raises:
            PtyctlError: BUSY during a run.
        """
        await self._wait_until_free()
        self._reserved_for = why
        try:
            yield
        finally:
            self._reserved_for = ""

    def check_reserved(self) -> None:
        """Raise PtyctlError BUSY while the terminal is reserved."""
        if self._reserved_for:
            message = f"the session is busy with {self._reserved_for}"
            raise PtyctlError(ErrorCode.BUSY, message, {"reason": "reserved"}, hint="try again in a second")

    @property
    def shell(self) -> ProbedShell | None:
        """The shell in the foreground, as the last probe found it; None before its first command."""
        return self._selector.shell

    def find(self, block_id: str) -> Run:
        """Return the run with this id.

        Raises:
            PtyctlError: NOT_FOUND if the id is unknown or too old.
        """
        try:
            return self._history[block_id]
        except KeyError:
            raise PtyctlError(
                ErrorCode.NOT_FOUND,
                f"there is no recent run {block_id} in this session",
                {"block_id": block_id},
                hint=NextStep.LIST_BLOCKS,
            ) from None

    def interrupted(self) -> None:
        """Record that an interrupt key was pressed: the current run may now end with a prompt alone."""
        if self.current is not None:
            self.current.interrupt()
            self._stream.notify_waiters()

    def typing(self, writer: Writer, data: bytes) -> None:
        """Record input of a caller: it answers the question of the current run, or follows the prompt in the current line."""
        if not writer.command:
            self._reader.typed(writer.owner, data)
        if self.current is not None:
            self.current.answered(self._terminal.now())
        elif not self._prompt_line:
            self._prompt_line = self._terminal.last_line()

    def mark_received(self, placed: PlacedMark) -> None:
        """Handle a mark of this session. It belongs to the current run, or to a command that a person typed."""
        kind = placed.mark.kind
        if kind == "prompt":
            self._selector.prompt_mark_received()
        if kind in ("prompt", "line") and placed.mark.line is not None:
            self._unfinished_line.fill(placed.mark.line, placed.raw_end)
        if self.current is None and kind == "begin" and placed.mark.nonce == self._selector.shell_nonce:
            self._begin_typed(placed)
        run, strategy = self.current, self._selector.strategy
        if run is not None and strategy is not None and run.result is None:
            strategy.mark_received(run, placed)
            if run.result is not None:  # release the terminal at once
                self._finish(run)
            elif strategy.checks_output and self._signal.observed:  # it may check sooner than before the mark
                self._await_next_check(strategy)
        if kind == "prompt":
            self._prompt_raw_end, self._prompt_line = placed.raw_end, ""

    def end_by_caller(self, run: Run, reason: DoneReason, spool_end: int) -> None:
        """End a run because its caller's wait condition is met, unless marks will report its end."""
        strategy = self._selector.strategy
        if strategy is None or not strategy.ends_by_marks or self.current is not run:
            finish_run(self._terminal, run, reason, spool_end=spool_end)
            self._stream.notify_waiters()

    def far_end_gone(self) -> None:
        """End a typed or resumed command when the channel ends: no task checks such a run."""
        if self.current is not None and not self.current.driven:
            finish_run(self._terminal, self.current, "eof")
            self._finish(self.current)

    def resume(self, running: OpenBlock) -> None:
        """Attach to a command that an earlier process started. Its end is found as that process would have found it."""
        block = running.block
        run = Run(
            self.changed,
            block.seq,
            block.cmd,
            UNKNOWN_DEVICE,
            self._terminal.now(),
            started_ms=block.ts_begin,
            origin=block.origin,
            driven=False,
            task_id=block.task_id,
        )
        self._add(run)
        raw_begin, spool_begin, ending = running.raw_begin, running.spool_begin, running.ending or {}
        if raw_begin is None and ending.get("strategy") == "prompt":  # the output begins with the echo
            raw_begin, spool_begin = block.raw_begin, block.spool_begin
        run.attached(raw_begin, spool_begin)
        self._selector.resume(running)
        self._check()

    def withdraw_held(self, principal: str, reason: str) -> None:
        """Withdraw the requests for approvals of a principal's commands."""
        for permit, writer in list(self._held.values()):
            if writer.principal == principal:
                permit.withdraw(reason)

    async def abort(self, reason: str) -> None:
        """End the current run and its tasks, and withdraw the requests for approvals."""
        for permit, _ in list(self._held.values()):
            permit.withdraw(reason)
        if self.current is not None:
            finish_run(self._terminal, self.current, "cancelled", cancel_reason=reason)
            self._finish(self.current)
        self._timer.stop()
        await cancel_and_wait(self._task)

    def _add(self, run: Run) -> None:
        self.mode = next_mode(self.mode, "begin_interactive" if run.origin == "interactive" else "begin_block")
        self.current = run
        self._remember(run)

    def _remember(self, run: Run) -> None:
        self._next_seq = max(self._next_seq, run.seq + 1)
        self._history[run.block_id] = run
        while len(self._history) > KEPT_RUNS + len(self._held):
            self._history.pop(next(block_id for block_id in self._history if block_id not in self._held))

    def _begin_typed(self, placed: PlacedMark) -> None:
        """Create a run for a command that a person typed."""
        reported = placed.mark.command
        command = reported.decode("utf-8", "replace") if reported is not None else self._command_on_screen(placed.raw_begin)
        now = self._terminal.now()
        run = Run(self.changed, self._next_seq, command.strip(), UNKNOWN_DEVICE, now, origin="typed", driven=False)
        self._add(run)
        self._begun = self._terminal.unfinished_line.entered_by, None
        run.attached(placed.raw_end, placed.spool_end)
        self._on_begin(run)
        self._on_typed()
        self._selector.select_marks()
        self._check()

    def _command_on_screen(self, raw_begin: int) -> str:
        """Return the command as the screen shows it after the prompt, if the shell does not report it."""
        text = render(self._stream.read_raw(self._prompt_raw_end, raw_begin), self._terminal.width()).strip("\n")
        lines = text.split("\n")
        prompt = self._prompt_line or self._terminal.learned_prompt or ""
        first = next((at for at in reversed(range(len(lines))) if lines[at].startswith(prompt)), 0)
        more = [line.removeprefix(_CONTINUATION_PROMPT) for line in lines[first + 1 :]]
        return "\n".join([lines[first].removeprefix(prompt), *more])

    async def _type(self, run: Run, typing: Typing) -> None:
        """Type for a run, then check it: while input is being sent, the state of the terminal is not conclusive."""
        try:
            await typing
        except PtyctlError as error:
            self._typing_failed(run, error)
        except OSError as error:
            self._typing_failed(run, from_os_error(error))
        except BaseException:  # a cancellation or an internal error: nothing would check the run again
            self._finish(run)
            raise
        if self.current is run:
            self._check()

    def _check(self) -> None:
        """Check whether the current run has ended, or needs more input."""
        run, strategy = self.current, self._selector.strategy
        self._signal.observe(None)
        if run is None:
            return
        typing = strategy.check(run) if strategy is not None and run.result is None else None
        if run.result is not None:
            self._finish(run)
        elif typing is not None:
            self._task = start_eagerly(self._type(run, typing), f"run {run.block_id}")
        elif strategy is not None:
            self._await_next_check(strategy)

    def _await_next_check(self, strategy: CompletionStrategy) -> None:
        self._signal.observe(self._check, output=strategy.checks_output)
        if strategy.next_check is not None:
            self._timer.at(strategy.next_check)

    def _check_due(self) -> None:
        if self._signal.observed:
            self._check()

    def _typing_failed(self, run: Run, error: PtyctlError) -> None:
        if self._stream.ended is not None and run.sent:
            finish_run(self._terminal, run, "eof")
        else:
            finish_run(self._terminal, run, "cancelled", failure=error)

    def _finish(self, run: Run) -> None:
        if run.result is None:  # the server ends
            finish_run(self._terminal, run, "cancelled")
        if self.current is run:
            self.current = None
            self._ended_at_marker = self._stream.line_feeds if run.result and run.result.done_reason == "marker" else -1
            self._signal.observe(None)
            for task in self._run_tasks:
                task.cancel()
            self._run_tasks.clear()
            self._selector.run_ended(run)
            if self._begun is not None:
                self._note_shell(run, *self._begun)
            self.mode = next_mode(self.mode, "end")
            self._on_end(run)
        self._stream.notify_waiters()

    def _note_shell(self, run: Run, by: Writer | Owner | None, before: ShellIdentity | None) -> None:
        """Note which shell reads after a run."""
        self._begun, result = None, run.result
        if before is None and isinstance(by, Writer) and result is not None and result.done_reason == "marks":
            if self._reader.settled == (by.by.name, by.task_id):
                return
            self._reader.command_ended_in_marked_shell(by)
            return
        owner = by.owner if isinstance(by, Writer) else by
        failure = None if result is None else result.failure
        if owner is not None and run.sent and failure is not None and failure.details.get("reason") == "other_shell":
            now = self._reader.change_reported(owner)
            described = {"before": before.describe()} if before is not None else {}
            failure.details.update(described, now=now.describe())
        elif owner is not None and run.sent:
            prompt = "" if result is None else result.prompt_after
            self._reader.command_ended(owner, run.submitted or run.command, before, prompt)

    async def _wait_until_ready(self, guard: PromptGuard) -> None:
        """Wait until the terminal is free for a command, which the prompt gets: it is judged for that place.

        Raises:
            PtyctlError: BUSY, naming what occupies the terminal.
        """
        if self.current is not None or self._reserved_for or not self._terminal.line_untouched:
            await self._wait_until_free()
        if self._selector.may_run_prompt_programs():
            await self._selector.wait_for_prompt_programs()
            await self._wait_until_free()
        if self._ended_at_marker == self._stream.line_feeds and guard.shows_password_question():
            await guard.wait_for_prompt_after_question()
            await self._wait_until_free()

    async def _wait_until_free(self) -> None:
        """Wait for a run that is about to end, and for the start of a line that a user has entered.

        Raises:
            PtyctlError: BUSY, naming what occupies the terminal.
        """
        if not self._terminal.line_untouched:
            if self.current is None and self._selector.has_marks:  # a line that the shell has read may begin to run
                await PromptGuard(self._terminal, UNKNOWN_DEVICE).shell_has_read(lambda: self._selector.has_marks)
            await self._wait_for_entered_line(self._terminal.now() + BUSY_GRACE_S)
        typed = self.current.command if self.current is not None and self.current.origin == "typed" else ""
        deadline = self._terminal.now() + (BUSY_GRACE_S if shell_change(typed) == "no" else NESTED_GRACE_S)
        while self.current is not None and self._terminal.now() < deadline:
            await self.changed.wait(deadline)
        if self.current is not None:
            raise self._busy(self.current)
        self.check_reserved()

    async def _wait_for_entered_line(self, deadline: float) -> None:
        """Wait until a shell with marks has answered the last line that a user entered: by a begin mark, or by its prompt.

        Type-ahead runs directly after the prompt, so that a short silence must follow it.
        """
        terminal, stream = self._terminal, self._stream
        while self.current is None and self._selector.has_marks and terminal.now() < deadline:
            due = deadline
            if stream.shell_returned_raw >= terminal.entered_raw:
                due = stream.last_data + ANSWER_S
                if terminal.now() >= due and await terminal.nothing_more():
                    return
            await stream.wait(min(due, deadline))

    def _busy(self, run: Run) -> PtyctlError:
        mode = "interactive mode" if self.mode == "interactive" else "block running"
        command = _shortened(run.submitted or run.command)
        return PtyctlError(
            ErrorCode.BUSY,
            f"{mode}: block {run.block_id} is still running ({command})",
            {"block_id": run.block_id, "mode": self.mode},
            hint=NextStep.INTERRUPT_OR_WAIT if run.question is None else NextStep.ANSWER_OR_INTERRUPT,
        )


def _shortened(command: str) -> str:
    first = command.split("\n", 1)[0]
    return first if len(first) <= 60 and first == command else f"{first[:57]}..."

"""One exec call: starts or finds a run, waits for the condition of the caller, and builds the reply."""

from __future__ import annotations

import asyncio
from typing import Any

from ptyctl.api.controller import Progress
from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.api.exec import DoneReason, ExecReply, ExecRequest
from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.core.lease import Owner
from ptyctl.core.search import compile_pattern, line_pattern
from ptyctl.platforms.device_profile import QUESTION
from ptyctl.session.clients import lock_owner
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.output_wait import OutputWait, WaitConditions, WaitProgress
from ptyctl.session.runs.prompt_strategy import may_wait_for_key, unanswered_line
from ptyctl.session.runs.run import FULL_SCREEN, UNTYPED, Run, RunResult
from ptyctl.session.runs.run_output import error_lines, run_output
from ptyctl.session.session import Session
from ptyctl.session.transcript.stored_blocks import is_discarded

from .mode_change import change_mode, mode_at
from .output_selection import select_output
from .write import check_in_time


async def execute(session: Session, request: ExecRequest, progress: Progress | None) -> ExecReply:
    """Answer an exec request.

    Raises:
        PtyctlError: BUSY, LOCKED, LOCK_REQUIRED; LOCK_LOST and REMOTE_CLOSED with the output so far in `details`. With `mode`
            also the errors of `change_mode`; the command is not run then.
    """
    pattern = None if request.until_regex is None else compile_pattern(request.until_regex, "until_regex")
    if request.grep is not None:
        line_pattern(request.grep, "grep")  # an invalid one is reported before anything is typed
    check_in_time(request.not_after)
    writer = Writer(request.task_id, command=True)
    fence = None
    if request.approval_id is not None:
        run = _run_of_approval(session, request.approval_id, writer)
    elif request.block_id is None:
        if request.mode is not None:
            await change_mode(session, request.mode, writer)
        command = request.cmd if request.cmd is not None else "\n".join(request.lines or ())
        run = await session.runs.begin(command, session.profile(request.expect), writer, request)
        fence = run.fence
    else:
        run = _find_run(session, request.block_id)
    reason = await _RunWait(session, run, request, pattern, fence, progress).wait()
    return await _result(session, run, request, reason)


def _find_run(session: Session, block_id: str) -> Run:
    """Return a run by its id; one of an earlier server, or an old one, from its block. Raises PtyctlError NOT_FOUND."""
    try:
        return session.runs.find(block_id)
    except PtyctlError:
        block = session.blocks.get(block_id)
        if block is None or is_discarded(block) or block.ts_end is None or block.raw_end is None or block.spool_end is None:
            raise
        run = Run(session.runs.changed, block.seq, block.cmd, session.profile(), 0.0, started_ms=block.ts_begin, driven=False)
        run.attached(block.raw_begin, block.spool_begin)
        run.restore_echo(block.prompt_before, on_device=bool(block.device))
        run.finish(
            RunResult(
                "cancelled" if block.status == "cancelled" else "marks",
                block.ts_end - block.ts_begin,
                block.raw_end,
                block.spool_end,
                block.spool_end,
                exit_code=block.exit_code,
                exit_code_reason=None if block.exit_code is not None else block.reason,
                prompt_after=block.prompt_after or "",
            )
        )
        return run


def _run_of_approval(session: Session, approval_id: str, writer: Writer) -> Run:
    """Return the run that waits for an approval, or was started by it.

    Raises:
        PtyctlError: NOT_FOUND; INVALID_ARGUMENT; DECLINED for a run that this process does not know and that never began.
    """
    approval = session.authorization.find_approval(approval_id, writer.owner)
    block_id = approval.held.block_id
    if block_id is None:
        raise invalid("this approval is for typed input", hint="repeat the write with it", field="approval_id")
    try:
        return session.runs.find(block_id)
    except PtyctlError:
        if approval.ended and not approval.redeemed:
            raise approval.declined_error() from None
        raise


class _RunWait:
    """One caller's wait for a run."""

    def __init__(
        self, session: Session, run: Run, request: ExecRequest, pattern: Any, fence: int | None, progress: Progress | None
    ) -> None:
        self._session = session
        self._stream = session.stream
        self._runs = session.runs
        self._leases = session.leases
        self._run = run
        self._run_changed = run.changed
        self._fence = fence
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + min(request.timeout_ms, MAX_WAIT_MS) / 1000
        self._progress = None if progress is None else WaitProgress(session.stream, progress)
        self._conditions = None
        if pattern is not None or request.until_idle_ms is not None:
            idle_s = None if request.until_idle_ms is None else request.until_idle_ms / 1000
            self._conditions = WaitConditions(self._deadline, pattern, idle_s)
        self._output_wait: OutputWait | None = None

    async def wait(self) -> DoneReason:
        """Return why the wait has ended: the run has, or one of the caller's conditions is true."""
        while self._run.result is None:
            reason = await self._check()
            if reason is not None:
                return reason
            await self._pause()
        return self._run.result.done_reason

    async def _check(self) -> DoneReason | None:
        run = self._run
        if self._conditions is not None and self._output_wait is None and run.spool_begin is not None:
            # the conditions apply to the output, not to the echo or the silence before it
            self._output_wait = OutputWait(self._stream, run.spool_begin, self._conditions)
        end = None if self._output_wait is None else await self._output_wait.check()
        if run.result is not None:  # it ended during a long search
            return run.result.done_reason
        if end == "matched" and self._output_wait is not None and self._output_wait.span is not None:
            return self._end_run("until_regex", self._output_wait.span.end)
        if end == "idle":
            return self._end_run("until_idle", self._stream.spool_end)
        if run.question is not None and (run.question.certain or self._request.block_id is None):
            return "question"  # an uncertain question is reported to the first caller only
        expired = self._stream.ended is None and self._loop.time() >= self._deadline  # the end of the stream ends the run
        if run.state == "awaiting":
            return "approval" if expired or self._returns_pending() else None
        return "timeout" if expired else None

    def _returns_pending(self) -> bool:
        """Return whether the caller elicits the answer that the run waits for."""
        if not self._request.return_pending or (permit := self._run.review.permit) is None:
            return False
        pending = permit.pending()
        return pending is not None and bool(pending.elicitation)

    def _end_run(self, reason: DoneReason, spool_end: int) -> DoneReason:
        """End the run for a condition of the caller that began it. A condition of another caller ends only the call."""
        if self._request.block_id is None:
            self._runs.end_by_caller(self._run, reason, spool_end)
        return reason

    async def _pause(self) -> None:
        until = self._deadline if self._output_wait is None else self._output_wait.next_check()
        if self._progress is not None:
            until = min(until, self._progress.due() or until)
        if self._fence is not None:
            lease = self._session.lease()
            if lease is None or lease.fence != self._fence:
                raise await self._lock_lost(lease.holder if lease else None)
            until = min(until, lease.expires_at)
        if self._conditions is not None and self._stream.ended is None:
            await self._stream.wait(until, coalesce=True)
        else:
            await self._run_changed.wait(until)  # output alone changes nothing for this caller
        if self._progress is not None:
            self._progress.report()

    async def _lock_lost(self, holder: Owner | None) -> PtyctlError:
        owner = lock_owner(self._request.task_id)
        now = f"{holder.describe(owner)} holds it now" if holder else "no task holds it now"
        end = self._leases.end_of(owner, self._loop.time())
        details = (await _reply(self._session, self._run, self._request, "timeout")).payload()
        did, then = "ran", "the command continues"
        if self._run.untyped:
            did, then = "waited for the prompt", "nothing of the command was typed yet"
        return PtyctlError(
            ErrorCode.LOCK_LOST,
            f"the lock {end.describe(self._loop.time())}, while block {self._run.block_id} {did} ({now}); {then}",
            {
                **details,
                "lock_holder": holder.task_id if holder else None,
                "lock_principal": holder.principal if holder else None,
                "reason": end.reason,
            },
            hint="wait for the command by its block_id; extend a lock when half of its TTL has passed",
        )


async def _result(session: Session, run: Run, request: ExecRequest, reason: DoneReason) -> ExecReply:
    if run.result is not None and run.result.failure is not None:
        raise run.result.failure
    reply = await _reply(session, run, request, reason)
    if request.grep is not None or request.from_cursor is not None:
        selected = await select_output(run, session.stream, request)
        reply.stdout, reply.grep_count, reply.next_cursor = selected.text, selected.grep_count, str(selected.end)
        reply.output_truncated, reply.omitted_bytes = selected.omitted_bytes > 0, selected.omitted_bytes or None
    if reason == "eof":
        reply.exit_code = session.terminal.exit_code()
        if reply.exit_code is None:
            ended = session.stream.ended
            raise PtyctlError(
                ErrorCode.REMOTE_CLOSED,
                f"the far end closed during the command: {ended.message if ended else 'the session ended'}",
                reply.payload(),
                hint="details.stdout has the output so far",
            )
        reply.exit_code_reason = None
    return reply


async def _reply(session: Session, run: Run, request: ExecRequest, reason: DoneReason) -> ExecReply:
    stream, result = session.stream, run.result
    output = await run_output(run, stream, request.max_output_bytes)
    spool_end = stream.spool_end if result is None else min(result.spool_end, stream.spool_end)
    spool_begin = stream.spool_end if run.spool_begin is None else min(run.spool_begin, stream.spool_end)
    has_error_patterns = run.on_device or run.echoed or session.expect.error_regexes
    waiting = None
    duration_ms = round((asyncio.get_running_loop().time() - run.started) * 1000) if result is None else result.duration_ms
    if result is None or reason == "idle":
        asks = run.question is not None or bool(QUESTION.search(stream.last_line()))
        waiting = asks or may_wait_for_key(session.terminal, run)
    errors, notices = list[str](), list[str]()
    if has_error_patterns:
        try:
            errors = await error_lines(stream, run.profile, output.text)
        except PtyctlError as error:  # the output is not lost by that
            notices = [f"error_hints are missing: {error.message}"]
    stderr, stderr_omitted = "", 0
    if session.error_output is not None:
        stderr, stderr_omitted = session.error_output.text(run.block_id, request.max_output_bytes, ended=result is not None)
    permit = run.review.permit
    edited = run.review.edited or None
    return ExecReply(
        stdout=output.text,
        stderr=stderr,
        exit_code=None if result is None else result.exit_code,
        exit_code_reason=_running_reason(run) if result is None else result.exit_code_reason,
        done_reason=reason,
        prompt_detected=bool(result is not None and result.prompt_after) or reason == "prompt",
        error_hints=errors,
        timed_out=reason == "timeout",
        waiting_for_input=waiting,
        duration_ms=duration_ms,
        block_id=run.block_id,
        cursor=str(spool_begin),
        next_cursor=str(spool_end),
        output_truncated=output.omitted_bytes + stderr_omitted > 0,
        omitted_bytes=output.omitted_bytes + stderr_omitted or None,
        pages=run.pages or None,
        mode=None if result is None else mode_at(session),
        message=_message(session, run) if result is None else None,
        failed_line=run.failed_lines[0].line if run.failed_lines else None,
        failed_lines=run.failed_lines or None,
        policy=run.review.warning(),
        approval=None if permit is None else permit.pending(),
        edited=edited,
        cmd=run.command if edited else None,
        notices=[*(session.take_notices(request.task_id) or ()), *notices] or None,
    )


def _message(session: Session, run: Run) -> str | None:
    """Return the remark about a run that has not ended."""
    if run.untyped:
        return UNTYPED
    is_full_screen = run.sent and not run.on_device and session.terminal.shows_alternate_screen()
    return FULL_SCREEN if is_full_screen else unanswered_line(run)


def _running_reason(run: Run) -> str:
    if run.state == "awaiting":
        return "it waits for an approval"
    if run.untyped:
        return "it was not typed yet"
    return "it still runs" if run.sent else "it is being typed"

"""One exec call: starts a run or finds one, waits for it as long as the caller wants to, and tells how it stands."""

from __future__ import annotations

import asyncio
from typing import Any

from ptyctl.api.controller import Progress
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.exec import DoneReason, ExecReply, ExecRequest
from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.core.search import compile_pattern
from ptyctl.platforms.device_profile import QUESTION
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.io.output_wait import OutputWait, WaitConditions, WaitProgress
from ptyctl.session.runs.output import output_of
from ptyctl.session.runs.prompt_strategy import unanswered_line
from ptyctl.session.runs.run import Run
from ptyctl.session.session import Session

from .mode_change import change_mode, mode_at


async def execute(session: Session, request: ExecRequest, progress: Progress | None) -> ExecReply:
    """QueryResponder an exec request.

    Raises:
        PtyctlError: BUSY, LOCKED, LOCK_REQUIRED; LOCK_LOST and REMOTE_CLOSED with the output so far in `details`; for a mode
            as `change_mode`, and nothing was run.
    """
    pattern = None if request.until_regex is None else compile_pattern(request.until_regex, "until_regex")
    writer = Writer(request.task_id)
    fence = None
    if request.block_id is None:
        if request.mode is not None:
            await change_mode(session, request.mode, writer)
        command = request.cmd if request.cmd is not None else "\n".join(request.lines or ())
        run = await session.runs.begin(command, session.profile(request.expect), writer, request)
        fence = run.fence
    else:
        run = session.runs.find(request.block_id)
    why = await _Call(session, run, request, pattern, fence, progress).wait()
    return _told(session, run, request, why)


class _Call:
    """A caller's wait for a run; `wait` says why it is over."""

    def __init__(
        self, session: Session, run: Run, request: ExecRequest, pattern: Any, fence: int | None, progress: Progress | None
    ) -> None:
        self._session = session
        self._run = run
        self._fence = fence
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + min(request.timeout_ms, MAX_WAIT_MS) / 1000
        self._reporter = None if progress is None else WaitProgress(session.stream, progress)
        self._until = None
        if pattern is not None or request.until_idle_ms is not None:
            idle_s = None if request.until_idle_ms is None else request.until_idle_ms / 1000
            self._until = WaitConditions(self._deadline, pattern, idle_s)
        self._wait: OutputWait | None = None

    async def wait(self) -> DoneReason:
        run = self._run
        while run.done_reason is None:
            if (why := self._look()) is not None:
                return why
            await self._pause()
        return run.done_reason

    def _look(self) -> DoneReason | None:
        stream, run = self._session.stream, self._run
        if self._until is not None and self._wait is None and run.spool_begin is not None:
            self._wait = OutputWait(stream, run.spool_begin, self._until)  # neither the echo nor the quiet before it is meant
        why = None if self._wait is None else self._wait.check()
        if why == "matched" and self._wait is not None and self._wait.span is not None:
            return self._end_as("until_regex", self._wait.span.end)
        if why == "idle":
            return self._end_as("until_idle", stream.spool_end)
        if run.question is not None and not (run.unsure and self._request.block_id is not None):
            return "question"  # who waits again has heard of one that may be none
        over = stream.ended is None and self._loop.time() >= self._deadline  # the end of the stream ends the run at once
        return "timeout" if over else None

    def _end_as(self, reason: DoneReason, spool_end: int) -> DoneReason:
        """What the one who began the run waits for may be its end; who only waits along must not end it for others."""
        if self._request.block_id is None:
            self._session.runs.end_by_caller(self._run, reason, spool_end)
        return reason

    async def _pause(self) -> None:
        until = self._deadline if self._wait is None else self._wait.next_check()
        if self._reporter is not None:
            until = min(until, self._reporter.due() or until)
        if self._fence is not None:
            lease = self._session.lease()
            if lease is None or lease.fence != self._fence:
                raise self._lock_lost(lease.holder if lease else None)
            until = min(until, lease.expires_at)
        if self._until is not None and self._session.stream.ended is None:
            await self._session.stream.signal.wait(until, coalesce=True)
        else:
            await self._run.ended.wait(until)  # what the run prints is no matter here
        if self._reporter is not None:
            self._reporter.report()

    def _lock_lost(self, holder: str | None) -> PtyctlError:
        now = f"task {holder} holds it now" if holder else "nobody holds it now"
        details = _reply(self._session, self._run, self._request, "timeout").payload()
        return PtyctlError(
            ErrorCode.LOCK_LOST,
            f"the lock ran out while block {self._run.block_id} ran ({now}); it goes on: heartbeat at half the TTL, "
            "and wait for it with block_id",
            {**details, "lock_holder": holder},
        )


def _told(session: Session, run: Run, request: ExecRequest, why: DoneReason) -> ExecReply:
    if run.failure is not None:
        raise run.failure
    reply = _reply(session, run, request, why)
    if why == "eof":
        reply.exit_code = session.exit_code()
        if reply.exit_code is None:
            ended = session.stream.ended
            raise PtyctlError(
                ErrorCode.REMOTE_CLOSED,
                f"the far end closed in mid-command: {ended.message if ended else 'the session ended'}; "
                "its output so far is in details.stdout",
                reply.payload(),
            )
        reply.exit_code_reason = None
    return reply


def _waits(run: Run, stream: OutputStream) -> bool:
    return run.question is not None or bool(QUESTION.search(stream.last_line()))


def _reply(session: Session, run: Run, request: ExecRequest, why: DoneReason) -> ExecReply:
    stream = session.stream
    output = output_of(run, stream, request.max_output_bytes)
    running = run.done_reason is None
    now = asyncio.get_running_loop().time()
    return ExecReply(
        stdout=output.text,
        exit_code=run.exit_code,
        exit_code_reason=run.exit_code_reason
        if run.exit_code is None and not running
        else "it still runs"
        if running
        else None,
        done_reason=why,
        prompt_detected=bool(run.prompt_after) or why == "prompt",
        error_hints=run.profile.error_lines(output.text) if run.device or run.echoed or session.expect.error_regexes else [],
        timed_out=why == "timeout",
        waiting_for_input=_waits(run, stream) if running or why == "idle" else None,
        duration_ms=round((now - run.begun) * 1000) if run.duration_ms is None else run.duration_ms,
        block_id=run.block_id,
        cursor=str(stream.spool_end if run.spool_begin is None else min(run.spool_begin, stream.spool_end)),
        next_cursor=str(stream.spool_end if run.spool_end is None else min(run.spool_end, stream.spool_end)),
        output_truncated=output.omitted_bytes > 0,
        omitted_bytes=output.omitted_bytes or None,
        pages=run.pages or None,
        mode=None if running else mode_at(session),
        message=unanswered_line(run) if running else None,
        failed_line=run.failed_lines[0].line if run.failed_lines else None,
        failed_lines=run.failed_lines or None,
        notices=session.notices.take(request.task_id),
    )

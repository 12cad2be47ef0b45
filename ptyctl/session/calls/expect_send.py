"""Questions and their answers: expect_send, and exec_interactive_expect, a whole dialogue (CONTRACTS, pty_*)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ptyctl.api.errors import PtyctlError, invalid
from ptyctl.api.pty import ExpectStep, PtyExecInteractiveExpect, PtyExpectSend, PtyReply
from ptyctl.core.search import MatchRange
from ptyctl.session.io.gate import Writer
from ptyctl.session.runs.run import Run
from ptyctl.session.session import Session

from .expect import Expecting, Wanted, matched, timed_out, wanted
from .pty_calls import begin, output_cursor, seconds, until_idle

#: How long the mode may take to become idle after the end of a run.
_END_S = 2.0


async def expect_send(session: Session, request: PtyExpectSend) -> PtyReply:
    """Waits, and sends in the very step in which the match is found; while it waits, others read and write."""
    want = wanted(request.expect_type, request.expect, "expect")
    answer = Answer(session, request.send, Writer(request.task_id, sensitive=request.sensitive))
    session.gate.check(answer.writer)
    span = await Expecting(session, want, request.from_cursor, answer).run(seconds(request.timeout_ms))
    if answer.refused is not None:
        raise answer.refused
    if span is None:
        return timed_out(session, "what was expected").model_copy(update={"sent": False})
    return matched(session, span, want).model_copy(update={"sent": True})


async def exec_interactive_expect(session: Session, request: PtyExecInteractiveExpect) -> PtyReply:
    """Starts a program and goes through a dialogue, one step after the other, to its prompt."""
    wants = [_wanted(step, f"steps[{number}].expect") for number, step in enumerate(request.steps)]
    deadline = asyncio.get_running_loop().time() + seconds(request.timeout_ms)
    run = await begin(session, request.cmd, request.cwd, request.task_id, "interactive")
    dialogue = _Dialogue(session, run, deadline, request.task_id)
    for number, (step, want) in enumerate(zip(request.steps, wants, strict=True)):
        if not await dialogue.step(step, want):
            return await dialogue.failed(number, step)
    return await dialogue.finished()


class Answer:
    """Typed when its question is found, unless `due` says that it is too late for it."""

    def __init__(self, session: Session, text: str, writer: Writer, due: Callable[[], bool] = lambda: True) -> None:
        self.sent = False
        self.refused: PtyctlError | None = None
        self._session = session
        self._text = text
        self.writer = writer
        self._due = due

    def __call__(self, span: MatchRange) -> None:
        if not self._due():
            return
        try:
            self._session.gate.type_now(self._text, self.writer)
            self.sent = True
        except PtyctlError as error:
            self.refused = error


class _Dialogue:
    """One run and the steps through it; `cursor` lies behind the last question."""

    def __init__(self, session: Session, run: Run, deadline: float, task_id: str | None) -> None:
        self.cursor = output_cursor(session, run)
        self._session = session
        self._run = run
        self._deadline = deadline
        self._task_id = task_id
        self._begun = PtyReply(session_id=session.session_id, block_id=run.block_id)

    def over(self) -> bool:
        """Whether the program has ended."""
        return self._run.done_reason is not None

    async def step(self, step: ExpectStep, want: Wanted) -> bool:
        """Waits for the question and answers it. What the program asked before it ended is answered by nobody: the answer would
        be a command to the shell."""
        left = self._deadline - asyncio.get_running_loop().time()
        timeout_s = left if step.timeout_ms is None else min(left, step.timeout_ms / 1000)
        writer = Writer(self._task_id, sensitive=step.sensitive)
        to_shell = want.kind == "prompt"
        answer = Answer(self._session, step.send, writer, lambda: to_shell or not self.over())
        span = await Expecting(self._session, want, self.cursor, answer, self.over).run(max(timeout_s, 0))
        if answer.refused is not None:
            raise answer.refused
        if span is not None and answer.sent:
            self.cursor = span.end
        return answer.sent

    async def failed(self, number: int, step: ExpectStep) -> PtyReply:
        """Which step, why, and what is on the screen."""
        stream = self._session.stream
        told = f"steps[{number}] waited for {step.expect or 'the prompt'!r}, and "
        reason, why = "step_timeout", "it did not come in time; answer it with pty_send, or end it with pty_end_session"
        if stream.ended is not None:
            reason, why = "eof", f"the far end closed: {stream.ended.message}"
        elif self.over():
            reason = "cancelled" if self._run.done_reason == "cancelled" else "prompt"
            why = "the program had ended before it could be answered"
        update = {
            "ok": False,
            "error": "timeout" if reason == "step_timeout" else "eof",
            "message": f"{told}{why} (screen: what is to be seen)",
            "exit_reason": reason,
            "failed_step": number,
            "exit_code": self._run.exit_code,
            "screen": "\n".join((await self._session.display.screen.state()).snapshot.rows).rstrip("\n"),
            "resume_cursor": stream.spool_end,
        }
        return self._begun.model_copy(update=update)

    async def finished(self) -> PtyReply:
        """After the last step the program goes on to its end, as long as the caller waits."""
        stream, run = self._session.stream, self._run
        while run.done_reason is None and asyncio.get_running_loop().time() < self._deadline:
            await stream.signal.wait(self._deadline)
        if run.done_reason is None:
            message = "all steps are done and the program still runs; wait with pty_wait_prompt"
            update = {"ok": False, "error": "timeout", "message": message, "exit_reason": "step_timeout"}
            return self._begun.model_copy(update={**update, "resume_cursor": self.cursor})
        await until_idle(self._session, asyncio.get_running_loop().time() + _END_S)
        reason = run.done_reason if run.done_reason in ("eof", "cancelled") else "prompt"
        code = self._session.exit_code() if reason == "eof" else run.exit_code
        return self._begun.model_copy(update={"exit_reason": reason, "exit_code": code, "resume_cursor": stream.spool_end})


def _wanted(step: ExpectStep, field: str) -> Wanted:
    if step.expect_type != "prompt" and not step.expect:
        raise invalid(f"{field} must not be empty", field=field)
    return wanted(step.expect_type, step.expect, field)

"""Dialogues: expect_send, one question and its answer, and exec_interactive_expect, a program with several."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ptyctl.api.errors import NextStep, PtyctlError, invalid
from ptyctl.api.pty import ExpectStep, PtyExecInteractiveExpect, PtyExpectSend, PtyReply
from ptyctl.core.search import MatchRange
from ptyctl.session.io.gate import Writer
from ptyctl.session.runs.run import Run
from ptyctl.session.session import Session

from .expect import Expectation, ExpectWait, expectation, match_reply, timeout_reply
from .pty_calls import begin, output_cursor, until_idle, wait_seconds

#: How long the mode may take to become idle after the end of a run (seconds).
_IDLE_WAIT_S = 2.0


async def expect_send(session: Session, request: PtyExpectSend) -> PtyReply:
    """Wait for a match and send in the same step. Other readers and writers continue meanwhile."""
    expected = expectation(request.expect_type, request.expect, "expect")
    answer = _AnswerOnMatch(session, request.send, Writer(request.task_id, sensitive=request.sensitive))
    session.gate.check(answer.writer)
    match = await ExpectWait(session, expected, request.from_cursor, answer).run(wait_seconds(request.timeout_ms))
    if answer.error is not None:
        raise answer.error
    if match is None:
        return timeout_reply(session, "the expected text").model_copy(update={"sent": False})
    return match_reply(session, match, expected).model_copy(update={"sent": True})


async def exec_interactive_expect(session: Session, request: PtyExecInteractiveExpect) -> PtyReply:
    """Start a program and go through a dialogue step by step, to the program's end."""
    expectations = [_step_expectation(step, f"steps[{number}].expect") for number, step in enumerate(request.steps)]
    deadline = asyncio.get_running_loop().time() + wait_seconds(request.timeout_ms)
    run = await begin(session, request.cmd, request.cwd, request.task_id, "interactive")
    dialogue = _Dialogue(session, run, deadline, request.task_id)
    for number, (step, expected) in enumerate(zip(request.steps, expectations, strict=True)):
        if not await dialogue.perform(step, expected):
            return await dialogue.failed(number, step)
    return await dialogue.finished()


class _AnswerOnMatch:
    """Types an answer when its question is found.

    Attributes:
        sent: whether it was typed.
        error: why it could not be typed.
    """

    def __init__(self, session: Session, text: str, writer: Writer, allowed: Callable[[], bool] = lambda: True) -> None:
        """`allowed` returns whether the answer may still be typed."""
        self.writer = writer
        self.sent = False
        self.error: PtyctlError | None = None
        self._session = session
        self._text = text
        self._allowed = allowed

    def __call__(self, match: MatchRange) -> None:
        if not self._allowed():
            return
        try:
            self._session.gate.type_now(self._text, self.writer)
            self.sent = True
        except PtyctlError as error:
            self.error = error


class _Dialogue:
    """One run and the steps through it."""

    def __init__(self, session: Session, run: Run, deadline: float, task_id: str | None) -> None:
        self._session = session
        self._run = run
        self._deadline = deadline
        self._task_id = task_id
        self._cursor = output_cursor(session, run)
        self._reply = PtyReply(session_id=session.session_id, block_id=run.block_id)

    async def perform(self, step: ExpectStep, expected: Expectation) -> bool:
        """Wait for a question and answer it; return whether it was answered.

        A question is not answered after the program has ended: the answer would be a command to the shell.
        """
        remaining_s = self._deadline - asyncio.get_running_loop().time()
        timeout_s = remaining_s if step.timeout_ms is None else min(remaining_s, step.timeout_ms / 1000)
        writer = Writer(self._task_id, sensitive=step.sensitive)
        to_shell = expected.kind == "prompt"
        answer = _AnswerOnMatch(self._session, step.send, writer, lambda: to_shell or not self._run.ended)
        wait = ExpectWait(self._session, expected, self._cursor, answer, lambda: self._run.ended)
        match = await wait.run(max(timeout_s, 0))
        if answer.error is not None:
            raise answer.error
        if match is not None and answer.sent:
            self._cursor = match.end
        return answer.sent

    async def failed(self, number: int, step: ExpectStep) -> PtyReply:
        """Return the reply for a step that was not answered: which, why, and the screen."""
        stream, result = self._session.stream, self._run.result
        reason, why, hint = "step_timeout", "it was not shown in time", str(NextStep.ANSWER_OR_INTERRUPT)
        if stream.ended is not None:
            reason, why, hint = "eof", f"the far end closed: {stream.ended.message}", ""
        elif result is not None:
            reason = "cancelled" if result.done_reason == "cancelled" else "prompt"
            why, hint = "the program ended before it was answered", ""
        screen = (await self._session.screen.state()).snapshot
        return self._reply.model_copy(
            update={
                "ok": False,
                "error": "timeout" if reason == "step_timeout" else "eof",
                "message": f"steps[{number}] waited for {step.expect or 'the prompt'!r}: {why}; screen has what is visible",
                "hint": hint or None,
                "exit_reason": reason,
                "failed_step": number,
                "exit_code": None if result is None else result.exit_code,
                "screen": "\n".join(screen.rows).rstrip("\n"),
                "resume_cursor": stream.spool_end,
            }
        )

    async def finished(self) -> PtyReply:
        """Wait for the program's end after the last step, and return the reply."""
        stream, loop = self._session.stream, asyncio.get_running_loop()
        while not self._run.ended and loop.time() < self._deadline:
            await stream.wait(self._deadline)
        result = self._run.result
        if result is None:
            return self._reply.model_copy(
                update={
                    "ok": False,
                    "error": "timeout",
                    "message": "all steps are done and the program still runs",
                    "hint": str(NextStep.WAIT_FOR_PROMPT),
                    "exit_reason": "step_timeout",
                    "resume_cursor": self._cursor,
                }
            )
        await until_idle(self._session, loop.time() + _IDLE_WAIT_S)
        reason = result.done_reason if result.done_reason in ("eof", "cancelled") else "prompt"
        code = self._session.exit_code() if reason == "eof" else result.exit_code
        update = {"exit_reason": reason, "exit_code": code, "resume_cursor": stream.spool_end}
        return self._reply.model_copy(update=update)


def _step_expectation(step: ExpectStep, field: str) -> Expectation:
    if step.expect_type != "prompt" and not step.expect:
        raise invalid(f"{field} must not be empty", field=field)
    return expectation(step.expect_type, step.expect, field)

"""Dialogues: expect_send, one question and its answer, and exec_interactive_expect, a program with several."""

from __future__ import annotations

import asyncio
import re

from ptyctl.api.errors import NextStep, PtyctlError, invalid
from ptyctl.api.exec import DEFAULT_MAX_OUTPUT_BYTES
from ptyctl.api.pty import ExpectStep, PtyExecInteractiveExpect, PtyExpectSend, PtyReply
from ptyctl.core.search import MatchRange
from ptyctl.session.io.gate import Writer
from ptyctl.session.runs.run import Run
from ptyctl.session.runs.run_output import run_output
from ptyctl.session.session import Session

from .cursor import check_from_cursor
from .expect import Expectation, ExpectWait, expectation, match_reply, timeout_reply, wait_seconds
from .pty_calls import begin, output_cursor, until_idle

#: How long the mode may take to become idle after the end of a run (seconds).
_IDLE_WAIT_S = 2.0
#: A program that clears the screen (ED 2, RIS) in its first output owns all of it.
_CLEAR = re.compile(rb"\x1b(?:\[2J|c)")
_PAINTED_BYTES = 64 * 1024


async def expect_send(session: Session, request: PtyExpectSend) -> PtyReply:
    """Wait for a match and send the text at once, before any waiting write. Other readers and writers continue meanwhile.

    Only output of the current program can match: what an earlier one asked no longer waits for an answer.
    """
    expected = expectation(request.expect_type, request.expect, "expect")
    writer = Writer(request.task_id, sensitive=request.sensitive)
    session.gate.check(writer)
    check_from_cursor(session.stream, request.from_cursor)
    program, cursor = session.runs.current, request.from_cursor
    if expected.kind != "prompt":
        cursor = max(cursor, _current_output(session))
    match = await _answer(session, expected, cursor, request.send, writer, wait_seconds(request.timeout_ms), program)
    if match is None:
        ended = program is not None and program.ended and session.stream.ended is None
        what = "the program ended, and the expected text" if ended else "the expected text"
        return timeout_reply(session, what).model_copy(update={"sent": False})
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


def _current_output(session: Session) -> int:
    """Return where the output of the current program begins; without a run, the end of the last one's."""
    program, last = session.runs.current, session.blocks.latest()
    if program is not None:
        return program.spool_begin or 0
    return 0 if last is None else last.spool_end or 0


async def _answer(
    session: Session,
    expected: Expectation,
    cursor: int,
    text: str,
    writer: Writer,
    timeout_s: float,
    program: Run | None = None,
) -> MatchRange | None:
    """Type `text` when the expectation is met; return the match, or None if nothing was typed.

    A question of a `program` is not answered after its end, and none at the prompt of a shell with marks: the answer would be a
    command to the shell.

    Raises:
        PtyctlError: why the text could not be typed.
    """
    sent, error, is_early = False, None, False

    def on_match(match: MatchRange) -> None:
        nonlocal sent, error, is_early
        is_early = not is_early and session.authorization.will_read_password(text)
        if is_early:  # a line for the shell would be judged by the policy, and shown to a person who approves it
            return
        at_prompt = program.ended if program is not None else session.selector.has_marks and session.runs.current is None
        if at_prompt and expected.kind != "prompt":
            return
        try:
            session.gate.type_now(text, writer)
            sent = True
        except PtyctlError as caught:
            error = caught

    ended = (lambda: program.ended) if program is not None else (lambda: False)
    match = await ExpectWait(session, expected, cursor, on_match, ended).run(timeout_s)
    if match is not None and is_early and await session.authorization.asks_until_password_is_read(text):
        on_match(match)
    if error is not None:
        raise error
    return match if sent else None


class _Dialogue:
    """One run and the steps through it."""

    def __init__(self, session: Session, run: Run, deadline: float, task_id: str | None) -> None:
        self._session = session
        self._screen = session.screen
        self._terminal = session.terminal
        self._run = run
        self._deadline = deadline
        self._task_id = task_id
        self._cursor = output_cursor(session, run)
        self._reply = PtyReply(session_id=session.session_id, block_id=run.block_id)

    async def perform(self, step: ExpectStep, expected: Expectation) -> bool:
        """Wait for a question and answer it; return whether it was answered."""
        remaining_s = self._deadline - asyncio.get_running_loop().time()
        timeout_s = remaining_s if step.timeout_ms is None else min(remaining_s, step.timeout_ms / 1000)
        writer = Writer(self._task_id, sensitive=step.sensitive)
        match = await _answer(self._session, expected, self._cursor, step.send, writer, max(timeout_s, 0), self._run)
        if match is not None:
            self._cursor = match.end
        return match is not None

    async def failed(self, number: int, step: ExpectStep) -> PtyReply:
        """Return the reply for a step that was not answered: which, why, and the screen."""
        stream, result = self._session.stream, self._run.result
        reason, why, hint = "step_timeout", "it was not shown in time", str(NextStep.ANSWER_OR_INTERRUPT)
        if stream.ended is not None:
            reason, why, hint = "eof", f"the far end closed: {stream.ended.message}", ""
        elif result is not None:
            reason = "cancelled" if result.done_reason == "cancelled" else "prompt"
            why, hint = "the program ended before it was answered", ""
        return self._reply.model_copy(
            update={
                "ok": False,
                "error": {"step_timeout": "timeout", "eof": "eof"}.get(reason, "not_found"),  # otherwise the shell lives
                "message": f"steps[{number}] waited for {step.expect or 'the prompt'!r}: {why}; screen has its output",
                "hint": hint or None,
                "exit_reason": reason,
                "failed_step": number,
                "exit_code": None if result is None else result.exit_code,
                "screen": await self._shown(),
                "resume_cursor": stream.spool_end,
            }
        )

    async def _shown(self) -> str:
        """Return the screen if the program has painted all of it, otherwise the last rows of its output."""
        stream, begin = self._session.stream, self._run.raw_begin
        screen = (await self._screen.state()).snapshot
        painted = begin is not None and _CLEAR.search(stream.read_raw(begin, begin + _PAINTED_BYTES))
        if screen.alt_screen or painted:
            return "\n".join(screen.rows).rstrip("\n")
        output = (await run_output(self._run, stream, DEFAULT_MAX_OUTPUT_BYTES)).text
        rows = [row.rstrip() for row in output.rstrip("\n").split("\n")]
        return "\n".join(rows[-screen.rows_count :])

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
        code = self._terminal.exit_code() if reason == "eof" else result.exit_code
        update = {"exit_reason": reason, "exit_code": code, "resume_cursor": stream.spool_end}
        return self._reply.model_copy(update=update)


def _step_expectation(step: ExpectStep, field: str) -> Expectation:
    if step.expect_type != "prompt" and not step.expect:
        raise invalid(f"{field} must not be empty", field=field)
    return expectation(step.expect_type, step.expect, field)

"""The pty_* operations on one session: runs without a waiting caller, waits by cursor, input, and reads of the spool."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from ptyctl.api.blocks import BlockOrigin
from ptyctl.api.errors import NextStep, invalid, unsupported
from ptyctl.api.exec import DEFAULT_MAX_OUTPUT_BYTES
from ptyctl.api.io import DEFAULT_WAIT_MS, MAX_WAIT_MS
from ptyctl.api.pty import (
    PtyExecBlock,
    PtyExecInteractive,
    PtyReadSpool,
    PtyReply,
    PtySend,
    PtyWaitFor,
    PtyWaitPrompt,
)
from ptyctl.core.control_sequences import ETX
from ptyctl.core.marker import Marker
from ptyctl.core.shells import quote_word, shell_dialect
from ptyctl.core.spool import UTF8_MAX_BYTES, first_character, whole_characters
from ptyctl.session.io.gate import Writer
from ptyctl.session.runs.run import UNTYPED, Run
from ptyctl.session.runs.run_output import run_output
from ptyctl.session.session import Session
from transports.caller import expand_user, is_directory

from .cursor import check_from_cursor
from .expect import Expectation, ExpectWait, expectation, match_reply, timeout_reply, wait_seconds
from .write import press_key, type_text, type_with_approval

#: How long a shell may take for its start-up files and the echo of a command: the reply's cursor is after the echo (seconds).
_ECHO_WAIT_S = 30.0
#: How long a shell may take from its prompt's mark to the prompt; an empty prompt shows nothing (seconds).
_LINE_EDITOR_WAIT_S = 0.3
#: Upper bound for a run to end after its terminal has ended (seconds).
_EOF_WAIT_S = 2.0


async def exec_block(session: Session, request: PtyExecBlock) -> PtyReply:
    """Start a command and return when its output begins; with `wait_ms` when it has ended, asks, or the time has passed."""
    deadline = asyncio.get_running_loop().time() + wait_seconds(request.wait_ms or 0)
    run = await begin(session, request.cmd, request.cwd, request.task_id, "exec")
    cursor = output_cursor(session, run)
    reply = PtyReply(block_id=run.block_id, seq=run.seq, ts=run.started_ms, resume_cursor=cursor, policy=run.review.warning())
    if request.wait_ms is None:
        return _with_run_state(reply, run)
    while run.result is None and run.question is None and asyncio.get_running_loop().time() < deadline:
        await run.changed.wait(deadline)
    result, stream = run.result, session.stream
    if result is not None and result.failure is not None:
        raise result.failure
    output = await run_output(run, stream, DEFAULT_MAX_OUTPUT_BYTES)
    end = stream.spool_end if result is None else min(result.spool_end, stream.spool_end)
    return _with_run_state(reply, run).model_copy(
        update={
            "data": output.text,
            "omitted_bytes": output.omitted_bytes or None,
            "complete": result is not None,
            "exit_code": None if result is None else result.exit_code,
            "waiting_for_input": True if result is None and run.question is not None else None,
            "cursor": cursor,
            "resume_cursor": max(cursor, end),
        }
    )


async def exec_interactive(session: Session, request: PtyExecInteractive) -> PtyReply:
    """Start a program that the caller talks to. Until it ends, no other run can start."""
    run = await begin(session, request.cmd, request.cwd, request.task_id, "interactive")
    cursor = output_cursor(session, run)
    reply = PtyReply(session_id=session.session_id, block_id=run.block_id, ts_begin=run.started_ms, resume_cursor=cursor)
    return _with_run_state(reply, run)


def _with_run_state(reply: PtyReply, run: Run) -> PtyReply:
    """Add the state of a run to the reply: a pending approval, the wait for the prompt, or an edited command."""
    permit = run.review.permit
    update = {
        "approval": None if permit is None else permit.pending(),
        "edited": run.review.edited or None,
        "message": UNTYPED if run.untyped else None,
    }
    return reply.model_copy(update=update)


async def wait_for(session: Session, request: PtyWaitFor) -> PtyReply:
    """Wait for a match from a cursor."""
    expected = expectation(request.match_type, request.match, "match")
    match = await ExpectWait(session, expected, request.from_cursor).run(wait_seconds(request.timeout_ms))
    if match is None:
        return timeout_reply(session, "the match")
    if expected.kind == "prompt":
        await _wait_until_released(session)
    if expected.kind == "eof":  # the current run ends with the terminal
        await until_idle(session, asyncio.get_running_loop().time() + _EOF_WAIT_S)
    return match_reply(session, match, expected)


async def wait_prompt(session: Session, request: PtyWaitPrompt) -> PtyReply:
    """Wait for the first prompt after a cursor, and until the mode is idle."""
    timeout_s, expected = wait_seconds(request.timeout_ms), Expectation("prompt")
    deadline = asyncio.get_running_loop().time() + timeout_s
    match = await ExpectWait(session, expected, request.from_cursor).run(timeout_s)
    if match is not None:
        await _wait_until_released(session)
    if match is None or not await until_idle(session, deadline):
        return timeout_reply(session, "the prompt")
    return match_reply(session, match, expected)


async def send(session: Session, request: PtySend) -> PtyReply:
    """Type text, each newline (LF, CR or CRLF) as one Enter, or press a named key."""
    deadline = asyncio.get_running_loop().time() + MAX_WAIT_MS / 1000
    writer = Writer(request.task_id, sensitive=request.sensitive, deadline=deadline)
    session.gate.check(writer)

    async def type_input() -> int:
        if request.key is not None:
            return await press_key(session, request.key, writer)
        return await type_text(session, request.data or "", writer)

    wait_ms = DEFAULT_WAIT_MS if request.approval_id else 0
    await type_with_approval(session, type_input, writer, request.approval_id, wait_ms, request.data or "")
    return PtyReply(policy=writer.review.warning(), edited=writer.review.edited or None)


async def interrupt(session: Session, task_id: str | None) -> PtyReply:
    """Send Ctrl-C ahead of all queued input."""
    writer = Writer(task_id)
    session.gate.check(writer)
    session.runs.interrupted()
    await session.gate.interrupt(ETX, writer)
    return PtyReply()


async def press(session: Session, key: bytes, task_id: str | None) -> PtyReply:
    """Press another key, after all waiting input.

    At a prompt, wait for the line editor: until it shows the prompt, the terminal itself would handle the key and lose a
    Ctrl-D.
    """
    session.gate.check(Writer(task_id))
    stream = session.stream
    last_prompt = stream.prompts.last()
    deadline = asyncio.get_running_loop().time() + _LINE_EDITOR_WAIT_S
    while last_prompt is not None and session.runs.mode == "idle" and stream.spool_end == last_prompt[1]:
        if stream.ended is not None or asyncio.get_running_loop().time() >= deadline:
            break
        await stream.wait(deadline)
    await session.gate.write(key, Writer(task_id))
    return PtyReply()


def read_spool(session: Session, request: PtyReadSpool) -> PtyReply:
    """Read spool text from any cursor, in whole characters.

    At least one character is returned even if `max_bytes` is less; an incomplete one at the end is left for the next read.
    """
    stream, cursor = session.stream, request.from_cursor
    check_from_cursor(stream, cursor)
    begin, lost = cursor, 0
    text = stream.read(begin, begin + request.max_bytes)
    if not text and begin < stream.spool_end:  # not persisted, and no longer in memory
        begin = max(begin, stream.window.start)
        lost = begin - cursor
        text = stream.read(begin, begin + request.max_bytes)
    whole = whole_characters(text)
    if not whole and text:
        text = stream.read(begin, begin + UTF8_MAX_BYTES)
        is_last = begin + len(text) >= stream.spool_end and stream.ended is not None
        whole = first_character(text) or (len(text) if is_last else 0)
    message = f"{lost} bytes from {cursor} on were not kept: the disk or the quota was full" if lost else None
    data = text[:whole].decode("utf-8", "replace")
    return PtyReply(data=data, cursor=cursor, resume_cursor=begin + whole, message=message)


def status(session: Session) -> PtyReply:
    """Return the terminal's state, mode and current block."""
    run, mode = session.runs.current, session.mode
    return PtyReply(
        state=session.state,
        mode=mode,
        active_session_id=session.session_id if mode == "interactive" else None,
        active_block_id=run.block_id if run is not None else None,
        shell_id=session.session_id,
        resume_cursor=session.stream.spool_end,
    )


async def begin(session: Session, cmd: str, cwd: str | None, task_id: str | None, origin: BlockOrigin) -> Run:
    """Start a run, and wait until its output begins or it has ended."""
    if not cmd.strip():
        raise invalid("cmd is empty", hint=NextStep.SEND_ENTER, field="cmd")
    directory = None if cwd is None else _directory(session, cwd)
    command = cmd if directory is None else _in_directory(session, directory, cmd)
    shown = None if directory is None else os.fsencode(directory).decode("utf-8", "replace")
    writer = Writer(task_id, command=True)
    run = await session.runs.begin(command, session.profile(), writer, origin=origin, submitted=cmd, cwd=shown)
    deadline = asyncio.get_running_loop().time() + _ECHO_WAIT_S
    while run.spool_begin is None and run.state not in ("awaiting", "ended") and asyncio.get_running_loop().time() < deadline:
        await session.stream.wait(deadline)
    if run.result is not None and run.result.failure is not None:
        raise run.result.failure
    return run


def output_cursor(session: Session, run: Run) -> int:
    """Return where the run's output begins, or the spool's end while that is unknown."""
    end = session.stream.spool_end
    return end if run.spool_begin is None else min(run.spool_begin, end)


async def until_idle(session: Session, deadline: float) -> bool:
    """Wait until no run is active; return False at the deadline."""
    while session.runs.mode != "idle" and asyncio.get_running_loop().time() < deadline:
        await session.stream.wait(deadline)
    return session.runs.mode == "idle"


async def _wait_until_released(session: Session) -> None:
    """Wait until a run that a prompt has ended releases the terminal."""
    while (run := session.runs.current) is not None and run.ended:
        await session.stream.wait()


def _directory(session: Session, cwd: str) -> str:
    """Return the directory to run in. A local one must exist; a relative one is relative to the shell's directory."""
    if session.spec.protocol != "local":
        return cwd
    last = session.stream.last_prompt
    here = os.fsdecode(last.cwd) if last is not None and last.cwd else "."
    path = Path(here) / expand_user(cwd)
    if not is_directory(path):
        raise invalid(f"cwd {cwd} is not a directory on this machine", field="cwd")
    return str(path)


def _in_directory(session: Session, directory: str, cmd: str) -> str:
    """Return a command that runs all of `cmd` in the directory, or nothing."""
    program, shell = session.spec.program, session.runs.shell
    if shell is not None:
        dialect = shell.marker.dialect if shell.marker is not None else None
    else:
        dialect = shell_dialect(program) if program is not None else "posix" if session.spec.probe_shell else None
    if dialect is None:
        raise unsupported("cwd needs a shell, and this is not known to be one", hint="leave cwd out", field="cwd")
    return f"cd -- {quote_word(directory)} && {Marker('', dialect).eval_command(cmd)}"

"""The pty_* operations on one session: runs that nobody waits for, waits by cursor, sends, reads (CONTRACTS, pty_*)."""

from __future__ import annotations

import asyncio
import os
import shlex
from pathlib import Path

from ptyctl.api.errors import invalid, unsupported
from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.api.pty import PtyExecBlock, PtyExecInteractive, PtyReadSpool, PtyReply, PtySend, PtyWaitFor, PtyWaitPrompt
from ptyctl.core.control_sequences import ETX
from ptyctl.core.marker import Marker
from ptyctl.core.shells import Dialect, shell_dialect
from ptyctl.core.spool import UTF8_MAX_BYTES, whole_characters
from ptyctl.session.io.gate import Writer
from ptyctl.session.runs.run import Origin, Run
from ptyctl.session.session import Session
from transports.caller import expand_user, is_directory

from .expect import Expecting, Wanted, matched, past_the_end, timed_out, wanted

#: How long a shell may take for its start-up files and for the echo of a command: the reply's cursor lies behind it.
_ECHO_WAIT_S = 30.0
#: How long a shell may take from its prompt's mark to the prompt; one whose prompt is empty shows nothing.
_EDITOR_S = 0.3
#: A run notices the end of its terminal at once; this bounds the wait for it all the same.
_EOF_S = 2.0


async def exec_block(session: Session, request: PtyExecBlock) -> PtyReply:
    """Starts a command and comes back when its output begins; the block goes on."""
    run = await begin(session, request.cmd, request.cwd, request.task_id, "exec")
    return PtyReply(block_id=run.block_id, seq=run.seq, ts=run.begun_ms, resume_cursor=output_cursor(session, run))


async def exec_interactive(session: Session, request: PtyExecInteractive) -> PtyReply:
    """As exec_block, for a program that is talked to: until its end no other may start."""
    run = await begin(session, request.cmd, request.cwd, request.task_id, "interactive")
    return PtyReply(
        session_id=session.session_id,
        block_id=run.block_id,
        ts_begin=run.begun_ms,
        resume_cursor=output_cursor(session, run),
    )


async def wait_for(session: Session, request: PtyWaitFor) -> PtyReply:
    want = wanted(request.match_type, request.match, "match")
    span = await Expecting(session, want, request.from_cursor).run(seconds(request.timeout_ms))
    if span is None:
        return timed_out(session, "the match")
    if want.kind == "prompt":
        await _finalised(session)
    if want.kind == "eof":  # what ran has ended with it
        await until_idle(session, asyncio.get_running_loop().time() + _EOF_S)
    return matched(session, span, want)


async def wait_prompt(session: Session, request: PtyWaitPrompt) -> PtyReply:
    """The first prompt behind the cursor, once the mode is idle too."""
    deadline = asyncio.get_running_loop().time() + seconds(request.timeout_ms)
    want = Wanted("prompt")
    span = await Expecting(session, want, request.from_cursor).run(seconds(request.timeout_ms))
    if span is not None:
        await _finalised(session)
    if span is None or not await until_idle(session, deadline):
        return timed_out(session, "the prompt")
    return matched(session, span, want)


async def send(session: Session, request: PtySend) -> PtyReply:
    """Types text, each newline of any kind as one Enter."""
    deadline = asyncio.get_running_loop().time() + MAX_WAIT_MS / 1000
    writer = Writer(request.task_id, sensitive=request.sensitive, deadline=deadline)
    session.gate.check(writer)
    if ETX.decode() in request.data:
        session.runs.interrupted()
    await session.gate.type(request.data, writer)
    return PtyReply()


async def interrupt(session: Session, task_id: str | None) -> PtyReply:
    """Ctrl-C, before all that waits to be typed."""
    writer = Writer(task_id)
    session.gate.check(writer)
    session.runs.interrupted()
    await session.gate.interrupt(ETX, writer)
    return PtyReply()


async def press(session: Session, key: bytes, task_id: str | None) -> PtyReply:
    """Any other key, in its turn. At a prompt it waits for the line editor: until that shows the prompt, the terminal itself
    would take the key, and a Ctrl-D would be lost."""
    session.gate.check(Writer(task_id))
    stream, last = session.stream, session.stream.prompts.last()
    deadline = asyncio.get_running_loop().time() + _EDITOR_S
    while last is not None and session.runs.mode == "idle" and stream.spool_end == last[1]:
        if stream.ended is not None or asyncio.get_running_loop().time() >= deadline:
            break
        await stream.signal.wait(deadline)
    await session.gate.write(key, Writer(task_id))
    return PtyReply()


def read_spool(session: Session, request: PtyReadSpool) -> PtyReply:
    """Spool text from any cursor, also from before the window. Characters are whole: where `max_bytes` holds not even one, one
    comes all the same; one that has not arrived yet is left for the next read."""
    stream, cursor = session.stream, request.from_cursor
    if cursor > stream.spool_end:
        raise past_the_end(cursor, stream.spool_end)
    begin, lost = cursor, 0
    text = stream.read(begin, begin + request.max_bytes)
    if not text and begin < stream.spool_end:  # it was not kept, and is no longer in memory
        begin = max(begin, stream.window.start)
        lost = begin - cursor
        text = stream.read(begin, begin + request.max_bytes)
    whole = whole_characters(text)
    if not whole and text:
        text = stream.read(begin, begin + UTF8_MAX_BYTES)
        whole = _first_character(text, last=begin + len(text) >= stream.spool_end and stream.ended is not None)
    told = f"{lost} bytes from {cursor} on were not kept: the disk or the quota was full" if lost else None
    return PtyReply(
        data=text[:whole].decode("utf-8", "replace"), cursor=cursor, resume_cursor=begin + whole, message=told
    )  # fmt: skip


def status(session: Session) -> PtyReply:
    run = session.runs.current
    return PtyReply(
        mode=session.runs.mode,
        active_session_id=session.session_id if session.runs.mode == "interactive" else None,
        active_block_id=run.block_id if run is not None else None,
        shell_id=session.session_id,
        resume_cursor=session.stream.spool_end,
    )


async def begin(session: Session, cmd: str, cwd: str | None, task_id: str | None, origin: Origin) -> Run:
    """Starts a run, and waits until its output begins, or it is over."""
    if not cmd.strip():
        raise invalid("cmd is empty; to press Enter alone use pty_enter", field="cmd")
    place = _directory(session, cwd) if cwd is not None else None
    command = cmd if place is None else _there(session, place, cmd)
    writer = Writer(task_id)
    run = await session.runs.begin(command, session.profile(), writer, origin=origin, submitted=cmd, cwd=place)
    deadline = asyncio.get_running_loop().time() + _ECHO_WAIT_S
    while run.spool_begin is None and run.done_reason is None and asyncio.get_running_loop().time() < deadline:
        await session.stream.signal.wait(deadline)
    if run.failure is not None:
        raise run.failure
    return run


def output_cursor(session: Session, run: Run) -> int:
    """Where the run's output begins, or the spool's end as long as it does not."""
    return session.stream.spool_end if run.spool_begin is None else min(run.spool_begin, session.stream.spool_end)


async def until_idle(session: Session, deadline: float) -> bool:
    """Whether the terminal is free, now or by then."""
    while session.runs.mode != "idle" and asyncio.get_running_loop().time() < deadline:
        await session.stream.signal.wait(deadline)
    return session.runs.mode == "idle"


def seconds(timeout_ms: int) -> float:
    """How long a call may wait, as the caller asks and clients bear."""
    return min(timeout_ms, MAX_WAIT_MS) / 1000


async def _finalised(session: Session) -> None:
    """The run that a prompt has ended lets go of the terminal: the mode is what the prompt says (spec, 4.4)."""
    while (run := session.runs.current) is not None and run.done_reason is not None:
        await session.stream.signal.wait()


def _directory(session: Session, cwd: str) -> str:
    """Where to run. On this machine it must be there, and what is relative begins where the shell is."""
    if session.spec.protocol != "local":
        return cwd
    last = session.stream.last_prompt
    here = os.fsdecode(last.cwd) if last is not None and last.cwd else "."
    place = Path(here) / expand_user(cwd)
    if not is_directory(place):
        raise invalid(f"cwd {cwd} is no directory here; give one that is", field="cwd")
    return str(place)


def _there(session: Session, place: str, cmd: str) -> str:
    """All of the command in that directory, or none of it."""
    dialect = _dialect(session)
    quoted = shlex.quote(place) if dialect != "fish" else "'" + place.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"cd -- {quoted} && {Marker('', dialect).eval_command(cmd)}"


def _dialect(session: Session) -> Dialect:
    program, shell = session.spec.program, session.runs.shell
    if shell is not None:
        dialect = shell.marker.dialect if shell.marker is not None else None
    else:
        dialect = shell_dialect(program) if program is not None else "posix" if session.spec.probe_shell else None
    if dialect is None:
        raise unsupported("cwd needs a shell, and this is not known to be one; leave it out", field="cwd")
    return dialect


def _first_character(text: bytes, *, last: bool) -> int:
    """The length of the character at the begin, or 0 where it is not whole; what can be none counts as one by one byte."""
    for size in range(1, len(text) + 1):
        if whole_characters(text[:size]) == size:
            return size
    return len(text) if last else 0

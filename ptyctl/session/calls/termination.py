"""Termination of the program in a terminal, and of the terminal: end_session, reset, close."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Literal

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError, unsupported
from ptyctl.api.pty import PtyReply
from ptyctl.api.session import LeftProcess
from ptyctl.environment import SESSION_VARIABLE
from ptyctl.session.activity import caller
from ptyctl.session.clients import lock_owner
from ptyctl.session.io.gate import Writer
from ptyctl.session.session import Session
from transports.local import LEFT_GRACE_S, LEFT_POLL_S
from transports.process import RunningProcess, processes_with_variable

from .pty_calls import interrupt, until_idle

#: Times of the signals after SIGINT (Ctrl-C), for a program that is ended by force (seconds).
HANGUP_AFTER_S, KILL_AFTER_S = 2.0, 5.0
#: How long the prompt may take after SIGKILL (seconds).
KILLED_GRACE_S = 2.0
#: Ctrl-C is pressed this often before the next signal: a shell that is about to start the program may lose one.
INTERRUPTS = 3
#: How long a new shell may take until its first prompt (seconds).
FIRST_PROMPT_S = 15.0


async def end_session(session: Session, force: bool, task_id: str | None) -> PtyReply:
    """End the current run: with Ctrl-C and, if that is ignored and `force` is set, with SIGHUP and then SIGKILL.

    With `force`, commands of the caller that wait for an approval are withdrawn.

    Raises:
        PtyctlError: BUSY if it does not end; UNSUPPORTED if the program cannot be killed; LOCKED, LOCK_REQUIRED.
    """
    if force:
        session.runs.withdraw_held(Writer(task_id).principal, "the command was ended before it was approved")
    run = session.runs.current
    if run is None:
        return _ended(session, "already_idle")
    begin = asyncio.get_running_loop().time()
    for number in range(1, INTERRUPTS + 1):
        await _interrupt(session, task_id)
        if await until_idle(session, begin + number * HANGUP_AFTER_S / INTERRUPTS):
            return _ended(session, "prompt")
    details: dict[str, Any] = {
        "block_id": run.block_id,
        "mode": session.runs.mode,
        "resume_cursor": session.stream.spool_end,
    }
    if not force:
        raise PtyctlError(
            ErrorCode.BUSY,
            f"block {run.block_id} continues after Ctrl-C",
            details,
            hint="answer it, end it with force, or reset the terminal",
        )
    session.gate.check(Writer(task_id))
    session.activity.record("kill", **caller(task_id), block_id=run.block_id)
    for number, deadline in ((signal.SIGHUP, KILL_AFTER_S), (signal.SIGKILL, KILL_AFTER_S + KILLED_GRACE_S)):
        if not session.open_channel().signal_foreground(number):
            raise unsupported("the foreground program cannot be killed from here", hint=NextStep.RESET_TERMINAL, **details)
        if await until_idle(session, begin + deadline):
            return _ended(session, "forced")
    message = "the program was killed, and no prompt followed"
    raise PtyctlError(ErrorCode.BUSY, message, details, hint=NextStep.RESET_TERMINAL)


async def _interrupt(session: Session, task_id: str | None) -> None:
    """Press Ctrl-C, or send SIGINT to a local program without a terminal."""
    channel = session.open_channel()
    if channel.pty_enabled:
        await interrupt(session, task_id)
        return
    session.gate.check(Writer(task_id))
    session.runs.interrupted()
    if not channel.signal_foreground(signal.SIGINT):
        await interrupt(session, task_id)


def check_may_end(session: Session, task_id: str | None) -> None:
    """Check whether a task may end or change the terminal itself: only another task's lock forbids it.

    Raises:
        PtyctlError: LOCKED.
    """
    session.leases.check(lock_owner(task_id), required=False, now=asyncio.get_running_loop().time())


async def close(session: Session, force: bool, task_id: str | None) -> list[LeftProcess] | None:
    """Close the session; with `force` despite another task's lock, and with all its processes.

    Returns the local processes that continue, None if there are none.

    Raises:
        PtyctlError: LOCKED; IO_ERROR if the session has ended and that cannot be stored.
    """
    if session.state != "closed" and not force:
        check_may_end(session, task_id)
    why = "on request" if task_id is None else f"by {task_id}"
    await session.close(force=force, why=why, by=caller(task_id))
    session.check_closed()
    left = session.channel.left_running if session.channel is not None else ()
    detached = await _detached_processes(session, {process.pid for process in left})
    return [
        *(LeftProcess(pid=process.pid, command=process.command) for process in left),
        *(LeftProcess(pid=process.pid, command=process.command, detached=True) for process in detached),
    ] or None


async def _detached_processes(session: Session, left: Collection[int]) -> list[RunningProcess]:
    """Return the processes that a local session has started and that have left its terminal's session, without `left`.

    They are not ended: others may use them, for example a tmux server. They may end soon, if they depend on those that ended.
    """
    if session.spec.protocol != "local" or session.channel is None:
        return []
    deadline = asyncio.get_running_loop().time() + LEFT_GRACE_S
    while True:
        running = await asyncio.to_thread(processes_with_variable, SESSION_VARIABLE, session.session_id)
        found = [process for process in running if process.pid not in left]
        if not found or asyncio.get_running_loop().time() >= deadline:
            return found
        await asyncio.sleep(LEFT_POLL_S)


async def restart(session: Session, connect: Callable[[Session], Awaitable[None]], event: str, why: str) -> int:
    """End the terminal's channel, if it has one, and begin a new incarnation. Return the cursor at which that begins.

    Args:
        connect: opens another channel as the session was opened, and logs in.

    Raises:
        PtyctlError: why the new channel did not open; the session can be restarted again.
    """
    session.activity.record("reset", **caller(None), why=why)
    await session.runs.abort("reset")
    if session.state == "open" and session.channel is not None:
        session.channel.signal_foreground(signal.SIGKILL)
        await session.channel.close(force=True)
    session.renew_shell_nonce()  # the new shell must not trust marks that the old one printed
    cursor = session.stream.spool_end
    await connect(session)
    session.events.note(event, incarnation=session.incarnation, reason=why)
    session.notices.post(f"{why}: incarnation {session.incarnation} of this terminal; what was running before has ended")
    await first_prompt(session, cursor)
    return cursor


async def first_prompt(session: Session, cursor: int) -> None:
    """Wait for the first prompt of a shell with marks: its start-up files may discard input that is typed before."""
    stream = session.stream
    deadline = asyncio.get_running_loop().time() + FIRST_PROMPT_S
    while session.spec.integrated and stream.prompts.first_from(cursor) is None:
        if stream.ended is not None or asyncio.get_running_loop().time() >= deadline:
            return
        await stream.wait(deadline)


def _ended(session: Session, how: Literal["prompt", "forced", "already_idle"]) -> PtyReply:
    return PtyReply(ended=how, mode=session.runs.mode, resume_cursor=session.stream.spool_end)
